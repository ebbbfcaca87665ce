"""Records: rows whose values may be lists, from every source of a user's own data.

    .csv, .tsv             as in rows.py; every value is text
    .jsonl, .json          JSON objects: one a line, or one list of them
    .parquet               with pyarrow
    hub:NAME[:CONFIG]      a data set of the Hugging Face hub, or a folder that `datasets` reads

Numbers that stand for class names (the hub's ClassLabel) become the names; -1 there means that the
label is not known.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from bertkit.errors import UserError, reason
from bertkit.extraction.hub import PREFIX, parse_name
from bertkit.extras import need
from bertkit.tasks.rows import Record, TableForm, read_delimited, read_json_lines, record
from bertkit.text.documents import JSONL_SUFFIXES, broken_utf8

RECORD_SUFFIXES = (".tsv", ".csv", *sorted(JSONL_SUFFIXES, key=len), ".json", ".parquet")
"""In a folder with several files of a split the first of these counts."""

HUB_SPLITS = {
    "train": ("train",),
    "dev": ("validation", "dev", "valid", "validation_matched", "dev_matched"),
    "dev-mismatched": ("validation_mismatched", "dev_mismatched"),
    "test": ("test", "test_matched"),
    "test-mismatched": ("test_mismatched",),
}
"""What data sets of the hub call the splits."""


def is_hub(source: str | Path) -> bool:
    """Whether a source is a data set of the hub and not a file or folder."""
    return str(source).startswith(PREFIX)


def has_records(source: str | Path) -> bool:
    """Whether a source has named columns or fields, as its name says, and not just lines."""
    return is_hub(source) or Path(source).suffix.lower() in RECORD_SUFFIXES


def read_records(
    path: Path, form: TableForm | None = None, stream: BinaryIO | None = None
) -> Iterator[Record]:
    """Yields the records of a source.

    Args:
        path: a file, or "hub:NAME[:CONFIG][:SPLIT]".
        form: what a known data set's file does not say itself.
        stream: JSON lines or a table to read instead; `path` then only names it.

    Raises:
        UserError: no such source, an ending that says nothing, broken content.
    """
    suffix = path.suffix.lower()
    if form and suffix not in RECORD_SUFFIXES:
        suffix = form.suffix
    if is_hub(path):
        yield from _hub_records(str(path))
    elif suffix in JSONL_SUFFIXES or (suffix == ".json" and not _is_list(path)):
        yield from read_json_lines(path, stream)
    elif suffix == ".json":
        yield from _listed(path)
    elif suffix == ".parquet":
        yield from _parquet(path)
    elif suffix in (".csv", ".tsv"):
        yield from read_delimited(path, suffix, stream, form)
    else:
        raise UserError(
            f"{path} does not end in .tsv, .csv, .jsonl, .json or .parquet, so its columns are "
            "unknown; rename it"
        )


def hub_split(name: str, split: str) -> Path | None:
    """The source of a split of a hub data set, or None where it has none of that kind."""
    parts = name.removeprefix(PREFIX).split(":")
    if len(parts) == 3:  # the split is named: it is what one trains on
        return Path(name) if split == "train" else None
    path, configuration, _ = parse_name(name)
    datasets = need("datasets", "hub", f"{name} needs")
    try:
        there = datasets.get_dataset_split_names(path, configuration)
    except Exception as error:  # it raises whatever its parts raise
        raise UserError(f"cannot load {name}: {reason(error)}; check the name") from error
    for candidate in HUB_SPLITS.get(split, (split,)):
        if candidate in there:
            return Path(f"{PREFIX}{path}:{configuration or ''}:{candidate}")
    return None


def _is_list(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(64).removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"["
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}; check the name") from None


def load_json(path: Path) -> Any:
    """The content of a JSON file; UserError where it is none."""
    try:
        return json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not JSON ({error}); copy or export it again") from None


def read_text(path: Path) -> str:
    """The content of a UTF-8 file, without a BOM."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}; check the name") from None
    except UnicodeDecodeError:
        raise broken_utf8(path) from None


def _listed(path: Path) -> Iterator[Record]:
    for number, values in enumerate(load_json(path), start=1):
        if not isinstance(values, dict):
            raise UserError(f"{path}, item {number}: not a JSON object; give a list of objects")
        yield record(values, f"{path}, item {number}")


def _parquet(path: Path) -> Iterator[Record]:
    arrow = need("pyarrow", "parquet", f"{path} needs")
    parquet = need("pyarrow.parquet", "parquet", f"{path} needs")
    try:
        number = 0
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches():
                for values in batch.to_pylist():
                    number += 1
                    yield record(values, f"{path}, row {number}")
    except (OSError, arrow.ArrowException) as error:
        raise UserError(f"cannot read {path}: {reason(error)}; check the file") from error


def _hub_records(name: str) -> Iterator[Record]:
    datasets = need("datasets", "hub", f"{name} needs")
    path, configuration, split = parse_name(name)
    try:
        rows = datasets.load_dataset(path, configuration, split=split, streaming=True)
        convert = {
            column: _class_names(feature, datasets)
            for column, feature in (rows.features or {}).items()
        }
        for number, values in enumerate(rows, start=1):
            named = {
                column: change(value) if (change := convert.get(column)) else value
                for column, value in values.items()
            }
            yield record(named, f"{name}, row {number}")
    except UserError:
        raise
    except Exception as error:  # the library has no error of its own for a lost connection
        raise UserError(
            f"cannot read {name}: {reason(error)}; check the name, configuration and split"
        ) from error


def _class_names(feature: Any, datasets: Any) -> Callable[[Any], Any] | None:
    """Numbers of classes -> names, alone or in lists; None for other columns."""
    inner = getattr(feature, "feature", None)
    if isinstance(feature, list) and feature:
        inner = feature[0]
    if inner is not None:
        one = _class_names(inner, datasets)
        return None if one is None else lambda values: [one(value) for value in values]
    if not isinstance(feature, datasets.ClassLabel):
        return None
    names = feature.names
    return lambda value: "" if value is None or value < 0 else names[value]
