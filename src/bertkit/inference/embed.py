"""`bertkit embed`: texts in, vectors out (paper, section 5.3 and table 7: feature-based use).

Choices worth knowing:
- A text's vector is made of all its tokens, [CLS] and [SEP] included, as sentence encoders on BERT
  do. A word's is by default that of its first piece, as the paper's taggers take it.
- A sentence-transformers directory says how a text's vector is made, and is followed where neither
  layers nor pooling are asked for; texts that are too long are then cut, as there.
- A text longer than a sequence is read in windows that overlap by a quarter; each token's vector
  comes from the window that shows most around it, so that the mean and maximum are over every
  token once. [CLS] is then the mean of the windows' own. In the vectors of tokens [CLS] is the
  first window's and [SEP] the last one's.
- Cosines between vectors of a model that was only pre-trained say little; the mean of the second-
  to-last layer is the usual choice then, and a model tuned for sentences is better.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from bertkit.errors import UserError
from bertkit.formats.sentence import SentenceModules
from bertkit.inference.arguments import check_choice, check_count
from bertkit.inference.batching import WINDOW_CHARACTERS, compute_batches, in_windows
from bertkit.inference.config import EmbedConfig, Pooling, Unit, Words
from bertkit.inference.inputs import TextInput, read_inputs
from bertkit.inference.load import LoadedModel, load, say_lengths
from bertkit.inference.vectors import Embedding, Span, check_output, vector_output
from bertkit.inference.words import Word, find_words
from bertkit.model.batch import FlatBatch
from bertkit.model.features import LayerChoice, parse_layers
from bertkit.progress import Progress, say
from bertkit.tasks.answers import BATCH_TOKENS, check_sequence_length
from bertkit.tasks.config import Long
from bertkit.tasks.outputs import check_answers_apart
from bertkit.tasks.windows import TextWindow, text_windows
from bertkit.text.tokenizer import Pieces, truncated_lengths

VECTOR_BYTES = 1 << 28
UNIT_CHARACTERS = 1 << 20
"""Vectors of words and tokens, and characters, in memory at once, as far as texts are no longer."""

POOLINGS: dict[Unit, tuple[Pooling, ...]] = {
    "text": ("mean", "max", "cls"),
    "word": ("first", "mean", "max"),
    "token": (),
}
"""What makes one vector for each unit; the first is the default."""


@dataclass
class EmbedResult:
    """What was embedded.

    Attributes:
        texts, vectors: how many.
        size: numbers in a vector.
        seconds: of reading, answering and writing; loading the model does not count.
        windowed: texts that were read in several windows.
        truncated: texts that lost their ends.
        empty_words: words that became no token, so are zeros.
        output: the file, or None for standard output.
    """

    texts: int
    vectors: int
    size: int
    seconds: float
    windowed: int
    truncated: int
    empty_words: int
    output: str | None

    def __str__(self) -> str:
        if not self.output:
            return ""
        vectors = f", {self.vectors:,} vectors" if self.vectors != self.texts else ""
        return f"{self.output}: {self.texts:,} texts{vectors}, {self.size} numbers a vector"


@dataclass
class Embeddings:
    """The vectors of some texts, in order, and the numbers of `EmbedResult`."""

    texts: list[Embedding]
    size: int
    windowed: int = 0
    truncated: int = 0
    empty_words: int = 0


@dataclass
class _Sequence:
    """One sequence for the encoder: a text, or a window of it.

    Attributes:
        text: the text's number.
        kept: positions in the sequence whose vectors count.
        rows: where they belong among the text's tokens, special ones included.
    """

    text: int
    ids: list[int]
    segments: list[int]
    kept: list[int]
    rows: list[int]


@dataclass
class _Text:
    """A text's tokens, special ones included, and the sequences that show them."""

    ids: list[int]
    spans: list[Span]
    words: list[Word]
    sequences: list[_Sequence]
    cut: bool


def embed(config: EmbedConfig) -> EmbedResult:
    """Embeds every text of `config.input`; `inference.vectors` tells what the files hold.

    Raises:
        UserError: options that do not go together, an unknown output ending, or an input that
            cannot be read.
    """
    check_output(config.output, config.unit)
    model = load(config.checkpoint, config.precision, config.device)
    check_answers_apart(config.output, model.path, config.input)
    size = _layers(model, config.layers, config.weights).size(model.config.hidden_size)
    characters = WINDOW_CHARACTERS
    sentence = _sentence(model, config.layers, config.pooling, config.unit, config.weights)
    if config.unit != "text" or sentence:
        characters = min(UNIT_CHARACTERS, VECTOR_BYTES // (4 * size))
    if sentence:
        size = sentence.size(size)
    longest = max(map(len, model.tokenizer.vocabulary))
    result = EmbedResult(0, 0, size, 0.0, 0, 0, 0, config.output)
    started = time.monotonic()
    with (
        vector_output(config.output, config.unit, size, longest) as write,
        Progress("embed", None, "texts", config.quiet) as progress,
    ):
        inputs = read_inputs(config.input, config.text, config.pair)
        for window in in_windows(inputs, characters):
            made = embed_texts(
                model,
                window,
                config.layers,
                config.pooling,
                config.unit,
                weights=config.weights,
                words=config.words,
                long=config.long,
                sequence_length=config.sequence_length,
                batch_tokens=config.batch_tokens,
                normalize=config.normalize,
            )
            write(made.texts)
            result.texts += len(window)
            result.vectors += sum(len(one.vectors) for one in made.texts)
            result.windowed += made.windowed
            result.truncated += made.truncated
            result.empty_words += made.empty_words
            progress.advance(len(window))
    result.seconds = round(time.monotonic() - started, 3)
    _report(result, model.length(config.sequence_length), config.quiet)
    return result


def embed_texts(
    model: LoadedModel,
    texts: Sequence[TextInput],
    layers: str = "last",
    pooling: Pooling | None = None,
    unit: Unit = "text",
    *,
    weights: Sequence[float] | None = None,
    words: Words = "tokenizer",
    long: Long | None = None,
    sequence_length: int | None = None,
    batch_tokens: int = BATCH_TOKENS,
    normalize: bool | None = None,
) -> Embeddings:
    """The vectors of texts or pairs, in order; the arguments are the options of `EmbedConfig`.

    Raises:
        UserError: options that do not go together or that the model cannot follow.
    """
    check_choice("unit", unit, Unit)
    check_choice("words", words, Words)
    check_count("batch_tokens", batch_tokens)
    if pooling is not None:
        check_choice("pooling", pooling, Pooling)
    if long is not None:
        check_choice("long", long, Long)
    choice = _layers(model, layers, weights)
    sentence = _sentence(model, layers, pooling, unit, weights)
    pooling = _pooling(unit, pooling)
    long = long or ("cut" if sentence else "windows")
    length = model.length(sequence_length)
    check_sequence_length(length, model.model)
    for given in texts:
        parts = given if isinstance(given, tuple) and len(given) == 2 else (given,)
        if not all(isinstance(part, str) for part in parts):
            raise UserError(f"vectors are for texts or pairs (text, text), not for {given!r:.60}")
    made = [_prepare(model, n, text, unit, words, long, length) for n, text in enumerate(texts)]
    sequences = [one for text in made for one in text.sequences]
    size = choice.size(model.config.hidden_size)
    values = (
        (sequences[number], vectors)
        for number, vectors in _vectors(model, sequences, choice, weights, batch_tokens)
    )
    if sentence:
        rows = _token_rows(made, values, size)
        found = [Embedding(sentence.vector(torch.from_numpy(r), normalize).numpy()) for r in rows]
    elif unit == "text":
        found = _text_vectors(made, values, pooling, size)
    elif unit == "token":
        rows = _token_rows(made, values, size)
        found = [_tokens(model, *one) for one in zip(made, rows, strict=True)]
    else:
        triples = zip(map(str, texts), made, _token_rows(made, values, size), strict=True)
        found = [_words(*one, pooling) for one in triples]
    if normalize and sentence is None:
        found = [replace(one, vectors=_of_length_1(one.vectors)) for one in found]
    return Embeddings(
        found,
        sentence.size(size) if sentence else size,
        windowed=sum(len(text.sequences) > 1 for text in made),
        truncated=sum(text.cut for text in made),
        empty_words=sum(word.first == word.last for text in made for word in text.words),
    )


def _text_vectors(
    made: Sequence[_Text],
    values: Iterable[tuple[_Sequence, np.ndarray]],
    pooling: Pooling,
    size: int,
) -> list[Embedding]:
    """A vector for each text from the [tokens, size] of its sequences."""
    pooled = [_Pooled(pooling, size) for _ in made]
    for one, vectors in values:
        pooled[one.text].add(vectors, one.kept)
    return [Embedding(text.vector()) for text in pooled]


def _token_rows(
    made: Sequence[_Text], values: Iterable[tuple[_Sequence, np.ndarray]], size: int
) -> list[np.ndarray]:
    """The vectors of each text's tokens, [tokens, size]."""
    rows = [np.zeros((len(text.ids), size), np.float32) for text in made]
    for one, vectors in values:
        rows[one.text][one.rows] = vectors[one.kept]
    return rows


def _tokens(model: LoadedModel, text: _Text, rows: np.ndarray) -> Embedding:
    """The vectors of all tokens, [CLS] and [SEP] too."""
    vocabulary = model.tokenizer.vocabulary
    return Embedding(rows, [vocabulary[entry] for entry in text.ids], text.spans)


def _words(given: str, text: _Text, rows: np.ndarray, pooling: Pooling) -> Embedding:
    """The vectors of a text's words from those of its tokens."""
    vectors = np.empty((len(text.words), rows.shape[1]), np.float32)
    for place, word in enumerate(text.words):
        vectors[place] = _word(rows, word, pooling)
    units = [given[word.start : word.end] for word in text.words]
    return Embedding(vectors, units, [(word.start, word.end) for word in text.words])


def _layers(model: LoadedModel, layers: str, weights: Sequence[float] | None) -> LayerChoice:
    """The layers asked for, as a weighted sum where weights are given."""
    if not isinstance(layers, str):
        raise UserError(f"layers is {layers!r}; give a text, as 'last' or '-1,-2'")
    choice = parse_layers(layers, model.config.layers)
    if weights is None:
        if choice.how == "weighted":
            raise UserError(
                f"{layers} needs --weights: {len(choice.layers)} numbers, one for each layer"
            )
        return choice
    if layers.startswith(("sum-", "concat-")):
        raise UserError(
            f"--weights do not go with {layers}; use weighted-last-four, weighted-all or numbers"
        )
    if not np.isfinite(np.asarray(weights, np.float64)).all():
        raise UserError(f"the weights are {list(weights)}; give finite numbers")
    return choice.weighted(len(weights))


def _sentence(
    model: LoadedModel,
    layers: str,
    pooling: Pooling | None,
    unit: Unit,
    weights: Sequence[float] | None,
) -> SentenceModules | None:
    """The steps of the model's own directory, where nothing else is asked for."""
    own = unit == "text" and layers == "last" and pooling is None and weights is None
    return model.sentence if own else None


def _of_length_1(vectors: np.ndarray) -> np.ndarray:
    """[rows, size]; zeros stay zeros."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(lengths, 1e-12)


def _pooling(unit: Unit, pooling: Pooling | None) -> Pooling:
    """The pooling, or the unit's own; UserError where it makes no sense."""
    known = POOLINGS[unit]
    if pooling is None:
        return known[0] if known else "first"
    if pooling not in known:
        if not known:
            raise UserError(f"tokens are not pooled; leave --pooling {pooling} out")
        raise UserError(f"a {unit} has no pooling {pooling}; use {', '.join(known)}")
    return pooling


def _prepare(
    model: LoadedModel,
    number: int,
    text: TextInput,
    unit: Unit,
    cut: Words,
    long: Long,
    length: int,
) -> _Text:
    """The tokens of one text, cut or in windows."""
    tokenizer = model.tokenizer
    parts = (text,) if isinstance(text, str) else text
    if unit == "word" and len(parts) > 1:
        raise UserError("pairs have no vectors for words; use --unit token, or leave --pair out")
    if unit == "text":
        pieces = [Pieces(tokenizer.token_ids(part), [], []) for part in parts]
    else:
        pieces = [tokenizer.pieces(part) for part in parts]
    room = length - len(parts) - 1
    lost = False
    words = find_words(parts[0], pieces[0], tokenizer, cut) if unit == "word" else []
    if long == "cut" and sum(len(part.ids) for part in pieces) > room:
        kept = truncated_lengths(
            len(pieces[0].ids), len(pieces[1].ids) if len(pieces) > 1 else 0, max(room, 0)
        )
        pieces = _shortened(pieces, kept)
        words = [
            word for word in words if word.first < kept[0] or word.first == word.last <= kept[0]
        ]
        words = [word._replace(last=min(word.last, kept[0])) for word in words]
        lost = True
    shown, shortened = text_windows([len(part.ids) for part in pieces], room)
    if shortened:
        ends = [max(window.shown[k].stop for window in shown) for k in range(len(pieces))]
        pieces = _shortened(pieces, ends)
    ids, spans = [tokenizer.cls_id], list[Span]([None])
    for part in pieces:
        ids += [*part.ids, tokenizer.sep_id]
        spans += [*zip(part.starts, part.ends, strict=True), None]
    last = len(shown) - 1
    sequences = [
        _sequence(number, pieces, window, model, n == 0, n == last)
        for n, window in enumerate(shown)
    ]
    return _Text(ids, spans, words, sequences, lost or shortened)


def _shortened(pieces: Sequence[Pieces], kept: Sequence[int]) -> list[Pieces]:
    """The first tokens of each part of a text, as many as are kept."""
    return [
        Pieces(part.ids[:most], part.starts[:most], part.ends[:most])
        for part, most in zip(pieces, kept, strict=False)  # `kept` may tell of a second text too
    ]


def _sequence(
    text: int,
    pieces: Sequence[Pieces],
    window: TextWindow,
    model: LoadedModel,
    first: bool,
    last: bool,
) -> _Sequence:
    """[CLS] text [SEP] or [CLS] text [SEP] pair [SEP], as far as the window shows them.

    The first window's [CLS] is the text's, and so are the last one's [SEP]s.
    """
    tokenizer = model.tokenizer
    made = _Sequence(text, [tokenizer.cls_id], [0], [0] * first, [0] * first)
    before = 1  # the place of this part's first token among the text's tokens
    for segment, (part, shown, own) in enumerate(
        zip(pieces, window.shown, window.own, strict=True)
    ):
        here = len(made.ids)
        made.kept += range(here + own.start - shown.start, here + own.stop - shown.start)
        made.rows += range(before + own.start, before + own.stop)
        made.ids += [*part.ids[shown.start : shown.stop], tokenizer.sep_id]
        made.segments += [segment] * (len(made.ids) - here)
        before += len(part.ids) + 1
        if last:
            made.kept.append(len(made.ids) - 1)
            made.rows.append(before - 1)
    return made


def _vectors(
    model: LoadedModel,
    sequences: Sequence[_Sequence],
    choice: LayerChoice,
    weights: Sequence[float] | None,
    batch_tokens: int,
) -> Iterator[tuple[int, np.ndarray]]:
    """Yields (number of the sequence, its vectors [tokens, size])."""
    device = next(model.parameters()).device
    scale = (
        None if weights is None else torch.tensor(list(weights), dtype=torch.float32, device=device)
    )

    def vectors(batch: FlatBatch) -> list[np.ndarray]:
        values = _features(model, batch, choice, scale).float().cpu()
        return [part.numpy() for part in values.split(batch.lengths.tolist())]

    ids = [one.ids for one in sequences]
    segments = [one.segments for one in sequences]
    return compute_batches(model.model, ids, segments, batch_tokens, vectors)


def _features(
    model: LoadedModel, batch: FlatBatch, choice: LayerChoice, weights: Tensor | None
) -> Tensor:
    """[tokens, size]; the last layer alone needs no other to be kept."""
    if choice.layers == (model.config.layers,) and weights is None:
        return model.encoder(batch)
    return choice.mix(model.encoder.hidden_states(batch), weights)  # type: ignore[operator]


class _Pooled:
    """One vector for a text, from as many windows as it has."""

    def __init__(self, pooling: Pooling, size: int) -> None:
        self.pooling = pooling
        self.total = np.full(size, -np.inf if pooling == "max" else 0.0, dtype=np.float32)
        self.count = 0

    def add(self, values: np.ndarray, kept: Sequence[int]) -> None:
        """Takes a window's vectors [tokens, size], of which the `kept` ones count."""
        if self.pooling == "cls":
            self.total += values[0]
            self.count += 1
            return
        values = values if len(kept) == len(values) else values[kept]
        if self.pooling == "max":
            np.maximum(self.total, values.max(axis=0), out=self.total)
        else:
            self.total += values.sum(axis=0)
            self.count += len(values)

    def vector(self) -> np.ndarray:
        """[1, size]."""
        vector = self.total if self.pooling == "max" else self.total / self.count
        return vector[None]


def _word(rows: np.ndarray, word: Word, pooling: Pooling) -> np.ndarray:
    """A word's vector from those of its text's tokens; [CLS] is before the first piece."""
    values = rows[word.first + 1 : word.last + 1]  # [pieces, size]
    if not len(values):
        return np.zeros(rows.shape[1], dtype=np.float32)
    if pooling == "first":
        return values[0]
    return values.mean(axis=0) if pooling == "mean" else values.max(axis=0)


def _report(result: EmbedResult, length: int, quiet: bool) -> None:
    say_lengths(result.texts, result.windowed, result.truncated, length, quiet)
    if result.empty_words:
        say(f"{result.empty_words:,} words became no token: their vectors are zeros", quiet)
