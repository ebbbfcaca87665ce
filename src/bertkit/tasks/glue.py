"""GLUE (paper, section 4.1 and appendix B.1): its tasks from its own files, with its own metrics.

Files are the TSVs of GLUE's download script (no quoting: several have unbalanced quotes), the
files of the tasks' first releases where their columns are the same, and the hub's data sets.
Traps that the entries know: CoLA's training files have no header, MRPC's begin with a BOM, QQP has
broken lines, MultiNLI has sentences without an agreed label, and test files have no labels.

Label names are the hub's; their order is the reference release's (run_classifier.py) for CoLA,
MRPC and MNLI.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from bertkit.tasks.classification import CLASSIFICATION, ClassPrediction, accuracy
from bertkit.tasks.readers import Layout, TextExample, read_scores, read_table
from bertkit.tasks.regression import REGRESSION, ScorePrediction
from bertkit.tasks.rows import TableForm
from bertkit.tasks.task import Scores, Task

Metric = Callable[[Sequence[Any], Sequence[Any]], Scores]


def matthews(examples: Sequence[TextExample], predictions: Sequence[ClassPrediction]) -> Scores:
    """Matthews' correlation, and what `accuracy` gives."""
    from sklearn.metrics import matthews_corrcoef

    scores = accuracy(examples, predictions)
    gold, found = [e.label for e in examples], [p.label for p in predictions]
    return replace(
        scores, metrics={"matthews": float(matthews_corrcoef(gold, found)), **scores.metrics}
    )


def accuracy_and_f1(
    positive: str, examples: Sequence[TextExample], predictions: Sequence[ClassPrediction]
) -> Scores:
    """Accuracy, and the F1 of the positive class."""
    scores = accuracy(examples, predictions)
    of_class = [float(row["f1"]) for row in scores.table if row["label"] == positive]
    f1 = of_class[0] if of_class else 0.0
    return replace(
        scores, metrics={"accuracy": scores.metrics["accuracy"], "f1": f1, **scores.metrics}
    )


def submission(
    name: str,
    values: Mapping[str, str],
    examples: Sequence[TextExample],
    predictions: Sequence[ClassPrediction],
    split: str,
) -> dict[str, str]:
    """GLUE's TSV: the test file's index and the prediction, as the training file writes labels."""
    file = f"{name.replace('MNLI', 'MNLI-mm' if 'mismatched' in split else 'MNLI-m')}.tsv"
    return {file: _tsv(examples, [values.get(p.label, p.label) for p in predictions])}


def score_submission(
    name: str,
    examples: Sequence[TextExample],
    predictions: Sequence[ScorePrediction],
    split: str,
) -> dict[str, str]:
    """GLUE's TSV of scores, which must be from 0 to 5."""
    scores = [f"{min(max(p.score, 0.0), 5.0):.3f}" for p in predictions]
    return {f"{name}.tsv": _tsv(examples, scores)}


def _tsv(examples: Sequence[TextExample], values: Sequence[str]) -> str:
    lines = [
        f"{example.id or number}\t{value}"
        for number, (example, value) in enumerate(zip(examples, values, strict=True))
    ]
    return "\n".join(["index\tprediction", *lines]) + "\n"


def classes(
    name: str,
    summary: str,
    layout: Layout,
    files: dict[str, tuple[str, ...]],
    order: Sequence[str] = (),
    metric: Metric = accuracy,
    main: str = "accuracy",
    submit: str = "",
) -> Task:
    """An entry whose labels are known beforehand.

    Args:
        order: of the labels, by their names; by default the layout's.
        submit: what GLUE calls the task; "" where there is no submission.
    """
    labels = list(order or dict.fromkeys(layout.names.values()))
    values = {label: value for value, label in layout.names.items()}
    return replace(
        CLASSIFICATION,
        name=name,
        summary=summary,
        files=files,
        read=partial(read_table, layout=layout),
        labels=lambda examples: labels,
        metric=metric,
        main=main,
        pairs=bool(layout.pair),
        submission=partial(submission, submit, values) if submit else None,
    )


def tsv(*more: str) -> dict[str, tuple[str, ...]]:
    """GLUE's three files."""
    return {split: (f"{split}.tsv", *more) for split in ("train", "dev", "test")}


def same(*labels: str) -> dict[str, str]:
    """Labels that files write as they are."""
    return {label: label for label in labels}


ENTAILMENT = same("entailment", "not_entailment")
PAIR = Layout(text=("sentence1",), pair=("sentence2",))

COLA = classes(
    "cola",
    "CoLA of GLUE: is an English sentence acceptable",
    Layout(
        text=("sentence",),
        names={"0": "unacceptable", "1": "acceptable"},
        form=TableForm(header=("source", "label", "star", "sentence"), marks=("sentence",)),
    ),
    tsv(),
    metric=matthews,
    main="matthews",
    submit="CoLA",
)

SST2 = classes(
    "sst-2",
    "SST-2 of GLUE: sentiment of English sentences from film reviews",
    Layout(text=("sentence",), names={"0": "negative", "1": "positive"}),
    tsv(),
    submit="SST-2",
)

MRPC = classes(
    "mrpc",
    "MRPC of GLUE: do two English sentences from news say the same",
    Layout(
        text=("#1 String", "sentence1"),
        pair=("#2 String", "sentence2"),
        label=("Quality", "label"),
        names={"0": "not_equivalent", "1": "equivalent"},
        form=TableForm(suffix=".tsv"),
    ),
    {
        "train": ("train.tsv", "msr_paraphrase_train.txt"),
        "dev": ("dev.tsv",),
        "test": ("test.tsv", "msr_paraphrase_test.txt"),
    },
    metric=partial(accuracy_and_f1, "equivalent"),
    main="f1",
    submit="MRPC",
)

QQP = classes(
    "qqp",
    "QQP of GLUE: do two English questions ask the same",
    Layout(
        text=("question1",),
        pair=("question2",),
        label=("is_duplicate", "label"),
        names={"0": "not_duplicate", "1": "duplicate"},
        form=TableForm(skip_broken=True),
    ),
    tsv(),
    metric=partial(accuracy_and_f1, "duplicate"),
    main="f1",
    submit="QQP",
)

STSB_LAYOUT = replace(PAIR, label=("score", "label"), without=frozenset({"-1", "-1.0"}))
"""The hub writes -1 where a score is not known."""

STSB = replace(
    REGRESSION,
    name="sts-b",
    summary="STS-B of GLUE: how alike two English sentences are, from 0 to 5",
    files=tsv(),
    read=partial(read_scores, layout=STSB_LAYOUT),
    pairs=True,
    submission=partial(score_submission, "STS-B"),
)

MNLI_LAYOUT = Layout(
    text=("sentence1", "premise", "Premise"),
    pair=("sentence2", "hypothesis", "Hypothesis"),
    label=("gold_label", "label", "Label"),
    names=same("contradiction", "entailment", "neutral"),
    without=frozenset("-"),
    id=("index", "idx"),
    form=TableForm(suffix=".tsv"),
)

MNLI = classes(
    "mnli",
    "MNLI of GLUE: does a premise entail or contradict a hypothesis",
    MNLI_LAYOUT,
    {
        "train": ("train.tsv", "multinli_1.0_train.txt", "train.jsonl"),
        "dev": ("dev_matched.tsv", "multinli_1.0_dev_matched.txt", "dev_matched.jsonl"),
        "test": ("test_matched.tsv", "test_matched.jsonl"),
        "dev-mismatched": (
            "dev_mismatched.tsv",
            "multinli_1.0_dev_mismatched.txt",
            "dev_mismatched.jsonl",
        ),
        "test-mismatched": ("test_mismatched.tsv", "test_mismatched.jsonl"),
    },
    submit="MNLI",
)

AX = classes(
    "ax",
    "AX of GLUE: its diagnostic set, answered by a model tuned on MNLI",
    MNLI_LAYOUT,
    {"test": ("diagnostic.tsv", "AX.tsv", "diagnostic-full.tsv")},
    metric=matthews,
    main="matthews",
    submit="AX",
)

QNLI = classes(
    "qnli",
    "QNLI of GLUE: does a sentence hold the answer to a question",
    Layout(text=("question",), pair=("sentence",), names=ENTAILMENT),
    tsv(),
    submit="QNLI",
)

RTE = classes(
    "rte",
    "RTE of GLUE: does a text entail a sentence",
    replace(PAIR, names=ENTAILMENT),
    tsv(),
    submit="RTE",
)

WNLI = classes(
    "wnli",
    "WNLI of GLUE: does a sentence with its pronoun replaced follow",
    replace(PAIR, names={"0": "not_entailment", "1": "entailment"}),
    tsv(),
    submit="WNLI",
)

GLUE = (COLA, SST2, MRPC, STSB, QQP, MNLI, AX, QNLI, RTE, WNLI)
