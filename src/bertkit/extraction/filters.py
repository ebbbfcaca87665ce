"""Language and duplicates: what is the language of a text, and which texts are the same.

Exact duplicates have the same words, whatever the white space between them. Near ones have most of
their sequences of five words in common (Jaccard similarity), which MinHash estimates from
signatures of 128 numbers (Broder 1997), here by the package datasketch. Of a group the first in the
order of the inputs is kept.

datasketch's own index keeps every signature whole, in Python objects. `NearIndex` holds for each
document a dictionary entry for each band and one byte of each number (Li & König 2010).
"""

from __future__ import annotations

import functools
import hashlib
import re
from typing import Any

from bertkit.extras import need

PERMUTATIONS = 128
SHINGLE = 5
"""Words in a sequence; of Chinese and Japanese, characters."""

_LANGUAGE_SAMPLE = 4000
_VARIETY_OF = {"wuu": "zh", "yue": "zh", "arz": "ar", "ary": "ar", "nn": "no", "nb": "no"}
_BLOCK = 4096
_WORD = re.compile(
    r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]|[^\W\u3040-\u30ff\u3400-\u9fff]+"
)


def _py3langid() -> Any:
    return need("py3langid", "extract", "--language needs")


def _datasketch() -> Any:
    return need("datasketch", "extract", "--deduplicate near needs")


def languages_of(text: str) -> tuple[str, ...]:
    """The code of the language that a text begins in, and of the one that this is a variety of."""
    code: str = _py3langid().classify(text[:_LANGUAGE_SAMPLE])[0]
    return (code, _VARIETY_OF[code]) if code in _VARIETY_OF else (code,)


def known_languages() -> list[str]:
    """The codes that `languages_of` can give."""
    return sorted(code for code, _ in _py3langid().rank("text"))


def digest(text: str) -> bytes:
    """16 bytes that texts of the same words share."""
    return hashlib.blake2b(" ".join(text.split()).encode(), digest_size=16).digest()


@functools.cache
def _minhash() -> Any:
    datasketch = _datasketch()
    return datasketch.MinHash(num_perm=PERMUTATIONS, seed=1, hashfunc=_hash)


def _hash(shingle: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(shingle, digest_size=4).digest(), "little")


def signature(text: str) -> bytes:
    """The MinHash of a text: PERMUTATIONS numbers of 32 bits, little-endian."""
    words = _WORD.findall(text.lower())
    last = max(1, len(words) - SHINGLE + 1)
    minhash = _minhash().copy()
    for start in range(0, last, _BLOCK):  # not all at once: it needs 1 kB a sequence
        shingles = {
            "\t".join(words[place : place + SHINGLE]).encode("utf-8")
            for place in range(start, min(start + _BLOCK, last))
        }
        minhash.update_batch(sorted(shingles))
    numbers: bytes = minhash.hashvalues.astype("<u4").tobytes()
    return numbers


class NearIndex:
    """Remembers documents by their signatures and finds one that is nearly the same.

    A signature is cut into bands; two documents that agree in one whole band are compared by the
    share of the numbers that agree. How many bands there are is datasketch's choice for the
    `threshold`, so that few are missed and few compared in vain.
    """

    def __init__(self, threshold: float) -> None:
        lsh = _datasketch().MinHashLSH(threshold, PERMUTATIONS)
        self.threshold = threshold
        self.bands, self.rows = int(lsh.b), int(lsh.r)
        self.found: dict[int, int] = {}  # hash of a band -> number of the first document with it
        self.low = bytearray()  # the lowest byte of each number of each document
        self.names: list[str] = []

    def find_or_add(self, name: str, numbers: bytes) -> tuple[str, float] | None:
        """Name and similarity of a document that is nearly the same; None if this one is new."""
        low = numbers[::4]
        keys = []
        compared = set()
        for band in range(self.bands):
            part = numbers[4 * band * self.rows : 4 * (band + 1) * self.rows]
            person = band.to_bytes(2, "little")
            key = hashlib.blake2b(part, digest_size=8, person=person).digest()
            keys.append(int.from_bytes(key, "little"))
            other = self.found.get(keys[-1])
            if other is None or other in compared:
                continue
            compared.add(other)
            start = other * PERMUTATIONS
            theirs = self.low[start : start + PERMUTATIONS]
            equal = sum(map(int.__eq__, low, theirs)) / PERMUTATIONS
            similarity = max(0.0, (equal - 1 / 256) / (1 - 1 / 256))  # bytes agree by chance too
            if similarity >= self.threshold:
                return self.names[other], similarity
        number = len(self.names)
        self.names.append(name)
        self.low += low
        for key_number in keys:
            self.found.setdefault(key_number, number)
        return None
