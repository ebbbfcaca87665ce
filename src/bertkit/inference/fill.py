"""`bertkit fill`: a text with [MASK] in, the masked LM's candidates for each mask out.

Several masks are filled each by itself, as in pre-training: the candidates of one do not know
what the other became. Probabilities are over the whole vocabulary. A text that is too long is cut
to the tokens around its masks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch

from bertkit.errors import UserError
from bertkit.inference.arguments import check_count
from bertkit.inference.batching import compute_batches, in_windows
from bertkit.inference.config import FillConfig
from bertkit.inference.inputs import STANDARD, json_output, read_inputs
from bertkit.inference.load import LoadedModel, load
from bertkit.model.batch import FlatBatch
from bertkit.progress import Progress
from bertkit.tasks.answers import BATCH_TOKENS, check_sequence_length
from bertkit.tasks.outputs import check_answers_apart
from bertkit.text.tokenizer_files import MASK


@dataclass(frozen=True)
class Candidate:
    """A vocabulary entry and its probability."""

    token: str
    probability: float


@dataclass(frozen=True)
class FilledText:
    """The candidates for each mask of a text, most probable first.

    `filled` is the text with the best candidate in each mask's place.
    """

    text: str
    filled: str
    masks: list[list[Candidate]]


@dataclass
class FillResult:
    """The answer for a text; for a file, how many texts were answered (see `output`)."""

    answer: FilledText | None
    texts: int
    output: str | None

    def __str__(self) -> str:
        if self.answer is None:
            return f"{self.output}: {self.texts:,} texts filled" if self.output else ""
        lines = [self.answer.filled]
        for number, candidates in enumerate(self.answer.masks, start=1):
            lines.append("" if len(self.answer.masks) == 1 else f"\nmask {number}")
            lines += [f"  {100 * one.probability:6.2f} %  {one.token}" for one in candidates]
        return "\n".join(lines)


def fill(config: FillConfig) -> FillResult:
    """Fills the masks of one text, or of every text in a file.

    Raises:
        UserError: the model has no masked-LM head; a text has no [MASK], or masks too far apart
            for one sequence; neither or both of text and file are given.
    """
    source = STANDARD if config.text == STANDARD else config.input
    if (config.text is None) == (config.input is None):
        raise UserError("give a text with [MASK], or a file with --input, as --input lines.txt")
    if source is None and (config.output or config.field):
        raise UserError(
            "--output and --field go with --input, as --input lines.txt; the answer for one text "
            "goes to standard output"
        )
    check_count("--top", config.top)
    model = load(config.checkpoint, config.precision, config.device)
    if source is None:
        # a broken byte in the command line's text is no character
        text = str(config.text).encode("utf-8", "replace").decode("utf-8")
        [answer] = fill_masks(model, [text], config.top, config.sequence_length)
        return FillResult(answer, 1, None)
    check_answers_apart(config.output, model.path, source)
    texts = 0
    with (
        Progress("fill", None, "texts", config.quiet) as progress,
        json_output(config.output) as write,
    ):
        for window in in_windows(read_inputs(source, config.field, option="--field")):
            lines = [one for one in window if isinstance(one, str)]
            for answer in fill_masks(
                model, lines, config.top, config.sequence_length, config.batch_tokens, texts + 1
            ):
                write(asdict(answer))
            texts += len(window)
            progress.advance(len(window))
    return FillResult(None, texts, config.output)


def fill_masks(
    model: LoadedModel,
    texts: Sequence[str],
    top: int = 5,
    sequence_length: int | None = None,
    batch_tokens: int = BATCH_TOKENS,
    first_number: int = 1,
) -> list[FilledText]:
    """The candidates for the masks of texts.

    Args:
        model: a pre-trained model.
        top: candidates for each mask.
        sequence_length: most tokens at once (default: as in training).
        first_number: what messages call the first text.

    Raises:
        UserError: as `fill`.
    """
    if model.head not in ("pretraining", "masked-lm") or model.lacks("cls.predictions."):
        other = "bertkit predict" if model.labels else "bertkit embed"
        raise UserError(
            f"{model.path} has no masked-LM head (it is a model for {model.head}); use {other}, "
            "or fill with the pre-trained model it was made from"
        )
    check_count("top", top)
    check_count("batch_tokens", batch_tokens)
    for text in texts:
        if not isinstance(text, str):
            raise UserError(f"masks are filled in texts, not in {text!r:.60}")
    length = model.length(sequence_length)
    check_sequence_length(length, model.model)
    tokenizer = model.tokenizer
    sequences = [
        _around_masks(model, text, length, first_number + number)
        for number, text in enumerate(texts)
    ]
    candidates: list[list[list[Candidate]]] = [[] for _ in texts]

    def fill_batch(batch: FlatBatch) -> list[list[list[Candidate]]]:
        masked = (batch.token_ids == tokenizer.mask_id).nonzero()[:, 0]
        hidden = model.encoder(batch, masked)  # [masks, hidden]
        logits = model.model.masked_lm.logits(hidden)  # type: ignore[union-attr, operator]
        chances = logits.softmax(dim=1)[:, : len(tokenizer)]  # the others are padding
        best = chances.topk(min(top, chances.shape[1]), dim=1)
        owners = torch.bucketize(masked, batch.bounds, right=True) - 1
        of_texts: list[list[list[Candidate]]] = [[] for _ in range(batch.sequences)]
        for owner, values, ids in zip(
            owners.tolist(), best.values.tolist(), best.indices.tolist(), strict=True
        ):
            of_texts[owner].append(
                [
                    Candidate(tokenizer.vocabulary[number], value)
                    for number, value in zip(ids, values, strict=True)
                ]
            )
        return of_texts

    segments = [[0] * len(ids) for ids in sequences]
    found = compute_batches(model.model, sequences, segments, batch_tokens, fill_batch)
    for number, masks in found:
        candidates[number] = masks
    return [
        FilledText(text, _filled(text, masks), masks)
        for text, masks in zip(texts, candidates, strict=True)
    ]


def _around_masks(model: LoadedModel, text: str, length: int, number: int) -> list[int]:
    """[CLS] tokens [SEP], cut to the tokens around the masks where they are too many."""
    tokenizer = model.tokenizer
    ids = tokenizer.token_ids(text, special_tokens=True)
    places = np.flatnonzero(np.asarray(ids) == tokenizer.mask_id)
    if not len(places):
        raise UserError(f"text {number} has no {MASK}: '{_short(text)}'; put one where to fill")
    room = length - 2
    if len(ids) > room:
        first, last = int(places[0]), int(places[-1]) + 1
        if last - first > room:
            raise UserError(
                f"the masks of text {number} are {last - first} tokens apart, which does not fit "
                f"in {length}; fill fewer at a time"
            )
        start = min(max(0, (first + last - room) // 2), len(ids) - room)
        ids = ids[start : start + room]
    return [tokenizer.cls_id, *ids, tokenizer.sep_id]


def _filled(text: str, masks: Sequence[Sequence[Candidate]]) -> str:
    """The text with each mask replaced; a candidate that goes on with a word loses its ##."""
    parts = text.split(MASK)
    words = [candidates[0].token for candidates in masks]
    return parts[0] + "".join(
        word.removeprefix("##") + part for word, part in zip(words, parts[1:], strict=True)
    )


def _short(text: str, most: int = 40) -> str:
    return text if len(text) <= most else text[:most] + "..."
