"""Which tokens the masked LM must predict, and what it sees in their place (paper, section 3.1).

15 % of the tokens are chosen, never [CLS] or [SEP]; of those 80 % become [MASK], 10 % stay as
they are, and 10 % become a random entry of the whole vocabulary. The number chosen is the
reference's: max(1, round(0.15 * length)), special tokens counted in the length, and at most
`max_predictions`: the budget.

What is chosen is a token, a word or a span:

    token   each token as likely
    word    whole words in random order, each if the budget still holds it (the reference's whole
            word masking of May 2019); every piece draws its own 80/10/10
    span    from a random word on, 1 to 10 words, geometric with p = 0.2, as far as the budget and
            the text go; one draw of 80/10/10 serves the whole span (SpanBERT, arXiv 1907.10529)

Where the budget holds no word at all, a single token is chosen, so that each sequence has one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from bertkit.errors import UserError
from bertkit.pretraining import draws
from bertkit.pretraining.config import MaskUnits

SPLITS = {
    "paper": "80/10/10",
    "mask": "100/0/0",
    "mask-random": "80/0/20",
    "mask-same": "80/20/0",
    "same-random": "0/20/80",
    "random": "0/0/100",
}
"""The six mixes of the paper's table 8 (appendix C.2): percent [MASK] / same / random."""

SPAN_P, SPAN_WORDS = 0.2, 10
"""SpanBERT's lengths: geometric with this p among 1 to 10 words, 3.8 on average."""


@dataclass(frozen=True)
class MaskOptions:
    """How to mask. The defaults are the paper's.

    Attributes:
        rate: share of the tokens to predict.
        mask_share, random_share: what becomes of them; the rest stays as it is.
        max_predictions: most predictions in one sequence.
        units: what is chosen.
        continues: [vocabulary] bool, the entries that go on with a word, for words and spans in
            a corpus that does not know its words (`words.continuing`).
    """

    mask_id: int
    vocab_size: int
    max_predictions: int
    rate: float = 0.15
    mask_share: float = 0.8
    random_share: float = 0.1
    units: MaskUnits = "token"
    continues: np.ndarray | None = field(default=None, repr=False, compare=False)


def read_split(text: str) -> tuple[float, float]:
    """The shares that become [MASK] and random, from a name in SPLITS or as `80/10/10`.

    Raises UserError for what is neither, or does not sum to 100.
    """
    try:
        masked, same, random = (float(part) for part in SPLITS.get(text, text).split("/"))
        fine = min(masked, same, random) >= 0 and abs(masked + same + random - 100) < 1e-6
    except ValueError:
        fine = False
    if not fine:
        raise UserError(
            f"--mask-split is '{text}'; give percents of [MASK]/same/random that sum to 100, as "
            f"80/10/10, or one of {', '.join(SPLITS)}"
        )
    return masked / 100, random / 100


def default_max_predictions(sequence_length: int, rate: float) -> int:
    """The reference's rule of thumb: 20 for length 128, 77 for 512."""
    return math.ceil(sequence_length * rate)


def choose_positions(
    key: np.uint64,
    rows: np.ndarray,
    lengths: np.ndarray,
    maskable: np.ndarray,
    options: MaskOptions,
) -> np.ndarray:
    """Positions to predict in sequences laid end to end, in order.

    Args:
        key: of the draws.
        rows: [sequences] the number that each sequence's draws depend on.
        lengths: [sequences] tokens of each sequence.
        maskable: [tokens] bool, False at [CLS] and [SEP].

    Returns:
        [masked] int64 indices into the tokens.
    """
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    sequence = np.repeat(np.arange(len(lengths)), lengths)
    budget = _budget(lengths, options)
    # A random score for each token; the lowest of each sequence are chosen. The sequence goes
    # into the high bits so that one sort serves the whole batch.
    score = draws.bits(key, position_counters(rows, lengths)) >> np.uint64(24)
    score[~maskable] = np.uint64(2**40 - 1)
    order = np.argsort((sequence.astype(np.uint64) << np.uint64(40)) | score, kind="stable")
    rank = np.arange(len(order)) - bounds[sequence[order]]
    chosen = order[rank < budget[sequence[order]]]
    return np.sort(chosen[maskable[chosen]])


def choose_words(
    key: np.uint64,
    rows: np.ndarray,
    lengths: np.ndarray,
    maskable: np.ndarray,
    starts: np.ndarray,
    options: MaskOptions,
) -> tuple[np.ndarray, np.ndarray]:
    """Positions to predict as whole words or spans of them.

    Args:
        key, rows, lengths, maskable: as for `choose_positions`.
        starts: [tokens] bool, where a word starts; True at the first token of each text.

    Returns:
        positions: [masked] int64 indices into the tokens, in order.
        heads: [masked] the position whose number draws what becomes of the token: its own for
            words, that of the span's first token for spans.
    """
    counters = position_counters(rows, lengths)
    first = np.flatnonzero(maskable & starts)  # [words]
    if not len(first):
        return first, first
    word = np.cumsum(maskable & starts) - 1  # [tokens] the word of each maskable token
    size = np.bincount(word[maskable], minlength=len(first))
    text = np.cumsum(~maskable)[first]  # [words] words with one number lie in one text
    sequence = np.searchsorted(np.cumsum(lengths), first, side="right")
    words = np.bincount(sequence, minlength=len(lengths))
    begin = np.cumsum(words) - words
    score = draws.bits(key, counters[first]) >> np.uint64(24)
    order = np.argsort((sequence.astype(np.uint64) << np.uint64(40)) | score, kind="stable")
    span = np.ones(len(first), dtype=np.int64)
    if options.units == "span":
        span = span_words(draws.key("span", int(key)), counters[first])
    budget = _budget(lengths, options)
    used = np.zeros(len(lengths), dtype=np.int64)
    anchor_of = np.full(len(first), -1)  # [words] the first word of the span that took it
    for rank in range(int(words.max(initial=0))):  # all sequences try their next word
        trying = np.flatnonzero((used < budget) & (rank < words))
        if not len(trying):
            break
        anchor = order[begin[trying] + rank]
        for step in range(int(span[anchor].max())):
            taken = anchor + step
            here = np.minimum(taken, len(first) - 1)
            fits = (step < span[anchor]) & (taken < len(first)) & (text[here] == text[anchor])
            fits &= (anchor_of[here] < 0) & (used[trying] + size[here] <= budget[trying])
            trying, anchor, taken = trying[fits], anchor[fits], taken[fits]
            if not len(trying):
                break
            anchor_of[taken] = anchor
            used[trying] += size[taken]
    positions = np.flatnonzero(maskable & (anchor_of[word] >= 0))
    heads = positions if options.units == "word" else first[anchor_of[word[positions]]]
    empty = (used == 0) & (words > 0)
    if empty.any():  # their words are all longer than the budget
        alone = maskable & np.repeat(empty, lengths)
        one = MaskOptions(options.mask_id, options.vocab_size, max_predictions=1)
        single = choose_positions(key, rows, lengths, alone, one)
        positions, heads = np.concatenate([positions, single]), np.concatenate([heads, single])
        ascending = np.argsort(positions, kind="stable")
        positions, heads = positions[ascending], heads[ascending]
    return positions, heads


def span_words(key: np.uint64, counters: np.ndarray) -> np.ndarray:
    """How many words a span that starts at each counter would have: 1 to SPAN_WORDS."""
    stay = 1 - SPAN_P
    reached = draws.uniform(key, counters) * (1 - stay**SPAN_WORDS)
    lengths = np.floor(np.log1p(-reached) / math.log(stay)).astype(np.int64) + 1
    return np.minimum(lengths, SPAN_WORDS)


def mask_tokens(
    key: np.uint64,
    token_ids: np.ndarray,
    positions: np.ndarray,
    counters: np.ndarray,
    options: MaskOptions,
    heads: np.ndarray | None = None,
) -> np.ndarray:
    """The token ids with those at `positions` masked, replaced or left, as the shares say.

    `counters` ([tokens]) number the draws of each token; `heads` ([masked]) are the positions
    whose numbers decide what becomes of a token, where those are not `positions` themselves.
    """
    counter = counters[positions]
    fate = draws.uniform(key, counter if heads is None else counters[heads])
    replaced = token_ids.copy()
    replaced[positions[fate < options.mask_share]] = options.mask_id
    random = (fate >= options.mask_share) & (fate < options.mask_share + options.random_share)
    substitutes = draws.below(
        draws.key("substitute", int(key)), counter[random], options.vocab_size
    )
    replaced[positions[random]] = substitutes
    return replaced


def position_counters(rows: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """[tokens] uint64: a number for each token that depends on its row and its place in it."""
    starts = np.cumsum(lengths) - lengths
    place = np.arange(int(lengths.sum())) - np.repeat(starts, lengths)
    high = np.repeat(rows.astype(np.uint64) << np.uint64(16), lengths)
    return high | place.astype(np.uint64)


def _budget(lengths: np.ndarray, options: MaskOptions) -> np.ndarray:
    """[sequences] tokens to predict in each."""
    return np.clip(np.rint(lengths * options.rate), 1, options.max_predictions).astype(np.int64)
