"""The plan of an epoch: a table of examples, made from sentence lengths alone.

The default, `nsp`, is the walk of the reference release (create_pretraining_data.py,
`create_instances_from_document`) without the tokens:

    draw a target length once for the walk: the whole sequence, or with probability 0.1 a
        shorter one, so that short inputs are seen too
    take sentences from the current position until the target is reached: a chunk
    A is the first 1 to n-1 sentences of the chunk (all of it when n is 1)
    B is with probability 1/2, and always when n is 1, random: it starts at a random sentence of
        another document and goes on until the target is reached; the chunk's unused sentences
        are put back. Otherwise B is the rest of the chunk

So more than half of the pairs are random (50 to 57 % with natural text), as in the reference.

Every draw depends only on the sentence that a chunk starts at, never on B's text, so all walks
advance in lock-step, each round a few array operations. A walk is a document, or a run of at
most 2,000 sentences of a longer one (the one deviation from the reference: a chunk does not
cross such a border).

The plan is a pure function of its arguments, made again bit for bit whenever it is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bertkit.errors import UserError
from bertkit.pretraining import draws
from bertkit.pretraining.config import Pairs

ROW = np.dtype(
    [
        ("a_start", "<u4"),  # first sentence of A, counted within the split
        ("b_start", "<u4"),
        ("a_sentences", "<u2"),
        ("b_sentences", "<u2"),
        ("length", "<u2"),  # tokens of the example, special tokens and truncation included
        ("flags", "<u2"),
    ]
)
RANDOM_NEXT = 1
"""The flag of a row whose B does not follow A."""

SWAPPED = 2
"""The flag of a row whose B comes right before A (sentence order)."""

SPECIAL_TOKENS = 3
"""[CLS], [SEP] and [SEP] of a sentence pair."""

ONE_TEXT: frozenset[Pairs] = frozenset({"full-sentences", "doc-sentences"})
"""Kinds of examples that have no B: [CLS], the text, [SEP]."""

WALK_SENTENCES = 2000


@dataclass(frozen=True)
class PlanOptions:
    """What the plan depends on beside the corpus.

    Attributes:
        sequence_length: tokens of the longest example, special tokens included.
        short_probability: how often a walk has a shorter target (reference: 0.1).
        seed: of all draws.
        pairs: what an example is, see above.
        duplicates: with static masking, epochs that differ (the reference's dupe_factor); then
            plans and masks repeat, and only the order of an epoch is new. None: never.
    """

    sequence_length: int
    short_probability: float = 0.1
    seed: int = 0
    pairs: Pairs = "nsp"
    duplicates: int | None = None

    @property
    def longest(self) -> int:
        """Tokens of text in the longest example: the special ones are left out."""
        return self.sequence_length - (2 if self.pairs in ONE_TEXT else SPECIAL_TOKENS)

    def content_epoch(self, epoch: int) -> int:
        """The epoch that plan and masks of `epoch` are drawn for."""
        return epoch if self.duplicates is None else epoch % self.duplicates


def make_plan(
    sentence_lengths: np.ndarray,
    document_bounds: np.ndarray,
    options: PlanOptions,
    split: str,
    epoch: int,
) -> np.ndarray:
    """The examples of one epoch, ordered by where they start.

    Args:
        sentence_lengths: [sentences], tokens of each sentence of the split.
        document_bounds: [documents + 1], document d is sentences bounds[d]:bounds[d + 1].

    Returns:
        an array of ROW, one row for each example.

    Raises:
        UserError: there is one document only, so no B can come from another; or, for sentence
            order, no document has two sentences.
    """
    documents = len(document_bounds) - 1
    check_documents(documents, options.pairs, split)
    epoch = options.content_epoch(epoch)

    def stream(name: str) -> np.uint64:
        return draws.key("plan", options.seed, split, epoch, options.sequence_length, name)

    bounds = document_bounds.astype(np.int64)
    ends = np.concatenate([[0], np.cumsum(sentence_lengths, dtype=np.int64)])  # tokens before
    if options.pairs in ONE_TEXT:
        return _texts(ends, bounds, options, stream)
    first, last, document = _walks(bounds)
    if options.pairs == "sop":
        pairable = last - first > 1
        first, last, document = first[pairable], last[pairable], document[pairable]
        if not len(first):
            raise UserError(
                f"no document in the '{split}' part of the corpus has two sentences, so there is "
                "no sentence order to learn; choose --objective mlm+nsp or mlm"
            )
    target = _targets(first, options, stream)
    position = first.copy()
    walk = np.arange(len(first))
    rounds: list[np.ndarray] = []
    chunks: list[np.ndarray] = []
    while walk.size:
        start, goal = position[walk], target[walk]
        if options.pairs == "nsp-sentence":
            chunk_end = np.minimum(start + 2, last[walk])
        elif options.pairs == "sop":
            start = np.minimum(start, last[walk] - 2)  # a lone last one takes one along
            chunk_end = np.searchsorted(ends, ends[start] + goal)
            chunk_end = np.clip(chunk_end, start + 2, last[walk])
        else:
            chunk_end = np.searchsorted(ends, ends[start] + goal)  # first end at the goal
            chunk_end = np.clip(chunk_end, start + 1, last[walk])
        sentences = chunk_end - start
        a = 1 + draws.below(stream("a"), start, np.maximum(sentences - 1, 1))
        heads = (draws.bits(stream("next"), start) & np.uint64(1)).astype(bool)
        swapped = heads & (options.pairs == "sop")
        random = (heads | (sentences == 1)) & (options.pairs != "sop")
        b_start = start + a
        b = sentences - a
        if random.any():
            other = _another(stream("document"), start[random], document[walk][random], documents)
            size = bounds[other + 1] - bounds[other]
            begin = bounds[other] + draws.below(stream("sentence"), start[random], size)
            b_end = begin + 1
            if options.pairs == "nsp":
                a_tokens = ends[start + a] - ends[start]
                wanted = np.maximum(goal - a_tokens, 0)[random]
                b_end = np.searchsorted(ends, ends[begin] + wanted)
                b_end = np.clip(b_end, begin + 1, bounds[other + 1])
            b_start[random] = begin
            b[random] = b_end - begin
        tokens = ends[start + a] - ends[start] + ends[b_start + b] - ends[b_start]
        rows = np.empty(len(walk), dtype=ROW)
        rows["a_start"], rows["b_start"] = _exchanged(start, b_start, swapped)
        rows["a_sentences"], rows["b_sentences"] = _exchanged(a, b, swapped)
        rows["length"] = np.minimum(tokens, options.longest) + SPECIAL_TOKENS
        rows["flags"] = np.where(random, RANDOM_NEXT, np.where(swapped, SWAPPED, 0))
        rounds.append(rows)
        chunks.append(start.astype(np.uint32))
        position[walk] = start + np.where(random, a, sentences)
        walk = walk[position[walk] < last[walk]]
    plan = np.concatenate(rounds)
    return plan[np.argsort(np.concatenate(chunks))]  # the chunks' starts are all different


def check_documents(documents: int, pairs: Pairs, split: str) -> None:
    """Raises UserError where a random next has no other document to come from."""
    if documents < 2 and pairs in ("nsp", "nsp-sentence"):
        raise UserError(
            f"the '{split}' part of the corpus has {documents} document(s), and a random next "
            "sentence must come from another one; prepare a corpus of two documents or more "
            "(see 'bertkit prepare --documents'), or choose --objective mlm or mlm+sop"
        )


def describe(plan: np.ndarray, options: PlanOptions) -> str:
    """What a plan holds, in words."""
    length = f"an epoch with {options.sequence_length} tokens"
    if options.pairs in ONE_TEXT:
        where = "one document each" if options.pairs == "doc-sentences" else "across documents"
        return f"{len(plan):,} texts {length}, {where}"
    if options.pairs == "sop":
        share = ((plan["flags"] & SWAPPED) != 0).mean()
        return f"{len(plan):,} pairs {length}, {share:.1%} of them swapped"
    share = ((plan["flags"] & RANDOM_NEXT) != 0).mean()
    return f"{len(plan):,} pairs {length}, {share:.1%} of them with a random next"


def _texts(
    ends: np.ndarray, bounds: np.ndarray, options: PlanOptions, stream: Callable[[str], np.uint64]
) -> np.ndarray:
    """Rows without B: each takes all the sentences that fit, and one in any case."""
    if options.pairs == "doc-sentences":
        first, last, _ = _walks(bounds)
        borders = np.zeros(1, dtype=np.int64)  # none inside a text
    else:
        first, last = _windows(len(ends) - 1, stream("window"))
        # Borders of documents before each sentence: a [SEP] stands at each one inside a text.
        borders = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    begins, filled = ends[:-1] + borders, ends[1:] + borders  # as many as sentences
    target = _targets(first, options, stream)
    position = first.copy()
    walk = np.arange(len(first))
    rounds: list[np.ndarray] = []
    while walk.size:
        start = position[walk]
        stop = np.searchsorted(filled, begins[start] + target[walk], side="right")
        stop = np.clip(stop, start + 1, last[walk])
        rows = np.zeros(len(walk), dtype=ROW)
        rows["a_start"], rows["a_sentences"], rows["b_start"] = start, stop - start, stop
        tokens = filled[stop - 1] - begins[start]
        rows["length"] = np.minimum(tokens, options.longest) + 2  # [CLS] and the last [SEP]
        rounds.append(rows)
        position[walk] = stop
        walk = walk[stop < last[walk]]
    plan = np.concatenate(rounds)
    return plan[np.argsort(plan["a_start"])]  # all different


def _targets(
    first: np.ndarray, options: PlanOptions, stream: Callable[[str], np.uint64]
) -> np.ndarray:
    """The tokens that each walk's chunks reach for: mostly the longest, sometimes fewer."""
    return np.where(
        draws.uniform(stream("short"), first) < options.short_probability,
        2 + draws.below(stream("target"), first, options.longest - 1),
        options.longest,
    )


def _exchanged(
    one: np.ndarray, other: np.ndarray, swapped: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    return np.where(swapped, other, one), np.where(swapped, one, other)


def _windows(sentences: int, key: np.uint64) -> tuple[np.ndarray, np.ndarray]:
    """First sentence and end of runs of WALK_SENTENCES, the first one shorter by a draw."""
    shift = int(draws.below(key, np.zeros(1, dtype=np.int64), WALK_SENTENCES)[0])
    first = np.arange(-shift, sentences, WALK_SENTENCES)
    return np.maximum(first, 0), np.minimum(first + WALK_SENTENCES, sentences)


def _walks(bounds: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """First sentence, end and document of each walk ([walks] int64 each)."""
    sizes = np.diff(bounds)
    runs = -(-sizes // WALK_SENTENCES)
    document = np.repeat(np.arange(len(sizes)), runs)
    number = np.arange(len(document)) - np.repeat(np.cumsum(runs) - runs, runs)
    first = bounds[document] + number * WALK_SENTENCES
    return first, np.minimum(first + WALK_SENTENCES, bounds[document + 1]), document


def _another(
    key: np.uint64, counter: np.ndarray, document: np.ndarray, documents: int
) -> np.ndarray:
    """A document other than the given one, each of the others as likely."""
    other = draws.below(key, counter, documents - 1)
    return other + (other >= document)
