"""What a sentence-transformers directory says beside its encoder: pooling, dense layers, length.

modules.json                         the steps in order: Transformer, Pooling, Dense, Normalize
1_Pooling/config.json                how token vectors become one
2_Dense/config.json, model.safetensors
sentence_bert_config.json            the longest sequence
config_sentence_transformers.json    written for other software, not read
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

import bertkit
from bertkit.errors import UserError
from bertkit.files import read_json, write_json
from bertkit.formats.weights import open_weights

MODULES = "modules.json"
LENGTH = "sentence_bert_config.json"
INFO = "config_sentence_transformers.json"

SentencePooling = Literal["cls", "mean", "max", "mean-sqrt", "weighted-mean", "last"]
"""cls: the first token's vector; mean-sqrt: the sum over the root of the length; weighted-mean:
token n counts n times; last: the last token's."""

_KEYS: dict[str, SentencePooling] = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean-sqrt",
    "pooling_mode_weightedmean_tokens": "weighted-mean",
    "pooling_mode_lasttoken": "last",
}
"""In the order in which vectors are joined where several are set."""
_NAMES: dict[str, SentencePooling] = {
    "cls": "cls",
    "mean": "mean",
    "max": "max",
    "mean_sqrt_len_tokens": "mean-sqrt",
    "weightedmean": "weighted-mean",
    "lasttoken": "last",
}
_ACTIVATIONS = {
    "torch.nn.modules.activation.Tanh": torch.tanh,
    "torch.nn.modules.linear.Identity": lambda values: values,
    "torch.nn.modules.activation.ReLU": torch.relu,
    "torch.nn.modules.activation.GELU": F.gelu,
    "torch.nn.modules.activation.Sigmoid": torch.sigmoid,
}


@dataclass
class Dense:
    """A layer on the pooled vector."""

    weight: Tensor
    bias: Tensor | None
    activation: str


@dataclass
class SentenceModules:
    """The steps after the encoder.

    Attributes:
        transformer: the encoder's directory.
        pooling: what is joined to the sentence's vector.
        layers: dense layers after it.
        normalize: whether the vector is given the length 1.
        max_length: tokens of the longest sequence, or None.
    """

    transformer: Path
    pooling: list[SentencePooling]
    layers: list[Dense] = field(default_factory=list)
    normalize: bool = False
    max_length: int | None = None

    def size(self, hidden: int) -> int:
        """Numbers in a vector, for an encoder's hidden size."""
        return len(self.layers[-1].weight) if self.layers else hidden * len(self.pooling)

    def vector(self, values: Tensor, normalize: bool | None = None) -> Tensor:
        """The hidden states of one sequence, [tokens, hidden] -> [1, size].

        `normalize`, unless None, stands in for what the directory says.
        """
        pooled = torch.cat([pool(values, mode) for mode in self.pooling], dim=1)
        for layer in self.layers:
            activation = _ACTIVATIONS[layer.activation]
            pooled = activation(F.linear(pooled, layer.weight, layer.bias))  # type: ignore[operator]
        wanted = self.normalize if normalize is None else normalize
        return F.normalize(pooled, dim=1) if wanted else pooled


def pool(values: Tensor, mode: SentencePooling) -> Tensor:
    """[tokens, hidden] -> [1, hidden]."""
    if mode == "cls":
        return values[:1].clone()
    if mode == "last":
        return values[-1:].clone()
    if mode == "max":
        return values.amax(dim=0, keepdim=True)
    if mode == "weighted-mean":
        weights = torch.arange(1, len(values) + 1, dtype=values.dtype)[:, None]
        return (values * weights).sum(dim=0, keepdim=True) / weights.sum()
    total = values.sum(dim=0, keepdim=True)
    return total / (len(values) if mode == "mean" else len(values) ** 0.5)


def read_sentence_modules(directory: Path) -> SentenceModules | None:
    """The steps of a sentence-transformers directory, or None for a directory that is none.

    Raises UserError for a step that bertkit does not know.
    """
    path = directory / MODULES
    if not path.is_file():
        return None
    try:
        listed = json.loads(path.read_text(encoding="utf-8"))
        steps = [
            (str(one["type"]).rpartition(".")[2], _inside(directory, str(one["path"])))
            for one in listed
        ]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(f"{path} is not a list of modules: {error!r}; copy it again") from error
    found: SentenceModules | None = None
    for number, (kind, folder) in enumerate(steps):
        if number == 0 and kind == "Transformer":
            found = SentenceModules(folder, [], max_length=_max_length(folder))
        elif found and kind == "Pooling" and not found.pooling:
            found.pooling = _read_pooling(folder / "config.json")
        elif found and found.pooling and kind == "Dense":
            found.layers.append(_read_dense(folder))
        elif found and found.pooling and kind == "Normalize" and number == len(steps) - 1:
            found.normalize = True
        else:
            raise UserError(
                f"{path} has {kind} as step {number}; known is a Transformer, a Pooling, Dense "
                "layers, and Normalize at the end"
            )
    if found is None or not found.pooling:
        raise UserError(f"{path} has no Transformer with a Pooling after it; copy it again")
    return found


def _inside(directory: Path, name: str) -> Path:
    parts = Path(name).parts
    if Path(name).is_absolute() or ".." in parts or not (name.isprintable() or not name):
        raise ValueError(f"the path {name!r} leads out of its directory")
    return directory / name


def _max_length(folder: Path) -> int | None:
    path = folder / LENGTH
    values = read_json(path) if path.is_file() else {}
    if values.get("do_lower_case"):
        raise UserError(
            f"{path} lower-cases texts before the tokenizer does; let the tokenizer lower-case"
        )
    length = values.get("max_seq_length")
    if length is None and (folder / "tokenizer_config.json").is_file():
        length = read_json(folder / "tokenizer_config.json").get("model_max_length")
    return length if isinstance(length, int) and length > 0 else None


def _read_pooling(path: Path) -> list[SentencePooling]:
    values = read_json(path)
    modes = [mode for key, mode in _KEYS.items() if values.get(key) is True]
    named = values.get("pooling_mode")
    for name in [named] if isinstance(named, str) else named or []:
        if name not in _NAMES:
            raise UserError(f"{path} pools by {name!r}; known are {', '.join(_NAMES)}")
        modes.append(_NAMES[name])
    if not modes:
        raise UserError(f"{path} names no pooling that is known; one of {', '.join(_NAMES)}")
    return modes


def _read_dense(folder: Path) -> Dense:
    values = read_json(folder / "config.json")
    activation = str(values.get("activation_function", "torch.nn.modules.activation.Tanh"))
    if activation not in _ACTIVATIONS:
        raise UserError(f"{folder / 'config.json'} names the activation {activation!r}, unknown")
    file, tensors = open_weights(folder)
    if "linear.weight" not in tensors:
        raise UserError(f"{file} lacks linear.weight; copy it again")
    bias = tensors.get("linear.bias")
    return Dense(tensors["linear.weight"].read().float(), bias and bias.read().float(), activation)


def write_sentence_modules(
    directory: Path, pooling: SentencePooling, normalize: bool, size: int, max_length: int
) -> None:
    """Makes a Hugging Face directory one that sentence-transformers loads.

    Args:
        directory: with the encoder's and the tokenizer's files.
        pooling: how token vectors become one.
        normalize: whether the vector is given the length 1.
        size: numbers in a vector.
        max_length: tokens of the longest sequence.
    """
    names = ["Transformer", "Pooling", *(["Normalize"] if normalize else [])]
    steps = [
        {
            "idx": number,
            "name": str(number),
            "path": f"{number}_{name}" if number else "",
            "type": f"sentence_transformers.models.{name}",
        }
        for number, name in enumerate(names)
    ]
    for step in steps[1:]:
        (directory / str(step["path"])).mkdir()
    modes: dict[str, Any] = {key: mode == pooling for key, mode in _KEYS.items()}
    write_json(directory / MODULES, steps)
    write_json(directory / "1_Pooling" / "config.json", {"word_embedding_dimension": size} | modes)
    write_json(directory / LENGTH, {"max_seq_length": max_length, "do_lower_case": False})
    if normalize:
        (directory / "2_Normalize" / ".gitkeep").touch()
    write_json(directory / INFO, {"__version__": {"bertkit": bertkit.__version__}})
