"""The quickstart's page says what the numbers say, and no more."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from bertkit.report.quickstart import (
    Comparison,
    Guess,
    LabelledResult,
    MaskedResult,
    QuickstartResults,
    TaggedResult,
    in_words,
    labelled_card,
    masked_card,
    tagging_verdict,
    write_quickstart_report,
)


def comparison(difference: float = 0.05, error: float = 0.01) -> Comparison:
    return Comparison(
        "Sentiment", "accuracy", 500, "4,000 reviews", [0.7, 0.72], [0.75, 0.77], difference, error
    )


def test_words_claim_no_more_than_the_standard_error_allows() -> None:
    assert "clearly higher" in in_words(comparison())
    assert "by 5.0 points" in in_words(comparison())
    assert "probably higher" in in_words(comparison(0.03))
    assert "no difference" in in_words(comparison(0.015))
    assert "no difference" in in_words(comparison(0.0, 0.0))
    assert "clearly lower" in in_words(comparison(-0.05))


def test_a_masked_card_shows_the_guess_in_the_sentence_and_the_truth_below() -> None:
    result = MaskedResult("这本书", "this book", [Guess(2, "书", [("人", 0.5), ("书", 0.25)])])
    html = masked_card(result)
    assert '这本<mark class="bad">人</mark>' in html
    assert "✗ 书" in html and "人 50 % · 书 25 %" in html and "this book" in html
    assert not result.guesses[0].right
    assert not Guess(0, "书", []).right


def test_a_wrong_label_is_shown_with_the_right_one() -> None:
    wrong = labelled_card(LabelledResult("好", "good", "positive", "negative", 0.9))
    assert "✗ negative 90 %" in wrong and "labelled positive" in wrong
    right = labelled_card(LabelledResult("好", "good", "positive", "positive", 0.9))
    assert "✓ positive" in right and "labelled" not in right


def test_tagging_errors_are_named() -> None:
    text = "江泽民在北京"
    both = [(0, 3, "PER"), (4, 6, "LOC")]
    assert "all right" in tagging_verdict(TaggedResult(text, "", both, both[::-1]))
    assert "rightly none" in tagging_verdict(TaggedResult(text, "", [], []))
    html = tagging_verdict(TaggedResult(text, "", both, [(0, 3, "LOC"), (4, 6, "LOC")]))
    assert "found but not there: 江泽民 LOC" in html
    assert "missed: 江泽民 PER" in html
    assert "北京" not in html


def test_the_page_holds_every_part_and_survives_json(tmp_path: Path) -> None:
    records = [
        {"kind": kind, "step": step, "seconds": step, "tokens": step, "mlm_loss": 5.0 - step}
        for step in (1, 2)
        for kind in ("train", "dev")
    ]
    results = QuickstartResults(
        title="Quickstart",
        machine="2 cores",
        seconds={"Pre-training": 300.0, "Tuning": 120.0},
        data=[("Text", "2 M characters")],
        model=[("Encoder", "2 × 256")],
        records=records,
        comparisons=[dataclasses.replace(comparison(), baseline=0.5), comparison(0.0)],
        masked=[MaskedResult("这本书", "this book", [Guess(2, "书", [("书", 0.5)])])],
        labelled=[LabelledResult("好", "good", "positive", "positive", 0.9)],
        tagged=[TaggedResult("北京", "Beijing", [(0, 2, "LOC")], [(0, 2, "LOC")])],
        labelled_errors=[LabelledResult("<差>", "bad", "positive", "negative", 0.99)],
        tagged_errors=[TaggedResult("上海", "Shanghai", [(0, 2, "LOC")], [])],
        places=[("Report", "quickstart/report.html")],
        commands=[("Fill a mask:", 'bertkit fill run "[MASK]"')],
    )
    page = write_quickstart_report(tmp_path / "a.html", results).read_text(encoding="utf-8")
    for text in (
        "in 7 min 0 s",
        "71.0 ± 1.4",
        "+5.0 ± 1.0",
        "50.0 %",
        "over 2 seeds",
        "1 of these 1 are right",
        "&lt;差&gt;",
        "missed: 上海 LOC",
        "quickstart/report.html",
        "bertkit fill run &quot;[MASK]&quot;",
        "<figure>",
    ):
        assert text in page, text

    again = json.loads(json.dumps(dataclasses.asdict(results)))
    assert Comparison(**again["comparisons"][0]) == results.comparisons[0]
