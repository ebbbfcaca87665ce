"""The arithmetic of a model is what torch counts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from bertkit.model.batch import FlatBatch
from bertkit.model.bert import PretrainingModel
from bertkit.model.config import model_config
from bertkit.model.encoder import set_attention
from bertkit.model.flops import forward_flops, training_flops


def test_bases_training_is_six_operations_a_weight_and_token() -> None:
    sizes = model_config("base", 30522)
    weights = 12 * 12 * 768**2  # four squares of attention, eight of the feed-forward
    assert training_flops(sizes, np.full(10, 512.0), 0.15) == pytest.approx(
        6 * weights + 12 * 12 * 768 * 512 + 0.15 * 6 * (768**2 + 768 * 30522)
    )


def test_the_arithmetic_of_a_forward_pass_is_what_torch_counts() -> None:
    sizes, sequences, length, masked = model_config("2x64x2", 500), 3, 32, 5
    model = PretrainingModel(sizes)
    set_attention(model, "matmul")
    ids = np.full(sequences * length, 7)
    batch = FlatBatch.from_arrays(ids, np.zeros_like(ids), np.full(sequences, length))
    rows = torch.arange(sequences * masked) * (length // masked)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model.losses(batch, rows, torch.full_like(rows, 7))
    predicted = masked / length
    needed = forward_flops(sizes, np.full(sequences, length), predicted, predicted)
    assert counter.get_total_flops() == pytest.approx(sequences * length * needed)
