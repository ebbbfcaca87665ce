"""ONNX: a model of any head as a graph that ONNX Runtime computes, in float32 or in 8-bit integers.

    input_ids, attention_mask, token_type_ids   [batch, sequence] int64, padded with mask 0
    outputs by the head, as in transformers     [batch, ...] or [batch, sequence, ...] float32

Both axes are free. The graph carries the configuration, head and labels as its metadata, so that
the file alone can be used. The packages onnx and onnxruntime are imported when used.
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bertkit.errors import UserError
from bertkit.extras import need
from bertkit.formats.configuration import config_values, stored_config, stored_labels, stored_number
from bertkit.formats.heads import HEAD_NAMES, HEADS, stored_head
from bertkit.formats.onnx_graph import INPUTS, graph_of
from bertkit.model.batch import FlatBatch

LARGEST_FILE = 2_000_000_000
"""Bytes of weights that go into the file itself; its format ends at 2 GB."""
_METADATA = "bertkit.config"


def packages() -> tuple[Any, Any]:
    """The modules onnx and onnxruntime; raises UserError where a package is missing."""
    return need("onnx", "onnx", "ONNX needs"), need("onnxruntime", "onnx", "ONNX needs")


def save_onnx(model: nn.Module, file: str | Path) -> None:
    """Writes a model as a graph.

    Args:
        model: any of `MODELS`.
        file: its directory exists. Beyond 2 GB the weights lie in a file beside it.

    Raises:
        UserError: a package is missing, or the model's head has no form as a graph.
    """
    onnx, _ = packages()
    graph = graph_of(model)
    onnx.helper.set_model_props(graph, {_METADATA: json.dumps(config_values(model))})
    large = sum(value.numel() * 4 for value in model.parameters()) > LARGEST_FILE
    beside = f"{Path(file).name}.data"
    onnx.save(graph, str(file), save_as_external_data=large, location=beside)


@contextmanager
def _silent() -> Iterator[None]:
    """Quantization warns of its own steps; none is about the model."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


class OnnxModel(nn.Module):
    """A graph in place of a model: computed by ONNX Runtime, called like the model it is of.

    Attributes:
        config, head, labels: as of the model.
        file: where the graph is.
    """

    def __init__(self, file: str | Path, threads: int = 0) -> None:
        """Opens a file written by `save_onnx`, or made from one.

        Args:
            file: the graph.
            threads: that ONNX Runtime computes with; 0: as many as it likes.

        Raises:
            UserError: no such file, no graph, or one that bertkit did not write.
        """
        super().__init__()
        _, runtime = packages()
        self.file = Path(file)
        options = runtime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        try:
            self.session = runtime.InferenceSession(
                str(file), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # its own kinds, for a missing and for a broken file
            reason = str(error).strip().splitlines() or ["no reason given"]
            raise UserError(f"{file} is no ONNX model: {reason[0]}; convert it again") from error
        stored = self.session.get_modelmeta().custom_metadata_map.get(_METADATA)
        try:
            values = json.loads(stored or "")
        except (ValueError, RecursionError):
            values = None
        if not isinstance(values, dict):
            raise UserError(
                f"{file} does not tell which model it is; convert it with bertkit convert"
            )
        self.config = stored_config(values, self.file)
        self.labels = stored_labels(values, self.file)
        self.head = stored_head(values, {}, HEAD_NAMES)
        for name in HEADS[self.head].numbers:
            setattr(self, name, stored_number(values, name, self.file))
        self._of = {name: output.of for name, output in HEADS[self.head].outputs.items()}
        self.names = [output.name for output in self.session.get_outputs()]
        if self.names != list(self._of):
            raise UserError(
                f"{file} computes {', '.join(self.names)} and not {', '.join(self._of)}, as a "
                f"{self.head} model should; convert it again"
            )
        self.place = nn.Parameter(torch.empty(0), requires_grad=False)  # tells the device

    def outputs(self, batch: FlatBatch) -> dict[str, Tensor]:
        """As `bertkit.formats.heads.model_outputs`: [tokens, ...] or [sequences, ...]."""
        feed, mask = padded_inputs(batch, self.config.pad_id)
        found = self.session.run(self.names, feed)
        return {
            name: torch.from_numpy(value[mask] if self._of[name] == "tokens" else value)
            for name, value in zip(self.names, found, strict=True)
        }

    def forward(self, batch: FlatBatch, positions: Tensor | None = None) -> Tensor:
        """What the model computes: its outputs side by side where they are columns of one layer,
        else the first; with `positions` only at these tokens."""
        found = self.outputs(batch)
        values = found[self.names[0]]
        if all(output.column is not None for output in HEADS[self.head].outputs.values()):
            columns = list(found.values())
            values = columns[0] if len(columns) == 1 else torch.stack(columns, dim=-1)
        return values if positions is None else values[positions]


def padded_inputs(batch: FlatBatch, pad_id: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """A graph's inputs, and the mask of real tokens as booleans [batch, sequence]."""
    length = batch.max_length
    mask = (torch.arange(length) < batch.lengths[:, None]).numpy()
    padded = [
        np.full(mask.shape, pad_id, dtype=np.int64),
        mask.astype(np.int64),
        np.zeros(mask.shape, dtype=np.int64),
    ]
    padded[0][mask] = batch.token_ids.numpy()
    padded[2][mask] = batch.segment_ids.numpy()
    return dict(zip(INPUTS, padded, strict=True)), mask


def quantize(
    source: str | Path, file: str | Path, batches: Iterable[FlatBatch] | None = None
) -> None:
    """Writes a graph with matrix products in 8-bit integers.

    Args:
        source: written by `save_onnx`.
        file: where to write.
        batches: sequences to measure the range of activations on (static); without, each is
            measured when it is computed (dynamic).

    Raises:
        UserError: a package is missing.
    """
    onnx, _ = packages()
    from onnxruntime import quantization

    with _silent():
        prepared = Path(file).with_suffix(".prepared.onnx")
        quantization.quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
        try:
            if batches is None:
                quantization.quantize_dynamic(
                    str(prepared), str(file), weight_type=quantization.QuantType.QInt8
                )
            else:
                pad_id = OnnxModel(source).config.pad_id
                quantization.quantize_static(
                    str(prepared),
                    str(file),
                    _Calibration([padded_inputs(batch, pad_id)[0] for batch in batches]),
                    per_channel=True,
                    weight_type=quantization.QuantType.QInt8,
                    op_types_to_quantize=["MatMul", "Gemm"],
                )
        finally:
            prepared.unlink(missing_ok=True)
    graph = onnx.load(str(file))
    metadata = onnx.load(str(source), load_external_data=False).metadata_props
    onnx.helper.set_model_props(graph, {entry.key: entry.value for entry in metadata})
    onnx.save(graph, str(file))


class _Calibration:
    """Batches as ONNX Runtime asks for them: one at a time, then None."""

    def __init__(self, feeds: list[dict[str, np.ndarray]]) -> None:
        self._feeds = iter(feeds)

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self._feeds, None)
