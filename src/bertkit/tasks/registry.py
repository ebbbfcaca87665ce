"""The tasks by name. A new data set of a known family is one entry that names its reader."""

from __future__ import annotations

from dataclasses import replace

from bertkit.errors import UserError
from bertkit.tasks.classification import CLASSIFICATION, read_chnsenticorp, read_sst2
from bertkit.tasks.question_answering import (
    CMRC_FILES,
    DRCD_FILES,
    QUESTION_ANSWERING,
    SQUAD2_FILES,
    SQUAD_FILES,
    cmrc_metric,
    read_answerable,
    squad2_metric,
    squad_metric,
)
from bertkit.tasks.readers import split_files
from bertkit.tasks.tagging import TAGGING
from bertkit.tasks.task import Task

FAMILIES = (CLASSIFICATION, TAGGING, QUESTION_ANSWERING)
"""The tasks for one's own data, one for each head."""

TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        *FAMILIES,
        replace(
            CLASSIFICATION,
            name="sst-2",
            summary="SST-2 of GLUE: sentiment of English sentences from film reviews",
            files=split_files(("{split}.tsv",)),
            read=read_sst2,
        ),
        replace(
            CLASSIFICATION,
            name="chnsenticorp",
            summary="ChnSentiCorp: sentiment of Chinese reviews",
            files=split_files(("{split}.tsv",)),
            read=read_chnsenticorp,
        ),
        replace(
            TAGGING,
            name="conll-2003",
            summary="CoNLL-2003: persons, places, organizations, others in English news",
            files={
                "train": ("eng.train", "train.txt"),
                "dev": ("eng.testa", "dev.txt", "valid.txt"),
                "test": ("eng.testb", "test.txt"),
            },
        ),
        replace(
            TAGGING,
            name="msra",
            summary="MSRA: persons, places, organizations in Chinese news, a character a line",
            files=split_files(("{split}.txt",)),
        ),
        replace(
            QUESTION_ANSWERING,
            name="squad-1.1",
            summary="SQuAD 1.1: questions about Wikipedia, each with an answer",
            files=SQUAD_FILES,
            read=read_answerable,
            metric=squad_metric,
        ),
        replace(
            QUESTION_ANSWERING,
            name="squad-2.0",
            summary="SQuAD 2.0: the same, and questions without an answer",
            files=SQUAD2_FILES,
            metric=squad2_metric,
        ),
        replace(
            QUESTION_ANSWERING,
            name="cmrc-2018",
            summary="CMRC 2018: questions about the Chinese Wikipedia, F1 over characters",
            files=CMRC_FILES,
            read=read_answerable,
            metric=cmrc_metric,
        ),
        replace(
            QUESTION_ANSWERING,
            name="drcd",
            summary="DRCD: the same in traditional characters",
            files=DRCD_FILES,
            read=read_answerable,
            metric=cmrc_metric,
        ),
    )
}


def get_task(name: str) -> Task:
    """The entry of that name; raises UserError with the names there are."""
    if name not in TASKS:
        raise UserError(f"no task '{name}'; choose one of {', '.join(TASKS)}")
    return TASKS[name]


def family_of(head: str) -> Task:
    """The task for one's own data that a head belongs to; raises UserError for other heads."""
    for task in FAMILIES:
        if task.head == head:
            return task
    raise UserError(
        f"a checkpoint with the head '{head}' answers no task; tune it with bertkit finetune"
    )
