"""Chinese classification sets from their makers' files: ChnSentiCorp, LCQMC, AFQMC, TNEWS.

ChnSentiCorp   {train,dev,test}.tsv: label, text_a (and qid)
LCQMC          {train,dev,test}.tsv or .txt: text_a, text_b, label; the .txt has no header
AFQMC, TNEWS   {train,dev,test}.json of CLUE: JSON objects, one a line; tests have no label
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from bertkit.tasks.classification import ClassPrediction
from bertkit.tasks.glue import classes
from bertkit.tasks.readers import Layout, TextExample, split_files
from bertkit.tasks.rows import TableForm

TNEWS_TOPICS = {
    "100": "news_story",
    "101": "news_culture",
    "102": "news_entertainment",
    "103": "news_sports",
    "104": "news_finance",
    "106": "news_house",
    "107": "news_car",
    "108": "news_edu",
    "109": "news_tech",
    "110": "news_military",
    "112": "news_travel",
    "113": "news_world",
    "114": "news_stock",
    "115": "news_agriculture",
    "116": "news_game",
}
"""CLUE's numbers of the topics."""

SAME = {"0": "different", "1": "same"}


def clue_submission(
    name: str,
    values: Mapping[str, str],
    examples: Sequence[TextExample],
    predictions: Sequence[ClassPrediction],
    split: str,
) -> dict[str, str]:
    """CLUE's JSON lines: the test file's id and the label as the training file writes it."""
    lines = [
        json.dumps(
            {
                "id": int(example.id) if example.id.isdigit() else number,
                "label": values.get(prediction.label, prediction.label),
            }
        )
        for number, (example, prediction) in enumerate(zip(examples, predictions, strict=True))
    ]
    return {f"{name}_predict.json": "\n".join(lines) + "\n"}


def _values(names: Mapping[str, str]) -> dict[str, str]:
    return {label: value for value, label in names.items()}


CHNSENTICORP = classes(
    "chnsenticorp",
    "ChnSentiCorp: sentiment of Chinese reviews",
    Layout(text=("text_a", "text"), names={"0": "negative", "1": "positive"}),
    split_files(("{split}.tsv",)),
)

LCQMC = classes(
    "lcqmc",
    "LCQMC: do two Chinese questions mean the same",
    Layout(
        text=("text_a", "sentence1"),
        pair=("text_b", "sentence2"),
        names=SAME,
        form=TableForm(
            suffix=".tsv", header=("text_a", "text_b", "label"), marks=("text_a", "sentence1")
        ),
    ),
    split_files(("{split}.tsv", "{split}.txt")),
)

AFQMC = replace(
    classes(
        "afqmc",
        "AFQMC of CLUE: do two Chinese questions to a bank mean the same",
        Layout(text=("sentence1",), pair=("sentence2",), names=SAME),
        split_files(("{split}.json",)),
    ),
    submission=partial(clue_submission, "afqmc", _values(SAME)),
)

TNEWS = replace(
    classes(
        "tnews",
        "TNEWS of CLUE: topic of Chinese news titles, 15 of them",
        Layout(text=("sentence",), names=TNEWS_TOPICS),
        split_files(("{split}.json",)),
    ),
    submission=partial(clue_submission, "tnews", _values(TNEWS_TOPICS)),
)

CHINESE = (CHNSENTICORP, LCQMC, AFQMC, TNEWS)
