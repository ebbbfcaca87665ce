"""Arguments of the calls in Python, refused in one line where they can mean nothing.

The command line refuses its options itself; a call in Python comes here.
"""

from __future__ import annotations

from typing import Any, get_args

from bertkit.errors import UserError


def check_choice(name: str, value: object, kind: Any) -> None:
    """Raises UserError where a value is none of those of a `Literal`."""
    if value not in get_args(kind):
        raise UserError(f"{name} is {value!r}; give one of {', '.join(map(repr, get_args(kind)))}")


def check_count(name: str, value: object) -> None:
    """Raises UserError where a value is no number of things, 1 or more."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UserError(f"{name} is {value!r}; give 1 or more")
