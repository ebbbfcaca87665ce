"""The tasks by name. A new data set of a known family is one entry that names its reader."""

from __future__ import annotations

from dataclasses import replace

from bertkit.errors import UserError
from bertkit.tasks.classification import CLASSIFICATION, read_chnsenticorp, read_sst2
from bertkit.tasks.readers import split_files
from bertkit.tasks.tagging import TAGGING
from bertkit.tasks.task import Task

FAMILIES = (CLASSIFICATION, TAGGING)
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
