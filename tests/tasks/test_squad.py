"""SQuAD's files: what is in them comes out, and what is wrong in them is one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bertkit.errors import UserError
from bertkit.tasks.squad import Answer, QuestionExample, read_squad, without_lost_answers


def squad(path: Path, context: str, *qas: dict[str, Any]) -> Path:
    document = {"version": "x", "data": [{"paragraphs": [{"context": context, "qas": list(qas)}]}]}
    path.write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")
    return path


def test_answers_unanswerable_and_unlabelled_questions_are_told_apart(tmp_path):
    path = squad(
        tmp_path / "a.json",
        "Jim Henson  was a\tpuppeteer. 吉姆",
        {"id": 7, "question": "Who?", "answers": [{"text": "吉姆", "answer_start": 29}]},
        {"id": "8", "question": "Why?", "answers": [], "is_impossible": True},
        {"id": "9", "question": "When?", "is_impossible": True, "plausible_answers": []},
        {"question": "Where?"},
    )
    examples = read_squad(path)
    assert [e.id for e in examples] == ["7", "8", "9", "3"]
    assert [e.answers for e in examples] == [(Answer("吉姆", 29),), (), (), None]
    assert examples[0].trained_answer() == Answer("吉姆", 29)
    assert examples[0].context is examples[1].context


def test_a_bom_and_half_a_surrogate_pair_change_no_offset(tmp_path):
    path = tmp_path / "a.json"
    text = (
        '{"data": [{"paragraphs": [{"context": "x \\ud800 gold", "qas": [{"id": "1", '
        '"question": "?", "answers": [{"text": "gold", "answer_start": 4}]}]}]}]}'
    )
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    [example] = read_squad(path)
    assert example.trained_answer() == Answer("gold", 4)
    example.context.encode("utf-8")


def test_training_takes_the_first_answer_that_stands_where_it_says():
    answers = (Answer("gold", 0), Answer("gold", 2), Answer("old", 3))
    assert QuestionExample("1", "?", "a gold", answers).trained_answer() == Answer("gold", 2)


def test_answers_that_are_not_in_their_context_are_counted_and_three_are_named():
    lost = [
        QuestionExample(f"q{n}", "?", "the cat sat", (answer,))
        for n, answer in enumerate(
            [
                Answer("cat", 3),
                Answer("a dog that is longer than all of it", 0),
                Answer("cat", -8),
                Answer("sat", 40),
                Answer(" ", 3),
            ]
        )
    ]
    good = QuestionExample("good", "?", "the cat sat", (Answer("cat", 4),))
    none = QuestionExample("none", "?", "the cat sat", ())
    kept, lost_ones = without_lost_answers([lost[0], good, *lost[1:], none])
    assert kept == [good, none]
    assert lost_ones.count == 5
    assert str(lost_ones) == (
        "q0: 'cat' is not at 3; q1: the answer has 35 characters, the context 11; "
        "q2: 'cat' is not at -8 (and 2 more)"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[1]", "a list where an object belongs"),
        ("{}", "top: no 'data'"),
        ('{"data": 3}', "top: 'data' is a number, not a list"),
        ('{"data": []}', "has no questions"),
        ('{"data": [{"paragraphs": [[]]}]}', r"data\[0\].paragraphs\[0\]: a list where an object"),
        ('{"data": [{"paragraphs": [{"context": 1, "qas": []}]}]}', "'context' is a number"),
        (
            '{"data": [{"paragraphs": [{"context": "x", "qas": [{"id": "1"}]}]}]}',
            r"data\[0\].paragraphs\[0\].qas\[0\]: no 'question'",
        ),
        (
            '{"data": [{"paragraphs": [{"context": "x", "qas": [{"question": "?", "answers": '
            '[{"text": "x", "answer_start": "0"}]}]}]}]}',
            r"answers\[0\]: answer_start is '0', not a number",
        ),
        (
            '{"data": [{"paragraphs": [{"context": "x", "qas": [{"id": 1, "question": "?"}, '
            '{"id": "1", "question": "?"}]}]}]}',
            "has the id '1' twice",
        ),
        ('[{"context_text": "x"}]', "in CMRC's own form"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_a_broken_file_is_one_line_for_the_user(tmp_path, text, message):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(UserError, match=message) as caught:
        read_squad(tmp_path / "a.json")
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_broken_utf8_are_one_line_for_the_user(tmp_path):
    with pytest.raises(UserError, match=r"cannot read .*nothing\.json"):
        read_squad(tmp_path / "nothing.json")
    (tmp_path / "a.json").write_bytes('{"data": "é"}'.encode("latin-1"))
    with pytest.raises(UserError, match="not UTF-8 at byte 10"):
        read_squad(tmp_path / "a.json")


def test_records_as_on_the_hub_are_read(tmp_path):
    rows = [
        {
            "id": "a",
            "context": "a gold",
            "question": "?",
            "title": "t",
            "answers": {"text": ["gold", "old"], "answer_start": [2, 3]},
        },
        {"context": "a gold", "question": "?", "answers": {"text": [], "answer_start": []}},
        {"context": "a gold", "question": "?"},
    ]
    expected = [
        QuestionExample("a", "?", "a gold", (Answer("gold", 2), Answer("old", 3))),
        QuestionExample("1", "?", "a gold", ()),
        QuestionExample("2", "?", "a gold", None),
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "list.json").write_text(json.dumps(rows))
    (tmp_path / "lines.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name in ("a.jsonl", "list.json", "lines.json"):
        assert read_squad(tmp_path / name) == expected
    (tmp_path / "one.json").write_text(json.dumps(rows[0]))
    assert read_squad(tmp_path / "one.json") == expected[:1]
    (tmp_path / "b.jsonl").write_text(json.dumps({**rows[0], "answers": "gold"}))
    with pytest.raises(UserError, match=r"line 1: 'answers' is a text, not a list"):
        read_squad(tmp_path / "b.jsonl")


def test_every_answer_of_the_real_files_stands_where_it_says(shared_data):
    for name, questions, impossible in (
        ("dev-v1.1.json", 10570, 0),
        ("dev-v2.0-half.json", 6078, 3168),
    ):
        examples = read_squad(shared_data / "squad" / name)
        assert len(examples) == questions
        assert sum(e.answers == () for e in examples) == impossible
        assert without_lost_answers(examples)[1].count == 0
