"""`bertkit embed`: texts in, vectors out (paper, section 5.3 and table 7: feature-based use).

Choices worth knowing:
- Layers count from the embeddings, 0, to the last block; -1 is the last. Several given by number
  are joined (concatenated), as the paper's best, `concat-last-four`.
- Pooling runs over all tokens of a text, [CLS] and [SEP] included, as sentence encoders on BERT
  do. `none` keeps a vector for each token, with the tokens beside them. A sentence-transformers
  directory says how to pool, and is followed where neither layers nor pooling are asked for.
- Cosines between vectors of a model that was only pre-trained say little; the mean of the second-
  to-last layer is the usual choice then, and a model tuned for sentences is better.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from bertkit.errors import UserError
from bertkit.files import writing
from bertkit.formats.sentence import SentenceModules
from bertkit.inference.batching import flat_batches, in_windows
from bertkit.inference.config import EmbedConfig, Pooling
from bertkit.inference.inputs import TextInput, json_output, read_inputs
from bertkit.inference.load import LoadedModel, load, no_gradients
from bertkit.model.batch import FlatBatch
from bertkit.progress import Progress, say
from bertkit.tasks.answers import BATCH_TOKENS, check_sequence_length
from bertkit.tasks.classification import features
from bertkit.tasks.readers import TextExample
from bertkit.training.allocator import keep_memory

NAMED_LAYERS: dict[str, tuple[list[int], bool]] = {
    "last": ([-1], False),
    "second-to-last": ([-2], False),
    "sum-last-four": ([-4, -3, -2, -1], True),
    "concat-last-four": ([-4, -3, -2, -1], False),
}
"""Name -> (layers, whether they are summed; otherwise joined)."""


@dataclass(frozen=True)
class Embedding:
    """The vectors of one text: [1, size] when pooled, else [tokens, size] float32."""

    vectors: np.ndarray
    tokens: list[str]


@dataclass
class EmbedResult:
    """What was embedded.

    Attributes:
        size: numbers in a vector.
        truncated: texts that lost their ends.
        output: the file, or None for standard output.
    """

    texts: int
    size: int
    seconds: float
    truncated: int
    output: str | None

    def __str__(self) -> str:
        return f"{self.output}: {self.texts:,} texts, {self.size} numbers a vector" * bool(
            self.output
        )


def embed(config: EmbedConfig) -> EmbedResult:
    """Embeds every text of `config.input`.

    `.npy` holds [texts, size]; `.npz` holds "vectors", and without pooling also "bounds"
    [texts + 1] and "tokens": text k has rows bounds[k]:bounds[k + 1]. JSONL has an object a text.

    Raises:
        UserError: unknown layers or output ending, or an input that cannot be read.
    """
    keep_memory()
    started = time.monotonic()
    model = load(config.checkpoint, config.precision)
    sentence = model.sentence if config.pooling is None and config.layers == "last" else None
    pooling = config.pooling or "mean"
    size = vector_size(model, config.layers)
    if sentence:
        size = sentence.size(size)
    texts = truncated = 0
    with (
        _output(config.output, pooling, size) as write,
        Progress("embed", None, "texts", config.quiet) as progress,
    ):
        for window in in_windows(read_inputs(config.input, config.text, config.pair)):
            embeddings, cut = embed_texts(
                model,
                window,
                config.layers,
                pooling,
                config.sequence_length,
                config.batch_tokens,
                sentence,
                config.normalize,
            )
            for embedding in embeddings:
                write(embedding)
            texts += len(window)
            truncated += cut
            progress.advance(len(window))
    if truncated:
        length = config.sequence_length or model.sequence_length
        say(f"{truncated:,} of {texts:,} texts were cut to {length} tokens", config.quiet)
    return EmbedResult(texts, size, round(time.monotonic() - started, 3), truncated, config.output)


def embed_texts(
    model: LoadedModel,
    texts: Sequence[TextInput],
    layers: str = "last",
    pooling: Pooling = "mean",
    sequence_length: int | None = None,
    batch_tokens: int = BATCH_TOKENS,
    sentence: SentenceModules | None = None,
    normalize: bool | None = None,
) -> tuple[list[Embedding], int]:
    """The vectors of texts or pairs, in order, and how many texts were cut.

    `sentence` stands in for `pooling`; `normalize` None leaves to it whether vectors get length 1.
    """
    chosen, summed = parse_layers(layers, model.config.layers)
    length = sequence_length or model.sequence_length
    check_sequence_length(length, model.model)
    examples = [TextExample(one) if isinstance(one, str) else TextExample(*one) for one in texts]
    made = features(examples, model.tokenizer, None, length)
    ids = [one.ids for one in made.features]
    segments = [one.segments for one in made.features]
    found: list[np.ndarray] = [np.empty(0)] * len(texts)
    device = next(model.parameters()).device
    with no_gradients(model):
        for group, batch in flat_batches(ids, segments, batch_tokens):
            values = _layers(model, batch.to(device), chosen, summed)  # [tokens, size]
            parts = values.float().cpu().split(batch.lengths.tolist())
            for number, part in zip(group, parts, strict=True):
                if sentence:
                    vectors = sentence.vector(part, normalize)
                else:
                    vectors = _pool(part, pooling)
                    vectors = F.normalize(vectors, dim=1) if normalize else vectors
                found[number] = vectors.numpy()
    vocabulary = model.tokenizer.vocabulary
    embeddings = [
        Embedding(vectors, [vocabulary[number] for number in numbers])
        for vectors, numbers in zip(found, ids, strict=True)
    ]
    return embeddings, made.truncated


def parse_layers(layers: str, count: int) -> tuple[list[int], bool]:
    """Numbers of the layers, from 0 to `count`, and whether they are summed.

    Raises:
        UserError: not a name or numbers, or a layer that the model does not have.
    """
    if layers in NAMED_LAYERS:
        chosen, summed = NAMED_LAYERS[layers]
    else:
        try:
            chosen, summed = [int(part) for part in layers.split(",")], False
        except ValueError:
            raise UserError(
                f"no layers '{layers}'; give {', '.join(NAMED_LAYERS)}, or numbers as 0,-1"
            ) from None
    for layer in chosen:
        if not -count - 1 <= layer <= count:
            raise UserError(
                f"layers '{layers}' ask for layer {layer}, but the model has layers 0 (embeddings) "
                f"to {count}"
            )
    return [layer % (count + 1) for layer in chosen], summed


def vector_size(model: LoadedModel, layers: str) -> int:
    """Numbers in a vector of these layers."""
    chosen, summed = parse_layers(layers, model.config.layers)
    return model.config.hidden_size * (1 if summed else len(chosen))


def _layers(model: LoadedModel, batch: FlatBatch, chosen: list[int], summed: bool) -> Tensor:
    """[tokens, hidden] of the layers, summed or joined to [tokens, layers * hidden]."""
    if chosen == [model.config.layers]:
        return model.encoder(batch)
    states = model.encoder.hidden_states(batch)  # type: ignore[operator]
    picked = [states[layer].float() for layer in chosen]
    return torch.stack(picked).sum(dim=0) if summed else torch.cat(picked, dim=1)


def _pool(values: Tensor, pooling: Pooling) -> Tensor:
    """[tokens, size] -> [1, size], or as they are."""
    if pooling == "mean":
        return values.mean(dim=0, keepdim=True)
    if pooling == "cls":
        return values[:1].clone()
    if pooling == "max":
        return values.amax(dim=0, keepdim=True)
    return values


@contextmanager
def _output(
    output: str | None, pooling: Pooling, size: int
) -> Iterator[Callable[[Embedding], None]]:
    """Yields a function that takes one text's vectors; JSONL streams, arrays wait for the end."""
    suffix = Path(output).suffix.lower() if output else ".jsonl"
    if suffix == ".jsonl":
        with json_output(output) as write:
            yield lambda embedding: write(_record(embedding, pooling))
        return
    if suffix not in (".npz", ".npy") or (suffix == ".npy" and pooling == "none"):
        endings = ".npz or .jsonl" if pooling == "none" else ".npz, .npy or .jsonl"
        raise UserError(f"{output} has an ending that says no format; use {endings}")
    kept: list[Embedding] = []
    yield kept.append
    vectors = np.concatenate(
        [np.empty((0, size), dtype=np.float32), *(one.vectors for one in kept)]
    )
    with writing(str(output)) as partial, partial.open("wb") as file:
        if suffix == ".npy":
            np.save(file, vectors)
        elif pooling == "none":
            tokens = np.array([token for one in kept for token in one.tokens], dtype=np.str_)
            bounds = np.cumsum([0, *(len(one.tokens) for one in kept)])
            np.savez(file, vectors=vectors, bounds=bounds, tokens=tokens)
        else:
            np.savez(file, vectors=vectors)


def _record(embedding: Embedding, pooling: Pooling) -> dict[str, Any]:
    vectors = [[float(f"{number:.7g}") for number in row] for row in embedding.vectors.tolist()]
    if pooling == "none":
        return {"tokens": embedding.tokens, "vectors": vectors}
    return {"vector": vectors[0]}
