"""The flat batch: sequences end to end, however they came in."""

from __future__ import annotations

import torch

from bertkit.model.batch import FlatBatch

IDS = [[101, 7, 8, 102], [101, 9, 102]]


def test_sequences_lie_end_to_end() -> None:
    batch = FlatBatch.from_sequences(IDS, [[0, 0, 1, 1], [0, 0, 0]])
    assert batch.token_ids.tolist() == [101, 7, 8, 102, 101, 9, 102]
    assert batch.segment_ids.tolist() == [0, 0, 1, 1, 0, 0, 0]
    assert batch.positions.tolist() == [0, 1, 2, 3, 0, 1, 2]
    assert batch.bounds.tolist() == [0, 4, 7]
    assert batch.lengths.tolist() == [4, 3]
    assert (batch.sequences, batch.tokens, batch.max_length) == (2, 7, 4)


def test_padded_input_becomes_the_same_batch() -> None:
    padded = torch.tensor([[101, 7, 8, 102], [101, 9, 102, 0]])
    batch = FlatBatch.from_padded(padded, torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]]))
    plain = FlatBatch.from_sequences(IDS)
    for name in ("token_ids", "segment_ids", "positions", "bounds"):
        assert torch.equal(getattr(batch, name), getattr(plain, name))
    assert batch.max_length == plain.max_length


def test_padding_can_be_laid_behind_the_last_sequence() -> None:
    batch = FlatBatch.from_sequences(IDS).extended(9, pad_id=5)
    assert batch.token_ids.tolist() == [101, 7, 8, 102, 101, 9, 102] + [5] * 9
    assert batch.bounds.tolist() == [0, 4, 7, 11, 15, 16], "no sequence longer than the longest"
    assert batch.positions.tolist()[7:] == [0, 1, 2, 3, 0, 1, 2, 3, 0]
    assert batch.segment_ids.tolist()[7:] == [0] * 9
    assert batch.max_length == 4
    assert FlatBatch.from_sequences(IDS).extended(0).tokens == 7
    assert FlatBatch.from_sequences(IDS).extended(2).bounds.tolist() == [0, 4, 7, 9]
