"""Where words start in Chinese: a sentence and its tokens in, a bit for each token out.

BERT's Chinese tokens are single characters, so a model that masks whole words (the whole word
masking release of BERT, and BERT-wwm for Chinese, arXiv 1906.08101) must be told the words. They
are those of jieba with its own dictionary and its model for unknown words; a token starts a word
when its first character is the first of a segmented word. A piece with ## never starts one.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from functools import cache
from typing import Any

from bertkit.extras import need
from bertkit.text.tokenizer import Tokenizer
from bertkit.text.wordpiece import PREFIX


def segmenter_name() -> str:
    """The segmenter with its version, as the manifest names it: "jieba 0.42.1".

    Raises:
        UserError: it is not installed.
    """
    return f"jieba {_jieba().__version__}"


def marked_ids(sentence: str, tokenizer: Tokenizer) -> tuple[list[int], list[bool]]:
    """The ids of a sentence, and for each token whether it starts a word."""
    pieces = tokenizer.pieces(sentence)
    starts = set(_word_starts(sentence))
    inside = _inside_words(tokenizer)
    return pieces.ids, [
        place in starts and number not in inside
        for number, place in zip(pieces.ids, pieces.starts, strict=True)
    ]


def _word_starts(sentence: str) -> Iterator[int]:
    """The first character of each segmented word; the words of jieba lie end to end."""
    place = 0
    for word in _segmenter().cut(sentence):
        yield place
        place += len(word)


@cache
def _inside_words(tokenizer: Tokenizer) -> frozenset[int]:
    """The ids of the pieces that go on with a word."""
    return frozenset(
        number for number, entry in enumerate(tokenizer.vocabulary) if entry.startswith(PREFIX)
    )


@cache
def _segmenter() -> Any:
    """A jieba of our own, for the shared one may have a user's words.

    Its dictionary is read from the package each time (a second): left to itself, jieba loads a
    cache file that anybody may have put into the folder of temporary files.
    """
    jieba = _jieba()
    segmenter = jieba.Tokenizer()
    segmenter.FREQ, segmenter.total = segmenter.gen_pfdict(segmenter.get_dict_file())
    segmenter.initialized = True
    return segmenter


def _jieba() -> Any:
    with warnings.catch_warnings():  # of its old regular expressions
        warnings.simplefilter("ignore")
        jieba = need("jieba", "chinese", "word starts in Chinese need", "or leave --words out")
    jieba.setLogLevel(logging.CRITICAL)
    return jieba
