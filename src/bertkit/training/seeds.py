"""Dropout's random numbers, seeded by (seed, step, micro-batch): no generator state to save.

So a run continues exactly from a step number, and the number of processes that share the
micro-batches out does not change what any of them draws.
"""

from __future__ import annotations

import hashlib

import torch


def derived_seed(*parts: int | str) -> int:
    """A 63-bit seed that depends on all parts and on their order."""
    text = "/".join(str(part) for part in parts)
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def seed_micro_batch(seed: int, step: int, number: int) -> None:
    """Seeds torch's generators for micro-batch `number` of step `step`."""
    torch.manual_seed(derived_seed("dropout", seed, step, number))


def seed_initial_weights(seed: int) -> None:
    """Seeds torch's generators before a model is made."""
    torch.manual_seed(derived_seed("weights", seed))
