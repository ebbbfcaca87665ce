"""CRC-32C (Castagnoli) of bytes, in NumPy, and the masked form in which TensorFlow stores it.

A checksum is linear over the bits, so a long message can be folded: the words of a row of fixed
width are moved forward by the length of a row, all at once, and added (xor) to the next row. The
last row has the checksum of the whole. Moving a state forward over zeros is a 32 x 32 matrix of
bits, applied here through two tables, one for each half of a word.

    words   a b c | d e f | g h i       width 3, with A = "three words later"
    row 1   Aa^d  Ab^e  Ac^f
    row 2   A(Aa^d)^g ...               checksum(row 2) = checksum(abcdefghi)
"""

from __future__ import annotations

from functools import cache

import numpy as np

_POLYNOMIAL = 0x82F63B78  # of Castagnoli, least significant bit first
_WIDTHS = (1 << 14, 1 << 7)
"""Words of a row: wide ones first, for speed; the narrow ones leave little for the plain loop."""
_WORD = np.dtype("<u4")
_MASK_DELTA = 0xA282EAD8


def crc32c(data: bytes | bytearray | memoryview) -> int:
    """The CRC-32C of contiguous bytes."""
    view = memoryview(data).cast("B") if len(data) else memoryview(b"")
    start = len(view) % 4
    state = _plain(0xFFFFFFFF, view[:start])
    words = np.frombuffer(view[start:], _WORD)
    for width in _WIDTHS:
        if len(words) > width:
            words, state = _fold(words, state, width), 0
    return _plain(state, words.tobytes()) ^ 0xFFFFFFFF


def masked_crc32c(data: bytes | bytearray | memoryview) -> int:
    """The CRC-32C, rotated and shifted as it is stored beside the data that it is the sum of."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


def _plain(state: int, data: bytes | memoryview) -> int:
    """The state after some bytes, one after the other."""
    table = _byte_table()
    for byte in data:
        state = table[(state ^ byte) & 0xFF] ^ state >> 8
    return state


@cache
def _byte_table() -> list[int]:
    table = []
    for state in range(256):
        for _ in range(8):
            state = state >> 1 ^ (_POLYNOMIAL if state & 1 else 0)
        table.append(state)
    return table


def _fold(words: np.ndarray, state: int, width: int) -> np.ndarray:
    """[words] with a state before them -> [width] with the same checksum from state 0."""
    low, high = _forward(width)
    first = len(words) % width or width
    row = np.zeros(width, _WORD)  # zeros before a message change nothing
    row[-first:] = words[:first]
    row[-first] ^= state
    halves = row.view("<u2").reshape(width, 2)
    moved, added = np.empty_like(low, shape=width), np.empty_like(high, shape=width)
    for following in words[first:].reshape(-1, width):
        low.take(halves[:, 0], out=moved, mode="clip")
        high.take(halves[:, 1], out=added, mode="clip")
        np.bitwise_xor(moved, added, out=row)
        np.bitwise_xor(row, following, out=row)
    return row


@cache
def _forward(words: int) -> tuple[np.ndarray, np.ndarray]:
    """What the low and the high half of a state become a number of zero words later (a power of
    2): two tables [65536]."""
    columns = np.array([_POLYNOMIAL, *(1 << bit for bit in range(31))], _WORD)  # one bit later
    for _ in range((32 * words).bit_length() - 1):
        low, high = _tables(columns)
        columns = low[columns & 0xFFFF] ^ high[columns >> 16]
    return _tables(columns)


def _tables(columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A matrix by what it makes of each bit, as tables of what it makes of each half word."""
    tables = []
    for half in (columns[:16], columns[16:]):
        table = np.zeros(1, _WORD)
        for column in half:
            table = np.concatenate([table, table ^ column])
        tables.append(table)
    return tables[0], tables[1]
