"""Files that are whole or absent: outputs are written beside their place and moved into it.

And packed files: gzip, bzip2, xz and Zstandard are unpacked while they are read, never on disk.
"""

from __future__ import annotations

import bz2
import errno
import gzip
import hashlib
import io
import json
import lzma
import os
import re
import shutil
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from bertkit.errors import UserError
from bertkit.extras import need

_BLOCK = 1 << 16


@contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yields a path beside `path` to write a file or a folder to; moves it into place at the end.

    On any error the half-written result is removed and what stood at `path` stays as it was. A
    folder of earlier results at `path` is replaced whole; one that holds other things is refused.
    A device or a pipe, such as /dev/null, is written directly; of a link, what it points to. Raises
    UserError for a full disk or a missing permission.
    """
    target = Path(os.path.abspath(path))
    if target.exists() and not (target.is_file() or target.is_dir()):
        with disk_errors(path):
            yield target
        return
    target = Path(os.path.realpath(path))
    partial = target.with_name(f".{target.name}.partial-{os.getpid()}")
    try:
        with disk_errors(path):
            target.parent.mkdir(parents=True, exist_ok=True)
            _clear_remains(target, target.parent)
            yield partial
            _sync(partial)
            if partial.is_dir() and target.exists():
                _replace_folder(partial, target)
            else:
                partial.replace(target)
            _sync_one(target.parent)
    finally:
        _remove(partial)


@contextmanager
def writing_into(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """Yields an empty folder to write files to; moves each of them into `folder` at the end.

    For outputs that share their folder with others, as the weights in the folder of a run. On
    any error while they are written nothing in `folder` has changed. Raises UserError for a full
    disk or a missing permission.
    """
    target = Path(os.path.abspath(folder))
    partial = target / f".{target.name}.partial-{os.getpid()}"
    try:
        with disk_errors(folder):
            target.mkdir(parents=True, exist_ok=True)
            _clear_remains(target, target)
            partial.mkdir()
            yield partial
            _sync(partial)
            for path in sorted(partial.iterdir()):
                path.replace(target / path.name)
            _sync_one(target)
    finally:
        _remove(partial)


@contextmanager
def disk_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turns the operating system's errors about writing `path` into one line for the user."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        message = explain(error, path)
        if message is None:
            raise
        raise UserError(message) from error


_FULL = re.compile(r"No space left on device|\d+ requested and \d+ written")


def explain(error: Exception, path: str | os.PathLike[str]) -> str | None:
    """What to tell the user about a full disk, a missing permission or a wrong place.

    None for any other error, such as one about an input. NumPy and libraries in Rust (tokenizers
    and safetensors) and C++ report a full disk in their own ways, so the text counts too.
    """
    code = error.errno if isinstance(error, OSError) and _concerns(error, path) else None
    if in_rust := re.search(r"\(os error (\d+)\)", str(error)):
        code = int(in_rust[1])
    path = _final(Path(path))
    if code in (errno.ENOSPC, errno.EDQUOT) or _FULL.search(str(error)):
        return f"the disk is full while writing {path}; free some space"
    if code == errno.EFBIG:
        return f"{path} grew over the largest size allowed for a file here; raise that limit"
    if code in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"no permission to write {path}; choose another place with --output"
    if code in (errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.ENAMETOOLONG):
        reason = os.strerror(code).lower()
        return f"cannot write {path}: {reason}; choose another place with --output"
    return None


def _final(path: Path) -> Path:
    """The place that a file in a half-written folder is meant for: a/.b.partial-7/c is a/b/c."""
    final = Path()
    for part in path.parts:
        name = re.fullmatch(r"\.(.+)\.partial-\d+", part)
        if name is None:
            final /= part
        elif final.name != name[1]:  # that of `writing_into` lies inside its folder
            final /= name[1]
    return final


def _concerns(error: OSError, path: str | os.PathLike[str]) -> bool:
    """Whether the file that an error names, if any, is `path`, inside it, beside it or above it."""
    if error.filename is None:
        return True
    target, named = Path(os.path.realpath(path)), Path(os.path.realpath(error.filename))
    partial = f".{target.name}.partial-"
    return (
        named == target
        or named in target.parents
        or target in named.parents
        or any(part.startswith(partial) for part in named.parts)
    )


def sha256(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def open_unpacked(path: str | os.PathLike[str]) -> BinaryIO:
    """Opens a file to read its bytes, unpacked where its first ones say that it is packed.

    Several packed streams end to end (multistream dumps) read as one.

    Raises:
        UserError: the package zstandard is needed and missing.
        OSError, EOFError, zlib.error, lzma.LZMAError: while reading; see `damage`.
    """
    with open(path, "rb") as file:
        magic = file.read(6)
    if magic[:2] == b"\x1f\x8b":
        return cast(BinaryIO, gzip.open(path))
    if magic[:3] == b"BZh":
        return cast(BinaryIO, bz2.open(path))
    if magic == b"\xfd7zXZ\x00":
        return cast(BinaryIO, lzma.open(path))
    skippable = magic[1:4] == b"\x2a\x4d\x18" and magic[0] >> 4 == 5  # a frame that pzstd writes
    if magic[:4] == b"\x28\xb5\x2f\xfd" or skippable:
        return cast(BinaryIO, io.BufferedReader(_ZstandardReader(path), _BLOCK))
    return open(path, "rb")


def damage(error: Exception) -> str | None:
    """What an error while reading a packed file says about it; None if it is about other things."""
    if isinstance(error, EOFError):
        return "ends too early (it is cut off)"
    if isinstance(error, (zlib.error, lzma.LZMAError)):
        return "is damaged"
    if isinstance(error, OSError) and error.errno is None:
        return "is damaged"
    return None


def zstandard() -> Any:
    """The package zstandard, imported when needed."""
    return need("zstandard", "extract", "Zstandard files need")


class _ZstandardReader(io.RawIOBase):
    """The bytes of one Zstandard frame or several.

    The package's own reader takes a frame that is cut off for a whole one; this one does not.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        package = zstandard()
        self.file, self.error = open(path, "rb"), package.ZstdError  # noqa: SIM115 - closed with this
        self.unpacker = package.ZstdDecompressor()
        self.frame = self.unpacker.decompressobj()
        self.packed = self.unpacked = b""
        self.inside = False  # whether a frame has begun and not ended

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self.unpacked:
            self.packed = self.packed or self.file.read(_BLOCK // 4)
            if not self.packed:
                if self.inside:
                    raise EOFError("a Zstandard frame has no end")
                return 0
            try:
                self.unpacked = self.frame.decompress(self.packed)
            except self.error as error:
                raise OSError(str(error)) from error
            self.inside, self.packed = not self.frame.eof, b""
            if self.frame.eof:
                self.packed = self.frame.unused_data
                self.frame = self.unpacker.decompressobj()
        count = min(len(buffer), len(self.unpacked))
        buffer[:count] = self.unpacked[:count]
        self.unpacked = self.unpacked[count:]
        return count

    def close(self) -> None:
        self.file.close()
        super().close()


def _replace_folder(partial: Path, target: Path) -> None:
    """Puts the folder `partial` in the place of `target`, if that holds nothing but its like."""
    if not target.is_dir():
        raise UserError(f"{target} is a file, not a folder; choose another place with --output")
    expected = {_numberless(child.name) for child in partial.iterdir()}
    for child in sorted(target.iterdir()):
        if _numberless(child.name) not in expected:
            raise UserError(
                f"{target} also holds '{child.name}', which would be lost; "
                "choose another place with --output, or remove it"
            )
    replaced = target.with_name(f".{target.name}.replaced-{os.getpid()}")
    target.rename(replaced)
    try:
        partial.rename(target)
    except BaseException:
        replaced.rename(target)
        raise
    _remove(replaced)


def _numberless(name: str) -> str:
    """A name without its digits: a corpus of three shards may replace one of five."""
    return re.sub(r"\d+", "", name)


def _clear_remains(target: Path, folder: Path) -> None:
    """Removes what a killed process left in `folder`, and puts back what it had moved away."""
    pattern = re.compile(rf"\.{re.escape(target.name)}\.(partial|replaced)-(\d+)")
    for child in list(folder.iterdir()):
        match = pattern.fullmatch(child.name)
        if match is None or _is_running(int(match[2])):
            continue
        if match[1] == "replaced" and not target.exists():
            child.rename(target)
        else:
            _remove(child)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True


def _sync(path: Path) -> None:
    """Flushes a file, or a folder and all that is in it, to the disk."""
    if path.is_dir():
        for child in path.iterdir():
            _sync(child)
    _sync_one(path)


def _sync_one(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    elif path.exists() or path.is_symlink():
        path.unlink(missing_ok=True)


LARGEST_JSON = 1 << 26
"""Bytes of the longest JSON file that is read whole; a vocabulary of 250,000 entries has 16 MB."""


def read_json(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The JSON object in a file.

    Raises UserError where there is no such file, it is too large, no JSON, no object, or has a
    name twice.
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            [(twice, _)] = Counter(name for name, _ in pairs).most_common(1)
            raise ValueError(f"{twice[:100]!r} stands twice in it")
        return found

    try:
        if not os.path.isfile(path) and os.path.exists(path):
            raise ValueError("it is not a file")
        if os.path.getsize(path) > LARGEST_JSON:
            raise ValueError(f"it has more than {LARGEST_JSON:,} bytes")
        data = Path(path).read_bytes()
        value = json.loads(data.decode("utf-8-sig"), object_pairs_hook=once)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}; check the file") from error
    except RecursionError as error:
        raise UserError(f"{path} is nested too deeply; copy or export it again") from error
    except ValueError as error:
        raise UserError(f"{path} is not JSON: {error}; copy or export it again") from error
    if not isinstance(value, dict):
        raise UserError(f"{path} is not a JSON object; copy or export it again")
    return value


def write_json(path: Path, value: Any) -> None:
    """Writes a value to a file inside a place that is moved whole, such as `writing` yields."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
