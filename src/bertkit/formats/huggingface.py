"""Checkpoints in the layout of Hugging Face: `config.json` and `model.safetensors`, in and out.

    own name                            name in the file
    encoder.embeddings.token            bert.embeddings.word_embeddings.weight
    encoder.blocks.3.qkv.weight         bert.encoder.layer.3.attention.self.{query,key,value}.weight
    masked_lm.dense.weight              cls.predictions.transform.dense.weight

Names are data, in tables below. The packed projection of attention is three tensors in the file,
one under the other. The output layer of the masked LM is the token embeddings and is not written
twice, unless the model has one of its own. A left-to-right model is a BertLMHeadModel with
`is_decoder`, which keeps its causal mask here and in transformers, whatever head is put on it.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn

from bertkit.errors import UserError
from bertkit.formats.assembly import (
    LoadedCheckpoint,
    Naming,
    Stored,
    StoredTensor,
    assemble,
    named_tensors,
)
from bertkit.formats.configuration import (
    CONFIG_KEYS,
    config_values,
    read_config,
    write_config,
)
from bertkit.formats.heads import HEAD_NAMES, stored_head
from bertkit.formats.kinds import CONFIG, WEIGHTS
from bertkit.formats.weights import open_weights

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
_DECODER = "cls.predictions.decoder.weight"
_DECODER_BIAS = "cls.predictions.decoder.bias"
_BIAS = HEAD_NAMES["masked_lm.bias"]
_EMBEDDINGS = f"bert.{EMBEDDING_NAMES['embeddings.token']}"
_TIED_KEY = CONFIG_KEYS["tied"]


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


NAMING = Naming(file_names)


def save_checkpoint(model: nn.Module, directory: str | Path) -> None:
    """Writes config.json and model.safetensors into an existing directory.

    `transformers` reads the result with AutoModel and with the class of the model's head. The
    tokenizer's files are written beside it by `Tokenizer.save`.
    """
    directory = Path(directory)
    tensors = {
        name: value.to("cpu", torch.float32).contiguous()
        for name, value in named_tensors(model, NAMING).items()
    }
    if _DECODER in tensors:  # transformers then unties the bias too, and reads both
        tensors[_DECODER_BIAS] = tensors[_BIAS].clone()
    if model.head == "encoder":  # transformers' bare model has no prefix
        tensors = {name.removeprefix("bert."): value for name, value in tensors.items()}
    save_file(tensors, directory / WEIGHTS, metadata={"format": "pt"})
    values = config_values(model) | {
        "model_type": "bert",
        "dtype": "float32",
        "position_embedding_type": "absolute",
    }
    write_config(values, directory / CONFIG)
    shutil.copymode(directory / CONFIG, directory / WEIGHTS)  # the library lets no one else read


def load_checkpoint(
    path: str | Path,
    head: str | None = None,
    labels: list[str] | None = None,
    head_options: dict[str, Any] | None = None,
    **config_changes: Any,
) -> LoadedCheckpoint:
    """Loads a model from a Hugging Face directory.

    Args:
        path: the directory.
        head: the family wanted (a name in `MODELS`); by default the file's own, or the bare
            encoder where the file's is unknown. A head that the file lacks starts fresh.
        labels: of the head, in order; by default the file's. A classifier whose labels in the
            file are others starts fresh, whatever their number.
        head_options: what else the head is made with, as `BiLstmTaggingModel` is; by default
            the file's.
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
    if not (directory / CONFIG).is_file() and any(directory.glob("*.index")):
        raise UserError(
            f"{directory} is a TensorFlow checkpoint; make it a Hugging Face directory with "
            f"bertkit convert {directory} DIRECTORY"
        )
    values = read_config(directory / CONFIG)
    file, tensors = open_weights(directory)
    _settle_decoder(values, tensors)
    stored = Stored(
        directory=directory,
        file=file,
        config_file=directory / CONFIG,
        values=values,
        head=stored_head(values, tensors, HEAD_NAMES),
        tensors=tensors,
        naming=NAMING,
    )
    return assemble(stored, head, labels, head_options, config_changes)


def _settle_decoder(values: dict[str, Any], tensors: dict[str, StoredTensor]) -> None:
    """Whether the output layer of the masked LM is the token embeddings, whatever the file says.

    A second copy of the embeddings is left aside. A matrix that differs from them, where the
    configuration promises none, is taken for what the model was trained with.
    """
    decoder, embeddings = tensors.get(_DECODER), tensors.get(_EMBEDDINGS)
    bias = tensors.pop(_DECODER_BIAS, None)
    if decoder is None or embeddings is None:
        values.pop(_TIED_KEY, None)
        return
    same = decoder.shape == embeddings.shape and torch.equal(decoder.read(), embeddings.read())
    if values.get(_TIED_KEY) is not False and same:
        values[_TIED_KEY] = True
        del tensors[_DECODER]
        return
    values[_TIED_KEY] = False
    if bias is not None:
        tensors[_BIAS] = bias
