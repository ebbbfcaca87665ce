"""Which tokens the masked LM must predict, and what it sees in their place (paper, section 3.1).

15 % of the tokens are chosen, never [CLS] or [SEP]; of those 80 % become [MASK], 10 % stay as
they are, and 10 % become a random entry of the whole vocabulary. The number chosen is the
reference's: max(1, round(0.15 * length)), special tokens counted in the length, and at most
`max_predictions`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bertkit.pretraining import draws


@dataclass(frozen=True)
class MaskOptions:
    """How to mask. The defaults are the paper's.

    Attributes:
        rate: share of the tokens to predict.
        mask_share, random_share: what becomes of them; the rest stays as it is.
        max_predictions: most predictions in one sequence.
    """

    mask_id: int
    vocab_size: int
    max_predictions: int
    rate: float = 0.15
    mask_share: float = 0.8
    random_share: float = 0.1


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
    budget = np.clip(np.rint(lengths * options.rate), 1, options.max_predictions).astype(np.int64)
    # A random score for each token; the lowest of each sequence are chosen. The sequence goes
    # into the high bits so that one sort serves the whole batch.
    score = draws.bits(key, position_counters(rows, lengths)) >> np.uint64(24)
    score[~maskable] = np.uint64(2**40 - 1)
    order = np.argsort((sequence.astype(np.uint64) << np.uint64(40)) | score, kind="stable")
    rank = np.arange(len(order)) - bounds[sequence[order]]
    chosen = order[rank < budget[sequence[order]]]
    return np.sort(chosen[maskable[chosen]])


def mask_tokens(
    key: np.uint64,
    token_ids: np.ndarray,
    positions: np.ndarray,
    counters: np.ndarray,
    options: MaskOptions,
) -> np.ndarray:
    """The token ids with those at `positions` masked, replaced or left, as the shares say.

    `counters` ([tokens]) number the draws of each token.
    """
    counter = counters[positions]
    fate = draws.uniform(key, counter)
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
