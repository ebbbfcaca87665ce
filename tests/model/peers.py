"""The judge: transformers' BERT with bertkit's weights, and batches in both worlds' form."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bertkit.formats.huggingface import save_checkpoint
from bertkit.model.batch import FlatBatch

TOLERANCE = 1e-4
"""Largest difference allowed, as a share of the tensor's largest absolute value."""


@dataclass
class BothBatches:
    """The same random sequences flat for bertkit and padded for transformers."""

    flat: FlatBatch
    token_ids: Tensor
    segment_ids: Tensor
    mask: Tensor

    @property
    def padded(self) -> dict[str, Tensor]:
        """Arguments of a transformers model."""
        return {
            "input_ids": self.token_ids,
            "token_type_ids": self.segment_ids,
            "attention_mask": self.mask,
        }

    def at_tokens(self, padded: Tensor) -> Tensor:
        """[sequences, length, ...] -> [tokens, ...] at the real positions."""
        return padded[self.mask.bool()]


def random_batch(lengths: list[int], vocab_size: int, seed: int = 0) -> BothBatches:
    """Random sequences of these lengths, the second half of each in segment 1."""
    generator = np.random.default_rng(seed)
    token_ids = torch.zeros(len(lengths), max(lengths), dtype=torch.int64)
    segments, mask = torch.zeros_like(token_ids), torch.zeros_like(token_ids)
    for row, length in enumerate(lengths):
        ids = generator.integers(1, vocab_size, length)
        token_ids[row, :length] = torch.from_numpy(ids)
        segments[row, length // 2 : length] = 1
        mask[row, :length] = 1
    flat = FlatBatch.from_padded(token_ids, mask, segments)
    return BothBatches(flat, token_ids, segments, mask)


def as_peer(model: nn.Module, directory: Path, kind: str) -> Any:
    """The same weights in a transformers class, eager attention, float32, no dropout, having
    checked that it found every weight it looked for."""
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    directory.mkdir(exist_ok=True)
    save_checkpoint(model, directory)
    peer, found = getattr(transformers, kind).from_pretrained(
        directory,
        attn_implementation="eager",
        dtype=torch.float32,
        output_loading_info=True,
    )
    assert not found["missing_keys"], f"{kind} misses {found['missing_keys']}"
    assert not found["mismatched_keys"]
    return peer.eval()


def relative_difference(mine: Tensor, theirs: Tensor) -> float:
    """The largest difference as a share of the largest absolute value."""
    assert mine.shape == theirs.shape
    mine, theirs = mine.detach(), theirs.detach()
    return float((mine - theirs).abs().max() / theirs.abs().max().clamp(min=1e-30))


def report(what: str, differences: dict[str, float]) -> None:
    """Prints the worst of several differences, so that it can be quoted (pytest -s)."""
    worst = max(differences, key=lambda name: differences[name])
    print(
        f"parity: {what}: {len(differences)} tensors, "
        f"largest difference {differences[worst]:.1e} of the tensor's maximum, in {worst}"
    )


def assert_equal_numbers(what: str, pairs: dict[str, tuple[Tensor, Tensor]]) -> None:
    """Holds every pair (mine, theirs) to TOLERANCE and prints the worst."""
    differences = {name: relative_difference(*pair) for name, pair in pairs.items()}
    report(what, differences)
    wrong = {name: value for name, value in differences.items() if not value <= TOLERANCE}
    assert not wrong, wrong
