"""Random numbers as a pure function of a key and a counter, for whole arrays at once.

What is drawn for row 7 depends on the key and on 7 alone: not on which rows were drawn before,
in what batch, or by which worker. The generator is SplitMix64's finalizer (Steele, Lea and Flood,
2014) applied twice, once to the counter and once more after the key is mixed in.
"""

from __future__ import annotations

import hashlib

import numpy as np

FEISTEL_ROUNDS = 6
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def key(*parts: int | str) -> np.uint64:
    """A key for a stream of draws, from anything that names it."""
    text = "/".join(str(part) for part in parts)
    return np.uint64(
        int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
    )


def bits(key: np.uint64, counter: np.ndarray) -> np.ndarray:
    """64 random bits (uint64) for each counter."""
    z = counter.astype(np.uint64) * _GOLDEN  # wraps around, as meant
    return _mix(_mix(z) ^ key)


def below(key: np.uint64, counter: np.ndarray, bound: np.ndarray | int) -> np.ndarray:
    """An integer (int64) in [0, bound) for each counter; bounds are under 2**31."""
    high = bits(key, counter) >> np.uint64(32)
    return ((high * np.asarray(bound, dtype=np.uint64)) >> np.uint64(32)).astype(np.int64)


def uniform(key: np.uint64, counter: np.ndarray) -> np.ndarray:
    """A number (float64) in [0, 1) for each counter."""
    return (bits(key, counter) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def coin_sums(key: np.uint64, counter: np.ndarray, tosses: np.ndarray) -> np.ndarray:
    """How many of `tosses` fair coins show heads, for each counter: exactly binomial.

    The tosses of a counter are the low bits of as many 64-bit words as they need; `counter` must
    leave its low 10 bits free to number the words.
    """
    words = (tosses + 63) // 64
    total = int(words.sum())
    sums = np.zeros(len(tosses), dtype=np.int64)
    if total == 0:
        return sums
    owner = np.repeat(np.arange(len(tosses)), words)
    number = np.arange(total) - np.repeat(np.cumsum(words) - words, words)
    left = np.minimum(tosses[owner] - 64 * number, 64).astype(np.uint64)
    drawn = bits(key, counter[owner].astype(np.uint64) + number.astype(np.uint64))
    kept = drawn >> (np.uint64(64) - left)  # left is at least 1
    np.add.at(sums, owner, np.bitwise_count(kept).astype(np.int64))
    return sums


def permute(key: np.uint64, index: np.ndarray, size: int) -> np.ndarray:
    """Where a keyed permutation of [0, size) sends each index, without a table.

    A Feistel network over the smallest even number of bits that holds `size`; values that fall
    outside are sent round again until they fall inside (cycle walking; at most four rounds each
    on average).
    """
    half = max(1, (max(size - 1, 1).bit_length() + 1) // 2)
    mask = np.uint64((1 << half) - 1)
    shift = np.uint64(half)
    value = index.astype(np.uint64)
    round_keys = _mix(key + np.arange(FEISTEL_ROUNDS, dtype=np.uint64))
    outside = np.ones(len(value), dtype=bool)
    while outside.any():
        left, right = value[outside] >> shift, value[outside] & mask
        for round_key in round_keys:
            left, right = right, left ^ (bits(round_key, right) & mask)
        value[outside] = (left << shift) | right
        outside = value >= size
    return value.astype(np.int64)


def _mix(z: np.ndarray) -> np.ndarray:
    """SplitMix64's finalizer: a bijection of 64-bit words that spreads every bit."""
    with np.errstate(over="ignore"):
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed: np.ndarray = z ^ (z >> np.uint64(31))
    return mixed
