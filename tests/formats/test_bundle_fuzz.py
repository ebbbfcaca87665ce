"""Thousands of damaged checkpoints: each is read or refused in one line, soon, in little room."""

from __future__ import annotations

import random
import time
import tracemalloc
from pathlib import Path

import pytest

from bertkit.errors import UserError
from bertkit.formats.bundle import Bundle
from bertkit.formats.kinds import find_index
from bertkit.formats.table import read_table
from bertkit.formats.tensorflow import load_tensorflow, save_tensorflow
from bertkit.model.bert import PretrainingModel
from bertkit.model.config import ModelConfig
from tests.formats.blocks import entry, plain_block, table_of, with_checksums

MUTATIONS = 2500
SECONDS_EACH = 2.0  # of the processor
MEMORY = 64 << 20  # the checkpoint has 10 kB
INDEX, DATA = "bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001"


def mutate(data: bytes, draw: random.Random) -> bytes:
    """One to four changes: bytes set, flipped, cut out, doubled, put in, moved, or cut off."""
    changed = bytearray(data)
    for _ in range(draw.randint(1, 4)):
        start = draw.randrange(len(changed) + 1)
        end = min(len(changed), start + draw.choice([1, 1, 2, 5, 40]))
        kind = draw.randrange(7)
        if kind == 0:
            changed[start:end] = bytes(
                draw.choice([0, 1, 127, 128, 255]) for _ in range(start, end)
            )
        elif kind == 1:
            for position in range(start, end):
                changed[position] ^= 1 << draw.randrange(8)
        elif kind == 2:
            del changed[start:end]
        elif kind == 3:
            changed[start:start] = changed[start:end]
        elif kind == 4:
            changed[start:start] = draw.randbytes(draw.randint(1, 12))
        elif kind == 5:
            piece = changed[start:end]
            del changed[start:end]
            place = draw.randrange(len(changed) + 1)
            changed[place:place] = piece
        elif draw.random() < 0.2:
            del changed[start:]
    return bytes(changed)


def mutated_index(index: bytes, draw: random.Random) -> bytes:
    """A damaged index: as it is, with its checksums put right, or with one entry damaged."""
    kind = draw.randrange(3)
    if kind == 0:
        return mutate(index, draw)
    if kind == 1:  # changes that keep the footer, so that the checksums can be put right
        body = bytearray(index)
        for _ in range(draw.randint(1, 4)):
            body[draw.randrange(len(body) - 48)] = draw.randrange(256)
        return with_checksums(bytes(body))
    table = list(read_table(index).items())
    for _ in range(draw.randint(1, 3)):
        number = draw.randrange(len(table))
        key, value = table[number]
        what = draw.randrange(4)
        if what == 0:
            table[number] = (key, mutate(value, draw))
        elif what == 1:
            table[number] = (mutate(key, draw), value)
        elif what == 2:
            table.insert(number, (key, table[draw.randrange(len(table))][1]))
        else:
            table[number] = (key, table[draw.randrange(len(table))][1])
    if draw.random() < 0.7:
        table.sort()
    body = b"".join(entry(0, key, value) for key, value in table)
    return table_of([(b"\xff" * 8, plain_block(body, packed=draw.random() < 0.1))])


@pytest.mark.slow
def test_damaged_checkpoints_are_read_or_refused_in_one_line(tmp_path: Path) -> None:
    config = ModelConfig(20, 8, 1, 2, 16, max_positions=8)
    save_tensorflow(PretrainingModel(config), tmp_path)
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    draw, refused, slowest = random.Random(0), 0, 0.0
    tracemalloc.start()
    try:
        for number in range(MUTATIONS):
            name = draw.choice([INDEX, INDEX, INDEX, DATA, "bert_config.json", "checkpoint"])
            damaged = (mutated_index if name == INDEX else mutate)(files[name], draw)
            (tmp_path / name).write_bytes(damaged)
            start = time.process_time()
            try:
                load_tensorflow(tmp_path, optimizer=True)
                bundle = Bundle(find_index(tmp_path))
                for tensor, entry_ in bundle.entries.items():
                    if entry_.readable:
                        bundle.read(tensor)
            except UserError as error:
                refused += 1
                assert "\n" not in str(error) and len(str(error)) < 2000, number
            slowest = max(slowest, time.process_time() - start)
            assert slowest < SECONDS_EACH, f"mutation {number} took {slowest:.1f} s"
            (tmp_path / name).write_bytes(files[name])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    print(f"{MUTATIONS} mutations, {refused} refused, slowest {slowest:.2f} s, peak {peak:,} bytes")
    assert peak < MEMORY
    assert MUTATIONS / 2 < refused < MUTATIONS
