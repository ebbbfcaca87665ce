"""Packages that bertkit's extras install, imported only when they are needed."""

from __future__ import annotations

import importlib
from typing import Any

from bertkit.errors import UserError


def need(module: str, extra: str, what_needs: str, instead: str = "") -> Any:
    """A module of an optional package.

    Args:
        extra: of bertkit, that installs the package.
        what_needs: the beginning of the message, as "Parquet needs".
        instead: what else could be done, as "or write .npz".

    Raises:
        UserError: the package, or one that it imports, is missing.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        hint = f", {instead}" if instead else ""
        raise UserError(
            f'{what_needs} the package {error.name or module}; pip install "bertkit[{extra}]"{hint}'
        ) from None
