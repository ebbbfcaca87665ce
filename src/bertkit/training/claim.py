"""A run's folder belongs to one configuration: it starts there or continues there."""

from __future__ import annotations

import os
from collections.abc import Iterator, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bertkit import config as configurations
from bertkit.errors import UserError


def claim(
    run: Path,
    config: Any,
    name: str,
    may_change: Set[str],
    allow_changes: bool = False,
    must_stay: Set[str] = frozenset(),
) -> list[str]:
    """Writes the configuration into a new run as `name`; refuses a folder of something else.

    Args:
        run: the folder, which need not exist.
        config: the stage's configuration.
        name: its file in the run, such as "finetune.yaml".
        may_change: options that may differ when the run continues.
        allow_changes: take the others too. The caller writes the new configuration down, once
            nothing else is wrong with it.
        must_stay: options that no run survives a change of, allowed or not.

    Returns:
        The changes that were allowed, in words: "steps was 100, is 200".

    Raises:
        UserError: the folder is not empty and holds no such run, or one with other options.
    """
    saved = run / name
    if not saved.exists():
        if run.is_dir() and any(run.iterdir()):
            raise UserError(f"{run} is not empty and holds no {name}; give another --output")
        configurations.save(config, saved)
        return []
    before = configurations.to_dict(configurations.load(type(config), saved))
    changes = {
        option: f"{option} was {before[option]}, is {value}"
        for option, value in configurations.to_dict(config).items()
        if not _same(before[option], value) and option not in may_change
    }
    fatal = [text for option, text in changes.items() if option in must_stay]
    if changes and (fatal or not allow_changes):
        hint = ", or --allow-changes" if must_stay and not fatal else ""
        told = fatal if allow_changes else list(changes.values())
        raise UserError(
            f"{run} holds a run with other options ({'; '.join(told)}); "
            f"give the same options to continue it, or another --output{hint}"
        )
    return list(changes.values())


def _same(before: Any, now: Any) -> bool:
    """Whether two values of an option are equal, or paths of one file or folder."""
    if before == now:
        return True
    if not (isinstance(before, str) and isinstance(now, str)):
        return False
    try:
        return os.path.samefile(before, now)
    except OSError:  # one of them is no path, or nothing is there
        return False


@contextmanager
def taking_back(run: Path, names: Set[str]) -> Iterator[None]:
    """Empties a new run's folder again where what stands inside is refused.

    So other options can be tried in the same place, as the error's message says.

    Args:
        names: files that may have been written by then; with any other the folder stays.
    """
    was_there = run.exists()
    was_empty = not was_there or (run.is_dir() and not any(run.iterdir()))
    try:
        yield
    except UserError:
        files = list(run.iterdir()) if was_empty and run.is_dir() else []
        if files and {file.name for file in files} <= names:
            for file in files:
                file.unlink()
            if not was_there:
                run.rmdir()
        raise
