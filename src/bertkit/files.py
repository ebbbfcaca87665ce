"""Files that are whole or absent: outputs are written beside their place and moved into it."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bertkit.errors import UserError


@contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yields a path beside `path` to write a file or a folder to; moves it into place at the end.

    On any error the half-written result is removed and what stood at `path` stays as it was. A
    folder at `path` is replaced whole. Raises UserError for a full disk or a missing permission.
    """
    target = Path(path)
    partial = target.with_name(f".{target.name}.partial-{os.getpid()}")
    try:
        with disk_errors(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            yield partial
            _sync(partial)
            if partial.is_dir() and target.exists():
                replaced = target.with_name(f".{target.name}.replaced-{os.getpid()}")
                target.rename(replaced)
                partial.rename(target)
                _remove(replaced)
            else:
                partial.replace(target)
            _sync(target.parent)
    finally:
        _remove(partial)


@contextmanager
def disk_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turns the operating system's errors about writing `path` into one line for the user."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise UserError(f"the disk is full while writing {path}; free some space") from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise UserError(
                f"no permission to write {path}; choose another place with --output"
            ) from error
        if error.errno in (errno.ENOTDIR, errno.EEXIST, errno.EISDIR):
            raise UserError(
                f"cannot write {path}: {error.strerror.lower()}; choose another place with --output"
            ) from error
        raise


def sha256(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    """Flushes a file, or a folder and the files in it, to the disk."""
    if path.is_dir():
        for child in path.iterdir():
            _sync(child)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
