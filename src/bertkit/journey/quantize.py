"""What 8-bit integers do to a model: its size, its speed here, and its scores on a task."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from bertkit.errors import UserError
from bertkit.formats.kinds import ONNX
from bertkit.formats.onnx import OnnxModel, quantize
from bertkit.formats.source import probe
from bertkit.inference.inputs import read_inputs
from bertkit.journey.config import ConvertConfig
from bertkit.model.batch import FlatBatch
from bertkit.progress import say
from bertkit.tasks.answers import evaluate_model
from bertkit.tasks.data import columns_of
from bertkit.tasks.options import answer_options, chosen_task, tuned_with
from bertkit.tasks.readers import require_file
from bertkit.tasks.task import Columns
from bertkit.text.tokenizer import Tokenizer

INT8 = "model_int8.onnx"
CALIBRATION_TEXTS = 256
CALIBRATION_BATCH = 8
CALIBRATION_TOKENS = 128
GAIN = 1.05
"""From here on one may say that a processor gains something."""
_ROUNDS = 5


def quantize_and_compare(
    config: ConvertConfig,
    model: nn.Module,
    tokenizer: Tokenizer | None,
    folder: Path,
    source: Path,
) -> dict[str, Any]:
    """Writes the quantized graph beside `model.onnx` in `folder` and holds one against the other.

    Raises UserError where there is no tokenizer for the texts that an option names, or these
    cannot be read.
    """
    batches = None
    if config.quantize == "static":
        batches = _calibration(config, _needed(tokenizer), model)
    say(f"{INT8}: quantizing", config.quiet)
    quantize(folder / ONNX, folder / INT8, batches)
    graphs = {"float32": OnnxModel(folder / ONNX), "int8": OnnxModel(folder / INT8)}
    batch = probe(model.config)  # type: ignore[arg-type]
    outputs = {name: graph.outputs(batch) for name, graph in graphs.items()}
    difference = max(
        float((value - outputs["int8"][name]).abs().max())
        for name, value in outputs["float32"].items()
    )
    found: dict[str, Any] = {"how": config.quantize, "difference": difference, "gain": GAIN}
    for name, graph in graphs.items():
        found[name] = {"bytes": graph.file.stat().st_size}
    found |= _speed(graphs, found)
    if config.data:
        found["examples"], scores = _scores(
            config, {**graphs, "pytorch": model}, _needed(tokenizer), source
        )
        for name in graphs:
            found[name]["metrics"] = scores[name]
        found["pytorch"] = {"metrics": scores["pytorch"]}
    return found


def _needed(tokenizer: Tokenizer | None) -> Tokenizer:
    if tokenizer is None:
        raise UserError("there is no vocabulary to read texts with; give one with --vocab")
    return tokenizer


def _calibration(config: ConvertConfig, tokenizer: Tokenizer, model: Any) -> list[FlatBatch]:
    """The first texts of the file as batches of similar length."""
    length = min(CALIBRATION_TOKENS, model.config.max_positions)
    encodings = []
    for text in read_inputs(str(config.calibration)):
        pair = (text, None) if isinstance(text, str) else text
        encodings.append(tokenizer.encode(pair[0], pair[1], max_length=length))
        if len(encodings) == CALIBRATION_TEXTS:
            break
    encodings.sort(key=lambda encoding: len(encoding.ids))
    groups = [
        encodings[start : start + CALIBRATION_BATCH]
        for start in range(0, len(encodings), CALIBRATION_BATCH)
    ]
    return [
        FlatBatch.from_sequences(
            [encoding.ids for encoding in group], [encoding.segment_ids for encoding in group]
        )
        for group in groups
    ]


def _speed(graphs: dict[str, OnnxModel], found: dict[str, Any]) -> dict[str, Any]:
    """Seconds of each graph for eight sequences of 64 tokens, the best of some rounds in turn."""
    sizes = next(iter(graphs.values())).config
    length = min(64, sizes.max_positions)
    ids = np.random.default_rng(0).integers(sizes.vocab_size, size=8 * length)
    batch = FlatBatch.from_arrays(ids, np.zeros_like(ids), np.full(8, length))
    best = dict.fromkeys(graphs, float("inf"))
    for _ in range(_ROUNDS):
        for name, graph in graphs.items():
            started = time.perf_counter()
            graph.outputs(batch)
            best[name] = min(best[name], time.perf_counter() - started)
    return {name: found[name] | {"seconds": best[name]} for name in graphs}


def _scores(
    config: ConvertConfig, models: dict[str, nn.Module], tokenizer: Tokenizer, source: Path
) -> tuple[int, dict[str, dict[str, float]]]:
    """How many examples, and the metrics of each model on them."""
    tuned = tuned_with(source) if source.is_dir() else None
    task = chosen_task(config.source, models["pytorch"], config.task, tuned)
    path = Path(str(config.data))
    if not path.is_file():
        path = require_file(task, path, "dev")
    columns = columns_of(tuned) if tuned else Columns()
    examples: Sequence[Any] = task.read(path, columns)[: config.max_examples]
    options = answer_options(tuned, models["pytorch"])
    metrics = {
        which: evaluate_model(
            model,
            task,
            examples,
            tokenizer,
            options,
            quiet=config.quiet,  # type: ignore[arg-type]
        ).scores.metrics
        for which, model in models.items()
    }
    return len(examples), metrics
