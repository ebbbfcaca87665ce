"""Entities are counted as conlleval does, in every tagging scheme."""

from __future__ import annotations

import random

import pytest

from bertkit.tasks.classification import ClassPrediction
from bertkit.tasks.glue import accuracy_and_f1, matthews
from bertkit.tasks.metrics import (
    Chunk,
    chunks,
    class_scores,
    correlation_scores,
    entity_scores,
    label_set_scores,
    to_iob2,
    word_scores,
)
from bertkit.tasks.readers import TextExample
from bertkit.tasks.word_readers import words_of_bmes

TYPES = ("PER", "ORG", "LOC")


def random_tags(generator: random.Random, prefixes: str) -> list[str]:
    tags = ["O", *(f"{prefix}-{label}" for prefix in prefixes for label in TYPES)]
    return [generator.choice(tags) for _ in range(generator.randrange(0, 12))]


def test_an_iob1_entity_needs_its_b_only_after_another_of_its_type():
    tags = ["I-ORG", "I-ORG", "B-ORG", "O", "I-PER", "I-LOC"]
    assert chunks(tags) == [
        Chunk("ORG", 0, 1),
        Chunk("ORG", 2, 2),
        Chunk("PER", 4, 4),
        Chunk("LOC", 5, 5),
    ]
    assert to_iob2(tags) == ["B-ORG", "I-ORG", "B-ORG", "O", "B-PER", "B-LOC"]


def test_a_bare_tag_is_an_entity_of_its_own_and_stays_bare():
    assert chunks(["NN", "NN", "O"]) == [Chunk("NN", 0, 0), Chunk("NN", 1, 1)]
    assert to_iob2(["NN", "NN", "O"]) == ["NN", "NN", "O"]


@pytest.mark.parametrize("prefixes", ["BI", "I", "BIES"])
def test_entity_scores_equal_seqevals_on_any_tags(prefixes):
    from seqeval.metrics import classification_report

    generator = random.Random(7)
    for _ in range(60):
        gold = [random_tags(generator, prefixes) for _ in range(5)]
        wrong = [[t if generator.random() < 0.6 else "O" for t in tags] for tags in gold]
        noise = [
            [t if generator.random() < 0.8 else f"{generator.choice(prefixes)}-LOC" for t in tags]
            for tags in wrong
        ]
        if not any(tag != "O" for tags in gold for tag in tags):
            continue
        scores = entity_scores(gold, noise)
        report = classification_report(gold, noise, output_dict=True, zero_division=0)
        ours = {name: scores.metrics[name] for name in ("precision", "recall", "f1")}
        theirs = report["micro avg"]
        assert ours["precision"] == pytest.approx(theirs["precision"])
        assert ours["recall"] == pytest.approx(theirs["recall"])
        assert ours["f1"] == pytest.approx(theirs["f1-score"])
        for row in scores.table:
            assert row["f1"] == pytest.approx(report[row["label"]]["f1-score"])
            assert row["count"] == report[row["label"]]["support"]


@pytest.mark.parametrize("prefixes", ["BI", "I", "BIES"])
def test_iob2_holds_the_same_entities_as_the_scheme_it_came_from(prefixes):
    generator = random.Random(3)
    for _ in range(300):
        tags = random_tags(generator, prefixes)
        assert chunks(to_iob2(tags)) == chunks(tags)
        assert to_iob2(to_iob2(tags)) == to_iob2(tags)


def test_the_longer_entity_is_wrong_though_most_of_its_words_are_right():
    scores = entity_scores([["B-PER", "I-PER", "O"]], [["B-PER", "I-PER", "I-PER"]])
    assert scores.metrics["f1"] == 0
    assert scores.metrics["accuracy"] == pytest.approx(2 / 3)


def test_accuracy_and_macro_f1_of_classes_by_hand():
    scores = class_scores(["a", "a", "a", "b"], ["a", "a", "b", "b"])
    assert scores.metrics["accuracy"] == 0.75
    # F1 of a: 2 * 1 * 2/3 / (5/3) = 0.8; of b: 2 * 1/2 * 1 / (3/2) = 2/3
    assert scores.metrics["macro_f1"] == pytest.approx((0.8 + 2 / 3) / 2)


def test_a_label_that_is_never_predicted_pulls_macro_f1_down():
    scores = class_scores(["a", "b", "c"], ["a", "b", "a"])
    assert [row["f1"] for row in scores.table][2] == 0
    assert scores.metrics["macro_f1"] < scores.metrics["accuracy"]


def random_classes(
    generator: random.Random, labels: str, count: int
) -> tuple[list[str], list[str]]:
    gold = generator.choices(labels, k=count)
    found = [one if generator.random() < 0.6 else generator.choice(labels) for one in gold]
    return gold, found


def as_predictions(found: list[str]) -> list[ClassPrediction]:
    return [ClassPrediction(label, 1.0, {}) for label in found]


def test_glues_metrics_are_those_of_its_script_to_the_last_digit():
    """The script calls scikit-learn and SciPy: (simple_accuracy, f1_score, matthews_corrcoef,
    pearsonr, spearmanr)."""
    from scipy.stats import pearsonr, spearmanr
    from sklearn.metrics import f1_score, matthews_corrcoef

    generator = random.Random(11)
    for _ in range(30):
        gold, found = random_classes(generator, "ab", generator.randrange(2, 200))
        examples = [TextExample("", None, label) for label in gold]
        predictions = as_predictions(found)
        right = sum(g == f for g, f in zip(gold, found, strict=True)) / len(gold)
        assert matthews(examples, predictions).metrics["matthews"] == matthews_corrcoef(gold, found)
        both = accuracy_and_f1("b", examples, predictions).metrics
        assert both["accuracy"] == right
        assert both["f1"] == f1_score(gold, found, pos_label="b", zero_division=0)
        gold_scores = [generator.randrange(6) + generator.random() for _ in gold]
        scores = [g + generator.gauss(0, 2) for g in gold_scores]
        metrics = correlation_scores(gold_scores, scores).metrics
        assert metrics["pearson"] == pearsonr(scores, gold_scores)[0]
        assert metrics["spearman"] == spearmanr(scores, gold_scores)[0]


def test_matthews_by_hand():
    gold, found = list("aaaabbb"), list("aaabbba")
    # true a 3, false a 1, true b 2, false b 1: (3*2 - 1*1) / sqrt(4*4*3*3)
    examples = [TextExample("", None, label) for label in gold]
    value = matthews(examples, as_predictions(found)).metrics["matthews"]
    assert value == pytest.approx(5 / 12)


def test_correlations_of_a_constant_are_zero():
    metrics = correlation_scores([1.0, 2.0, 3.0], [4.0, 4.0, 4.0]).metrics
    assert (metrics["pearson"], metrics["spearman"]) == (0, 0)
    assert metrics["rmse"] == pytest.approx((14 / 3) ** 0.5)


def test_label_sets_are_scored_as_scikit_learn_does():
    from sklearn.metrics import f1_score
    from sklearn.preprocessing import MultiLabelBinarizer

    generator = random.Random(5)
    for _ in range(20):
        gold = [generator.sample("abcd", generator.randrange(4)) for _ in range(50)]
        found = [generator.sample("abcd", generator.randrange(4)) for _ in range(50)]
        binary = MultiLabelBinarizer(classes=list("abcd"))
        one, other = binary.fit_transform(gold), binary.transform(found)
        metrics = label_set_scores(gold, found).metrics
        for average in ("micro", "macro"):
            expected = f1_score(one, other, average=average, zero_division=0)
            assert metrics[f"{average}_f1"] == pytest.approx(expected, abs=1e-15)
        assert metrics["exact_match"] == (one == other).all(axis=1).mean()


def test_words_are_right_where_both_their_ends_are():
    scores = word_scores([["我们", "去", "书店"]], [["我们", "去书", "店"]]).metrics
    assert (scores["precision"], scores["recall"]) == (1 / 3, 1 / 3)
    # seqeval sees the words as entities of one type
    from seqeval.metrics import f1_score

    generator = random.Random(9)
    for _ in range(40):
        tags = [generator.choices("BMES", k=20) for _ in range(2)]
        words = [words_of_bmes([("字", tag) for tag in one]) for one in tags]
        entities = [
            [f"{'B' if n == 0 else 'I'}-W" for word in one for n in range(len(word))]
            for one in words
        ]
        expected = f1_score([entities[0]], [entities[1]])
        assert word_scores([words[0]], [words[1]]).metrics["f1"] == pytest.approx(expected)
