"""Files of labelled examples are read as they are, or refused with one line that helps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bertkit.errors import UserError
from bertkit.tasks.readers import read_table
from bertkit.tasks.registry import TASKS, get_task
from bertkit.tasks.task import Columns
from bertkit.tasks.word_readers import read_columns

COLUMNS = Columns()


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return path


def test_tsv_has_no_quoting_and_its_bom_is_dropped(tmp_path):
    path = written(tmp_path, "a.tsv", '\ufefftext\tlabel\n"open quote\t1\r\nso, "she" said\t0\n')
    examples = read_table(path, COLUMNS)
    assert [e.text for e in examples] == ['"open quote', 'so, "she" said']
    assert [e.label for e in examples] == ["1", "0"]


def test_csv_has_quoting_with_commas_and_line_breaks_inside(tmp_path):
    path = written(tmp_path, "a.csv", 'label,text\npos,"one, two\nthree ""four"""\n\nneg,plain\n')
    examples = read_table(path, COLUMNS)
    assert [e.text for e in examples] == ['one, two\nthree "four"', "plain"]


def test_jsonl_labels_may_be_numbers_and_a_pair_is_a_column(tmp_path):
    rows = [{"text": "我", "b": "你", "label": 0}, {"text": "x", "b": "y", "label": True}]
    path = written(tmp_path, "a.jsonl", "\n".join(map(json.dumps, rows)))
    examples = read_table(path, Columns(pair="b"))
    assert [(e.text, e.pair, e.label) for e in examples] == [("我", "你", "0"), ("x", "y", "true")]


def test_odd_line_separators_and_controls_stay_in_the_text(tmp_path):
    text = "a\u2028b\x85c\x0bd\x00e😀"
    examples = read_table(written(tmp_path, "a.tsv", f"text\tlabel\n{text}\tx\n"), COLUMNS)
    assert examples[0].text == text


def test_half_a_surrogate_pair_does_not_get_into_the_text(tmp_path):
    path = written(tmp_path, "a.jsonl", '{"text": "a\\ud800é", "label": 1}')
    read_table(path, COLUMNS)[0].text.encode("utf-8")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.tsv",
            "sentence\tlabel\nx\t1\n",
            "no column 'text' .there are: sentence, label.*--text",
        ),
        ("a.tsv", "text\tgold\nx\t1\n", "no column 'label' .*--label"),
        ("a.tsv", "", "has no examples"),
        ("a.tsv", "text\tlabel\n", "has no examples"),
        ("a.tsv", "text\tlabel\nx\t1\t2\n", "line 2: 3 columns where the header names 2"),
        ("a.tsv", "text\tlabel\nx\t \n", "line 2: the label is empty"),
        ("a.tsv", b"text\tlabel\nab\t1\n\xff\t1\n", "not UTF-8 at byte 16 .0xff, line 3"),
        ("a.csv", 'text,label\n"a,1\n', "line 2: .*quotes"),
        ("a.csv", 'text,label\na,1\n"b,1\nc,2\nd,3\n', "line 3: a quote opens in this row and no"),
        ("a.csv", "text,label\ra,1\rb,2\r", "line 1: a carriage return stands alone"),
        ("a.csv", "text,label,label\na,1,2\n", "the header names 'label' twice"),
        (
            "a.jsonl",
            '{"text": "a", "label": 1}\n{"text": "b"}\n{"label": 1}\n',
            "line 2: no 'label'; .*line 3: no 'text'; give every row what the first one has",
        ),
        ("a.jsonl", '{"text": "a", "label": 1}\n{oops\n', "line 2: not JSON"),
        ("a.jsonl", "[1]\n", "line 1: not a JSON object"),
        ("a.jsonl", '{"text": ["a"], "label": 1}\n', "no text but a list"),
        ("a.txt", "text\tlabel\nx\t1\n", "rename"),
    ],
)
def test_a_bad_table_is_one_line_for_the_user(tmp_path, name, content, message):
    path = written(tmp_path, name, content)
    with pytest.raises(UserError, match=message) as caught:
        read_table(path, COLUMNS)
    assert "\n" not in str(caught.value)


def test_blanks_around_the_names_of_columns_do_not_count(tmp_path):
    path = written(tmp_path, "a.csv", "\ufeff text , label\na, 1\nb,2 \n")
    assert [(e.text, e.label) for e in read_table(path, COLUMNS)] == [("a", "1"), ("b", "2")]


def test_a_missing_file_is_one_line_for_the_user(tmp_path):
    with pytest.raises(UserError, match=r"cannot read .*nothing.tsv: No such file"):
        read_table(tmp_path / "nothing.tsv", COLUMNS)


def test_columns_are_read_in_iob2_and_document_starts_are_skipped(tmp_path):
    content = "-DOCSTART- -X- O O\n\nEU NNP I-NP I-ORG\nrejects VBZ I-VP O\n\n\nPeter\tI-PER"
    examples = read_columns(written(tmp_path, "train.txt", content), COLUMNS)
    assert [e.words for e in examples] == [["EU", "rejects"], ["Peter"]]
    assert [e.tags for e in examples] == [["B-ORG", "O"], ["B-PER"]]


def test_an_ideographic_space_can_be_a_word(tmp_path):
    examples = read_columns(written(tmp_path, "a.txt", "\u3000 O\n我 B-PER\r\n"), COLUMNS)
    assert examples[0].words == ["\u3000", "我"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "has no sentences"),
        ("a O\nb\n", "line 2: a word without a tag"),
        (b"a O\n\xe6 O\n", "not UTF-8 at byte 4"),
    ],
)
def test_bad_columns_are_one_line_for_the_user(tmp_path, content, message):
    with pytest.raises(UserError, match=message):
        read_columns(written(tmp_path, "a.txt", content), COLUMNS)


def test_an_unknown_task_names_those_there_are():
    with pytest.raises(UserError, match=r"no task .ner.; choose one of classification, regression"):
        get_task("ner")
    for given, meant in (("MRPC", "mrpc"), ("sst2", "sst-2"), ("conll2003", "conll-2003")):
        with pytest.raises(UserError, match=f"no task '{given}'; did you mean '{meant}'"):
            get_task(given)


@pytest.mark.parametrize(
    ("task", "file", "examples", "entities"),
    [
        ("sst-2", "glue/SST-2/dev.tsv", 872, None),
        ("chnsenticorp", "chnsenticorp/test.tsv", 1200, None),
        ("conll-2003", "conll2003/eng.testa", 3250, 5942),
        ("msra", "msra_ner/dev.txt", 4631, 6181 + 11),  # 11 begin with a stray I-
    ],
)
def test_the_known_data_sets_have_their_known_sizes(shared_data, task, file, examples, entities):
    entry = TASKS[task]
    path = shared_data / file
    assert path.name in {name for names in entry.files.values() for name in names}
    found = entry.read(path, COLUMNS)
    assert len(found) == examples
    if entities is None:
        assert entry.labels(found) == ["negative", "positive"]
    else:
        tags = [tag for example in found for tag in example.tags]
        assert sum(tag.startswith("B-") for tag in tags) == entities
