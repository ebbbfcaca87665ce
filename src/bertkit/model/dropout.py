"""Dropout (paper, appendix A.2: 0.1 on all layers) with masks that are cheap to draw on a CPU.

`torch.nn.functional.dropout` draws one Bernoulli number at a time on a CPU. Here a mask is made of
random 16-bit numbers, four from each 64-bit word of torch's default generator, so that
`torch.manual_seed` rules and the same seed gives the same mask. A rate is met to 1/65536: 0.1
becomes 6554/65536, and what is kept is scaled by exactly that rate, so that the expectation is
unbiased. On a GPU torch's own dropout is fast, and is used.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

RESOLUTION = 65536
"""Rates are multiples of 1/65536: a mask compares 16-bit numbers with a threshold."""


def keep_scale(rate: float) -> float:
    """What kept values are multiplied by: 1 / (1 - the rate really drawn)."""
    return RESOLUTION / (RESOLUTION - round(rate * RESOLUTION))


def keep_mask(shape: tuple[int, ...] | torch.Size, rate: float, device: torch.device) -> Tensor:
    """A bool tensor that is True where a value is kept, which has probability 1 - `rate`."""
    count = 1
    for size in shape:
        count *= size
    if device.type != "cpu":
        return torch.rand(shape, device=device) >= round(rate * RESOLUTION) / RESOLUTION
    # The whole range of int64: plain random_() never sets the sign bit, and every fourth 16-bit
    # number would be one of 0..32767 only.
    words = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    numbers = words.view(torch.int16)[:count].view(shape)
    return numbers >= round(rate * RESOLUTION) - RESOLUTION // 2


class _MaskedScale(torch.autograd.Function):
    """`values * mask * scale`; keeps only the mask for the backward pass."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, mask: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(mask)
        ctx.scale = scale
        return (values * mask).mul_(scale)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (mask,) = ctx.saved_tensors
        return (gradient * mask).mul_(ctx.scale), None, None


def dropout(values: Tensor, rate: float) -> Tensor:
    """Sets each value to zero with probability `rate` and scales the others to the same mean."""
    if rate == 0.0:
        return values
    if values.device.type != "cpu":
        return F.dropout(values, rate)
    return _MaskedScale.apply(
        values, keep_mask(values.shape, rate, values.device), keep_scale(rate)
    )


class Dropout(nn.Module):
    """Dropout of `rate` while training; the identity in evaluation or at rate 0."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    @property
    def active_rate(self) -> float:
        """The rate in force now: 0 in evaluation."""
        return self.rate if self.training else 0.0

    def forward(self, values: Tensor) -> Tensor:
        return dropout(values, self.active_rate)

    def extra_repr(self) -> str:
        return f"rate={self.rate}"
