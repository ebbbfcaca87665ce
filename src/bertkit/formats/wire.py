"""The wire format of protocol buffers: the little of it that small messages of numbers need.

A message is a row of fields, each a key (number and kind) and a value. Numbers are varints: seven
bits to a byte, the lowest first, the eighth bit set on all but the last. Whatever is damaged
raises ValueError.
"""

from __future__ import annotations

from collections.abc import Iterator

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """The unsigned number of at most 64 bits at a position, and the position after it."""
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(data):
            raise ValueError("a number ends too early")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 64:
                break
            return value, position
    raise ValueError("a number has more than 64 bits")


def varint(value: int) -> bytes:
    """A number of 0 or more as bytes."""
    data = bytearray()
    while value >= 0x80:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)


def read_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message in order: (number, value), a value being an int or bytes.

    A varint is read as a signed number of 64 bits, which all integer types of small messages are.
    """
    position = 0
    while position < len(data):
        key, position = read_varint(data, position)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, position = read_varint(data, position)
            yield number, value - (1 << 64) if value >> 63 else value
            continue
        if kind == _BYTES:
            size, position = read_varint(data, position)
        elif kind in (_FIXED32, _FIXED64):
            size = 4 if kind == _FIXED32 else 8
        else:
            raise ValueError(f"a field has the unknown kind {kind}")
        if position + size > len(data):
            raise ValueError("a field ends too early")
        piece = data[position : position + size]
        position += size
        yield number, piece if kind == _BYTES else int.from_bytes(piece, "little")


def number_field(number: int, value: int) -> bytes:
    """A field with a varint; nothing for 0, which is what an absent number means."""
    return varint(number << 3 | _VARINT) + varint(value) if value else b""


def bytes_field(number: int, value: bytes) -> bytes:
    """A field with bytes or with a message."""
    return varint(number << 3 | _BYTES) + varint(len(value)) + value


def fixed32_field(number: int, value: int) -> bytes:
    """A field with a number in four bytes."""
    return varint(number << 3 | _FIXED32) + value.to_bytes(4, "little")
