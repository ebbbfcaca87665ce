"""Tables, Snappy blocks and messages: whole ones there and back, wrong ones refused."""

from __future__ import annotations

import struct
import tracemalloc

import numpy as np
import pytest

from bertkit.formats.crc32c import masked_crc32c
from bertkit.formats.snappy import decompress
from bertkit.formats.table import LARGEST, read_table, write_table
from bertkit.formats.wire import (
    bytes_field,
    fixed32_field,
    number_field,
    read_fields,
    read_varint,
    varint,
)
from tests.formats.blocks import compress, entry, handle, packed_block, plain_block, table_of


def many(count: int, size: int = 30) -> dict[bytes, bytes]:
    generator = np.random.default_rng(0)
    return {
        b"bert/encoder/layer_%05d/kernel" % number: generator.bytes(int(generator.integers(size)))
        for number in range(count)
    }


@pytest.mark.parametrize("count", [0, 1, 16, 17, 500, 20_000])
def test_a_table_comes_back_as_it_was(count: int) -> None:
    entries = {b"": b"header", **many(count)} if count else {}
    assert read_table(write_table(entries.items())) == entries


def test_keys_of_any_bytes_come_back() -> None:
    entries = dict.fromkeys(
        sorted([b"", b"\0", b"\0\xff", b"\xff", b"\xff\xff", "中文".encode()]), b"v"
    )
    assert read_table(write_table(entries.items())) == entries


def test_compressed_blocks_are_read() -> None:
    entries = many(40)
    body = b"".join(entry(0, key, value) for key, value in entries.items())
    block = plain_block(body, packed=True)
    assert len(block) < len(body)
    assert read_table(table_of([(b"c", block)])) == entries


ONE, TWO = plain_block(entry(0, b"a", b"1")), plain_block(entry(0, b"b", b"2"))


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (b"", "does not end as a table does"),
        (bytes(LARGEST + 1), "more than any index"),
        (table_of([(b"b", ONE), (b"b", ONE)]), "'a' stands twice"),
        (table_of([(b"b", TWO), (b"b", ONE)]), "out of order"),
        (table_of([(b"b", plain_block(entry(0, b"a", b"1") * 2))]), "'a' stands twice"),
        (table_of([(b"a", TWO)]), "'b' is not where its index says"),
        (table_of([(b"b", plain_block(entry(1, b"a", b"")))]), "an entry is damaged"),
        (table_of([(b"b", plain_block(b"\0\7"))]), "an entry is damaged"),
        (table_of([(b"b", plain_block(entry(0, b"k" * 5000, b"")))]), "an entry is damaged"),
        (table_of([(b"b", plain_block(b"", (0,) * 9)[-9:])]), r"checksum|restarts|short"),
        (table_of([(b"b", ONE)])[:20] + table_of([(b"b", ONE)])[21:], "checksum|over its end"),
    ],
    ids=lambda value: value if isinstance(value, str) else "table",
)
def test_a_wrong_table_is_refused(table: bytes, says: str) -> None:
    with pytest.raises(ValueError, match=says) as error:
        read_table(table)
    assert "\n" not in str(error.value)


def test_any_changed_byte_is_noticed() -> None:
    table = write_table(many(20).items())
    for position in range(len(table)):
        changed = bytearray(table)
        changed[position] ^= 0x10
        try:
            assert read_table(bytes(changed)) == many(20), "the footer's padding only"
            assert len(table) - 48 <= position < len(table) - 8
        except ValueError:
            pass


def test_blocks_that_overlap_are_refused() -> None:
    table = table_of([(b"a", ONE), (b"b", TWO)])
    index = entry(0, b"a", varint(0) + varint(len(ONE) - 5)) * 2
    listed = plain_block(index)
    end = len(ONE) + len(TWO) + len(plain_block(b""))
    footer = handle(0, ONE) + varint(end) + varint(len(listed) - 5)
    broken = table[:end] + listed + footer.ljust(40, b"\0") + table[-8:]
    with pytest.raises(ValueError, match="overlap"):
        read_table(broken)


def bombs() -> dict[str, bytes]:
    """Small tables that claim to hold a great deal."""
    block = varint(1 << 40) + b"\0\0" + b"\xfe\1\0" * 1000 + b"\1"
    claimed = block + struct.pack("<I", masked_crc32c(block))
    first = 0x70 << 72
    keys = entry(0, b"k" * 4000, b"") + b"".join(
        entry(3990, number.to_bytes(10, "big"), b"") for number in range(first, first + 20_000)
    )
    return {
        "compressed": table_of([(b"z", claimed)]),
        "prefixes": table_of([(b"z", plain_block(keys))]),
    }


@pytest.mark.parametrize("bomb", ["compressed", "prefixes"])
def test_a_bomb_takes_little_memory(bomb: str) -> None:
    table = bombs()[bomb]
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"claims to hold|larger than those"):
            read_table(table)
        assert tracemalloc.get_traced_memory()[1] < 200 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "data",
    [b"", b"a", b"ab" * 300, b"bert/encoder/layer_" * 5, bytes(range(256)) * 12, bytes(70_000)],
)
def test_snappy_comes_back(data: bytes) -> None:
    assert decompress(compress(data), LARGEST) == data


def test_snappy_reads_long_literals_and_far_copies() -> None:
    data = np.random.default_rng(0).bytes(70_000)
    literal = bytes([61 << 2]) + (65_535).to_bytes(2, "little") + data[:65_536]
    literal += bytes([62 << 2]) + (4463).to_bytes(3, "little") + data[65_536:]
    copy = bytes([63 << 2 | 3]) + (70_000).to_bytes(4, "little")
    assert decompress(varint(70_064) + literal + copy, LARGEST) == data + data[:64]


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"\x05\x00a",  # claims five bytes and has one
        b"\x01\x04ab",  # has one more than it claims
        b"\x04\x01\x01",  # copies from before its beginning
        b"\x05\x00a\x01\x00",  # copies from no distance
        b"\x05\x10ab",  # a literal that is cut off
        b"\x05\x00a\x01",  # a copy without its offset
        b"\x03\xf0",
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    ],
)
def test_broken_snappy_is_refused(packed: bytes) -> None:
    with pytest.raises(ValueError):
        decompress(packed, LARGEST)


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 1 << 32, (1 << 64) - 1])
def test_varints_come_back(value: int) -> None:
    assert read_varint(b"?" + varint(value) + b"?", 1) == (value, 1 + len(varint(value)))


def test_fields_come_back() -> None:
    message = number_field(1, 300) + bytes_field(2, b"x") + fixed32_field(6, 1 << 31)
    assert list(read_fields(message)) == [(1, 300), (2, b"x"), (6, 1 << 31)]
    assert number_field(4, 0) == b""
    assert list(read_fields(b"\x08" + varint((1 << 64) - 1))) == [(1, -1)]


@pytest.mark.parametrize(
    "data", [b"\x08", b"\x08\xff", b"\x12\x05ab", b"\x35abc", b"\x0b", b"\x08" + b"\xff" * 11]
)
def test_a_broken_message_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        list(read_fields(data))


def test_packed_blocks_have_right_checksums() -> None:
    assert packed_block(b"abc")[-5] == 1
