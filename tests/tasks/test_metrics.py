"""Entities are counted as conlleval does, in every tagging scheme."""

from __future__ import annotations

import random

import pytest

from bertkit.tasks.metrics import Chunk, chunks, class_scores, entity_scores, to_iob2

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
