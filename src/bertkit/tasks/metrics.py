"""Metrics: of classes, of numbers, of sets of labels, of entities and words.

Matthews' correlation, F1 and the correlations of numbers are those of scikit-learn and SciPy, which
GLUE's own script calls.

Entities are counted exactly as by conlleval, the script of the CoNLL shared tasks: an entity is
right when its type and both its ends are. Tags may be IOB1 (CoNLL-2003), IOB2, IOBES or one bare
label a word (parts of speech; then each word outside "O" is an entity of its own).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from bertkit.tasks.task import Scores

OUTSIDE = "O"


class Chunk(NamedTuple):
    """An entity: its type and the words `first` to `last`, both included."""

    label: str
    first: int
    last: int


@lru_cache(maxsize=4096)
def split_tag(tag: str) -> tuple[str, str]:
    """A tag as (prefix, type): "B-PER" is ("B", "PER"), "O" is ("O", ""), "NN" is ("S", "NN")."""
    prefix, dash, label = tag.partition("-")
    if dash and prefix in ("B", "I", "E", "S"):
        return prefix, label
    if tag == OUTSIDE:
        return OUTSIDE, ""
    return "S", tag


def chunks(tags: Sequence[str]) -> list[Chunk]:
    """The entities of one sentence by conlleval's rules.

    An entity starts at B- or S-, and at an I- or E- that cannot go on: after "O", after another
    type, after E- or S-. So a stray I- begins an entity, which makes IOB1 and IOB2 one case.

    >>> [(one.label, one.first, one.last) for one in chunks(["I-ORG", "O", "I-PER", "I-PER"])]
    [('ORG', 0, 0), ('PER', 2, 3)]
    """
    found: list[Chunk] = []
    first, open_label = 0, None
    previous = OUTSIDE
    for index, tag in enumerate(tags):
        prefix, label = split_tag(tag)
        starts = prefix in ("B", "S") or (
            prefix in ("I", "E") and (open_label != label or previous in ("E", "S"))
        )
        if open_label is not None and (starts or prefix == OUTSIDE):
            found.append(Chunk(open_label, first, index - 1))
            open_label = None
        if starts:
            first, open_label = index, label
        previous = prefix
    if open_label is not None:
        found.append(Chunk(open_label, first, len(tags) - 1))
    return found


def to_iob2(tags: Sequence[str]) -> list[str]:
    """The same entities in IOB2, where B- begins every one; bare tags stay as they are.

    >>> to_iob2(["I-ORG", "I-ORG", "B-ORG", "O"])
    ['B-ORG', 'I-ORG', 'B-ORG', 'O']
    """
    result = [OUTSIDE] * len(tags)
    for label, first, last in chunks(tags):
        bare = tags[first] == label
        for index in range(first, last + 1):
            result[index] = label if bare else f"{'B' if index == first else 'I'}-{label}"
    return result


def entity_scores(gold: Iterable[Sequence[str]], predicted: Iterable[Sequence[str]]) -> Scores:
    """Precision, recall and F1 over all entities (conlleval's overall line), and of each type.

    Args:
        gold, predicted: the tags of each sentence.
    """
    tally = _Tally()
    words = right_words = 0
    for gold_tags, predicted_tags in zip(gold, predicted, strict=True):
        gold_chunks, predicted_chunks = set(chunks(gold_tags)), set(chunks(predicted_tags))
        tally.add(
            [chunk.label for chunk in gold_chunks & predicted_chunks],
            [chunk.label for chunk in predicted_chunks],
            [chunk.label for chunk in gold_chunks],
        )
        words += len(gold_tags)
        right_words += sum(map(str.__eq__, gold_tags, predicted_tags))
    precision, recall, f1 = tally.rates()
    accuracy = right_words / words if words else 0.0
    metrics = {"f1": f1, "precision": precision, "recall": recall, "accuracy": accuracy}
    return Scores(metrics, tally.table())


def class_scores(gold: Sequence[str], predicted: Sequence[str]) -> Scores:
    """Accuracy, and macro F1: the mean F1 of the labels that occur in either."""
    from sklearn.metrics import precision_recall_fscore_support

    labels = sorted({*gold, *predicted})
    columns = precision_recall_fscore_support(gold, predicted, labels=labels, zero_division=0)
    table = [
        _row(label, (float(p), float(r), float(f)), int(count))
        for label, p, r, f, count in zip(labels, *columns, strict=True)
    ]
    accuracy = sum(map(str.__eq__, gold, predicted)) / len(gold)
    macro_f1 = float(columns[2].mean())
    return Scores({"accuracy": accuracy, "macro_f1": macro_f1}, table)


def tag_scores(gold: Iterable[Sequence[str]], predicted: Iterable[Sequence[str]]) -> Scores:
    """Accuracy over all words (parts of speech), and precision, recall and F1 of each tag."""
    return class_scores(
        [tag for tags in gold for tag in tags], [tag for tags in predicted for tag in tags]
    )


def correlation_scores(gold: Sequence[float], predicted: Sequence[float]) -> Scores:
    """Pearson's and Spearman's correlation (0 where all numbers are equal), and the root of the
    mean squared error."""
    from scipy.stats import pearsonr, spearmanr

    error = math.sqrt(sum((g - p) ** 2 for g, p in zip(gold, predicted, strict=True)) / len(gold))
    pearson = spearman = 0.0
    if len(set(gold)) > 1 and len(set(predicted)) > 1:
        pearson = float(pearsonr(predicted, gold)[0])
        spearman = float(spearmanr(predicted, gold)[0])
    return Scores({"pearson": pearson, "spearman": spearman, "rmse": error}, [])


def label_set_scores(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> Scores:
    """Micro F1 over all labels, macro F1 (the mean over labels that occur in either), and the
    share of examples whose labels are exactly right."""
    tally = _Tally()
    exact = 0
    for gold_labels, predicted_labels in zip(gold, predicted, strict=True):
        wanted, found = set(gold_labels), set(predicted_labels)
        tally.add(wanted & found, found, wanted)
        exact += wanted == found
    table = tally.table()
    precision, recall, micro_f1 = tally.rates()
    metrics = {
        "micro_f1": micro_f1,
        "macro_f1": sum(float(row["f1"]) for row in table) / len(table) if table else 0.0,
        "precision": precision,
        "recall": recall,
        "exact_match": exact / len(gold) if gold else 0.0,
    }
    return Scores(metrics, table)


def word_scores(gold: Iterable[Sequence[str]], predicted: Iterable[Sequence[str]]) -> Scores:
    """Precision, recall and F1 of words, as the script of the SIGHAN bakeoffs counts them.

    A word is right when both its ends are; where it stands in the text, not what it is, decides.

    Args:
        gold, predicted: the words of each sentence; both make the same text.
    """
    right = found = wanted = 0
    for gold_words, predicted_words in zip(gold, predicted, strict=True):
        gold_spans, predicted_spans = _spans(gold_words), _spans(predicted_words)
        right += len(gold_spans & predicted_spans)
        found += len(predicted_spans)
        wanted += len(gold_spans)
    precision, recall, f1 = _rates(right, found, wanted)
    return Scores({"f1": f1, "precision": precision, "recall": recall}, [])


class _Tally:
    """How often each label was right, found and wanted."""

    def __init__(self) -> None:
        self.right: Counter[str] = Counter()
        self.found: Counter[str] = Counter()
        self.wanted: Counter[str] = Counter()

    def add(self, right: Iterable[str], found: Iterable[str], wanted: Iterable[str]) -> None:
        """Counts the labels of one example."""
        self.right.update(right)
        self.found.update(found)
        self.wanted.update(wanted)

    def rates(self) -> tuple[float, float, float]:
        """Precision, recall and F1 over all labels together."""
        return _rates(self.right.total(), self.found.total(), self.wanted.total())

    def table(self) -> list[dict[str, str | float | int]]:
        """Precision, recall, F1 and count of each label that was wanted or found."""
        right, found, wanted = self.right, self.found, self.wanted
        return [
            _row(label, _rates(right[label], found[label], wanted[label]), wanted[label])
            for label in sorted(wanted | found)
        ]


def _spans(words: Sequence[str]) -> set[tuple[int, int]]:
    ends = list(accumulate(map(len, words)))
    return set(zip([0, *ends], ends, strict=False))


def _rates(right: int, found: int, wanted: int) -> tuple[float, float, float]:
    precision = right / found if found else 0.0
    recall = right / wanted if wanted else 0.0
    f1 = 2 * precision * recall / (precision + recall) if right else 0.0
    return precision, recall, f1


def _row(label: str, rates: tuple[float, float, float], count: int) -> dict[str, str | float | int]:
    precision, recall, f1 = rates
    return {"label": label, "precision": precision, "recall": recall, "f1": f1, "count": count}
