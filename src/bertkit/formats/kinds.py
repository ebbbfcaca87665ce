"""What kind of checkpoint lies at a path, and in which files: by names, before anything is opened.

Without torch or NumPy, so that `bertkit inspect` needs neither for what is no checkpoint.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from bertkit.errors import UserError
from bertkit.files import read_json

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
PICKLED = "pytorch_model.bin"
WEIGHT_FILES = (WEIGHTS, f"{WEIGHTS}.index.json", PICKLED, f"{PICKLED}.index.json")
"""The files that a directory's weights may be in, the first that is there."""
INDEX_SUFFIX = ".index"
ONNX = "model.onnx"
_LARGEST_LIST = 16 << 20  # bytes of a file `checkpoint`

Kind = Literal["huggingface", "tensorflow", "onnx"]
KINDS: dict[Kind, str] = {
    "huggingface": "a Hugging Face directory",
    "tensorflow": "a TensorFlow checkpoint with Google's names",
    "onnx": "an ONNX model",
}


def is_checkpoint(path: Path) -> bool:
    """Whether a path is a checkpoint of any kind, whole or not."""
    if path.is_file():
        return path.suffix in (".onnx", INDEX_SUFFIX)
    if any(path.glob(f"*{INDEX_SUFFIX}")):
        return True
    inside = (CONFIG, "bert_config.json", "checkpoint", ONNX, "variables")
    return any((path / name).exists() for name in inside)


def kind_of(path: Path) -> Kind:
    """What lies at a path; raises UserError for what is none of the three."""
    if path.suffix == ".onnx" and path.is_file():
        return "onnx"
    if path.is_dir():
        if (path / CONFIG).is_file() and any((path / name).is_file() for name in WEIGHT_FILES):
            return "huggingface"
        if (path / "variables" / f"variables{INDEX_SUFFIX}").is_file():
            return "tensorflow"
        if any(path.glob(f"*{INDEX_SUFFIX}")):
            return "tensorflow"
        if (path / ONNX).is_file():
            return "onnx"
        if (path / CONFIG).is_file():
            raise UserError(
                f"{path} has a {CONFIG} and no weights; expected {', '.join(WEIGHT_FILES)}"
            )
        raise UserError(
            f"{path} holds no checkpoint; give a Hugging Face directory ({CONFIG} and weights) or "
            f"the directory of a TensorFlow checkpoint (an {INDEX_SUFFIX} file)"
        )
    if not path.exists() and not path.parent.is_dir():
        raise UserError(f"there is no {path}; give the directory of a checkpoint")
    find_index(path)
    return "tensorflow"


def weight_file(directory: Path) -> Path:
    """The file that a directory's weights are in, or the index of its shards.

    Raises UserError for a directory without weights.
    """
    for name in WEIGHT_FILES:
        if (directory / name).is_file():
            return directory / name
    raise UserError(f"no weights in {directory}; expected {WEIGHTS}, its index, or {PICKLED}")


def weight_parts(file: Path) -> list[Path]:
    """The files that hold the tensors: the file itself, or the shards that an index names.

    Raises UserError for an index that is broken, or names a file that is not there or elsewhere.
    """
    if not file.name.endswith(".index.json"):
        return [file]
    names = read_json(file).get("weight_map")
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise UserError(f"{file} is not an index of weights: no weight_map; copy it again")
    shards = sorted(set(names.values()))
    for name in shards:
        if Path(name).name != name or not name.isprintable():
            raise UserError(f"{file} names {name!r}, a file outside its directory; copy it again")
        if not (file.parent / name).is_file():
            raise UserError(f"{file} names {name}, which is not there; copy the missing file")
    return [file.parent / name for name in shards]


def find_index(path: str | Path) -> Path:
    """The index that a path means.

    Args:
        path: an `.index` or data file, their common beginning (as `bert_model.ckpt`), or a
            directory: that of a saved model, or one whose file `checkpoint` names the newest, or
            one with a single index in it or in its `variables/`.

    Raises:
        UserError: none is there, or several and nothing says which.
    """
    path = Path(path)
    if path.is_dir():
        return _index_in(path)
    name = path.name.partition(".data-")[0].removesuffix(INDEX_SUFFIX)
    index = path.with_name(name + INDEX_SUFFIX)
    if not index.is_file():
        raise UserError(
            f"no checkpoint at {path}; give a directory with an .index file, or its path "
            "without that ending, as bert_model.ckpt"
        )
    return index


def _index_in(directory: Path) -> Path:
    named = _named_checkpoint(directory / "checkpoint")
    if named and (directory / f"{named}{INDEX_SUFFIX}").is_file():
        return directory / f"{named}{INDEX_SUFFIX}"
    found = sorted(path for path in directory.glob(f"*{INDEX_SUFFIX}") if path.is_file())
    if len(found) > 1:
        raise UserError(
            f"{directory} has several checkpoints, as {found[0].name} and {found[-1].name}; "
            "give the path of one of them"
        )
    variables = directory / "variables" / f"variables{INDEX_SUFFIX}"
    if not found and variables.is_file():
        return variables
    if not found:
        raise UserError(f"no .index file in {directory}; give a directory with a checkpoint")
    return found[0]


def _named_checkpoint(path: Path) -> str | None:
    """The name of the newest checkpoint in a file `checkpoint`, None without a usable one.

    Such files name whole paths of the machine that trained; only the last part is followed, so
    that no name leads out of the directory.
    """
    try:
        if os.path.getsize(path) > _LARGEST_LIST:
            return None
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model_checkpoint_path":
            name = value.strip().strip("\"'").replace("\\", "/").rpartition("/")[2]
            return name if name.isprintable() and "\0" not in name else None
    return None
