"""CRC-32C: the published vectors, and the folded way beside the plain one."""

from __future__ import annotations

import numpy as np
import pytest

from bertkit.formats.crc32c import crc32c, masked_crc32c


def plain_crc32c(data: bytes) -> int:
    """The definition: a bit at a time."""
    state = 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = state >> 1 ^ (0x82F63B78 if state & 1 else 0)
    return state ^ 0xFFFFFFFF


@pytest.mark.parametrize(
    ("data", "checksum"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
def test_the_vectors_of_rfc_3720(data: bytes, checksum: int) -> None:
    assert crc32c(data) == checksum


SIZES = [1, 3, 4, 5, 511, 512, 513, 516, 517, 1023, 65535, 65536, 65540, 65541, 131072, 196611]


@pytest.mark.parametrize("size", SIZES)
def test_folding_changes_nothing(size: int) -> None:
    data = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    expected = plain_crc32c(data.tobytes())
    assert crc32c(data.data) == expected
    assert crc32c(data.tobytes()) == expected
    assert crc32c(memoryview(b"x" + data.tobytes())[1:]) == expected, "of any alignment"


def test_every_byte_counts() -> None:
    data = bytearray(np.random.default_rng(0).integers(0, 256, 70_001, np.uint8).tobytes())
    seen = {crc32c(data)}
    for position in range(0, len(data), 997):
        data[position] ^= 1
        seen.add(crc32c(data))
    assert len(seen) == 1 + len(range(0, len(data), 997))


def test_the_mask_is_that_of_tensorflow() -> None:
    # LevelDB's own test: masked and unmasked differ, and the mask of crc("foo") is known
    assert crc32c(b"foo") == plain_crc32c(b"foo")
    crc = crc32c(b"foo")
    rotated = (masked_crc32c(b"foo") - 0xA282EAD8) & 0xFFFFFFFF
    assert (rotated >> 17 | rotated << 15) & 0xFFFFFFFF == crc
