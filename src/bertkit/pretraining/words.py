"""Where words start, for masking whole words: the corpus's own bits, or the ## of WordPiece.

A corpus prepared with `--words` has a bit for each token that says whether a word starts there; in
Chinese, where a token is a character, only these bits know the words. Without them a word is a
piece and the pieces with ## that follow it, as in the reference release.
"""

from __future__ import annotations

import numpy as np

from bertkit.corpus.format import CorpusSplit
from bertkit.text.characters import is_cjk
from bertkit.text.tokenizer import Tokenizer
from bertkit.text.wordpiece import PREFIX

LOOKED_AT = 2000
"""Sentences, spread over the split, that `chinese_share` reads."""


def continuing(tokenizer: Tokenizer) -> np.ndarray:
    """[vocabulary] bool: the entries that go on with a word."""
    return np.array([entry.startswith(PREFIX) for entry in tokenizer.vocabulary])


def word_starts(
    split: CorpusSplit,
    first: np.ndarray,
    count: np.ndarray,
    ids: np.ndarray,
    continues: np.ndarray | None,
) -> np.ndarray:
    """Whether a word starts at each of the tokens `ids` that `split.read(first, count)` gave.

    `continues` is what `continuing` says of the vocabulary, for a corpus without bits.
    """
    if split.has_words:
        return split.word_starts(first, count)
    if continues is None:
        raise ValueError("whole words need the corpus's word starts or the vocabulary's pieces")
    starts: np.ndarray = ~continues[ids]
    return starts


def chinese_share(split: CorpusSplit, tokenizer: Tokenizer) -> float:
    """The share of the split's tokens that are single Chinese characters, from a sample."""
    chinese = np.array([len(entry) == 1 and is_cjk(entry) for entry in tokenizer.vocabulary])
    first = np.unique(np.linspace(0, split.sentences - 1, LOOKED_AT).astype(np.int64))
    ids, _ = split.read(first, np.ones_like(first))
    return float(chinese[ids].mean())
