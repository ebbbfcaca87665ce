"""Checkpoints of the reference release: TensorFlow files with Google's names, in and out.

    bert_config.json
    bert_model.ckpt.index, bert_model.ckpt.data-00000-of-00001     (see `bertkit.formats.bundle`)
    vocab.txt                                                      (see `Tokenizer.save`)

Google's names and ours are one table below. A kernel lies there as [inputs, outputs], here a
weight as [outputs, inputs]. TensorFlow itself is not needed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from bertkit.errors import UserError
from bertkit.files import writing_into
from bertkit.formats.assembly import (
    LoadedCheckpoint,
    Naming,
    Stored,
    StoredTensor,
    assemble,
    named_tensors,
    own_weights,
)
from bertkit.formats.bundle import Bundle, write_bundle
from bertkit.formats.configuration import (
    ACTIVATION_NAMES,
    config_values,
    read_config,
    write_config,
)
from bertkit.formats.heads import GOOGLE_HEAD_NAMES, stored_head
from bertkit.formats.kinds import find_index

CONFIG = "bert_config.json"
PREFIX = "bert_model.ckpt"
CHECKPOINT = "checkpoint"
_ACTIVATION = "activation"
"""Our key of bert_config.json for which GELU it is: Google's code calls either form "gelu"."""

_BLOCK = "bert/encoder/layer_#"
_SELF = f"{_BLOCK}/attention/self"
GOOGLE_NAMES: dict[str, tuple[str, ...]] = {
    "encoder.embeddings.token": ("bert/embeddings/word_embeddings",),
    "encoder.embeddings.position": ("bert/embeddings/position_embeddings",),
    "encoder.embeddings.segment": ("bert/embeddings/token_type_embeddings",),
    "encoder.embeddings.norm.weight": ("bert/embeddings/LayerNorm/gamma",),
    "encoder.embeddings.norm.bias": ("bert/embeddings/LayerNorm/beta",),
    "encoder.blocks.#.qkv.weight": (
        f"{_SELF}/query/kernel",
        f"{_SELF}/key/kernel",
        f"{_SELF}/value/kernel",
    ),
    "encoder.blocks.#.qkv.bias": (
        f"{_SELF}/query/bias",
        f"{_SELF}/key/bias",
        f"{_SELF}/value/bias",
    ),
    "encoder.blocks.#.attention_output.weight": (f"{_BLOCK}/attention/output/dense/kernel",),
    "encoder.blocks.#.attention_output.bias": (f"{_BLOCK}/attention/output/dense/bias",),
    "encoder.blocks.#.attention_norm.weight": (f"{_BLOCK}/attention/output/LayerNorm/gamma",),
    "encoder.blocks.#.attention_norm.bias": (f"{_BLOCK}/attention/output/LayerNorm/beta",),
    "encoder.blocks.#.expand.weight": (f"{_BLOCK}/intermediate/dense/kernel",),
    "encoder.blocks.#.expand.bias": (f"{_BLOCK}/intermediate/dense/bias",),
    "encoder.blocks.#.contract.weight": (f"{_BLOCK}/output/dense/kernel",),
    "encoder.blocks.#.contract.bias": (f"{_BLOCK}/output/dense/bias",),
    "encoder.blocks.#.feed_forward_norm.weight": (f"{_BLOCK}/output/LayerNorm/gamma",),
    "encoder.blocks.#.feed_forward_norm.bias": (f"{_BLOCK}/output/LayerNorm/beta",),
    "encoder.pooler.weight": ("bert/pooler/dense/kernel",),
    "encoder.pooler.bias": ("bert/pooler/dense/bias",),
    **{own: (name,) for own, name in GOOGLE_HEAD_NAMES.items()},
}
"""Our parameters and Google's variables; # is the number of the layer, from 0."""

_OPTIMIZER = re.compile(
    r".+/(adam_m|adam_v|lamb_m|lamb_v|Adam|Adam_1|Momentum|ExponentialMovingAverage)"
    r"|global_step|save_counter|beta[12]_power|(current_)?loss_scale|good_steps"
)
"""Slots of the optimizers that BERT has been trained with, and their counters."""
_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"


def google_names(own: str) -> tuple[str, ...]:
    """The names of one of the model's parameters: three for a packed one.

    What Google's files have no name for is called by our own, and is not there.
    """
    block = re.match(r"encoder\.blocks\.(\d+)(.*)", own)
    if block is None:
        return GOOGLE_NAMES.get(own, (own,))
    names = GOOGLE_NAMES["encoder.blocks.#" + block[2]]
    return tuple(name.replace("#", block[1]) for name in names)


def _is_kernel(name: str) -> bool:
    return name.endswith("/kernel")


NAMING = Naming(google_names, _is_kernel)


def load_tensorflow(
    path: str | Path,
    head: str | None = None,
    labels: list[str] | None = None,
    head_options: dict[str, Any] | None = None,
    *,
    optimizer: bool = False,
    **config_changes: Any,
) -> LoadedCheckpoint:
    """Loads a model from a TensorFlow checkpoint with Google's names.

    Args:
        path: a directory, a saved model or its `variables/`, or a checkpoint in a directory, with
            or without `.index` (see `bertkit.formats.kinds.find_index`). `bert_config.json` is
            beside the index, or beside `variables/`.
        head: the family wanted (a name in `MODELS`); by default pre-training, classification or
            question answering where the file has their variables, or the bare encoder. A head
            that the file lacks starts fresh.
        labels: of the head, in order; by default LABEL_0, LABEL_1, ..., as Google's files name
            none.
        head_options: what else the head is made with, as `BiLstmTaggingModel` is; by default
            the file's.
        optimizer: whether to read the optimizer's slots and counters too, into `.optimizer`.
        config_changes: fields of ModelConfig to replace, as `activation="gelu_tanh"` for weights
            trained with the reference release as it is since February 2019. A larger
            `vocab_size` adds token embeddings, as in `load_checkpoint`.

    Raises:
        UserError: no such checkpoint; a broken, truncated or contradictory file; an encoder's
            tensor that is missing or of another shape.
    """
    index = find_index(path)
    config_file = _config_beside(index)
    values = read_config(config_file)
    if str(values.get(_ACTIVATION)) in ACTIVATION_NAMES:
        values["hidden_act"] = ACTIVATION_NAMES[str(values[_ACTIVATION])]
    bundle = Bundle(index)
    state = [name for name in bundle.entries if _OPTIMIZER.fullmatch(name)]
    weights = [name for name in bundle.entries if name not in {*state, _OBJECT_GRAPH}]
    tensors = {
        name: StoredTensor(bundle.entries[name].shape, partial(bundle.read, name))
        for name in weights
    }
    stored = Stored(
        directory=index.parent,
        file=index,
        config_file=config_file,
        values=values,
        head=stored_head(values, tensors, GOOGLE_HEAD_NAMES),
        tensors=tensors,
        naming=NAMING,
    )
    loaded = assemble(stored, head, labels, head_options, config_changes)
    loaded.left_out = state
    if optimizer:
        loaded.optimizer = {name: bundle.read(name) for name in state}
        loaded.left_out = []
    return loaded


def _config_beside(index: Path) -> Path:
    beside = index.with_name(CONFIG)
    if not beside.is_file() and index.parent.name == "variables":
        for folder in (index.parent.parent, index.parent.parent / "assets"):
            if (folder / CONFIG).is_file():
                return folder / CONFIG
    return beside


def _has_names(model: nn.Module) -> bool:
    """Whether there is a name for every weight."""
    return all(own.startswith("encoder.") or own in GOOGLE_NAMES for own in own_weights(model))


def save_tensorflow(
    model: nn.Module, directory: str | Path, *, optimizer: Mapping[str, Tensor] | None = None
) -> None:
    """Writes a checkpoint that TensorFlow and the reference release read.

    `bert_config.json`, `bert_model.ckpt.index`, `bert_model.ckpt.data-00000-of-00001` and a file
    `checkpoint` that names them; `vocab.txt` is written beside them by `Tokenizer.save`. The
    configuration also tells what Google's lacks (labels, the form of GELU), so that a model comes
    back as it was.

    Args:
        model: any of `MODELS`; its weights are written as float32.
        directory: made where it is not there; files of other names in it stay.
        optimizer: slots and counters to write along, as `load_tensorflow` gives them.

    Raises:
        UserError: a full disk or a missing permission; a slot that is none by its name; a head,
            or an output layer that is not the token embeddings, for which there is no name.
    """
    if not model.config.tied and "masked_lm.bias" in model.state_dict():  # type: ignore[union-attr]
        raise UserError(
            "the masked LM predicts with a matrix of its own, which Google's files have no name "
            "for; write a Hugging Face directory"
        )
    if not _has_names(model):
        raise UserError(
            f"Google's files have no names for the weights of a {model.head} head; write a Hugging "
            "Face directory"
        )
    tensors = {name: value.float() for name, value in named_tensors(model, NAMING).items()}
    for name, value in (optimizer or {}).items():
        if not _OPTIMIZER.fullmatch(name):
            raise UserError(f"'{name}' is no name of an optimizer's variable; leave it out")
        tensors[name] = value
    values = config_values(model)
    if values["hidden_act"].startswith("gelu"):
        values["hidden_act"] = "gelu"
    values[_ACTIVATION] = model.config.activation  # type: ignore[union-attr]
    with writing_into(directory) as folder:
        write_bundle(folder / PREFIX, tensors)
        write_config(values, folder / CONFIG)
        names = f'model_checkpoint_path: "{PREFIX}"\nall_model_checkpoint_paths: "{PREFIX}"\n'
        (folder / CHECKPOINT).write_text(names, encoding="utf-8")
