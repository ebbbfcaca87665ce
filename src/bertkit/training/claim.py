"""A run's folder belongs to one configuration: it starts there or continues there."""

from __future__ import annotations

from collections.abc import Set
from pathlib import Path
from typing import Any

from bertkit import config as configurations
from bertkit.errors import UserError


def claim(run: Path, config: Any, name: str, may_change: Set[str]) -> None:
    """Writes the configuration into a new run as `name`; refuses a folder of something else.

    Args:
        run: the folder, which need not exist.
        config: the stage's configuration.
        name: its file in the run, such as "finetune.yaml".
        may_change: options that may differ when the run continues.

    Raises:
        UserError: the folder is not empty and holds no such run, or one with other options.
    """
    saved = run / name
    if not saved.exists():
        if run.is_dir() and any(run.iterdir()):
            raise UserError(f"{run} is not empty and holds no {name}; give another --output")
        configurations.save(config, saved)
        return
    before = configurations.to_dict(configurations.load(type(config), saved))
    changes = [
        f"{option} was {before[option]}, is {value}"
        for option, value in configurations.to_dict(config).items()
        if before[option] != value and option not in may_change
    ]
    if changes:
        raise UserError(
            f"{run} holds a run with other options ({'; '.join(changes)}); "
            "give the same options to continue it, or another --output"
        )
