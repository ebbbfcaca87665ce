"""Rows come from every kind of file, and from the hub, with the names of their classes."""

from __future__ import annotations

import json

import pytest

from bertkit.errors import UserError
from bertkit.tasks.readers import require_file
from bertkit.tasks.records import hub_split, read_records
from bertkit.tasks.registry import TASKS
from bertkit.tasks.task import Columns

ROWS = [{"text": "我", "label": 0, "tags": ["a", "b"]}, {"text": "x, y", "label": 1, "tags": []}]


def test_json_may_be_a_list_or_a_line_each(tmp_path):
    (tmp_path / "list.json").write_text("\ufeff" + json.dumps(ROWS), encoding="utf-8")
    (tmp_path / "lines.json").write_text("\n".join(map(json.dumps, ROWS)))
    for name in ("list.json", "lines.json"):
        assert [dict(row) for row in read_records(tmp_path / name)] == ROWS
    (tmp_path / "numbers.json").write_text("[1, 2]")
    with pytest.raises(UserError, match="item 1: not a JSON object"):
        list(read_records(tmp_path / "numbers.json"))
    (tmp_path / "broken.json").write_text("[{]")
    with pytest.raises(UserError, match="not JSON"):
        list(read_records(tmp_path / "broken.json"))


def test_parquet_is_read_with_its_lists(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(arrow.Table.from_pylist(ROWS), tmp_path / "a.parquet")
    rows = list(read_records(tmp_path / "a.parquet"))
    assert [dict(row) for row in rows] == ROWS
    assert rows[1].where.endswith("a.parquet, row 2")
    (tmp_path / "b.parquet").write_bytes(b"PAR1 but no more")
    with pytest.raises(UserError, match=r"cannot read .*b.parquet"):
        list(read_records(tmp_path / "b.parquet"))


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_a_csv_is_divided_by_what_its_header_has_most_of(tmp_path, delimiter):
    header, row = ["a text, quoted", "label"], ["x, y; z", "1"]
    lines = [delimiter.join(f'"{cell}"' for cell in cells) for cells in (header, row)]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    assert [dict(one) for one in read_records(tmp_path / "a.csv")] == [
        dict(zip(header, row, strict=True))
    ]


def test_a_hub_data_set_is_read_with_its_own_splits_and_class_names(tmp_path):
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {
            "sentence": datasets.Value("string"),
            "label": datasets.ClassLabel(names=["unacceptable", "acceptable"]),
            "idx": datasets.Value("int32"),
        }
    )
    for split, label in (("train", 1), ("validation", 0), ("test", -1)):
        rows = {"sentence": ["He ran."], "label": [label], "idx": [5]}
        table = datasets.Dataset.from_dict(rows, features=features)
        table.to_parquet(str(tmp_path / f"{split}-00000.parquet"))
    name = f"hub:{tmp_path}"
    assert str(hub_split(name, "dev")).endswith("::validation")
    assert hub_split(name, "dev-mismatched") is None
    entry = TASKS["cola"]

    def read(split: str) -> list[tuple[str, str, str]]:
        path = require_file(entry, type(tmp_path)(name), split)
        found = entry.read(path, Columns(unlabeled=split == "test"))
        return [(example.text, example.label, example.id) for example in found]

    assert read("train") == [("He ran.", "acceptable", "5")]
    assert read("dev") == [("He ran.", "unacceptable", "5")]
    assert read("test") == [("He ran.", "", "5")]
    with pytest.raises(UserError, match="has no dev-mismatched file"):
        require_file(entry, type(tmp_path)(name), "dev-mismatched")


def test_lists_of_class_numbers_become_tags(tmp_path):
    datasets = pytest.importorskip("datasets")
    names = datasets.ClassLabel(names=["O", "B-PER", "I-PER"])
    features = datasets.Features(
        {
            "tokens": datasets.List(datasets.Value("string")),
            "ner_tags": datasets.List(names),
        }
    )
    rows = {"tokens": [["Jim", "Henson", "ran"]], "ner_tags": [[1, 2, 0]]}
    datasets.Dataset.from_dict(rows, features=features).to_parquet(str(tmp_path / "train.parquet"))
    entry = TASKS["conll-2003"]
    path = require_file(entry, type(tmp_path)(f"hub:{tmp_path}"), "train")
    [example] = entry.read(path, Columns())
    assert example.tags == ["B-PER", "I-PER", "O"]


def test_a_hub_data_set_that_is_not_there_is_one_line(tmp_path):
    pytest.importorskip("datasets")
    with pytest.raises(UserError, match="cannot load hub:") as caught:
        hub_split(f"hub:{tmp_path / 'nothing'}", "train")
    assert "\n" not in str(caught.value)
