"""Dropout (paper, appendix A.2: 0.1 on all layers) with masks that are cheap to draw on a CPU.

`torch.nn.functional.dropout` draws one Bernoulli number at a time on a CPU. Here a mask is made of
random 16-bit numbers, four from each 64-bit word of torch's default generator, so that
`torch.manual_seed` rules and the same seed gives the same mask. A rate is met to 1/65536: 0.1
becomes 6554/65536, and what is kept is scaled by exactly that rate, so that the expectation is
unbiased. Attention's probabilities have bytes instead, as in flash attention: 26/256. On a GPU
torch's own dropout is fast, and is used.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

RESOLUTION = 65536
"""Rates are multiples of 1/65536: a mask compares 16-bit numbers with a threshold."""

BYTES = 256
"""The resolution of masks of attention probabilities, of which there are most: half the draws."""


def dropped_of(rate: float, resolution: int) -> int:
    """How many of `resolution` values are dropped at a rate below 1: never all of them."""
    return min(round(rate * resolution), resolution - 1)


def keep_scale(rate: float, resolution: int = RESOLUTION) -> float:
    """What kept values are multiplied by: 1 / (1 - the rate really drawn)."""
    return resolution / (resolution - dropped_of(rate, resolution))


def keep_mask(values: Tensor, rate: float, resolution: int = RESOLUTION) -> Tensor:
    """[shape of values]: 1 where a value is kept, with probability 1 - `rate`, and 0 elsewhere.

    It is what the backward pass has to remember: a byte a value (a product with int8 is twice as
    fast as one with bool), for bfloat16 two, whose products are twice as fast again.

    Args:
        values: what the mask is for.
        rate: is met to 1 / resolution.
        resolution: RESOLUTION or BYTES.
    """
    dropped = dropped_of(rate, resolution)
    if values.device.type != "cpu":
        draws = torch.rand(values.shape, device=values.device)
        return (draws >= dropped / resolution).view(torch.int8)
    kind = torch.int8 if resolution == BYTES else torch.int16
    in_a_word = 8 // kind.itemsize
    # The whole range of int64: plain random_() never sets the sign bit, and some of the numbers
    # in a word would be positive only.
    words = torch.empty(-(-values.numel() // in_a_word), dtype=torch.int64).random_(-(2**63), None)
    numbers = words.view(kind)[: values.numel()].view(values.shape)
    if values.dtype == torch.bfloat16:
        return torch.ge(numbers, dropped - resolution // 2, out=torch.empty_like(values))
    return (numbers >= dropped - resolution // 2).view(torch.int8)


class _Dropout(torch.autograd.Function):
    """`values * mask * scale`; remembers only the mask."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, rate: float) -> Tensor:
        mask = keep_mask(values, rate)
        ctx.save_for_backward(mask)
        ctx.scale = keep_scale(rate)
        return (values * mask).mul_(ctx.scale)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (mask,) = ctx.saved_tensors
        return (gradient * mask).mul_(ctx.scale), None


class _AddDropped(torch.autograd.Function):
    """`residual + values * mask * scale` in two passes over memory; remembers only the mask."""

    @staticmethod
    def forward(ctx: Any, residual: Tensor, values: Tensor, rate: float) -> Tensor:
        mask = keep_mask(values, rate)
        ctx.save_for_backward(mask)
        ctx.scale = keep_scale(rate)
        return torch.add(residual, values * mask, alpha=ctx.scale)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        (mask,) = ctx.saved_tensors
        return gradient, (gradient * mask).mul_(ctx.scale), None


def dropout(values: Tensor, rate: float) -> Tensor:
    """Sets each value to zero with probability `rate` and scales the others to the same mean."""
    if rate == 0.0:
        return values
    if values.device.type != "cpu":
        return F.dropout(values, rate)
    return _Dropout.apply(values, rate)


def add_dropped(residual: Tensor, values: Tensor, rate: float) -> Tensor:
    """`residual + dropout(values, rate)`, which is how every dense part of a layer ends."""
    if rate == 0.0 or values.device.type != "cpu":
        return residual + dropout(values, rate)
    return _AddDropped.apply(residual, values, rate)


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

    def add(self, residual: Tensor, values: Tensor) -> Tensor:
        """`residual + self(values)`, in fewer passes over memory."""
        return add_dropped(residual, values, self.active_rate)

    def extra_repr(self) -> str:
        return f"rate={self.rate}"
