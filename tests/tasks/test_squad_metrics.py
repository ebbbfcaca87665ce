"""The metrics are the official scripts', on predictions full of traps."""

from __future__ import annotations

import random
from typing import Any

import pytest

from bertkit.tasks.squad_metrics import (
    cmrc_scores,
    exact_match,
    normalized,
    segment_f1,
    segments,
    squad2_scores,
    squad_scores,
    token_f1,
    token_f1_or_none,
    tuned_threshold,
)
from tests.tasks.official_squad import version1, version2

TRAPS = (
    "the The a an An gold GOLD gold, (gold) U.S. US don't dont 1990s 1,990 – — … “gold” \u00a0 "
    "\u3000 naïve café e\u0301 İ ß 金 金色 。 the-end a-b theory an's _the_ the_x \uff41 \u0301a "
    "\u200b ² 🙂"
)
WORDS = TRAPS.split(" ")


def random_text(generator: random.Random) -> str:
    kind = generator.random()
    if kind < 0.1:
        return ""
    if kind < 0.2:
        return generator.choice([" ", "the", "a an", ".", "The.", "\u3000", "..."])
    count = generator.randrange(1, 5)
    gaps = [" ", "  ", "\t", "\n", ""]
    return "".join(generator.choice(WORDS) + generator.choice(gaps) for _ in range(count))


def random_predictions(
    seed: int, unanswerable: float, count: int = 300
) -> tuple[dict[str, list[str]], dict[str, str], dict[str, float]]:
    generator = random.Random(seed)
    golds: dict[str, list[str]] = {}
    predictions: dict[str, str] = {}
    for number in range(count):
        name = f"q{number}"
        answers = [random_text(generator) for _ in range(generator.randrange(1, 4))]
        golds[name] = [] if generator.random() < unanswerable else answers
        right = answers[-1].upper() if generator.random() < 0.4 else random_text(generator)
        predictions[name] = "" if generator.random() < 0.2 else right
    odds = {name: round(generator.gauss(0, 3), 1) for name in golds}  # rounded: some are equal
    return golds, predictions, odds


@pytest.mark.parametrize("seed", range(5))
def test_version_1_agrees_with_the_official_rules(seed):
    golds, predictions, _ = random_predictions(seed, 0.0)
    del predictions["q3"], predictions["q5"]
    scores = squad_scores(golds, predictions)
    exact, f1 = version1(golds, predictions)
    assert 0 < exact < 100
    assert 100.0 * scores["exact"] == pytest.approx(exact, abs=1e-12)
    assert 100.0 * scores["f1"] == pytest.approx(f1, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("unanswerable", [0.0, 0.4, 1.0])
def test_version_2_agrees_with_the_official_rules(seed, unanswerable):
    golds, predictions, odds = random_predictions(seed, unanswerable)
    plain = squad2_scores(golds, predictions)
    assert in_per_cent(plain) == pytest.approx(version2(golds, predictions), abs=1e-12)
    with_odds = squad2_scores(golds, predictions, odds, threshold=1.0)
    assert in_per_cent(with_odds) == pytest.approx(version2(golds, predictions, odds), abs=1e-12)
    # what fine-tuning prints: the answers as they stand, and best thresholds from the odds
    both = squad2_scores(golds, predictions, odds)
    assert both == plain | {name: with_odds[name] for name in with_odds if "best" in name}


def in_per_cent(scores: dict[str, float]) -> dict[str, float]:
    return {n: v if n.endswith("thresh") else 100.0 * v for n, v in scores.items()}


def test_normalizing_drops_articles_ascii_punctuation_and_blanks_and_nothing_else():
    assert normalized("The  U.S.\tArmy, (a) the") == "us army"
    assert normalized("theory — “An” anthem") == "theory — “ ” anthem"
    assert normalized("the-end") == "theend"
    assert normalized("Café 金。") == "café 金。"
    assert exact_match("a gold", "the GOLD!") == 1.0


def test_the_two_versions_differ_on_answers_that_are_nothing_but_articles():
    assert exact_match("the", "a") == 1.0
    assert token_f1("the", "a") == 0.0
    assert token_f1_or_none("the", "a") == 1.0
    assert token_f1_or_none("the", "gold") == 0.0


def test_the_tuned_threshold_reaches_the_best_f1_and_answers_nothing_where_that_is_best():
    for seed in range(4):
        golds, texts, odds = random_predictions(seed, 0.5, 60)
        threshold = tuned_threshold(golds, texts, odds)
        assert f1_at(threshold, golds, texts, odds) == pytest.approx(
            max(f1_at(cut, golds, texts, odds) for cut in [-100.0, *odds.values()])
        )
    nothing = {"a": [], "b": []}
    texts = {"a": "x", "b": "y"}
    threshold = tuned_threshold(nothing, texts, {"a": 1.5, "b": -2.0})
    assert threshold < -2.0
    # half-way, so that rounding turns no decision over
    half = tuned_threshold({"a": ["x"], "b": []}, texts, {"a": 1.0, "b": 2.0})
    assert half == 1.5


def f1_at(cut: float, golds: Any, texts: Any, odds: Any) -> float:
    decided = {name: "" if odds[name] > cut else text for name, text in texts.items()}
    return squad2_scores(golds, decided)["f1"]


def test_chinese_answers_are_scored_by_their_longest_common_run_of_characters():
    assert segments("《Mario 3》是1990.5年don't") == [
        "mario",
        "3",
        "是",
        "1990.5",
        "年",
        "don",
        "'",
        "t",
    ]
    assert segment_f1("金色的书店", "色的书") == pytest.approx(2 * 1 * 0.6 / 1.6)
    assert segment_f1("金色", "色金") == 0.5  # a run of one, not a bag of two
    assert segment_f1("", "金") == segment_f1("金", "。") == 0.0
    scores = cmrc_scores(
        {"a": ["《金色》。", "书"], "b": ["书店"], "c": ["x"]}, {"a": "金色", "b": "店", "d": "x"}
    )
    assert scores["exact"] == pytest.approx(1 / 3)
    assert scores["f1"] == pytest.approx((1 + 2 / 3) / 3)
    assert scores["average"] == pytest.approx((scores["exact"] + scores["f1"]) / 2)
