"""Sorted tables of keys and values: the format of LevelDB, in which TensorFlow writes its indexes.

    block   entries, then the positions of the restarts and their number (4 bytes each)
            entry: shared, own, value lengths (varints), own part of the key, value
            then a byte (0 plain, 1 Snappy) and the masked CRC-32C of the block and that byte
    table   data blocks, an empty block for extensions, the index block, a footer of 48 bytes
            index block: a key not below the last of a data block -> its offset and size

A key leaves out what it shares with the key before it, except at a restart. Read and written
whole: an index has some tens of thousands of bytes. A damaged table raises ValueError, and nothing
in it makes reading take more time or memory than a few times `LARGEST`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from bertkit.formats.crc32c import masked_crc32c
from bertkit.formats.snappy import decompress
from bertkit.formats.wire import read_varint, varint

LARGEST = 16 << 20
"""Bytes of the largest table that is read; the names of BERT-large have 40,000."""
_LARGEST_CONTENTS = 64 << 20  # bytes of all keys and values: prefixes can repeat a long key
_LARGEST_KEY = 4096
_MAGIC = 0xDB4775248B80FB57
_FOOTER = 48
_TRAILER = 5
_BLOCK_BYTES = 256 << 10  # as TensorFlow; BERT's index is one block
_RESTART_INTERVAL = 16
_PLAIN, _SNAPPY = 0, 1


def read_table(data: bytes) -> dict[bytes, bytes]:
    """The entries of a table, in the order of their keys.

    Raises ValueError where it is cut off, damaged, too large, or contradicts itself: a checksum
    that does not agree, blocks that overlap, keys twice or out of order.
    """
    if len(data) > LARGEST:
        raise ValueError(f"it has {len(data):,} bytes, more than any index")
    if len(data) < _FOOTER or struct.unpack("<Q", data[-8:])[0] != _MAGIC:
        raise ValueError("it does not end as a table does")
    extensions, position = _handle(data, len(data) - _FOOTER)
    index, position = _handle(data, position)
    if position > len(data) - 8:
        raise ValueError("its footer is damaged")
    _block(data, *extensions)  # of no use here, but to be whole
    entries: dict[bytes, bytes] = {}
    last, end, contents = None, 0, 0
    for separator, value in _entries(_block(data, *index)):
        (offset, size), _ = _handle(value, 0)
        if offset < end:
            raise ValueError("two of its blocks overlap")
        end = offset + size + _TRAILER
        for key, value in _entries(_block(data, offset, size)):
            if last is not None and key <= last:
                raise ValueError(f"the key {_shown(key)} stands twice or out of order")
            contents += len(key) + len(value)
            if contents > _LARGEST_CONTENTS:
                raise ValueError("its keys and values are larger than those of any index")
            entries[key] = value
            last = key
        if last is not None and last > separator:
            raise ValueError(f"the key {_shown(last)} is not where its index says")
    return entries


def _handle(data: bytes, position: int) -> tuple[tuple[int, int], int]:
    """Offset and size of a block, and the position after them."""
    offset, position = read_varint(data, position)
    size, position = read_varint(data, position)
    return (offset, size), position


def _block(data: bytes, offset: int, size: int) -> bytes:
    """A block's contents, uncompressed, once its checksum has been found right."""
    end = offset + size
    if end + _TRAILER > len(data) - _FOOTER:
        raise ValueError("a block reaches over its end")
    kind, checksum = struct.unpack("<BI", data[end : end + _TRAILER])
    if masked_crc32c(data[offset : end + 1]) != checksum:
        raise ValueError("a block does not agree with its checksum")
    if kind == _PLAIN:
        return data[offset:end]
    if kind == _SNAPPY:
        return decompress(data[offset:end], LARGEST)
    raise ValueError(f"a block is compressed in an unknown way, {kind}")


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The keys and values of a block."""
    if len(block) < 4:
        raise ValueError("a block is too short")
    (restarts,) = struct.unpack("<I", block[-4:])
    end = len(block) - 4 * (restarts + 1)
    if end < 0:
        raise ValueError("a block has more restarts than bytes")
    position, key = 0, b""
    while position < end:
        shared, position = read_varint(block, position)
        own, position = read_varint(block, position)
        size, position = read_varint(block, position)
        if shared > len(key) or shared + own > _LARGEST_KEY or position + own + size > end:
            raise ValueError("an entry is damaged")
        key = key[:shared] + block[position : position + own]
        position += own
        yield key, block[position : position + size]
        position += size


def _shown(key: bytes) -> str:
    """A key of any bytes and length, for a message of one line."""
    return repr(key[:200].decode("utf-8", "backslashreplace"))


def write_table(entries: Iterable[tuple[bytes, bytes]]) -> bytes:
    """A table of entries, given in the order of their keys, plain as TensorFlow's are."""
    table = bytearray()
    blocks: list[tuple[bytes, bytes]] = []  # last key and handle of each
    pending: list[tuple[bytes, bytes]] = []
    size = 0
    for entry in entries:
        if size >= _BLOCK_BYTES:
            blocks.append((pending[-1][0], _append(table, pending, _RESTART_INTERVAL)))
            pending, size = [], 0
        pending.append(entry)
        size += len(entry[0]) + len(entry[1])
    if pending:
        handle = _append(table, pending, _RESTART_INTERVAL)
        blocks.append((_successor(pending[-1][0]), handle))
    footer = _append(table, [], 1) + _append(table, blocks, 1)
    return bytes(table) + footer.ljust(_FOOTER - 8, b"\0") + struct.pack("<Q", _MAGIC)


def _successor(key: bytes) -> bytes:
    """A short key that is not below this one, as LevelDB ends its index with."""
    for position, byte in enumerate(key):
        if byte != 0xFF:
            return key[:position] + bytes([byte + 1])
    return key


def _append(table: bytearray, entries: list[tuple[bytes, bytes]], interval: int) -> bytes:
    """Adds a block of entries to a table; its handle."""
    block, restarts, last = bytearray(), [0], b""
    for number, (key, value) in enumerate(entries):
        shared = 0
        if number % interval:
            while shared < min(len(key), len(last)) and key[shared] == last[shared]:
                shared += 1
        elif number:
            restarts.append(len(block))
        block += varint(shared) + varint(len(key) - shared) + varint(len(value))
        block += key[shared:] + value
        last = key
    block += struct.pack(f"<{len(restarts) + 1}I", *restarts, len(restarts))
    handle = varint(len(table)) + varint(len(block))
    block.append(_PLAIN)
    table += block + struct.pack("<I", masked_crc32c(block))
    return handle
