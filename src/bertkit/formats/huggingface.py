"""Checkpoints in the layout of Hugging Face: `config.json` and `model.safetensors`, in and out.

    own name                            name in the file
    encoder.embeddings.token            bert.embeddings.word_embeddings.weight
    encoder.blocks.3.qkv.weight         bert.encoder.layer.3.attention.self.{query,key,value}.weight
    masked_lm.dense.weight              cls.predictions.transform.dense.weight

Names are data, in tables below. The packed projection of attention is three tensors in the file,
one under the other. The output layer of the masked LM is the token embeddings and is not written
twice. A left-to-right model is a BertLMHeadModel with `is_decoder`, which keeps its causal mask
here and in transformers, whatever head is put on it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from bertkit.errors import UserError
from bertkit.formats.weights import WEIGHTS, read_weights
from bertkit.model.bert import LABELLED, MODELS
from bertkit.model.config import ModelConfig
from bertkit.model.layers import truncated_normal_, uninitialised

CONFIG = "config.json"

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
}
"""Fields of ModelConfig and their keys in config.json; the activation has a table of its own."""

ACTIVATION_NAMES = {"gelu": "gelu", "gelu_tanh": "gelu_new", "relu": "relu"}
_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "relu": "relu",
}

ARCHITECTURES = {
    "encoder": "BertModel",
    "pretraining": "BertForPreTraining",
    "masked-lm": "BertForMaskedLM",
    "left-to-right": "BertLMHeadModel",
    "classification": "BertForSequenceClassification",
    "regression": "BertForSequenceClassification",
    "multi-label": "BertForSequenceClassification",
    "multiple-choice": "BertForMultipleChoice",
    "tagging": "BertForTokenClassification",
}
"""The class that a head is in transformers."""

PROBLEM_TYPES = {
    "classification": "single_label_classification",
    "regression": "regression",
    "multi-label": "multi_label_classification",
}
"""What tells the heads of a BertForSequenceClassification apart in config.json."""

_HEADS = {name: head for head, name in ARCHITECTURES.items()} | {
    "BertForSequenceClassification": "classification"
}
_NEXT_SENTENCE = "cls.seq_relationship.weight"

EMBEDDING_NAMES = {
    "embeddings.token": "embeddings.word_embeddings.weight",
    "embeddings.position": "embeddings.position_embeddings.weight",
    "embeddings.segment": "embeddings.token_type_embeddings.weight",
    "embeddings.norm.weight": "embeddings.LayerNorm.weight",
    "embeddings.norm.bias": "embeddings.LayerNorm.bias",
}
POOLER_NAMES = {
    "pooler.weight": "pooler.dense.weight",
    "pooler.bias": "pooler.dense.bias",
}
BLOCK_NAMES = {
    "attention_output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "expand": "intermediate.dense",
    "contract": "output.dense",
    "feed_forward_norm": "output.LayerNorm",
}
"""In `encoder.blocks.N` here and `encoder.layer.N` there; each has a weight and a bias."""
PACKED_NAMES = ("attention.self.query", "attention.self.key", "attention.self.value")
"""What `qkv` is there, from top to bottom."""
HEAD_NAMES = {
    "masked_lm.dense.weight": "cls.predictions.transform.dense.weight",
    "masked_lm.dense.bias": "cls.predictions.transform.dense.bias",
    "masked_lm.norm.weight": "cls.predictions.transform.LayerNorm.weight",
    "masked_lm.norm.bias": "cls.predictions.transform.LayerNorm.bias",
    "masked_lm.bias": "cls.predictions.bias",
    "next_sentence.dense.weight": "cls.seq_relationship.weight",
    "next_sentence.dense.bias": "cls.seq_relationship.bias",
    "classifier.dense.weight": "classifier.weight",
    "classifier.dense.bias": "classifier.bias",
}
_TIED = "masked_lm.embeddings"
"""The output layer, which is the token embeddings."""
_DECODER = "cls.predictions.decoder.weight"


@dataclass
class LoadedCheckpoint:
    """A model from a file, and where the file and the model differ.

    Attributes:
        model: with the file's weights.
        missing: weights (by their names in the file) that the file lacks; they start fresh.
        unexpected: tensors of the file that the model has no place for, as another task's head.
    """

    model: nn.Module
    missing: list[str]
    unexpected: list[str]


def file_names(own: str) -> tuple[str, ...]:
    """The names in the file of one of the model's parameters: three for a packed one."""
    if own in HEAD_NAMES:
        return (HEAD_NAMES[own],)
    name = own.removeprefix("encoder.")
    flat = EMBEDDING_NAMES | POOLER_NAMES
    if name in flat:
        return (f"bert.{flat[name]}",)
    _, number, layer, kind = name.split(".")  # blocks.N.LAYER.weight
    layers = PACKED_NAMES if layer == "qkv" else (BLOCK_NAMES[layer],)
    return tuple(f"bert.encoder.layer.{number}.{one}.{kind}" for one in layers)


def save_checkpoint(model: nn.Module, directory: str | Path) -> None:
    """Writes config.json and model.safetensors into an existing directory.

    `transformers` reads the result with AutoModel and with the class of the model's head. The
    tokenizer's files are written beside it by `Tokenizer.save`.
    """
    directory = Path(directory)
    tensors: dict[str, Tensor] = {}
    for own, value in model.state_dict().items():
        if own == _TIED:
            continue
        names = file_names(own)
        value = value.detach().to("cpu", torch.float32)
        for name, part in zip(names, value.chunk(len(names)), strict=True):
            tensors[name] = part.contiguous()
    if model.head == "encoder":  # transformers' bare model has no prefix
        tensors = {name.removeprefix("bert."): value for name, value in tensors.items()}
    save_file(tensors, directory / WEIGHTS, metadata={"format": "pt"})
    text = json.dumps(_config_of(model), indent=2, ensure_ascii=False)
    (directory / CONFIG).write_text(text + "\n", encoding="utf-8")


def _config_of(model: nn.Module) -> dict[str, Any]:
    config: ModelConfig = model.config  # type: ignore[assignment]
    labels: list[str] = model.labels  # type: ignore[assignment]
    values: dict[str, Any] = {
        "architectures": [ARCHITECTURES[str(model.head)]],
        "model_type": "bert",
        "dtype": "float32",
        "hidden_act": ACTIVATION_NAMES[config.activation],
        "position_embedding_type": "absolute",
        "tie_word_embeddings": True,
    }
    values |= {key: getattr(config, field) for field, key in CONFIG_KEYS.items()}
    if not config.causal:
        del values[CONFIG_KEYS["causal"]]
    if labels:
        values["id2label"] = {str(number): label for number, label in enumerate(labels)}
        values["label2id"] = {label: number for number, label in enumerate(labels)}
    if model.head in PROBLEM_TYPES:
        values["problem_type"] = PROBLEM_TYPES[str(model.head)]
    return values


def load_checkpoint(
    path: str | Path,
    head: str | None = None,
    labels: list[str] | None = None,
    **config_changes: Any,
) -> LoadedCheckpoint:
    """Loads a model from a Hugging Face directory.

    Args:
        path: the directory.
        head: the family wanted (a name in `MODELS`); by default the file's own, or the bare
            encoder where the file's is unknown. A head that the file lacks starts fresh.
        labels: of the head, in order; by default the file's. A classifier whose labels in the
            file are others starts fresh, whatever their number.
        config_changes: fields of ModelConfig to replace, as `hidden_dropout=0.0`. A larger
            `vocab_size`, for a vocabulary that `bertkit vocab --extend` has made longer, adds
            token embeddings that start as all weights do, from torch's default generator.

    Raises:
        UserError: no such directory or files in it; a broken or truncated file; a model that is
            no BERT; an encoder's tensor that is missing or of another shape.
    """
    directory = Path(path)
    if not directory.is_dir():
        raise UserError(
            f"no checkpoint at {directory}; give a directory with {CONFIG} and {WEIGHTS}"
        )
    values = _read_config(directory / CONFIG)
    file, tensors = read_weights(directory)
    stored = _model_config(values, directory / CONFIG)
    config = replace(stored, **config_changes)
    if config.vocab_size > stored.vocab_size:
        _add_tokens(tensors, config)
    file_head = _head_of(values, tensors)
    head = head or file_head
    if head not in MODELS:
        raise UserError(f"no head '{head}'; choose one of {', '.join(MODELS)}")
    file_labels = _labels(values, directory / CONFIG) or _numbered_labels(tensors)
    if labels is None:
        labels = file_labels
    labelled = head in LABELLED
    foreign: list[str] = []
    if head != file_head or (labelled and not _same_labels(labels, file_labels)):
        foreign = [name for name in tensors if name.startswith("classifier.")]
    tensors = {name: value for name, value in tensors.items() if name not in foreign}
    if labelled and not labels:
        raise UserError(f"{directory} names no labels for a {head} head; give its labels")
    with uninitialised():
        model = MODELS[head](config, labels) if labelled else MODELS[head](config)
    missing = _fill(model, tensors, file)
    return LoadedCheckpoint(model, missing, sorted([*tensors, *foreign]))


def _add_tokens(tensors: dict[str, Tensor], config: ModelConfig) -> None:
    """Lengthens what has a row for each token: random embeddings, a bias of zero."""
    (embeddings,), (bias,) = map(file_names, ("encoder.embeddings.token", "masked_lm.bias"))
    if embeddings in tensors:
        old = tensors[embeddings]
        new = torch.empty(max(0, config.vocab_size - len(old)), *old.shape[1:])
        truncated_normal_(new, config.initializer_range)
        for name in {embeddings, _DECODER} & tensors.keys():
            tensors[name] = torch.cat([tensors[name], new.to(tensors[name].dtype)])
    if bias in tensors:
        old = tensors[bias]
        tensors[bias] = torch.cat([old, old.new_zeros(max(0, config.vocab_size - len(old)))])


def _fill(model: nn.Module, tensors: dict[str, Tensor], file: Path) -> list[str]:
    """Moves the file's tensors into an uninitialised model and starts those that it lacks.

    Returns the names that it lacks; what is left in `tensors` found no place.
    """
    missing: list[str] = []
    config: ModelConfig = model.config  # type: ignore[assignment]
    state = model.state_dict()
    state.pop(_TIED, None)
    for own, value in state.items():
        names = file_names(own)
        absent = [name for name in names if name not in tensors]
        if absent:
            if own.startswith("encoder.") and not own.startswith("encoder.pooler."):
                raise UserError(
                    f"{file} lacks {absent[0]} of shape {_shape(value.chunk(len(names))[0])}; "
                    "the file is not whole or not a BERT of this size: copy or export it again"
                )
            if value.dim() == 2:  # the others were made as they start
                truncated_normal_(value, config.initializer_range)
            missing.extend(absent)
            continue
        for name, part in zip(names, value.chunk(len(names)), strict=True):
            given = tensors.pop(name)
            if given.shape != part.shape:
                raise UserError(
                    f"{name} in {file} has shape {_shape(given)}, but by {CONFIG} it should be "
                    f"{_shape(part)}; give the {CONFIG} that belongs to these weights"
                )
            part.copy_(given)
    decoder = tensors.get(_DECODER)
    if decoder is not None and _TIED in model.state_dict():
        if not torch.equal(decoder.float(), state["encoder.embeddings.token"]):
            raise UserError(
                f"{_DECODER} in {file} is not the token embeddings; "
                "only a masked LM with tied embeddings can be loaded"
            )
        del tensors[_DECODER]
    return missing


def _read_config(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(
            f"no {CONFIG} in {path.parent}; give a directory that holds a BERT checkpoint"
        ) from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read: {error}; copy or export it again") from error
    if not isinstance(values, dict):
        raise UserError(f"{path} is not a JSON object; copy or export it again")
    kind = values.get("model_type", "bert")
    if kind != "bert":
        raise UserError(f"{path} describes a model of type '{kind}'; only 'bert' can be loaded")
    relative = values.get("position_embedding_type", "absolute") != "absolute"
    if relative or values.get("add_cross_attention"):
        raise UserError(
            f"{path} describes relative positions or a decoder with cross-attention; "
            "only a BERT with absolute positions and self-attention can be loaded"
        )
    return values


def _model_config(values: dict[str, Any], path: Path) -> ModelConfig:
    """The ModelConfig of a config.json; keys it lacks take the defaults where there are any."""
    known: dict[str, Any] = {}
    for field in fields(ModelConfig):
        if field.name == "activation":
            activation = values.get("hidden_act", "gelu")
            if activation not in _ACTIVATIONS:
                raise UserError(
                    f"{path} names the activation '{activation}'; "
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


def _head_of(values: dict[str, Any], tensors: dict[str, Tensor]) -> str:
    """The head that config.json names; without a name, what the weights tell.

    The released weights call themselves BertForMaskedLM and have the next-sentence head too, and
    a BertLMHeadModel that is no decoder looks both ways.
    """
    architectures = values.get("architectures")
    if isinstance(architectures, list) and architectures:
        head = _HEADS.get(str(architectures[0]), "encoder")
        if head == "left-to-right" and not values.get("is_decoder"):
            head = "masked-lm"
        if head == "classification":
            named = {kind: name for name, kind in PROBLEM_TYPES.items()}
            head = named.get(str(values.get("problem_type")), _classifier_of(values, tensors))
        if head == "masked-lm" and _NEXT_SENTENCE in tensors:
            head = "pretraining"
        return head
    return "pretraining" if "cls.predictions.bias" in tensors else "encoder"


def _classifier_of(values: dict[str, Any], tensors: dict[str, Tensor]) -> str:
    """The head of a classifier that names no problem: with one output it is a regression."""
    outputs = len(values.get("id2label") or _numbered_labels(tensors))
    return "regression" if outputs == 1 else "classification"


def _labels(values: dict[str, Any], path: Path) -> list[str]:
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


def _numbered_labels(tensors: dict[str, Tensor]) -> list[str]:
    """LABEL_0, LABEL_1, ... for a classifier without names, as transformers calls them."""
    weight = tensors.get("classifier.weight")
    return [] if weight is None else [f"LABEL_{number}" for number in range(weight.shape[0])]


def _same_labels(labels: list[str], file_labels: list[str]) -> bool:
    """Whether a classifier's rows mean these labels; LABEL_0, LABEL_1 may mean anything."""
    return file_labels in (labels, [f"LABEL_{number}" for number in range(len(labels))])


def _shape(tensor: Tensor) -> str:
    return f"{list(tensor.shape)}"
