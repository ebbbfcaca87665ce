"""The tasks by name. A new data set of a known family is one entry that names its reader."""

from __future__ import annotations

import difflib
from dataclasses import replace

from bertkit.errors import UserError
from bertkit.tasks.chinese import CHINESE
from bertkit.tasks.choice import MULTIPLE_CHOICE
from bertkit.tasks.choice_readers import read_c3, read_commonsenseqa, read_hellaswag, read_swag
from bertkit.tasks.classification import CLASSIFICATION
from bertkit.tasks.glue import GLUE
from bertkit.tasks.multilabel import MULTI_LABEL
from bertkit.tasks.question_answering import (
    CMRC_FILES,
    DRCD_FILES,
    QUESTION_ANSWERING,
    QUESTION_SET,
    SQUAD2_FILES,
    SQUAD_FILES,
    cmrc_metric,
    read_answerable,
    squad2_metric,
    squad_metric,
)
from bertkit.tasks.readers import split_files
from bertkit.tasks.regression import REGRESSION
from bertkit.tasks.segmentation import SEGMENTATION
from bertkit.tasks.tagging import PARTS_OF_SPEECH, TAGGING
from bertkit.tasks.task import Task

FAMILIES = (CLASSIFICATION, REGRESSION, MULTI_LABEL, MULTIPLE_CHOICE, TAGGING, QUESTION_ANSWERING)
"""The tasks for one's own data, one for each head."""

CHOICES = (
    replace(
        MULTIPLE_CHOICE,
        name="swag",
        summary="SWAG: which of four endings goes on with a situation",
        files={"train": ("train.csv",), "dev": ("val.csv", "dev.csv"), "test": ("test.csv",)},
        read=read_swag,
    ),
    replace(
        MULTIPLE_CHOICE,
        name="hellaswag",
        summary="HellaSwag: which of four endings goes on with a text",
        files={
            "train": ("hellaswag_train.jsonl", "train.jsonl"),
            "dev": ("hellaswag_val.jsonl", "val.jsonl"),
            "test": ("hellaswag_test.jsonl", "test.jsonl"),
        },
        read=read_hellaswag,
    ),
    replace(
        MULTIPLE_CHOICE,
        name="commonsenseqa",
        summary="CommonsenseQA: which of five answers is right",
        files={
            "train": ("train_rand_split.jsonl", "train.jsonl", "commonsenseqa-train.jsonl"),
            "dev": ("dev_rand_split.jsonl", "dev.jsonl", "commonsenseqa-dev.jsonl"),
            "test": ("test_rand_split_no_answers.jsonl", "test.jsonl"),
        },
        read=read_commonsenseqa,
    ),
    replace(
        MULTIPLE_CHOICE,
        name="c3",
        summary="C3: Chinese, two to four answers to a question on a dialogue or a text",
        files=split_files(("m-{split}.json", "c3-m-{split}.json", "c3-{split}.json")),
        read=read_c3,
    ),
)

WORDS = (
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
    PARTS_OF_SPEECH,
    SEGMENTATION,
)

QUESTIONS = (
    replace(
        QUESTION_SET,
        name="squad-1.1",
        summary="SQuAD 1.1: questions about Wikipedia, each with an answer",
        files=SQUAD_FILES,
        read=read_answerable,
        metric=squad_metric,
    ),
    replace(
        QUESTION_SET,
        name="squad-2.0",
        summary="SQuAD 2.0: the same, and questions without an answer",
        files=SQUAD2_FILES,
        metric=squad2_metric,
    ),
    replace(
        QUESTION_SET,
        name="cmrc-2018",
        summary="CMRC 2018: questions about the Chinese Wikipedia, F1 over characters",
        files=CMRC_FILES,
        read=read_answerable,
        metric=cmrc_metric,
    ),
    replace(
        QUESTION_SET,
        name="drcd",
        summary="DRCD: the same in traditional characters",
        files=DRCD_FILES,
        read=read_answerable,
        metric=cmrc_metric,
    ),
)

TASKS: dict[str, Task] = {
    task.name: task for task in (*FAMILIES, *GLUE, *CHOICES, *WORDS, *CHINESE, *QUESTIONS)
}


def get_task(name: str) -> Task:
    """The entry of that name; raises UserError with the nearest name, or all there are."""
    if name not in TASKS:
        near = difflib.get_close_matches(name.lower(), TASKS, 1, cutoff=0.75)
        hint = f"did you mean '{near[0]}'?" if near else f"choose one of {', '.join(TASKS)}"
        raise UserError(f"no task '{name}'; {hint}")
    return TASKS[name]


def family_of(head: str) -> Task:
    """The task for one's own data that a head belongs to; raises UserError for other heads."""
    for task in FAMILIES:
        if head in (task.head, task.feature_head):
            return task
    raise UserError(
        f"a checkpoint with the head '{head}' answers no task; tune it with bertkit finetune"
    )
