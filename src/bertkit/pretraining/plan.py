"""The plan of an epoch: a table of sentence pairs, made from sentence lengths alone.

This is the walk of the reference release (create_pretraining_data.py,
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

from dataclasses import dataclass

import numpy as np

from bertkit.errors import UserError
from bertkit.pretraining import draws

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

SPECIAL_TOKENS = 3
"""[CLS], [SEP] and [SEP] of a sentence pair."""

WALK_SENTENCES = 2000


@dataclass(frozen=True)
class PlanOptions:
    """What the plan depends on beside the corpus.

    Attributes:
        sequence_length: tokens of the longest example, special tokens included.
        short_probability: how often a walk has a shorter target (reference: 0.1).
        seed: of all draws.
    """

    sequence_length: int
    short_probability: float = 0.1
    seed: int = 0


def make_plan(
    sentence_lengths: np.ndarray,
    document_bounds: np.ndarray,
    options: PlanOptions,
    split: str,
    epoch: int,
) -> np.ndarray:
    """The pairs of one epoch, ordered by where A starts.

    Args:
        sentence_lengths: [sentences], tokens of each sentence of the split.
        document_bounds: [documents + 1], document d is sentences bounds[d]:bounds[d + 1].

    Returns:
        an array of ROW, one row for each example.

    Raises:
        UserError: there is one document only, so no B can come from another.
    """
    documents = len(document_bounds) - 1
    if documents < 2:
        raise UserError(
            f"the '{split}' part of the corpus has {documents} document(s), and a random next "
            "sentence must come from another one; prepare a corpus of two documents or more "
            "(see 'bertkit prepare --documents')"
        )

    def stream(name: str) -> np.uint64:
        return draws.key("plan", options.seed, split, epoch, options.sequence_length, name)

    bounds = document_bounds.astype(np.int64)
    ends = np.concatenate([[0], np.cumsum(sentence_lengths, dtype=np.int64)])  # tokens before
    longest = options.sequence_length - SPECIAL_TOKENS
    first, last, document = _walks(bounds)
    target = np.where(
        draws.uniform(stream("short"), first) < options.short_probability,
        2 + draws.below(stream("target"), first, longest - 1),
        longest,
    )
    position = first.copy()
    walk = np.arange(len(first))
    rounds: list[np.ndarray] = []
    while walk.size:
        start, goal = position[walk], target[walk]
        chunk_end = np.searchsorted(ends, ends[start] + goal)  # first end that reaches the goal
        chunk_end = np.clip(chunk_end, start + 1, last[walk])
        sentences = chunk_end - start
        a = 1 + draws.below(stream("a"), start, np.maximum(sentences - 1, 1))
        heads = (draws.bits(stream("next"), start) & np.uint64(1)).astype(bool)
        random = heads | (sentences == 1)
        b_start = start + a
        b = sentences - a
        if random.any():
            other = _another(stream("document"), start[random], document[walk][random], documents)
            size = bounds[other + 1] - bounds[other]
            begin = bounds[other] + draws.below(stream("sentence"), start[random], size)
            a_tokens = ends[start + a] - ends[start]
            wanted = np.maximum(goal - a_tokens, 1)[random]
            b_end = np.searchsorted(ends, ends[begin] + wanted)
            b_end = np.clip(b_end, begin + 1, bounds[other + 1])
            b_start[random] = begin
            b[random] = b_end - begin
        tokens = ends[start + a] - ends[start] + ends[b_start + b] - ends[b_start]
        rows = np.empty(len(walk), dtype=ROW)
        rows["a_start"], rows["a_sentences"] = start, a
        rows["b_start"], rows["b_sentences"] = b_start, b
        rows["length"] = np.minimum(tokens, longest) + SPECIAL_TOKENS
        rows["flags"] = np.where(random, RANDOM_NEXT, 0)
        rounds.append(rows)
        position[walk] = start + np.where(random, a, sentences)
        walk = walk[position[walk] < last[walk]]
    plan = np.concatenate(rounds)
    return plan[np.argsort(plan["a_start"])]  # A's starts are all different


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
