"""The small layers everything is made of: Linear, LayerNorm, activations, and how weights start.

Master weights stay float32. `compute_dtype` is the type a matrix product runs in: a Linear casts
its input and weights to it, so that no autocast is needed and the choice is visible. LayerNorm
takes its statistics in float32 whatever the type of its input.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": lambda values: F.gelu(values, approximate="tanh"),
    "relu": F.relu,
}
"""The three named activations; "gelu" is the erf form (faithful to the released weights)."""


_leave_uninitialised = False


@contextmanager
def uninitialised() -> Iterator[None]:
    """Models made inside leave their matrices unset, to be loaded: large ones start in no time."""
    global _leave_uninitialised
    before, _leave_uninitialised = _leave_uninitialised, True
    try:
        yield
    finally:
        _leave_uninitialised = before


def truncated_normal_(weight: Tensor, deviation: float) -> None:
    """Fills `weight` as the reference release does: normal, cut (redrawn) at two deviations."""
    if _leave_uninitialised:
        return
    nn.init.trunc_normal_(weight, std=deviation, a=-2 * deviation, b=2 * deviation)


ROW_MULTIPLE = 128
"""Rows of a large product in bfloat16 on a CPU are padded to a multiple of this."""


def missing_rows(rows: int, dtype: torch.dtype, device: torch.device) -> int:
    """How many rows to add before matrix products.

    In bfloat16 a CPU compiles a kernel for each new shape, which costs as much as several
    products: few shapes should occur. In float32, and on a GPU, nothing is gained by it.
    """
    if dtype == torch.float32 or device.type != "cpu":
        return 0
    return -rows % (ROW_MULTIPLE if rows >= 8 * ROW_MULTIPLE else ROW_MULTIPLE // 8)


FEW_ROWS = 128
"""In answers on a CPU a product of up to so many rows is computed transposed."""


def transposed_is_faster(values: Tensor) -> bool:
    """Whether `weight @ values.T` takes less time than `values @ weight.T`, for an answer.

    MKL divides the second one among threads by the rows, and each thread lays out the whole weight
    for its few; the first one it divides by the outputs.
    """
    if torch.is_grad_enabled() or values.device.type != "cpu":
        return False  # before a look at the rows, by which torch.compile would tell kernels apart
    few = values.ndim == 2 and len(values) <= FEW_ROWS
    return few and values.dtype == torch.float32 and torch.get_num_threads() > 1


@functools.cache
def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` by `torch.compile`, once for all modules that call it: layers of one shape share
    the kernels, so that a deep model starts no later than a shallow one."""
    return torch.compile(function)


def any_rows(*tensors: Tensor) -> None:
    """Tells `torch.compile` that the first size of the tensors differs from batch to batch."""
    for tensor in tensors:
        torch._dynamo.maybe_mark_dynamic(tensor, 0)


class Linear(nn.Module):
    """`inputs @ weight.T + bias` in the compute type: [..., inputs] -> [..., outputs]."""

    def __init__(self, inputs: int, outputs: int, deviation: float = 0.02) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.compute_dtype = torch.float32
        self._kept: tuple[object, Tensor, Tensor] | None = None
        truncated_normal_(self.weight.data, deviation)

    def forward(self, values: Tensor) -> Tensor:
        values, (weight, bias) = values.to(self.compute_dtype), self._cast()
        if transposed_is_faster(values):
            return torch.addmm(bias[:, None], weight, values.t()).t()
        return F.linear(values, weight, bias)

    def _cast(self) -> tuple[Tensor, Tensor]:
        """Weight and bias in the compute type. For answers, where a text of a few tokens takes
        less time than the cast, it is kept until the weights change."""
        weight, bias, dtype = self.weight, self.bias, self.compute_dtype
        if self.training or torch.is_grad_enabled() or dtype == weight.dtype:
            if self._kept is not None:
                self._kept = None
            return weight.to(dtype), bias.to(dtype)
        if weight.is_inference() or bias.is_inference():  # whether they changed is not recorded
            return weight.to(dtype), bias.to(dtype)
        state = (dtype, weight.data_ptr(), weight._version, bias.data_ptr(), bias._version)
        if self._kept is None or self._kept[0] != state:
            self._kept = (state, weight.to(dtype), bias.to(dtype))
        return self._kept[1], self._kept[2]

    def extra_repr(self) -> str:
        outputs, inputs = self.weight.shape
        return f"inputs={inputs}, outputs={outputs}"


class LayerNorm(nn.Module):
    """Normalises the last dimension to mean 0 and variance 1, then scales and shifts it."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))
        self.eps = eps

    def forward(self, values: Tensor) -> Tensor:
        weight: Tensor = self.weight
        bias: Tensor = self.bias
        if values.device.type != "cpu" and values.dtype != weight.dtype:
            # Only the CPU kernel takes mixed types. Compiled, as in training, the casts of the
            # large side cost nothing; in answers they would.
            if torch.is_grad_enabled():
                size = (values.shape[-1],)
                return F.layer_norm(values.float(), size, weight, bias, self.eps).to(values.dtype)
            weight, bias = weight.to(values.dtype), bias.to(values.dtype)
        return F.layer_norm(values, (values.shape[-1],), weight, bias, self.eps)

    def extra_repr(self) -> str:
        return f"size={self.weight.numel()}, eps={self.eps}"
