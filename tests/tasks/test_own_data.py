"""One's own data say what they are for, and what is wrong with them, in one line."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from bertkit.errors import UserError
from bertkit.tasks.config import EvaluateConfig, FinetuneConfig
from bertkit.tasks.data import columns_of
from bertkit.tasks.evaluate import evaluate
from bertkit.tasks.finetune import finetune
from bertkit.tasks.own_data import infer, resolve
from bertkit.tasks.readers import (
    label_list,
    read_label_lists,
    read_scores,
    read_table,
    require_file,
)
from bertkit.tasks.registry import TASKS
from bertkit.tasks.task import Columns
from bertkit.tasks.word_readers import read_columns, read_tagged
from tests.tasks.tiny import sentiment_rows


def written(folder: Path, name: str, content: str | list[dict[str, Any]]) -> Path:
    if not isinstance(content, str):
        content = "\n".join(json.dumps(row, ensure_ascii=False) for row in content)
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


def config(**given: Any) -> FinetuneConfig:
    return FinetuneConfig(**({"checkpoint": "c", "output": "o", "quiet": True} | given))


MANY = "\n".join(f"text {n}\t{n / 7:.2f}" for n in range(30))
CASES: list[tuple[str, Any, dict[str, Any], str, str | None, str | None]] = [
    # file, content, options, task, text, label
    ("a.csv", "body,topic\nx,a\ny,b\n", {"text": "body", "label": "topic"}, "classification",
     "body", "topic"),
    ("a.csv", "review;stars\nx, y;1\nz;2\n", {"label": "stars"}, "classification", "review",
     "stars"),
    ("a.csv", "comment|label\nx|1\nz|2\n", {}, "classification", "comment", "label"),
    ("a.tsv", f"text\tscore\n{MANY}\n", {}, "regression", "text", "score"),
    ("a.tsv", "text\tlabel\na\t0.5\nb\t1.5\nc\t2\nd\tnan\n", {}, "regression", "text", "label"),
    ("a.tsv", "text\tlabel\na\t1\nb\t2\nc\t3\nd\t4\n", {}, "classification", "text", "label"),
    ("a.csv", 'text,tags\nx,"a;b"\ny,a\n', {"label_delimiter": ";"}, "multi-label", "text", "tags"),
    ("a.csv", 'text,tags\nx,"[""a"", ""b""]"\ny,[]\n', {}, "multi-label", "text", "tags"),
    ("a.jsonl", [{"text": "x", "labels": ["a"]}, {"text": "y", "labels": []}], {}, "multi-label",
     "text", "labels"),
    ("a.jsonl", [{"sentence1": "x", "sentence2": "y", "label": 1}], {}, "classification",
     "sentence1", "label"),
    ("a.jsonl", [{"text": "x", "choices": ["a", "b"], "label": 1}], {}, "multiple-choice", "text",
     None),
    ("a.csv", "question,optionA,optionB,answer\nq,a,b,B\n", {}, "multiple-choice", "question",
     None),
    ("a.jsonl", [{"context": "c", "question": "q", "choices": ["a", "b"], "label": 1}], {},
     "multiple-choice", "context", None),
    ("a.csv", "question,passage,choice0,choice1,label\nq,p,a,b,0\n", {}, "multiple-choice",
     "passage", None),
    ("a.jsonl", [{"tokens": ["x"], "ner_tags": ["O"]}], {}, "tagging", "tokens", "ner_tags"),
    ("a.csv", 'tokens,tags\n"[""x""]","[""O""]"\n', {}, "tagging", "tokens", "tags"),
    ("a.tsv", 'tokens\ttags\n["x"]\t["O"]\n', {}, "tagging", "tokens", "tags"),
    ("a.conll", "x O\n", {}, "tagging", None, None),
    ("a.txt", "x O\ny B-PER\n\nz O\n", {}, "tagging", None, None),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "options", "task", "text", "label"), CASES)
def test_the_family_is_told_by_the_data(name, content, options, task, text, label, tmp_path):
    found = infer(written(tmp_path, name, content), config(**options))
    assert (found.task, found.text, found.label) == (task, text, label)


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl"])
def test_lists_of_words_are_read_from_every_table(name, tmp_path):
    words, tags = ["EU", "x, y"], ["B-ORG", "O"]
    cells = [json.dumps(words), json.dumps(tags)]
    content = {
        "a.csv": "tokens,tags\n" + ",".join('"' + c.replace('"', '""') + '"' for c in cells),
        "a.tsv": "tokens\ttags\n" + "\t".join(cells),
        "a.jsonl": json.dumps({"tokens": words, "tags": tags}),
    }
    path = written(tmp_path, name, content[name] + "\n")
    found = resolve(config(data=str(path)))
    columns = Columns(found.text, None, found.label)
    [example] = TASKS[str(found.task)].read(path, columns)
    assert (example.words, example.tags) == (words, tags)


def test_a_question_on_a_context_is_read_with_it_and_what_is_not_read_is_said(tmp_path, capsys):
    rows = [{"id": 1, "context": "c", "question": "q", "hint": "h", "choices": ["a", "b"],
             "label": 1}]  # fmt: skip
    found = resolve(config(data=str(written(tmp_path, "a.jsonl", rows)), quiet=False))
    assert (found.text, found.pair) == ("context", "question")
    said = " ".join(capsys.readouterr().err.split())
    assert "choices in choices for 'context' and 'question' (not read: 'hint')" in said


def test_a_data_file_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(UserError, match=r"there is no .*nope.csv; give a folder or a file"):
        resolve(config(data=str(tmp_path / "nope.csv")))


def test_what_is_found_is_said_and_kept_in_the_configuration(tmp_path, capsys):
    path = written(tmp_path, "a.csv", "premise;hypothesis;label\nx;y;1\nz;w;0\n")
    found = resolve(config(data=str(path), quiet=False))
    assert (found.data, found.train, found.task) == (None, str(path), "classification")
    assert (found.text, found.pair, found.label) == ("premise", "hypothesis", "label")
    said = " ".join(capsys.readouterr().err.split())
    assert (
        "2 labels in 'label' for 'premise' and 'hypothesis', so the task is classification" in said
    )
    assert resolve(found) == found


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("a.csv", "a,b,label\nx,y,1\n", {}, r"no column 'text' .there are: a, b, label.*--text"),
        ("a.csv", "text,b\nx,y\n", {}, r"no column 'label' .*--label"),
        ("a.csv", "text,b\nx,y\n", {"label": "c"}, r"no column 'c' .*--label"),
        ("a.tsv", "text;label\nx;1\n", {}, r"looks divided by ';'"),
        ("a.csv", "text,label\n", {}, "has no examples"),
        ("a.csv", "text,label\n" + "\n".join(f"x,w{n}" for n in range(99)), {}, "too many for lab"),
        ("a.csv", "text;score\nx;1,5\ny;2\nz;0,5\n", {}, r"numbers with a comma .'0,5'.*a point"),
        ("a.xlsx", "x", {}, "rename it"),
        ("nothing.csv", None, {}, "cannot read .*nothing.csv"),
        ("a.csv", "text,label\nx,1,2\ny,1\nz\n,,,\nw,2\n", {},
         r"line 2: 3 columns where the header names 2 .line 4: 1, line 5: 4; 3 such lines"),
    ],
)  # fmt: skip
def test_data_that_do_not_say_it_are_one_line_for_the_user(
    name, content, options, message, tmp_path
):
    path = tmp_path / name if content is None else written(tmp_path, name, content)
    with pytest.raises(UserError, match=message) as caught:
        infer(path, config(**options))
    assert "\n" not in str(caught.value)


def test_scores_that_are_no_numbers_are_counted_and_three_are_named(tmp_path):
    path = written(tmp_path, "a.tsv", "text\tlabel\na\t1\nb\tnan\nc\tx\nd\t\ne\tinf\nf\t2\n")
    with pytest.raises(UserError) as caught:
        read_scores(path, Columns())
    message = str(caught.value)
    assert all(f"line {number}: the score" in message for number in (3, 4, 5))
    assert "and 1 more" in message and "line 6" not in message


def test_empty_labels_are_counted_and_three_are_named(tmp_path):
    path = written(tmp_path, "a.csv", "text,label\n" + "x,\n" * 5 + "y,1\n")
    with pytest.raises(UserError, match=r"line 2: the label is empty; .*line 4.*and 2 more"):
        read_table(path, Columns())
    rows = [{"text": "x", "label": 1.0}, {"text": "y", "label": float("nan")}]
    with pytest.raises(UserError, match="line 2: the label is empty"):
        read_table(written(tmp_path, "a.jsonl", rows), Columns())


def test_labels_come_as_lists_or_in_one_cell(tmp_path):
    assert label_list('["a", "b", "a"]', None) == ("a", "b")
    assert label_list(" a ;b; ", ";") == ("a", "b")
    assert label_list("", ";") == ()
    assert label_list(["a", 1], None) == ("a", "1")
    assert label_list("[a", None) == ("[a",)
    assert label_list({"a": 1}, None) is None
    path = written(tmp_path, "a.jsonl", [{"text": "x", "labels": {"a": 1}}])
    with pytest.raises(UserError, match="is no list of labels"):
        read_label_lists(path, Columns(label="labels"))
    path = written(tmp_path, "a.jsonl", [{"text": "x", "label": []}, {"text": "y", "label": None}])
    with pytest.raises(UserError, match=r"line 2: the labels are null .an empty list"):
        read_label_lists(path, Columns())


def test_a_word_without_a_tag_and_unequal_lists_are_counted(tmp_path):
    with pytest.raises(UserError, match=r"line 1: a word without a tag; .*line 3.*and 1 more"):
        read_columns(written(tmp_path, "a.conll", "a\nb\nc\nd\n"), Columns())
    rows = [{"tokens": ["a", "b"], "tags": ["O"]}, {"tokens": ["a"], "tags": ["O"]}]
    with pytest.raises(UserError, match=r"line 1: 2 words, but 1 tags"):
        read_tagged(written(tmp_path, "a.jsonl", rows), Columns())


def test_choices_without_a_right_one_are_named(tmp_path):
    rows = [{"text": "q", "choices": ["a", "b"], "label": "2"}]
    with pytest.raises(UserError, match=r"the label '2' is neither 0 to 1 nor a choice"):
        TASKS["multiple-choice"].read(written(tmp_path, "a.jsonl", rows), Columns())
    rows = [{"text": "q", "choices": ["a", " ", "c"], "label": "2"}]
    with pytest.raises(UserError, match=r"line 1: choice 2 of 3 is empty"):
        TASKS["multiple-choice"].read(written(tmp_path, "a.jsonl", rows), Columns())
    rows = [{"text": "q", "choices": "a, b", "label": "0"}]
    with pytest.raises(UserError, match="holds no list"):
        TASKS["multiple-choice"].read(written(tmp_path, "b.jsonl", rows), Columns())


def test_labels_of_choices_are_numbers_letters_or_texts(tmp_path):
    rows = [
        {"text": "q", "choices": ["a", "b", "c"], "label": label} for label in (2, "C", "c", "2")
    ]
    found = TASKS["multiple-choice"].read(written(tmp_path, "a.jsonl", rows), Columns())
    assert [example.answer for example in found] == [2, 2, 2, 2]
    path = written(tmp_path, "a.csv", "q,one,two,three,label\nq,a,b,c,1\nq,a,b,,B\n")
    columns = Columns(text="q", choices=("one", "two", "three"))
    found = TASKS["multiple-choice"].read(path, columns)
    assert [(len(example.choices), example.answer) for example in found] == [(3, 1), (2, 1)]


@pytest.mark.parametrize(
    ("choices", "key"),
    [
        ({"text": ["right", "wrong"], "label": ["1", "2"]}, "1"),
        ({"text": ["right", "wrong"], "label": ["B", "A"]}, "B"),
        ([{"label": "x", "text": "right"}, {"label": "y", "text": "wrong"}], "x"),
        ({"text": ["right", "wrong"], "label": []}, "A"),
        (["right ", " wrong"], " right"),
    ],
)
def test_a_choices_own_key_names_it(choices, key, tmp_path):
    rows = [{"id": 0, "text": "q", "choices": choices, "answerKey": key}]
    [found] = TASKS["multiple-choice"].read(written(tmp_path, "a.jsonl", rows), Columns())
    assert (found.choices[0].strip(), found.answer, found.id) == ("right", 0, "0")


@pytest.mark.parametrize(
    ("name", "content", "task"),
    [
        ("a.csv", 'text,choices,label\nq,"[""a"", ""b""]",1\n', "multiple-choice"),
        ("a.csv", "text,choices,label\nq,\"['a', 'b']\",1\n", "multiple-choice"),
        ("a.csv", "text,tags\nx,\"['a', 'b']\"\ny,[]\n", "multi-label"),
        ("a.csv", "text,answers,options,label\nx,a,b,c\ny,d,e,f\n", "classification"),
    ],
)
def test_lists_in_cells_are_lists_and_a_plural_is_no_numbered_column(name, content, task, tmp_path):
    path = written(tmp_path, name, content)
    found = resolve(config(train=str(path)))
    assert found.task == task
    if task == "multiple-choice":
        [example] = TASKS[task].read(path, columns_of(found))
        assert (example.choices, example.answer) == (["a", "b"], 1)
    if task == "multi-label":
        assert [e.labels for e in TASKS[task].read(path, columns_of(found))] == [("a", "b"), ()]


def test_a_named_task_finds_the_columns_too(tmp_path, capsys):
    asked = [{"text": "t", "question": "q", "choices": ["a", "b"], "label": 0}]
    cases = [
        ("multiple-choice", "a.jsonl", asked, ("text", "question", None)),
        ("classification", "b.csv", "sentence1,sentence2,label\nx,y,a\nz,w,b\n",
         ("sentence1", "sentence2", "label")),
        ("regression", "c.csv", "review,score\nx,1.5\ny,2.5\n", ("review", None, "score")),
    ]  # fmt: skip
    for task, name, content, columns in cases:
        path = written(tmp_path, name, content)
        found = resolve(config(train=str(path), task=task, quiet=False))
        assert (found.text, found.pair, found.label) == columns
        assert f"the task is {task}" in " ".join(capsys.readouterr().err.split())
        assert len(TASKS[task].read(path, columns_of(found))) > 0
    kept = resolve(config(train=str(path), task="regression", text="score", label="review"))
    assert (kept.text, kept.label) == ("score", "review")


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        ("classification", {"label_delimiter": ";"}, "--label-delimiter is for multi-label"),
        ("cola", {"choices": ["a", "b"]}, "--choices is for multiple-choice, and the task is cola"),
        ("cola", {"doc_stride": 50}, "--doc-stride is for question-answering"),
        ("squad-1.1", {"document_context": True}, "--document-context is for tagging"),
    ],
)
def test_an_option_that_means_nothing_to_the_task_is_refused(task, options, message, tmp_path):
    path = written(tmp_path, "a.csv", "text,label\nx,a\ny,b\n")
    wanted = config(train=str(path), task=task, output=str(tmp_path / "r"), **options)
    with pytest.raises(UserError, match=message):
        finetune(wanted)
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("choices", "labels", "answers"),
    [
        (["0", "2", "1", "3"], [2, 1], [2, 1]),  # a JSON number counts
        (["0", "2", "1", "3"], ["2", "1"], [1, 2]),  # all are texts of their choices
        (["2", "4", "1", "8"], ["1", "0"], [1, 0]),  # not all are, but all are numbers
        (["b", "a", "d", "e"], ["A", "C"], [0, 2]),
        (["b", "a", "c", "d"], ["a", "c"], [1, 2]),
        (["x", "ß", "C"], ["ß", "C"], [1, 2]),
    ],
)
def test_the_whole_file_decides_what_a_label_of_a_choice_means(choices, labels, answers, tmp_path):
    rows = [{"text": "q", "choices": choices, "label": label} for label in labels]
    found = TASKS["multiple-choice"].read(written(tmp_path, "a.jsonl", rows), Columns())
    assert [example.answer for example in found] == answers


@pytest.mark.parametrize(
    ("name", "content", "task"),
    [
        (f"train{suffix}", [{"text": "x", "label": "a"}, {"text": "y", "label": "b"}],
         "classification")
        for suffix in (".jsonl", ".ndjson", ".jsonlines", ".json-lines", ".json")
    ]
    + [
        (f"train{suffix}", [{"id": "1", "context": "a b", "question": "q",
         "answers": [{"text": "b", "answer_start": 2}]}], "question-answering")
        for suffix in (".json", ".jsonl", ".ndjson")
    ]
    + [(f"train{suffix}", "x O\ny B-A\n", "tagging") for suffix in (".txt", ".iob", ".conll")],
)  # fmt: skip
def test_a_folder_is_looked_through_for_every_kind_of_file(name, content, task, tmp_path):
    path = written(tmp_path, name, content)
    found = resolve(config(data=str(tmp_path)))
    assert found.task == task
    assert require_file(TASKS[task], tmp_path, "train") == path
    assert len(TASKS[task].read(path, Columns())) > 0


def test_words_without_tags_are_read_where_tags_need_not_be_known(tmp_path):
    unlabeled = Columns(unlabeled=True)
    bare = written(tmp_path, "a.conll", "我\n們\n\nb\n")
    assert [e.words for e in read_columns(bare, unlabeled)] == [["我", "們"], ["b"]]
    lists = written(tmp_path, "a.jsonl", [{"tokens": ["a", "b"]}, {"tokens": ["c"], "tags": None}])
    assert [e.words for e in read_tagged(lists, unlabeled)] == [["a", "b"], ["c"]]
    forms = written(tmp_path, "a.conllu", "1\tdo\tdo\t_\t_\t_\t0\troot\t_\t_\n\n")
    assert [e.words for e in read_tagged(forms, unlabeled)] == [["do"]]
    empty = written(tmp_path, "b.jsonl", [{"tokens": ["a"], "tags": ["O"]}, {"tokens": []}])
    assert [e.words for e in read_tagged(empty, unlabeled)] == [["a"], []]
    for path in (bare, lists, forms):
        assert not any(TASKS["tagging"].is_labelled(e) for e in read_tagged(path, unlabeled))
    with pytest.raises(UserError, match="no column 'ner_tags'"):
        read_tagged(lists, Columns())


def test_dates_and_decimals_of_a_parquet_file_become_text(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    day, score = datetime.date(2020, 1, 2), Decimal("1.50")
    rows = [{"id": day, "text": "x", "label": score}, {"id": None, "text": "y", "label": score}]
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    found = read_scores(tmp_path / "a.parquet", Columns())
    assert [(one.id, one.label) for one in found] == [("2020-01-02", "1.50"), ("", "1.50")]


def test_from_a_file_to_predictions_with_a_split_that_is_kept(checkpoint, tmp_path, capsys):
    rows = sentiment_rows(100) + [("", "sad")] * 30
    lines = "\n".join(f'"{text}";{label}' for text, label in rows)
    path = written(tmp_path, "my.csv", f"body;topic\n{lines}\n")
    run = tmp_path / "run"
    result = finetune(
        FinetuneConfig(
            checkpoint=str(checkpoint),
            output=str(run),
            data=str(path),
            text="body",
            label="topic",
            epochs=1,
            sequence_length=8,
        )
    )
    assert (result.task, result.examples, result.dev_examples) == ("classification", 117, 13)
    said = " ".join(capsys.readouterr().err.split())
    assert "so the task is classification" in said
    assert "data: 117 training examples, 13 for dev" in said
    assert "lose their ends" in said
    summary = json.loads((run / "data.json").read_text())
    assert set(summary["counts"]) == {"glad", "sad"}
    assert summary["truncated"] > 0 and summary["repeated"] > 0 and summary["shared"] > 0
    assert summary["empty"] >= 17 and len(summary["first_empty"]) == 3
    assert len(json.loads((run / "dev_rows.json").read_text())) == 13
    again = evaluate(EvaluateConfig(str(run), str(path), quiet=True))
    assert again.examples == 130


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("a.csv", "text,label\nx,a\ny,a\n", {}, "the one label 'a'"),
        ("a.tsv", "text\tlabel\nx\t1.5\ny\t1.5\n", {"task": "regression"}, "the one label '1.5'"),
        ("a.jsonl", [{"text": "x", "labels": []}] * 3, {}, "have no label"),
        ("a.conll", "x O\ny O\n\nz O\n", {}, "have no label"),
        ("a.csv", 'text,label\n"",a\n" ",b\n', {}, "all 2 texts of .* are empty"),
        ("a.jsonl", [{"text": "q", "choices": ["a"], "label": 0}], {}, "of the kind '1 choice'"),
        (
            "a.jsonl",
            [{"id": None, "context": "c", "question": "q", "answers": []}] * 2,
            {},
            "of the kind 'unanswerable'",
        ),
    ],
)
def test_data_with_nothing_to_tell_apart_are_refused(
    checkpoint, name, content, options, message, tmp_path
):
    path = written(tmp_path, name, content)
    with pytest.raises(UserError, match=message):
        finetune(
            config(
                checkpoint=str(checkpoint), output=str(tmp_path / "r"), data=str(path), **options
            )
        )
    assert not (tmp_path / "r").exists()


def test_a_task_that_does_not_fit_the_checkpoints_head_is_one_line(checkpoint, tmp_path):
    run = tmp_path / "run"
    path = written(tmp_path, "a.csv", "text,label\nthe,a\nman,b\nran,a\n")
    options = {"checkpoint": str(checkpoint), "output": str(run), "sequence_length": 32}
    finetune(config(**options, data=str(path), epochs=1))
    for task in ("regression", "sts-b", "multi-label", "multiple-choice", "tagging"):
        with pytest.raises(UserError, match=f"not tuned for {task}: its head is classification"):
            evaluate(EvaluateConfig(str(run), str(path), task=task, quiet=True))
    with pytest.raises(UserError, match="has no form for submissions"):
        evaluate(EvaluateConfig(str(run), str(path), submission=str(tmp_path / "s"), quiet=True))
