"""Examples are read once, held out by a seed, and drawn so that more include fewer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bertkit.errors import UserError
from bertkit.tasks.config import FinetuneConfig
from bertkit.tasks.data import Data, held_out_rows, read_data
from bertkit.tasks.registry import TASKS
from bertkit.tasks.squad import QuestionExample
from bertkit.tasks.summary import DataSummary, summarise
from bertkit.tasks.task import Columns, TaskOptions


def read(**changes: Any) -> Data:
    config = FinetuneConfig("x", task="classification", output="y", quiet=True, **changes)
    return read_data(config, TASKS["classification"])


def test_few_examples_are_drawn_by_the_seed_and_more_include_fewer(data: Path) -> None:
    def drawn(count: int, seed: int = 0) -> set[str]:
        return {one.text for one in read(data=str(data), max_examples=count, seed=seed).train}

    assert drawn(8) < drawn(40)
    assert drawn(8) != drawn(8, seed=1)


def test_few_examples_stay_in_the_order_of_the_file(data: Path) -> None:
    every = iter(read(data=str(data)).train)
    few = read(data=str(data), max_examples=50).train
    assert len(few) == 50
    assert all(example in every for example in few)  # each behind the one before


def test_what_is_held_out_is_a_share_that_is_not_trained_on(data: Path) -> None:
    every = read(data=str(data)).train
    found = read(train=str(data / "train.tsv"), dev_share=0.2, seed=3)
    task = TASKS["classification"]
    assert found.dev_rows == held_out_rows(task, every, 0.2, seed=3)
    assert found.dev_rows != held_out_rows(task, every, 0.2, seed=4)
    assert len(found.dev_rows) == 80
    assert found.dev == [every[row] for row in found.dev_rows]
    assert found.train == [one for row, one in enumerate(every) if row not in found.dev_rows]
    assert found.files == [data / "train.tsv"]
    other = read(train=str(data / "train.tsv"), dev_share=0.2, seed=4, split_seed=3)
    assert other.dev_rows == found.dev_rows


def test_every_label_keeps_an_example_to_be_trained_on(tmp_path: Path) -> None:
    path = tmp_path / "train.tsv"
    labels = ["a", "b"] * 9 + ["rare", "lone"]
    path.write_text("text\tlabel\n" + "".join(f"text {n}\t{x}\n" for n, x in enumerate(labels)))
    for seed in range(20):
        found = read(train=str(path), dev_share=0.5, seed=seed)
        assert {one.label for one in found.train} == set(labels)
        assert len(found.dev) == 10
    path.write_text("text\tlabel\nx\ta\ny\tb\nz\tc\n")
    with pytest.raises(UserError, match=r"3 examples are too few .* every label left"):
        read(train=str(path))


def test_questions_on_one_context_are_not_divided(tmp_path: Path) -> None:
    task = TASKS["question-answering"]
    examples = [
        QuestionExample(f"{context}-{number}", "who?", f"context {context}", ())
        for number in range(3)
        for context in range(12)
    ]
    for seed in range(10):
        rows = held_out_rows(task, examples, 0.25, seed)
        dev = {examples[row].context for row in rows}
        assert len(rows) == 9 and len(dev) == 3
        assert not dev & {one.context for row, one in enumerate(examples) if row not in rows}
    assert len(held_out_rows(task, examples, 0.01, seed=0)) == 3  # a context is the least
    with pytest.raises(UserError, match="3 examples on 1 contexts are too few"):
        held_out_rows(task, examples[::12], 0.1, seed=0)


def test_the_summary_tells_of_dev_alone_of_ranges_and_of_lines(tmp_path: Path, tiny_tokenizer):
    def summary(task: str, train: str, dev: str, length: int = 16) -> DataSummary:
        entry, files = TASKS[task], (tmp_path / "train.tsv", tmp_path / "dev.tsv")
        for path, rows in zip(files, (train, dev), strict=True):
            path.write_text("text\tlabel\n" + rows)
        parts = [entry.read(path, Columns()) for path in files]
        labels = entry.labels(parts[0])
        made = entry.features(parts[0], tiny_tokenizer, labels, TaskOptions(length))
        rows_of_train = [2 * row for row in range(len(parts[0]))]
        return summarise(entry, *parts, made, length, rows_of_train)

    scores = summary("regression", "a\t0\nb\t1\nc\t10\n", "a\t-3\nb\t5.5\nc\t11\n")
    assert list(scores.counts) == list(scores.dev_counts)
    assert list(scores.counts.values()) == [1, 1, 0, 0, 0, 0, 0, 0, 0, 1]
    assert list(scores.dev_counts.values()) == [1, 0, 0, 0, 0, 1, 0, 0, 0, 1]
    same = summary("regression", "a\t2\nb\t2\n", "a\t3\n")
    assert (same.counts, same.dev_counts) == ({"2": 2}, {"2": 1})
    classes = summary("classification", "\u0007\ta\nx\tb\n \ta\n", "x\tc\n")
    assert "labels (dev): a 2 (0), b 1 (0), c 0 (1)" in str(classes)
    assert (classes.empty, classes.first_empty) == (2, [1, 5])
    long = summary("classification", "the " * 40 + "\ta\nx\tb\n", "x\ta\n", length=8)
    assert (long.longest, long.truncated) == (42, 1)


@pytest.mark.parametrize("name", ["dev", "validation", "valid", "val"])
def test_a_dev_file_goes_by_any_of_its_names(tmp_path: Path, name: str) -> None:
    (tmp_path / "train.csv").write_text("text,label\na,1\nb,2\n")
    (tmp_path / f"{name}.csv").write_text("text,label\nc,1\n")
    assert [one.text for one in read(data=str(tmp_path)).dev] == ["c"]


def test_the_labels_are_those_of_the_whole_file(tmp_path: Path) -> None:
    rows = "".join(f"text {n}\t{'ab'[n % 2]}\n" for n in range(9)) + "rare\tc\n"
    (tmp_path / "train.tsv").write_text("text\tlabel\n" + rows)
    (tmp_path / "dev.tsv").write_text("text\tlabel\nx\tc\n")
    seeds = [read(data=str(tmp_path), max_examples=4, seed=seed) for seed in range(5)]
    assert all(one.labels == ["a", "b", "c"] for one in seeds)
    assert any("c" not in {e.label for e in one.train} for one in seeds)
    assert seeds[0].files == [tmp_path / "train.tsv", tmp_path / "dev.tsv"]


def test_texts_that_are_all_empty_and_too_few_examples_are_one_line(tmp_path: Path) -> None:
    path = tmp_path / "train.tsv"
    path.write_text("text\tlabel\n\ta\n \tb\n")
    with pytest.raises(
        UserError, match=r"all 2 texts of .* are empty; name the column with --text"
    ):
        read(train=str(path))
    path.write_text("text\tlabel\nx\ta\ny\tb\n")
    with pytest.raises(UserError, match="2 examples are too few to hold some out"):
        read(train=str(path), dev_share=0.9)
