"""PyTorch's flash attention operator as the CPU would have it, to test what calls it.

The kernels are for GPUs. Here the forward operator and the one that differentiates it get a plain
CPU implementation under their own names and schemas, so that what the tests check is the real
call: its arguments, their order, PyTorch's own formula for the gradient.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

DTYPES = (torch.bfloat16, torch.float16, torch.float32, torch.float64)
"""The kernels take the first two; the others are for comparisons."""


@contextmanager
def flash_on_cpu() -> Iterator[list[tuple[int, float]]]:
    """While open, the operators run on the CPU, without dropout; yields the longest length and the
    rate of each call."""
    calls: list[tuple[int, float]] = []

    def forward(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        cum_seq_q: Tensor,
        cum_seq_k: Tensor,
        max_q: int,
        max_k: int,
        dropout_p: float,
        is_causal: bool,
        return_debug_mask: bool,
        scale: float | None = None,
        window_size_left: int | None = None,
        window_size_right: int | None = None,
        seqused_k: Tensor | None = None,
        alibi_slopes: Tensor | None = None,
        block_table: Tensor | None = None,
        num_splits: int | None = None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        check(query, key, value, cum_seq_q, cum_seq_k, max_q, max_k)
        calls.append((max_q, dropout_p))
        output = torch.empty(query.shape, dtype=query.dtype)
        exact = torch.promote_types(query.dtype, torch.float32)
        logsumexp = torch.empty(query.shape[1], query.shape[0], dtype=exact)  # [heads, tokens]
        for first, end in spans(cum_seq_q):
            scores = scores_of(query[first:end], key[first:end], is_causal)
            weights = torch.softmax(scores, dim=2)
            mixed = torch.einsum("hqk,khd->qhd", weights, value[first:end].to(scores.dtype))
            output[first:end] = mixed.to(query.dtype)
            logsumexp[:, first:end] = torch.logsumexp(scores, dim=2)
        state = torch.zeros(2, dtype=torch.uint64)
        return output, logsumexp, state, torch.zeros((), dtype=torch.uint64), query.new_empty(0)

    def backward(
        grad_out: Tensor,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        out: Tensor,
        logsumexp: Tensor,
        cum_seq_q: Tensor,
        cum_seq_k: Tensor,
        max_q: int,
        max_k: int,
        dropout_p: float,
        is_causal: bool,
        rng_state: Tensor,
        unused: Tensor,
        scale: float | None = None,
        window_size_left: int | None = None,
        window_size_right: int | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        check(query, key, value, cum_seq_q, cum_seq_k, max_q, max_k)
        assert out.shape == grad_out.shape and logsumexp.shape == query.shape[1::-1]
        of_query, of_key, of_value = (torch.empty(query.shape, dtype=query.dtype) for _ in range(3))
        for first, end in spans(cum_seq_q):
            part = slice(first, end)
            scores = scores_of(query[part], key[part], is_causal)
            weights = torch.exp(scores - logsumexp[:, part, None])  # [heads, query, key]
            q, k, v, o, g = (t[part].to(scores.dtype) for t in (query, key, value, out, grad_out))
            of_weights = torch.einsum("qhd,khd->hqk", g, v)
            mean = (g * o).sum(dim=2).t()[:, :, None]  # [heads, query, 1]
            of_scores = weights * (of_weights - mean) / query.shape[2] ** 0.5
            of_query[part] = torch.einsum("hqk,khd->qhd", of_scores, k).to(query.dtype)
            of_key[part] = torch.einsum("hqk,qhd->khd", of_scores, q).to(query.dtype)
            of_value[part] = torch.einsum("hqk,qhd->khd", weights, g).to(query.dtype)
        return of_query, of_key, of_value

    library = torch.library.Library("aten", "IMPL")
    library.impl("_flash_attention_forward", forward, "CPU")
    library.impl("_flash_attention_backward", backward, "CPU")
    try:
        yield calls
    finally:
        library._destroy()


def spans(bounds: Tensor) -> list[tuple[int, int]]:
    """First token and end of each sequence that has any."""
    pairs = zip(bounds.tolist()[:-1], bounds.tolist()[1:], strict=True)
    return [(first, end) for first, end in pairs if end > first]


def scores_of(query: Tensor, key: Tensor, causal: bool) -> Tensor:
    """[heads, query, key], no less exact than float32."""
    exact = torch.promote_types(query.dtype, torch.float32)
    products = torch.einsum("qhd,khd->hqk", query.to(exact), key.to(exact)) / query.shape[2] ** 0.5
    later = torch.ones(products.shape[1:], dtype=torch.bool).triu(1)
    return products.masked_fill(later, -torch.inf) if causal else products


def check(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cum_seq_q: Tensor,
    cum_seq_k: Tensor,
    max_q: int,
    max_k: int,
) -> None:
    """What the kernels demand of their arguments."""
    tokens, heads, size = query.shape
    for one in (query, key, value):
        assert one.dtype == query.dtype and one.dtype in DTYPES
        assert one.shape == (tokens, heads, size) and one.stride(2) == 1
    assert size <= 256
    for bounds in (cum_seq_q, cum_seq_k):
        assert bounds.dtype == torch.int32 and bounds.is_contiguous()
        assert int(bounds[0]) == 0 and int(bounds[-1]) == tokens
    assert max_q == max_k == max(end - first for first, end in spans(cum_seq_q))
