"""Examples are read once, held out by a seed, and drawn so that more include fewer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bertkit.errors import UserError
from bertkit.tasks.config import FinetuneConfig
from bertkit.tasks.data import Data, held_out_rows, read_data
from bertkit.tasks.registry import TASKS


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
    assert found.dev_rows == held_out_rows(400, 0.2, seed=3) != held_out_rows(400, 0.2, seed=4)
    assert found.dev == [every[row] for row in found.dev_rows]
    assert found.train == [one for row, one in enumerate(every) if row not in found.dev_rows]
    assert found.files == [data / "train.tsv"]
    other = read(train=str(data / "train.tsv"), dev_share=0.2, seed=4, split_seed=3)
    assert other.dev_rows == found.dev_rows


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
