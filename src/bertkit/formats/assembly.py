"""From a configuration and named tensors to a model, whatever kind of file they come from.

A format gives its tensors by their names in the file, each with its shape and a function that
reads it, and a `Naming` that knows the names and the layout of each of the model's parameters
there. The sizes are compared first, so that no model is made that the file could not fill; then
one tensor at a time is read into its place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from bertkit.errors import UserError
from bertkit.formats.configuration import (
    stored_config,
    stored_labels,
    stored_number,
    stored_options,
)
from bertkit.formats.heads import HEADS, task_names
from bertkit.model.bert import MODELS
from bertkit.model.config import ModelConfig
from bertkit.model.layers import truncated_normal_, uninitialised

TIED = "masked_lm.embeddings"
"""The output layer of the masked LM: where it is the token embeddings it is not stored twice."""
_PER_TOKEN = ("encoder.embeddings.token", "masked_lm.bias", TIED)
"""What has a row for each entry of the vocabulary."""


@dataclass
class LoadedCheckpoint:
    """A model from a file, and where the file and the model differ.

    Attributes:
        model: with the file's weights.
        missing: weights (by their names in the file) that the file lacks; they start fresh.
        unexpected: tensors of the file that the model has no place for, as another task's head.
        left_out: tensors that are known for the state of an optimizer, which no model has.
        optimizer: those of them that were asked for, by their names in the file.
    """

    model: nn.Module
    missing: list[str]
    unexpected: list[str]
    left_out: list[str] = field(default_factory=list)
    optimizer: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Naming:
    """How a format calls the model's parameters.

    Attributes:
        names: from the own name to that in the file, or to several where a packed parameter is
            stored in parts, from top to bottom.
        is_transposed: whether the file has the tensor of this name as [inputs, outputs].
    """

    names: Callable[[str], tuple[str, ...]]
    is_transposed: Callable[[str], bool] = lambda name: False

    def parts(self, own: str, value: Tensor) -> list[tuple[str, Tensor]]:
        """The tensors in the file that make up a parameter: their names, and views of `value` in
        the file's layout, to be read from or written to."""
        names = self.names(own)
        views = value.chunk(len(names))
        return [
            (name, view.T if self.is_transposed(name) else view)
            for name, view in zip(names, views, strict=True)
        ]


class StoredTensor(NamedTuple):
    """A tensor in a file: its shape, and a function that reads it."""

    shape: tuple[int, ...]
    read: Callable[[], Tensor]


@dataclass
class Stored:
    """A checkpoint as a format found it.

    Attributes:
        directory, file, config_file: where it is, for messages.
        values: the configuration's keys and values.
        head: the family that the file is of.
        tensors: by their names in the file.
        naming: how the file calls the model's parameters.
    """

    directory: Path
    file: Path
    config_file: Path
    values: dict[str, Any]
    head: str
    tensors: dict[str, StoredTensor]
    naming: Naming

    def check(self, name: str, shape: tuple[int, ...]) -> None:
        """Raises UserError where the file's tensor has another shape."""
        given = self.tensors[name].shape
        if given != shape:
            sizes = self.config_file.name
            raise UserError(
                f"{name} in {self.file} has shape {list(given)}, but by {sizes} it should be "
                f"{list(shape)}; give the {sizes} that belongs to these weights"
            )

    def lacks(self, name: str, shape: tuple[int, ...]) -> UserError:
        """The error for a tensor of the encoder that is not there."""
        return UserError(
            f"{self.file} lacks {name} of shape {list(shape)}; "
            "the file is not whole or not a BERT of this size: copy or export it again"
        )


def named_tensors(model: nn.Module, naming: Naming) -> dict[str, Tensor]:
    """All weights of a model as the file has them, by their names there: views, not copies."""
    tensors: dict[str, Tensor] = {}
    for own, value in own_weights(model).items():
        tensors |= naming.parts(own, value)
    return tensors


def own_weights(model: nn.Module) -> dict[str, Tensor]:
    """A model's parameters by their own names, each once."""
    state: dict[str, Tensor] = model.state_dict()
    if model.config.tied:  # type: ignore[union-attr]
        state.pop(TIED, None)
    return state


def assemble(
    stored: Stored,
    head: str | None,
    labels: list[str] | None,
    head_options: dict[str, Any] | None,
    config_changes: dict[str, Any],
) -> LoadedCheckpoint:
    """A model with a checkpoint's weights; the arguments are those of `load_checkpoint`.

    Raises UserError for a head without labels, an encoder's tensor that is missing, and a tensor
    of another shape than the configuration tells.
    """
    tensors = dict(stored.tensors)
    old = stored_config(stored.values, stored.config_file)
    config = replace(old, **config_changes)
    head = head or stored.head
    if head not in MODELS:
        raise UserError(f"no head '{head}'; choose one of {', '.join(MODELS)}")
    task = [name for own in task_names() for name in stored.naming.names(own)]
    classifier = stored.naming.names("classifier.dense.weight")
    file_labels = stored_labels(stored.values, stored.config_file)
    if not file_labels and classifier[0] in tensors:
        file_labels = _numbered(sum(tensors[classifier[0]].shape[:1]))
    if labels is None:
        labels = file_labels
    file_options: dict[str, Any] = {}
    if head == stored.head:
        file_options = stored_options(stored.values, head, stored.config_file)
    options = file_options if head_options is None else head_options
    foreign: list[str] = []
    labelled = HEADS[head].labelled
    other_labels = file_labels not in (labels, _numbered(len(labels)))
    if head != stored.head or options != file_options or (labelled and other_labels):
        foreign = [name for name in task if tensors.pop(name, None)]
    if labelled and not labels:
        raise UserError(f"{stored.directory} names no labels for a {head} head; give its labels")
    _check_sizes(stored, config, old)
    if "lstm_size" in options and not foreign:
        _check_lstm(stored, options["lstm_size"])
    with uninitialised():
        model = MODELS[head](config, labels, **options) if labelled else MODELS[head](config)
    missing = _fill(model, tensors, stored, old)
    for name in HEADS[head].numbers if head == stored.head else ():
        setattr(model, name, stored_number(stored.values, name, stored.config_file))
    return LoadedCheckpoint(model, missing, sorted([*tensors, *foreign]))


def _check_sizes(stored: Stored, config: ModelConfig, old: ModelConfig) -> None:
    """Every size against a tensor that has it: a wrong one could ask for any amount of memory."""
    hidden = config.hidden_size
    sizes = {
        "embeddings.token": (min(config.vocab_size, old.vocab_size), hidden),
        "embeddings.position": (config.max_positions, hidden),
        "embeddings.segment": (config.segment_types, hidden),
        f"blocks.{config.layers - 1}.qkv.weight": (hidden, hidden),
        "blocks.0.expand.weight": (config.intermediate_size, hidden),
    }
    for own, shape in sizes.items():
        name = stored.naming.names(f"encoder.{own}")[0]
        shape = shape[::-1] if stored.naming.is_transposed(name) else shape
        if name not in stored.tensors:
            raise stored.lacks(name, shape)
        stored.check(name, shape)


def _check_lstm(stored: Stored, size: int) -> None:
    """The size of a BiLSTM, likewise."""
    for name in stored.naming.names("tagger.lstm.weight_hh_l0"):
        if name in stored.tensors:
            stored.check(name, (4 * size, size))


def _fill(
    model: nn.Module, tensors: dict[str, StoredTensor], stored: Stored, old: ModelConfig
) -> list[str]:
    """Reads the file's tensors into an uninitialised model and starts those that it lacks.

    Returns the names that it lacks; what is left in `tensors` found no place.
    """
    missing: list[str] = []
    config: ModelConfig = model.config  # type: ignore[assignment]
    added = config.vocab_size - old.vocab_size
    for own, value in own_weights(model).items():
        kept = value
        if own in _PER_TOKEN and added > 0:
            kept = value[:-added]
        parts = stored.naming.parts(own, kept)
        absent = [name for name, _ in parts if name not in tensors]
        if absent:
            if own.startswith("encoder.") and not own.startswith("encoder.pooler."):
                raise stored.lacks(absent[0], tuple(dict(parts)[absent[0]].shape))
            if ".lstm." not in own:  # which starts in a way of its own
                _start(value, config)
            missing.extend(absent)
            continue
        if len(kept) < len(value):  # tokens that a longer vocabulary has added
            _start(value[len(kept) :], config)
        for name, part in parts:
            stored.check(name, tuple(part.shape))
            part.copy_(tensors.pop(name).read())
            stored.tensors.pop(name)  # the last that holds on to its memory
            _check_finite(name, part, stored.file)
    return missing


def _check_finite(name: str, value: Tensor, file: Path) -> None:
    """Raises UserError for numbers that are not finite: a sum shows them at little cost."""
    if torch.isfinite(value.sum()) or torch.isfinite(value).all():
        return
    count = int((~torch.isfinite(value)).sum())
    raise UserError(
        f"{name} {list(value.shape)} in {file} holds {count:,} numbers that are not finite; "
        "take an earlier checkpoint"
    )


def _start(value: Tensor, config: ModelConfig) -> None:
    """Fills a matrix as all do at the start; the rest was made as it starts."""
    if value.dim() == 2:
        truncated_normal_(value, config.initializer_range)


def _numbered(labels: int) -> list[str]:
    """LABEL_0, LABEL_1, ..., as transformers calls labels without names, which may mean any."""
    return [f"LABEL_{number}" for number in range(labels)]
