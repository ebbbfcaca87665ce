"""Configurations: the dataclass of a stage is its command line, YAML file and Python signature.

A stage declares its dataclass with `option(...)` for each field, in a module that imports no
torch. This module reads, writes and describes such dataclasses and knows none of them.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from bertkit.files import writing


def option(
    default: Any = dataclasses.MISSING,
    *,
    help: str,
    short: str | None = None,
    positional: bool = False,
) -> Any:
    """A field of a configuration.

    Args:
        default: its value when the user gives none; without one the option is required. A list
            or dictionary is copied for each instance.
        help: one sentence for `--help`; the default is added to it.
        short: a one-letter name, as `o` for `-o`.
        positional: given by place, not by name. A list takes one or more.
    """
    metadata = {"help": help, "short": short, "positional": positional}
    if isinstance(default, (list, dict)):
        return dataclasses.field(default_factory=default.copy, metadata=metadata)
    if default is dataclasses.MISSING:
        return dataclasses.field(metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def to_dict(config: Any) -> dict[str, Any]:
    """The fields of a configuration as plain values for YAML and JSON."""
    return dataclasses.asdict(config)


def save(config: Any, path: str | Path) -> None:
    """Writes a configuration as YAML, readable by `--config`."""
    import yaml

    with writing(path) as partial:
        partial.write_text(
            yaml.safe_dump(to_dict(config), sort_keys=False, allow_unicode=True), encoding="utf-8"
        )
