"""Multi-head self-attention over sequences that lie end to end (paper, section 3).

In: the packed projections [tokens, 3 * hidden] of a flat batch. Out: [tokens, hidden]. A token
attends to the tokens of its own sequence only, in a causal model to itself and those before it.
The back-ends give the same numbers:

    matmul   the plain one: softmax(q k / sqrt(d)) v as matrix products, with its own backward; on
             a CPU it goes over neighbours of like lengths together, each part padded to its longest
    sdpa     torch's scaled_dot_product_attention: slow to differentiate on a CPU, else fast; on a
             CPU it goes over neighbours of one length together, so that nothing is padded
    varlen   the flash attention that ships with PyTorch, on the tokens as they lie, without
             padding; for a GPU, in half precision
    auto     varlen where it can be had, matmul where a CPU has to differentiate, sdpa elsewhere
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from itertools import groupby, pairwise
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from bertkit.model.batch import FlatBatch
from bertkit.model.dropout import BYTES, dropped_of, keep_mask, keep_scale

Backend = Literal["auto", "matmul", "sdpa", "varlen"]
BACKENDS: tuple[Backend, ...] = ("auto", "matmul", "sdpa", "varlen")

PART_COST = 2**17
"""What a further part of a batch costs the plain back-end, as so many scores."""

BF16_LENGTH_MULTIPLE = 16
"""Lengths of parts in bfloat16 are multiples of this and their sequences a power of two: a CPU
compiles a kernel for each new shape, so few should occur."""


@dataclass
class Layout:
    """Where the tokens of a flat batch stand in [sequences, length], found out once for all layers.

    What a back-end does not ask for is not made: the unpadded ones need neither slots nor mask.

    Attributes:
        batch: the tokens, end to end.
        dtype: of the scores.
        heads: how many share the hidden size.
        causal: whether a token sees only itself and those before it.
    """

    batch: FlatBatch
    dtype: torch.dtype
    heads: int
    causal: bool = False

    @property
    def sequences(self) -> int:
        return self.batch.sequences

    @property
    def length(self) -> int:
        """Of the longest sequence."""
        return self.batch.max_length

    @cached_property
    def bounds(self) -> Tensor:
        """[sequences + 1] int32; sequence k is the tokens `bounds[k]:bounds[k + 1]`."""
        return self.batch.bounds.int()

    @property
    def padded(self) -> bool:
        """Whether some sequence is shorter than `length`."""
        return self.batch.tokens != self.sequences * self.length

    @cached_property
    def slots(self) -> Tensor | None:
        """[tokens] index into sequences * length, or None where nothing is padded, so that the
        padded form is a mere view."""
        batch = self.batch
        if not self.padded:
            return None
        numbers = torch.repeat_interleave(
            torch.arange(batch.sequences, device=batch.token_ids.device),
            batch.lengths,
            output_size=batch.tokens,
        )
        return numbers * batch.max_length + batch.positions

    @cached_property
    def mask(self) -> Tensor | None:
        """[sequences, 1, 1, length] added to the scores: 0 at tokens, very negative at padding;
        None where nothing is padded.

        In a causal model [1, 1, query, key], very negative where the key comes later; padding
        comes later than every token.
        """
        device, length = self.batch.token_ids.device, self.length
        # The smallest finite number, not minus infinity: no row of scores can become NaN.
        lowest = torch.finfo(self.dtype).min
        if self.causal:
            later = torch.full((length, length), lowest, dtype=self.dtype, device=device)
            return later.triu_(1)[None, None]
        if not self.padded:
            return None
        padding = torch.arange(length, device=device) >= self.batch.lengths[:, None]
        mask = torch.zeros(self.sequences, length, dtype=self.dtype, device=device)
        return mask.masked_fill_(padding, lowest)[:, None, None, :]

    @cached_property
    def runs(self) -> list[tuple[int, int]]:
        """(sequences, length) of neighbours of one length: flat tokens that need no padding.

        A batch sorted by length has few. Only for a CPU, where a look at the values is free.
        """
        if not self.padded:
            return [(self.sequences, self.length)]
        return [(len(list(same)), length) for length, same in groupby(self.batch.lengths.tolist())]

    @cached_property
    def parts(self) -> list[Layout]:
        """Neighbours of like lengths, each part to be padded to its longest sequence.

        In a batch sorted by length most of the padding goes that way, and the scores grow with the
        square of a length. Only for a CPU, where a look at the values is free.
        """
        if not self.padded or self.batch.token_ids.device.type != "cpu":
            return [self]
        rounded = self.dtype == torch.bfloat16
        lengths = self.batch.lengths.numpy()
        if rounded:
            lengths = lengths + -lengths % BF16_LENGTH_MULTIPLE
        ends = cheapest_parts(lengths, self.heads, powers_of_two=rounded)
        if len(ends) == 1 and not rounded:
            return [self]
        parts = []
        for begin, end in pairwise([0, *ends]):
            batch = self.batch.part(begin, end, int(lengths[begin:end].max()))
            parts.append(Layout(batch, self.dtype, self.heads, self.causal))
        return parts

    def pad(self, flat: Tensor) -> Tensor:
        """[tokens, features] -> [sequences, length, features], zeros at padding."""
        if self.slots is None:
            return flat.view(self.sequences, self.length, flat.shape[1])
        padded = flat.new_zeros(self.sequences * self.length, flat.shape[1])
        padded.index_copy_(0, self.slots, flat)
        return padded.view(self.sequences, self.length, flat.shape[1])

    def flatten(self, padded: Tensor) -> Tensor:
        """[sequences, length, features] -> [tokens, features]."""
        flat = padded.reshape(self.sequences * self.length, padded.shape[2])
        return flat if self.slots is None else flat.index_select(0, self.slots)


def cheapest_parts(lengths: np.ndarray, heads: int, powers_of_two: bool = False) -> list[int]:
    """Cuts a batch into parts of neighbours with the fewest scores, padding and PART_COST included.

    Args:
        lengths: [sequences] tokens of each.
        heads: a sequence has heads * length^2 scores, at the longest length of its part.
        powers_of_two: whether a part may only have 1, 2, 4, ... sequences.

    Returns:
        The number of the sequence after each part.
    """
    least = np.zeros(len(lengths) + 1)  # [end], of the sequences before
    begins = np.zeros(len(lengths) + 1, dtype=np.int64)  # of the last part in it
    for end in range(1, len(lengths) + 1):
        longest = np.maximum.accumulate(lengths[end - 1 :: -1])[::-1].astype(np.float64)
        counts = np.arange(end, 0, -1)
        total = least[:end] + counts * heads * longest**2 + PART_COST  # by where a part begins
        if powers_of_two:
            total[counts & (counts - 1) != 0] = np.inf
        begins[end] = total.argmin()
        least[end] = total[begins[end]]
    ends = [len(lengths)]
    while begins[ends[-1]]:
        ends.append(int(begins[ends[-1]]))
    return ends[::-1]


def attend(qkv: Tensor, layout: Layout, rate: float, backend: Backend) -> Tensor:
    """Attention of every token over its sequence.

    Args:
        qkv: [tokens, 3 * hidden], the queries, keys and values of all heads side by side.
        layout: of the same batch.
        rate: dropout on the attention probabilities, 0 in evaluation.
        backend: one of BACKENDS.

    Returns:
        [tokens, hidden], the heads side by side.
    """
    heads = layout.heads
    if backend == "auto":
        learning = torch.is_grad_enabled() and qkv.requires_grad
        backend = "matmul" if learning and qkv.device.type == "cpu" else "sdpa"
        if flash_takes(qkv.device, qkv.dtype, qkv.shape[1] // (3 * heads)):
            backend = "varlen"
    if backend == "matmul":
        if len(layout.parts) == 1:
            return _Attention.apply(qkv, layout.parts[0], rate)
        sizes = [part.batch.tokens for part in layout.parts]
        pieces = zip(qkv.split(sizes), layout.parts, strict=True)
        return torch.cat([_Attention.apply(*piece, rate) for piece in pieces])
    if backend == "varlen":
        return _flash(qkv, layout, heads, rate)
    if qkv.device.type == "cpu":
        qkv = qkv.contiguous()  # of few tokens it comes transposed
        parts = qkv.split([sequences * length for sequences, length in layout.runs])
        contexts = [
            _sdpa(part.view(*run, -1), heads, rate, None, layout.causal).flatten(0, 1)
            for part, run in zip(parts, layout.runs, strict=True)
        ]
        return contexts[0] if len(contexts) == 1 else torch.cat(contexts)
    mask = None if layout.causal else layout.mask
    return layout.flatten(_sdpa(layout.pad(qkv), heads, rate, mask, layout.causal))


def _sdpa(qkv: Tensor, heads: int, rate: float, mask: Tensor | None, causal: bool) -> Tensor:
    """[sequences, length, 3 * hidden] -> [sequences, length, hidden]."""
    sequences, length, width = qkv.shape
    # [3, sequences, heads, length, head]
    packed = qkv.view(sequences, length, 3, heads, width // (3 * heads)).permute(2, 0, 3, 1, 4)
    query, key, value = packed.unbind(0)
    context = F.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, dropout_p=rate, is_causal=causal
    )
    return context.transpose(1, 2).reshape(sequences, length, width // 3)


def flash_takes(device: torch.device, dtype: torch.dtype, head_size: int) -> bool:
    """Whether PyTorch's flash attention can compute in `dtype` on `device`, for heads of a size."""
    half = dtype in (torch.bfloat16, torch.float16)
    fits = head_size % 8 == 0 and head_size <= 256
    return device.type == "cuda" and half and fits and _has_flash(device)


@cache
def _has_flash(device: torch.device) -> bool:
    """Whether this build of PyTorch has the kernel, and the GPU is an Ampere or newer."""
    built = torch.version.hip is None and torch.backends.cuda.is_flash_attention_available()
    return built and torch.cuda.get_device_capability(device) >= (8, 0)


def flash_rate(rate: float) -> float:
    """The multiple of 1/256 next to `rate`.

    Given such a rate, the kernel scales what it keeps by exactly the share that it keeps; given
    0.1 it would keep 230 of 256 and scale by 1/0.9.
    """
    return dropped_of(rate, BYTES) / BYTES


def _flash(qkv: Tensor, layout: Layout, heads: int, rate: float) -> Tensor:
    """The unpadded back-end. PyTorch's public `varlen_attn` has no dropout; its operator has."""
    tokens, hidden = qkv.shape[0], qkv.shape[1] // 3
    # three views [tokens, heads, head]
    query, key, value = qkv.view(tokens, 3, heads, hidden // heads).unbind(1)
    context, *_ = torch.ops.aten._flash_attention_forward(
        query,
        key,
        value,
        layout.bounds,
        layout.bounds,
        layout.length,
        layout.length,
        flash_rate(rate),
        layout.causal,
        False,  # no debug mask
    )
    return context.reshape(tokens, hidden)


class _Attention(torch.autograd.Function):
    """The plain back-end. Remembers queries, keys, values, probabilities and a one-byte mask.

    All scalings ride on the matrix products, which multiply their result by a number for nothing.
    """

    @staticmethod
    def forward(ctx: Any, qkv: Tensor, layout: Layout, rate: float) -> Tensor:
        sequences, length, heads = layout.sequences, layout.length, layout.heads
        hidden = qkv.shape[1] // 3
        size = hidden // heads
        # [3, sequences * heads, length, head]
        packed = layout.pad(qkv).view(sequences, length, 3, heads, size)
        packed = packed.permute(2, 0, 3, 1, 4).reshape(3, sequences * heads, length, size)
        query, key, value = packed.unbind(0)
        if layout.mask is None:
            scores = _scaled_product(query, key.transpose(1, 2), size**-0.5)
        else:
            mask = layout.mask[0]  # [1, query, key]
            if not layout.causal:
                mask = layout.mask.expand(sequences, heads, 1, length).reshape(-1, 1, length)
            scores = torch.baddbmm(mask, query, key.transpose(1, 2), alpha=size**-0.5)
        probabilities = torch.softmax(scores, dim=-1)  # [sequences * heads, query, key]
        kept = keep_mask(probabilities, rate, BYTES) if rate else None
        weights = probabilities if kept is None else probabilities * kept
        context = _scaled_product(weights, value, keep_scale(rate, BYTES))  # [.., query, head]
        ctx.save_for_backward(packed, probabilities, kept)
        ctx.layout, ctx.rate = layout, rate
        context = context.view(sequences, heads, length, size).transpose(1, 2)
        return layout.flatten(context.reshape(sequences, length, hidden))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        packed, probabilities, kept = ctx.saved_tensors
        layout, scale = ctx.layout, keep_scale(ctx.rate, BYTES)
        sequences, length, heads = layout.sequences, layout.length, layout.heads
        hidden = gradient.shape[1]
        size = hidden // heads
        query, key, value = packed.unbind(0)
        # [sequences * heads, length, head]
        gradient = layout.pad(gradient.contiguous()).view(sequences, length, heads, size)
        gradient = gradient.transpose(1, 2).reshape(sequences * heads, length, size)
        weights = probabilities
        of_weights = _scaled_product(gradient, value.transpose(1, 2), scale)
        if kept is not None:
            weights = probabilities * kept
            of_weights.mul_(kept)
        of_scores = torch._softmax_backward_data(of_weights, probabilities, -1, probabilities.dtype)
        of_packed = torch.empty_like(packed)
        _scaled_product(of_scores, key, size**-0.5, out=of_packed[0])
        _scaled_product(of_scores.transpose(1, 2), query, size**-0.5, out=of_packed[1])
        _scaled_product(weights.transpose(1, 2), gradient, scale, out=of_packed[2])
        of_qkv = of_packed.view(3, sequences, heads, length, size).permute(1, 3, 0, 2, 4)
        return layout.flatten(of_qkv.reshape(sequences, length, 3 * hidden)), None, None


def _scaled_product(left: Tensor, right: Tensor, scale: float, out: Tensor | None = None) -> Tensor:
    """`scale * left @ right` for a batch of matrices."""
    if out is None:
        out = left.new_empty(left.shape[0], left.shape[1], right.shape[2])
    return torch.baddbmm(out, left, right, beta=0, alpha=scale, out=out)
