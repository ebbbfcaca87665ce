"""A small Snappy compressor, and tables with compressed blocks, to test the readers with."""

from __future__ import annotations

import struct

from bertkit.formats.crc32c import masked_crc32c
from bertkit.formats.wire import read_varint, varint

MAGIC = struct.pack("<Q", 0xDB4775248B80FB57)


def compress(data: bytes) -> bytes:
    """Literals of at most 60 bytes, and copies with offsets of one and of two bytes."""
    packed, position, literal = bytearray(varint(len(data))), 0, bytearray()

    def flush() -> None:
        for start in range(0, len(literal), 60):
            piece = literal[start : start + 60]
            packed.append((len(piece) - 1) << 2)
            packed.extend(piece)
        literal.clear()

    while position < len(data):
        size = min(11, len(data) - position)
        while size >= 4:
            found = data.rfind(data[position : position + size], 0, position + size - 1)
            if found >= 0 and position - found < 65536:
                break
            size -= 1
        if size < 4:
            literal.append(data[position])
            position += 1
            continue
        flush()
        offset = position - found
        if offset < 2048:
            packed += bytes([(offset >> 8) << 5 | (size - 4) << 2 | 1, offset & 0xFF])
        else:
            packed += bytes([(size - 1) << 2 | 2]) + struct.pack("<H", offset)
        position += size
    flush()
    return bytes(packed)


def packed_block(data: bytes) -> bytes:
    """A compressed block with its trailer."""
    block = compress(data) + b"\1"
    return block + struct.pack("<I", masked_crc32c(block))


def handle(offset: int, block: bytes) -> bytes:
    """Where a block with a trailer lies."""
    return varint(offset) + varint(len(block) - 5)


def blocks_of(table: bytes) -> list[tuple[int, int]]:
    """Offset and size of the three blocks of a small table: data, extensions, index."""
    extensions, position = _handle(table, len(table) - 48)
    index, _ = _handle(table, position)
    return [(0, extensions[0] - 5), extensions, index]


def _handle(table: bytes, position: int) -> tuple[tuple[int, int], int]:
    offset, position = read_varint(table, position)
    size, position = read_varint(table, position)
    return (offset, size), position


def with_checksums(table: bytes) -> bytes:
    """A changed table with checksums that agree again, where its footer can still be read."""
    changed = bytearray(table)
    for offset, size in blocks_of(table):
        end = offset + size + 1
        if 0 <= offset < end <= len(table) - 4:
            changed[end : end + 4] = struct.pack("<I", masked_crc32c(table[offset:end]))
    return bytes(changed)


def entry(shared: int, own: bytes, value: bytes) -> bytes:
    return varint(shared) + varint(len(own)) + varint(len(value)) + own + value


def plain_block(entries: bytes, restarts: tuple[int, ...] = (0,), packed: bool = False) -> bytes:
    """A block with its trailer, of entries that may be wrong."""
    data = entries + struct.pack(f"<{len(restarts) + 1}I", *restarts, len(restarts))
    if packed:
        return packed_block(data)
    data += b"\0"
    return data + struct.pack("<I", masked_crc32c(data))


def table_of(blocks: list[tuple[bytes, bytes]]) -> bytes:
    """A table of blocks, given with their separators, whatever they hold."""
    table, index = b"", b""
    for separator, block in blocks:
        index += entry(0, separator, handle(len(table), block))
        table += block
    extensions, listed = plain_block(b""), plain_block(index)
    footer = handle(len(table), extensions) + handle(len(table) + len(extensions), listed)
    return table + extensions + listed + footer.ljust(40, b"\0") + MAGIC
