"""The configuration beside the weights: Hugging Face's config.json and Google's bert_config.json.

Both name the sizes alike; this maps their keys to ModelConfig and back, and their labels and
architecture to a head.
"""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

from torch import nn

from bertkit.errors import UserError
from bertkit.files import read_json
from bertkit.formats.heads import HEADS
from bertkit.model.config import ModelConfig

CONFIG_KEYS = {
    "vocab_size": "vocab_size",
    "hidden_size": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "intermediate_size": "intermediate_size",
    "max_positions": "max_position_embeddings",
    "segment_types": "type_vocab_size",
    "hidden_dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "layer_norm_eps": "layer_norm_eps",
    "initializer_range": "initializer_range",
    "pad_id": "pad_token_id",
    "position_init": "position_init",
    "causal": "is_decoder",
    "tied": "tie_word_embeddings",
}
"""Fields of ModelConfig and their keys in the file; the activation has a table of its own."""

HEAD_OPTIONS = "bertkit_head"
"""The key of what else than labels a head is made with."""

ACTIVATION_NAMES = {"gelu": "gelu", "gelu_tanh": "gelu_new", "relu": "relu"}
_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "relu": "relu",
}


def config_values(model: nn.Module) -> dict[str, Any]:
    """What a configuration file says of a model's sizes, head and labels, by the file's keys."""
    config: ModelConfig = model.config  # type: ignore[assignment]
    labels: list[str] = model.labels  # type: ignore[assignment]
    values: dict[str, Any] = {
        "architectures": [HEADS[str(model.head)].architecture],
        "hidden_act": ACTIVATION_NAMES[config.activation],
    }
    values |= {key: getattr(config, field) for field, key in CONFIG_KEYS.items()}
    if not config.causal:
        del values[CONFIG_KEYS["causal"]]
    head = HEADS[str(model.head)]
    if head.problem:
        values["problem_type"] = head.problem
    for name in head.numbers:
        if getattr(model, name) is not None:
            values[name] = getattr(model, name)
    if head.options:
        options: dict[str, Any] = model.head_options  # type: ignore[assignment]
        values[HEAD_OPTIONS] = {"only_in_bertkit": True, "loads_elsewhere": "the encoder"} | options
    if labels:
        values["id2label"] = {str(number): label for number, label in enumerate(labels)}
        values["label2id"] = {label: number for number, label in enumerate(labels)}
    return values


def write_config(values: dict[str, Any], path: Path) -> None:
    """Writes a configuration file."""
    text = json.dumps(values, indent=2, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def read_config(path: Path) -> dict[str, Any]:
    """A configuration file's keys and values.

    Raises UserError where there is none, it is broken, or describes no BERT.
    """
    if not path.exists():
        raise UserError(
            f"no {path.name} in {path.parent}; give a directory that holds a BERT checkpoint"
        )
    values = read_json(path)
    kind = values.get("model_type") or "bert"
    if kind != "bert":
        raise UserError(f"{path} describes a model of type {kind!r}; only 'bert' can be loaded")
    relative = values.get("position_embedding_type", "absolute") != "absolute"
    if relative or values.get("add_cross_attention"):
        raise UserError(
            f"{path} describes relative positions or a decoder with cross-attention; "
            "only a BERT with absolute positions and self-attention can be loaded"
        )
    return values


def stored_config(values: dict[str, Any], path: Path) -> ModelConfig:
    """The ModelConfig of a file's values; keys it lacks take the defaults where there are any."""
    known: dict[str, Any] = {}
    for field in fields(ModelConfig):
        if field.name == "activation":
            activation = str(values.get("hidden_act", "gelu"))
            if activation not in _ACTIVATIONS:
                raise UserError(
                    f"{path} names the activation {activation!r}; "
                    f"known are {', '.join(_ACTIVATIONS)}"
                )
            known["activation"] = _ACTIVATIONS[activation]
            continue
        key = CONFIG_KEYS[field.name]
        value = values.get(key)
        if value is None:
            if field.name in ("vocab_size", "hidden_size", "layers", "heads", "intermediate_size"):
                raise UserError(f"{path} lacks '{key}'; copy or export it again")
            continue
        kinds = {"int": (int,), "float": (int, float), "bool": (bool,)}.get(str(field.type), (str,))
        if not isinstance(value, kinds) or (isinstance(value, bool) and kinds != (bool,)):
            raise UserError(f"'{key}' in {path} is {value!r}, not a {field.type}; mend it")
        known[field.name] = value
    return ModelConfig(**known)


def stored_number(values: dict[str, Any], name: str, path: Path) -> float | None:
    """A number that a head keeps in the file, or None."""
    value = values.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise UserError(f"'{name}' in {path} is {value!r}, not a number; mend it")
    return float(value)


def stored_options(values: dict[str, Any], head: str, path: Path) -> dict[str, Any]:
    """What else than labels a file's head is made with, as far as the file says."""
    given = values.get(HEAD_OPTIONS)
    if not given or not HEADS[head].options:
        return {}
    if not isinstance(given, dict):
        raise UserError(f"'{HEAD_OPTIONS}' in {path} is no JSON object; copy or export it again")
    options = {name: given[name] for name in HEADS[head].options if name in given}
    for name, value in options.items():
        if type(value) is not HEADS[head].options[name]:
            raise UserError(f"'{name}' of '{HEAD_OPTIONS}' in {path} is {value!r}; mend it")
    return options


def stored_labels(values: dict[str, Any], path: Path) -> list[str]:
    """The labels in order, or none."""
    names = values.get("id2label")
    if not names:
        return []
    try:
        return [str(names[str(number)]) for number in range(len(names))]
    except (KeyError, TypeError):
        raise UserError(
            f"'id2label' in {path} does not number its labels from 0; mend it"
        ) from None
