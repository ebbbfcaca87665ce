"""Decompression of a Snappy block (the raw format, without frames).

A block is its uncompressed length and then pieces, of which the two lowest bits of the first byte
tell the kind: bytes as they are, or a copy of what stands some way back in the output.
"""

from __future__ import annotations

from bertkit.formats.wire import read_varint

_LARGEST_GROWTH = 32  # three bytes can stand for 64, so no block grows more than 22 times


def decompress(data: bytes, largest: int) -> bytes:
    """The bytes of a Snappy block. Raises ValueError for a damaged one or more than `largest`."""
    length, position = read_varint(data, 0)
    if length > min(largest, _LARGEST_GROWTH * len(data)):
        raise ValueError(f"a compressed block of {len(data)} bytes claims to hold {length}")
    output = bytearray()
    while position < len(data):
        tag = data[position]
        position += 1
        kind, number = tag & 3, tag >> 2
        if kind == 0:
            if number >= 60:  # the length less 1 is in the next one to four bytes
                extra = number - 59
                number = int.from_bytes(data[position : position + extra], "little")
                position += extra
            size = number + 1
            if position + size > len(data):
                raise ValueError("a compressed block ends too early")
            output += data[position : position + size]
            position += size
        else:
            extra = (0, 1, 2, 4)[kind]
            offset = int.from_bytes(data[position : position + extra], "little")
            size = number + 1
            if kind == 1:  # three bits of the tag are the length less 4, three more of the offset
                offset, size = offset | (number >> 3) << 8, (number & 7) + 4
            position += extra
            _copy(output, offset, size)
        if len(output) > length:
            break
    if position > len(data) or len(output) != length:
        raise ValueError("a compressed block does not have the length that it claims")
    return bytes(output)


def _copy(output: bytearray, offset: int, size: int) -> None:
    """Appends `size` bytes from `offset` back; a copy may reach into what it has just written."""
    start = len(output) - offset
    if offset == 0 or start < 0:
        raise ValueError("a compressed block copies from before its beginning")
    piece = output[start : start + size]
    output += (piece * (size // len(piece) + 1))[:size]
