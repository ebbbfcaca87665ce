"""A data set of the Hugging Face hub in, a `Raw` document for each row out.

It is named `hub:NAME[:CONFIG][:SPLIT]`; NAME may also be a local folder. `datasets` streams the
rows, so nothing is kept on disk; no code of the data set is run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bertkit.errors import UserError, reason
from bertkit.extraction.records import Dropped, Raw
from bertkit.extraction.tables import Fields, to_raw
from bertkit.extras import need

PREFIX = "hub:"


def parse_name(name: str) -> tuple[str, str | None, str]:
    """Name, configuration and split of "hub:NAME[:CONFIG][:SPLIT]"; the split is train if not said.

    With one part more it is the configuration if two follow ("hub:n:c:test", "hub:n::test"), and
    also if it is alone: "hub:n:c".
    """
    parts = name.removeprefix(PREFIX).split(":")
    if len(parts) > 3 or not parts[0]:
        raise UserError(f"{name} is not hub:NAME[:CONFIG][:SPLIT]")
    parts += [""] * (3 - len(parts))
    return parts[0], parts[1] or None, parts[2] or "train"


def read_hub(name: str, fields: Fields) -> Iterator[Raw | Dropped]:
    """The rows of the data set; UserError if it cannot be had or has no column of the text."""
    datasets = need("datasets", "hub", f"{name} needs")
    path, configuration, split = parse_name(name)
    rows = _load(datasets, name, path, configuration, split)
    try:
        for number, record in enumerate(rows, start=1):
            if number == 1:
                fields.check(record, name)
            yield to_raw(record, fields, name, number)
    except UserError:
        raise
    except Exception as error:  # the library has no error of its own for a lost connection
        raise UserError(f"cannot read {name} on: {reason(error)}") from error


def _load(datasets: Any, name: str, path: str, configuration: str | None, split: str) -> Any:
    try:
        return datasets.load_dataset(path, configuration, split=split, streaming=True)
    except Exception as error:  # it raises whatever its parts raise
        raise UserError(
            f"cannot load {name}: {reason(error)}; check the name, configuration and split"
        ) from error
