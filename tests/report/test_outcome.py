"""What went wrong is read from prediction files of every family of tasks."""

from __future__ import annotations

from collections import Counter

from bertkit.report.confusion import MOST_DOTS, MOST_LABELS, matrix_figure, scatter_figure
from bertkit.report.outcome import WORST, outcome_sections
from bertkit.report.page import Section


def by_heading(records: list[dict]) -> dict[str, str]:
    return {
        section.heading: "".join(section.body)
        for section in outcome_sections(records)
        if isinstance(section, Section)
    }


def labelled(text: str, gold: str, label: str, probability: float) -> dict:
    probabilities = {"sad": 1 - probability, "glad": probability}
    return {
        "text": text,
        "label": label,
        "probability": probability,
        "probabilities": probabilities,
        "gold": gold,
    }


def test_the_surest_wrong_labels_come_first_and_right_ones_not_at_all():
    records = [
        labelled("a right one", "glad", "glad", 0.99),
        labelled("nearly", "glad", "sad", 0.51),
        labelled("surely", "sad", "glad", 0.98),
    ]
    sections = by_heading(records)
    errors = sections["Worst errors"]
    assert errors.index("surely") < errors.index("nearly")
    assert "a right one" not in errors
    assert "2 of 3 (66.7 %) are not as labelled" in errors
    assert "✗ glad 98 %" in errors and "labelled sad" in errors
    assert "glad as sad: 1" in sections["Confusion"]
    assert "glad as glad: 1" in sections["Confusion"]


def test_only_the_worst_are_shown_and_of_equals_the_first():
    records = [labelled(f"text {n:03}", "glad", "sad", 0.5) for n in range(100)]
    errors = by_heading(records)["Worst errors"]
    assert errors.count("labelled glad") == WORST
    assert "text 000" in errors and f"text {WORST:03}" not in errors


def test_texts_are_escaped_and_long_ones_lose_their_middle():
    record = labelled("<script>" + "x" * 5000 + "end", "glad", "sad", 0.5) | {"pair": "a & b"}
    errors = by_heading([record])["Worst errors"]
    assert "<script>" not in errors and "&lt;script&gt;" in errors and "a &amp; b" in errors
    assert len(errors) < 2000 and "end" in errors


def test_sets_of_labels_are_counted_label_by_label():
    records = [
        {"text": "t", "labels": ["a", "b"], "gold": ["a"], "probabilities": {"a": 0.9, "b": 0.8}},
        {"text": "u", "labels": [], "gold": ["c"], "probabilities": {"c": 0.1}},
    ]
    sections = by_heading(records)
    assert sections["Confusion"].count("<tr>") == 4
    assert "missed: c" in sections["Worst errors"] and "wrongly: b" in sections["Worst errors"]
    assert sections["Worst errors"].index("missed: c") < sections["Worst errors"].index(
        "wrongly: b"
    )


def test_scores_are_a_cloud_and_the_farthest_are_the_worst():
    records = [{"text": f"t{n}", "score": n + (5 if n == 3 else 0.5), "gold": n} for n in range(40)]
    sections = by_heading(records)
    assert sections["Answers and right scores"].count("<circle") == 40
    errors = sections["Worst errors"]
    assert errors.count('class="card"') == WORST
    assert errors.index("8.000 where 3 is right") < errors.index("0.500 where 0 is right")


def test_wrong_tags_stand_at_their_words():
    records = [
        {"words": ["Jim", "went"], "tags": ["O", "O"], "gold": ["B-PER", "O"], "entities": []},
        {"words": ["江", "泽"], "tags": ["B-LOC", "I-LOC"], "gold": ["B-PER", "I-PER"]},
        {"words": ["a"], "tags": ["O"], "gold": ["O"]},
    ]
    sections = by_heading(records)
    errors = sections["Worst sentences"]
    assert "2 of 3" in errors
    assert errors.index("江") < errors.index("Jim")
    assert "<sub>O ← B-PER</sub>" in errors
    assert "</mark><mark" in errors.replace(" class", "").replace('="bad"', "")  # no blanks
    assert "PER as LOC: 2" in sections["Confusion of words"]
    assert "PER as O: 1" in sections["Confusion of words"]


def test_segmentation_tags_are_labels_of_their_own():
    records = [{"words": ["我", "们"], "tags": ["B", "S"], "gold": ["B", "E"]}]
    assert "E as S: 1" in by_heading(records)["Confusion of words"]


def test_words_without_blanks_are_compared_by_their_characters():
    records = [
        {"text": "新世纪", "words": ["新", "世纪"], "gold": ["新", "世纪"]},
        {"text": "新世纪的", "words": ["新世", "纪", "的"], "gold": ["新", "世纪", "的"]},
    ]
    errors = by_heading(records)["Worst sentences"]
    assert "1 of 2" in errors
    assert '<mark class="bad">新世</mark> <mark class="bad">纪</mark> 的' in errors
    assert "← 新 世纪 的" in errors


def test_choices_are_shown_with_the_right_and_the_wrong_one():
    record = {
        "text": "context",
        "question": "why?",
        "choices": ["one", "two", "three"],
        "choice": 0,
        "answer": "one",
        "probability": 0.7,
        "gold": 2,
    }
    sections = by_heading([record])
    errors = sections["Worst errors"]
    assert "✓ three" in errors and "✗ one 70 %" in errors and "why?" in errors
    assert "3 as 1: 1" in sections["Confusion of the choices' places"]


def test_answers_from_a_context_are_right_if_they_are_one_of_the_given():
    records = [
        {"question": "who?", "answer": "Jim", "score": 3.0, "gold": ["jim", "Henson"]},
        {"question": "when?", "answer": "", "score": 1.0, "gold": ["1990"]},
        {"question": "where?", "answer": "London", "score": 2.0, "gold": []},
        {"question": "none", "answer": "", "score": 9.0, "gold": []},
    ]
    sections = by_heading(records)
    errors = sections["Worst errors"]
    assert "who?" not in errors and "none" not in errors
    assert errors.index("where?") < errors.index("when?")
    assert "no answer as an answer: 1" in sections["Answered or not"]
    assert "Answered or not" not in {s.heading for s in outcome_sections(records[:1]) if s.body}


def test_records_without_right_answers_say_nothing():
    assert outcome_sections([{"text": "t", "label": "a"}]) == []
    assert outcome_sections([]) == []
    assert outcome_sections([{"text": "t", "gold": "a", "something": 1}]) == []


def test_of_many_labels_those_with_errors_are_kept():
    counts = Counter({(f"l{n}", f"l{n}"): 5 for n in range(60)})
    counts["l58", "l59"] = 3
    html = matrix_figure(counts)
    assert html.count("<rect") == MOST_LABELS**2
    assert "l58 as l59: 3" in html and "others as others" in html


def test_a_matrix_without_counts_and_a_cloud_without_points_are_nothing():
    assert matrix_figure(Counter(), ["a"]) == ""
    assert scatter_figure([], "x") == ""
    assert "<circle" in scatter_figure([(2.0, 2.0)], "x")
    many = [(float(n), float(n)) for n in range(2 * MOST_DOTS - 1)]
    assert MOST_DOTS // 2 <= scatter_figure(many, "x").count("<circle") <= MOST_DOTS
