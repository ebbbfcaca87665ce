"""Questions and contexts in, windows of the model's length out (run_squad.py of the release).

    [CLS] question [SEP] context tokens 0 ... 340 [SEP]
    [CLS] question [SEP] context tokens 128 ... 468 [SEP]      step 128
    [CLS] question [SEP] context tokens 256 ... 500 [SEP]      the last one reaches the end

Segments are 0 up to the first [SEP] and 1 after it.

Choices worth knowing:
- The distance of two windows is given in one of two ways. `step` is what the release calls
  `doc_stride`: tokens from the start of one to the start of the next. `overlap` is what later
  software means by the same name: tokens that two neighbours share. 128 of the one is far from 128
  of the other, so both are options and the count of windows is printed.
- Each distinct context is tokenized once, whatever its number of questions, by several processes
  when there is much; a window is a slice, and becomes ids only when a batch needs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from bertkit.errors import UserError
from bertkit.tasks.squad import Answer, QuestionExample
from bertkit.text.tokenizer import Tokenizer
from bertkit.workers import parallel_map, processors

SPECIALS = 3
"""[CLS], and [SEP] after the question and after the context."""

PARALLEL_CHARACTERS = 4_000_000
"""Below this many characters one process is done before another has started."""

CONTEXTS_AT_ONCE = 256


@dataclass(frozen=True)
class Windowing:
    """How contexts are cut.

    Attributes:
        sequence_length: tokens of the longest window, question and specials included.
        step: tokens between the starts of neighbours, or None where `overlap` says it.
        overlap: tokens that neighbours share.
        question_tokens: longer questions lose their ends.
    """

    sequence_length: int = 384
    step: int | None = 128
    overlap: int | None = None
    question_tokens: int = 64

    def check(self) -> None:
        """Raises UserError for lengths that leave no room, or two distances at once."""
        if self.step is not None and self.overlap is not None:
            raise UserError(
                "the distance of windows is given twice; use --doc-stride (tokens from start to "
                "start) or --doc-overlap (tokens shared), not both"
            )
        if self.question_tokens < 1:
            raise UserError(f"{self.question_tokens} question tokens; give 1 or more")
        room = self.sequence_length - self.question_tokens - SPECIALS
        if room < 1:
            raise UserError(
                f"sequence length {self.sequence_length} leaves no room for the context beside a "
                f"question of {self.question_tokens} tokens and {SPECIALS} specials; use "
                f"--sequence-length {self.question_tokens + SPECIALS + 1} or more, or fewer "
                "--question-tokens"
            )
        if self.step is not None and self.step < 1:
            raise UserError(f"a step of {self.step} tokens goes nowhere; give 1 or more")
        if self.overlap is not None and not 0 <= self.overlap < room:
            raise UserError(
                f"an overlap of {self.overlap} tokens leaves windows of {room} no step forward; "
                f"give 0 to {room - 1}"
            )

    def distance(self) -> str:
        """For a message: how far apart windows are, and the option that says so."""
        if self.overlap is not None:
            return f"{self.overlap} of them shared by neighbours (--doc-overlap)"
        return f"{self.step} from start to start (--doc-stride)"

    def starts(self, context_tokens: int, question_tokens: int) -> list[tuple[int, int]]:
        """(first token, tokens) of each window of a context, as the release cuts it.

        The last window is the first that reaches the end. A context without tokens has none.
        """
        room = self.sequence_length - question_tokens - SPECIALS
        step = room - self.overlap if self.overlap is not None else self.step or room
        windows = []
        first = 0
        while first < context_tokens:
            length = min(context_tokens - first, room)
            windows.append((first, length))
            if first + length == context_tokens:
                break
            first += min(length, step)
        return windows


@dataclass(frozen=True, slots=True)
class ContextTokens:
    """A context's tokens: ids and places in the untouched text, [tokens] int32 each."""

    ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray

    def span(self, answer: Answer) -> tuple[int, int] | None:
        """First and last token of the fewest that cover an answer, or None when none does."""
        touched = np.flatnonzero((self.ends > answer.start) & (self.starts < answer.end))
        return (int(touched[0]), int(touched[-1])) if len(touched) else None


@dataclass(frozen=True, slots=True)
class Window:
    """One sequence: a question and a part of its context.

    Attributes:
        example: the question's number.
        question: [question tokens] int32 ids.
        context: the whole context.
        first, length: tokens of the context that are in the window.
        target: start and end of the answer, positions in the sequence; (0, 0), which is [CLS],
            when there is none in this window; None when nothing is to be learned.
        frame: ids of [CLS] and [SEP].
    """

    example: int
    question: np.ndarray
    context: ContextTokens
    first: int
    length: int
    target: tuple[int, int] | None
    frame: tuple[int, int]

    @property
    def offset(self) -> int:
        """Position in the sequence of the first context token."""
        return len(self.question) + 2

    @property
    def tokens(self) -> int:
        return len(self.question) + self.length + SPECIALS

    def __len__(self) -> int:
        return self.tokens

    @property
    def ids(self) -> np.ndarray:
        """[tokens] int32."""
        cls, sep = self.frame
        context = self.context.ids[self.first : self.first + self.length]
        return np.concatenate([[cls], self.question, [sep], context, [sep]], dtype=np.int32)

    @property
    def segments(self) -> np.ndarray:
        """[tokens] int32."""
        segments = np.ones(self.tokens, dtype=np.int32)
        segments[: self.offset] = 0
        return segments


@dataclass
class WindowSet:
    """The windows of many questions.

    Attributes:
        windows: in the order of the questions, and of each from left to right.
        cut_questions: questions that lost tokens.
        split: questions whose context takes more than one window.
        lost: questions whose answer covers no token (control characters only).
    """

    windows: list[Window]
    cut_questions: int = 0
    split: int = 0
    lost: int = 0


def make_windows(
    examples: Sequence[QuestionExample],
    tokenizer: Tokenizer,
    windowing: Windowing,
    train: bool,
    workers: int | None = None,
) -> WindowSet:
    """Cuts the contexts of all examples.

    Args:
        train: give each window its target.
        workers: processes that tokenize contexts; by default as many as pay.
    """
    windowing.check()
    contexts = tokenize_contexts([example.context for example in examples], tokenizer, workers)
    frame = (tokenizer.cls_id, tokenizer.sep_id)
    result = WindowSet([])
    for number, example in enumerate(examples):
        ids = tokenizer.token_ids(example.question)
        result.cut_questions += len(ids) > windowing.question_tokens
        question = np.array(ids[: windowing.question_tokens], dtype=np.int32)
        context = contexts[example.context]
        span = None
        if train and (answer := example.trained_answer()) is not None:
            span = context.span(answer)
            if span is None:
                result.lost += 1
                continue
        cuts = windowing.starts(len(context.ids), len(question))
        result.split += len(cuts) > 1
        for first, length in cuts:
            target = None
            if train:
                target = _target(span, first, length, len(question) + 2)
            result.windows.append(Window(number, question, context, first, length, target, frame))
    return result


def _target(span: tuple[int, int] | None, first: int, length: int, offset: int) -> tuple[int, int]:
    """The span in the window's positions when all of it is there, and [CLS] otherwise."""
    if span is None or span[0] < first or span[1] >= first + length:
        return (0, 0)
    return (span[0] - first + offset, span[1] - first + offset)


def tokenize_contexts(
    contexts: Sequence[str], tokenizer: Tokenizer, workers: int | None = None
) -> dict[str, ContextTokens]:
    """Each distinct context's tokens."""
    distinct = list(dict.fromkeys(contexts))
    if workers is None:
        enough = sum(map(len, distinct)) >= PARALLEL_CHARACTERS
        workers = processors() if enough else 1
    lots = (distinct[n : n + CONTEXTS_AT_ONCE] for n in range(0, len(distinct), CONTEXTS_AT_ONCE))
    tokens = parallel_map(partial(_tokenize, tokenizer), lots, workers)
    return dict(zip(distinct, (one for lot in tokens for one in lot), strict=True))


def _tokenize(tokenizer: Tokenizer, contexts: Sequence[str]) -> list[ContextTokens]:
    found = []
    for context in contexts:
        pieces = tokenizer.pieces(context)
        arrays = (np.array(a, dtype=np.int32) for a in (pieces.ids, pieces.starts, pieces.ends))
        found.append(ContextTokens(*arrays))
    return found


def max_context(windows: Sequence[Window]) -> list[np.ndarray]:
    """For each window of one example which of its context tokens have most context there.

    A token may stand in several windows. It belongs to the one where the smaller of its left and
    right contexts is largest, 0.01 x the window's length added so that a longer window wins
    a draw, and the earlier of two that are equal even so (`_check_is_max_context`). In

        window A: the man went to the store and bought
        window B:          to the store and bought a gallon of

    "bought" has 7 tokens to its left and 0 to its right in A, 4 and 3 in B: it is B's.

    Returns:
        [length] bool for each window.
    """
    if len(windows) == 1:
        return [np.ones(windows[0].length, dtype=bool)]
    reach = windows[-1].first + windows[-1].length
    best = np.full(reach, -1.0)
    owner = np.zeros(reach, dtype=np.int64)
    for number, window in enumerate(windows):
        place = np.arange(window.length)
        score = np.minimum(place, window.length - 1 - place) + 0.01 * window.length
        part = slice(window.first, window.first + window.length)
        better = score > best[part]
        best[part][better] = score[better]
        owner[part][better] = number
    return [
        owner[window.first : window.first + window.length] == number
        for number, window in enumerate(windows)
    ]


def by_example(windows: Sequence[Window]) -> Iterator[tuple[int, range]]:
    """Yields (example, numbers of its windows) in order; examples without a window are left out."""
    first = 0
    for number in range(1, len(windows) + 1):
        if number == len(windows) or windows[number].example != windows[first].example:
            yield windows[first].example, range(first, number)
            first = number
