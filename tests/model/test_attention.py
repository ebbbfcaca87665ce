"""Attention: each back-end beside the definition, and no look from one sequence into another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
import pytest
import torch
from torch import Tensor

from bertkit.model.attention import (
    Backend,
    Layout,
    attend,
    cheapest_parts,
    flash_rate,
    flash_takes,
)
from bertkit.model.batch import FlatBatch
from bertkit.model.bert import PretrainingModel
from bertkit.model.config import model_config
from bertkit.model.dropout import BYTES, keep_mask, keep_scale
from bertkit.model.encoder import set_attention
from tests.model.flash import flash_on_cpu

HEADS, SIZE = 3, 4
HIDDEN = HEADS * SIZE
MIXED, EQUAL = [5, 1, 9, 2], [6, 6, 6]
BACKENDS: list[Backend] = ["matmul", "sdpa", "varlen"]


@pytest.fixture(autouse=True)
def flash() -> Iterator[list[tuple[int, float]]]:
    """The operator of the back-end "varlen", on the CPU; holds what it is called with."""
    with flash_on_cpu() as calls:
        yield calls


def layout_of(
    lengths: list[int], dtype: torch.dtype = torch.float64, causal: bool = False
) -> Layout:
    batch = FlatBatch.from_sequences([[1] * length for length in lengths])
    return Layout(batch, dtype, HEADS, causal)


def random_qkv(lengths: list[int], dtype: torch.dtype = torch.float64) -> Tensor:
    torch.manual_seed(0)
    return torch.randn(sum(lengths), 3 * HIDDEN, dtype=dtype)


def defined(qkv: Tensor, lengths: list[int], causal: bool = False) -> Tensor:
    """softmax(q k / sqrt(d)) v, one sequence and one head at a time."""

    def scores(query: Tensor, key: Tensor) -> Tensor:
        products = query @ key.T / SIZE**0.5
        later = torch.ones_like(products, dtype=torch.bool).triu(1)
        return products.masked_fill(later, -torch.inf) if causal else products

    sequences = []
    for part in qkv.split(lengths):
        query, key, value = (one.split(SIZE, dim=1) for one in part.split(HIDDEN, dim=1))
        heads = [torch.softmax(scores(query[h], key[h]), dim=1) @ value[h] for h in range(HEADS)]
        sequences.append(torch.cat(heads, dim=1))
    return torch.cat(sequences)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("lengths", [MIXED, EQUAL, [1], [7]])
@pytest.mark.parametrize("backend", BACKENDS)
def test_attention_and_its_gradient_are_what_the_paper_defines(
    backend: Backend, lengths: list[int], causal: bool
) -> None:
    qkv = random_qkv(lengths).requires_grad_()
    mine = attend(qkv, layout_of(lengths, causal=causal), 0.0, backend)
    plain = defined(qkv, lengths, causal)
    torch.testing.assert_close(mine, plain)
    upstream = torch.randn_like(mine)
    for one, other in zip(
        torch.autograd.grad(mine, qkv, upstream),
        torch.autograd.grad(plain, qkv, upstream),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("lengths", [[3, 1, 4], [3, 3]])
def test_the_gradient_is_right_with_dropped_probabilities(lengths: list[int], causal: bool) -> None:
    layout = layout_of(lengths, causal=causal)

    def with_one_mask(qkv: Tensor) -> Tensor:
        torch.manual_seed(1)
        return attend(qkv, layout, 0.4, "matmul")

    assert torch.autograd.gradcheck(with_one_mask, random_qkv(lengths).requires_grad_())


def test_dropped_attention_keeps_its_expectation() -> None:
    lengths = [5, 3]
    qkv, layout = random_qkv(lengths), layout_of(lengths)
    torch.manual_seed(2)
    draws = torch.stack([attend(qkv, layout, 0.1, "matmul") for _ in range(4000)])
    deviation = draws.std(dim=0) / len(draws) ** 0.5
    assert ((draws.mean(dim=0) - defined(qkv, lengths)).abs() < 5 * deviation + 1e-9).all()


@pytest.mark.parametrize("value", [1e4, float("nan")])
@pytest.mark.parametrize("lengths", [MIXED, EQUAL])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_sequence_never_sees_another(backend: Backend, lengths: list[int], value: float) -> None:
    qkv, layout = random_qkv(lengths, torch.float32), layout_of(lengths, torch.float32)
    before = attend(qkv, layout, 0.0, backend).split(lengths)
    changed = qkv.clone()
    changed[: lengths[0]] = value
    after = attend(changed, layout, 0.0, backend).split(lengths)
    assert not torch.equal(after[0], before[0])
    for one, other in zip(before[1:], after[1:], strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("lengths", [MIXED, EQUAL])
@pytest.mark.parametrize("backend", BACKENDS)
def test_in_a_causal_model_no_token_sees_a_later_one(
    backend: Backend, lengths: list[int], dtype: torch.dtype
) -> None:
    qkv, layout = random_qkv(lengths, dtype), layout_of(lengths, dtype, causal=True)
    before = attend(qkv, layout, 0.0, backend)
    for place in range(sum(lengths)):
        changed = qkv.clone()
        changed[place] = 100.0
        after = attend(changed, layout, 0.0, backend)
        assert torch.equal(after[:place], before[:place])
        assert not torch.equal(after[place], before[place])


@pytest.mark.parametrize("lengths", [MIXED, EQUAL])
def test_in_a_causal_model_no_gradient_reaches_a_later_token(lengths: list[int]) -> None:
    for backend in BACKENDS:
        qkv = random_qkv(lengths).requires_grad_()
        context = attend(qkv, layout_of(lengths, causal=True), 0.0, backend)
        context[: lengths[0] - 1].sum().backward()
        assert qkv.grad is not None
        assert qkv.grad[: lengths[0] - 1].abs().sum() > 0
        assert not qkv.grad[lengths[0] - 1 :].any()


@pytest.mark.parametrize("lengths", [MIXED, EQUAL])
def test_no_gradient_reaches_another_sequence(lengths: list[int]) -> None:
    qkv = random_qkv(lengths).requires_grad_()
    context = attend(qkv, layout_of(lengths), 0.0, "matmul")
    context[: lengths[0]].sum().backward()
    assert qkv.grad is not None
    assert qkv.grad[: lengths[0]].abs().sum() > 0
    assert torch.equal(qkv.grad[lengths[0] :], torch.zeros_like(qkv.grad[lengths[0] :]))


def test_scores_far_apart_stay_finite() -> None:
    qkv = (random_qkv(MIXED, torch.float32) * 1e3).requires_grad_()
    for backend in BACKENDS:
        context = attend(qkv, layout_of(MIXED, torch.float32), 0.1, backend)
        (gradient,) = torch.autograd.grad(context.sum(), qkv)
        assert torch.isfinite(context).all() and torch.isfinite(gradient).all()


def test_auto_differentiates_with_matmul_and_answers_with_sdpa() -> None:
    qkv, layout = random_qkv(MIXED, torch.float32).requires_grad_(), layout_of(MIXED, torch.float32)
    learning = attend(qkv, layout, 0.0, "auto")
    assert learning.grad_fn is not None and "_Attention" in learning.grad_fn.name()
    with torch.no_grad():
        answer = attend(qkv, layout, 0.0, "auto")
        assert torch.equal(answer, attend(qkv, layout, 0.0, "sdpa"))


def test_nothing_is_padded_where_all_sequences_have_one_length() -> None:
    layout = layout_of(EQUAL)
    assert layout.slots is None and layout.mask is None
    flat = torch.randn(18, 5)
    assert layout.pad(flat).data_ptr() == flat.data_ptr()
    assert layout_of(MIXED).slots is not None


def test_a_whole_model_says_the_same_without_padding(flash: list[tuple[int, float]]) -> None:
    torch.manual_seed(0)
    model = PretrainingModel(model_config("2x32x2", 60, hidden_dropout=0.0, attention_dropout=0.0))
    batch = FlatBatch.from_sequences([[1, 2, 3], [4, 5, 6, 7, 8], [9]])
    places, targets = torch.tensor([1, 4, 6]), torch.tensor([7, 8, 9])
    found: list[list[Tensor]] = []
    for backend in BACKENDS:
        set_attention(model, backend)
        model.zero_grad()
        losses = model.losses(batch, places, targets, torch.tensor([0, 1, 0]))
        (losses.mlm_loss + losses.nsp_loss).backward()  # type: ignore[operator]
        found.append([losses.mlm_loss.detach(), *(p.grad for p in model.parameters())])  # type: ignore
    assert flash == [(5, 0.0)] * 2
    for other in found[1:]:
        torch.testing.assert_close(other, found[0], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("lengths", [[7, 5, 7], [6, 6, 6]])
def test_the_plain_back_ends_gradient_is_autograds_with_the_same_dropout(lengths) -> None:
    heads, size, rate = 4, 8, 0.3
    batch = FlatBatch.from_sequences([[1] * n for n in lengths], [[0] * n for n in lengths])
    shape = (sum(lengths), heads * size)
    torch.manual_seed(1)
    qkv = torch.randn(shape[0], 3 * shape[1], dtype=torch.float64, requires_grad=True)
    wanted = torch.randn(shape, dtype=torch.float64)
    torch.manual_seed(9)
    found = attend(qkv, Layout(batch, torch.float64, heads), rate, "matmul")
    (gradient,) = torch.autograd.grad((found * wanted).sum(), qkv)

    torch.manual_seed(9)
    longest = max(lengths)
    kept = keep_mask(wanted.new_empty(len(lengths), heads, longest, longest), rate, BYTES)
    parts = []
    for rows, mask in zip(qkv.split(lengths), kept, strict=True):
        length = len(rows)
        query, key, value = rows.view(length, 3, heads, size).permute(1, 2, 0, 3)
        weights = (query @ key.transpose(1, 2) * size**-0.5).softmax(dim=-1)
        weights = weights * mask[:, :length, :length] * keep_scale(rate, BYTES)
        parts.append((weights @ value).transpose(0, 1).reshape(length, -1))
    expected = torch.cat(parts)
    (of_autograd,) = torch.autograd.grad((expected * wanted).sum(), qkv)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(gradient, of_autograd)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("lengths", [[1, 2, 5, 5, 9], [9, 5, 6, 1], [4, 4, 8]])
def test_parts_of_like_lengths_give_what_the_whole_gives(
    lengths: list[int], causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bertkit.model.attention.PART_COST", 0)
    layout = layout_of(lengths, causal=causal)
    assert len(layout.parts) > 1
    assert torch.equal(torch.cat([p.batch.lengths for p in layout.parts]), torch.tensor(lengths))
    qkv = random_qkv(lengths).requires_grad_()
    mine, plain = attend(qkv, layout, 0.0, "matmul"), defined(qkv, lengths, causal)
    torch.testing.assert_close(mine, plain)
    upstream = torch.randn_like(mine)
    (gradient,) = torch.autograd.grad(mine, qkv, upstream)
    torch.testing.assert_close(gradient, torch.autograd.grad(plain, qkv, upstream)[0])

    def with_one_mask(qkv: Tensor) -> Tensor:
        torch.manual_seed(1)
        return attend(qkv, layout, 0.4, "matmul")

    assert torch.autograd.gradcheck(with_one_mask, qkv)


@pytest.mark.parametrize("powers", [False, True])
@pytest.mark.parametrize("cost", [0, 7, 50, 10**6])
def test_sequences_are_cut_where_there_are_the_fewest_scores(
    cost: int, powers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bertkit.model.attention.PART_COST", cost)

    def total(lengths: np.ndarray, ends: Sequence[int]) -> float:
        parts = np.split(lengths, ends[:-1])
        if powers and any(len(part) not in (1, 2, 4) for part in parts):
            return np.inf
        return sum(len(part) * HEADS * int(part.max()) ** 2 + cost for part in parts)

    random = np.random.default_rng(cost)
    for count in (1, 2, 6, 6, 6):
        lengths = random.integers(1, 12, count)
        cuts = [c for size in range(count) for c in combinations(range(1, count), size)]
        least = min(total(lengths, [*cut, count]) for cut in cuts)
        assert total(lengths, cheapest_parts(lengths, HEADS, powers)) == least < np.inf


def test_a_batch_is_one_part_unless_lengths_differ_much() -> None:
    for whole in (layout_of([6] * 64), layout_of([126, 127, 128])):
        assert whole.parts == [whole]
    mixed = layout_of([30] * 9 + [200] * 9)
    assert [part.batch.sequences for part in mixed.parts] == [9, 9]


def test_in_bfloat16_parts_have_few_shapes() -> None:
    lengths = [30] * 9 + [200] * 9
    layout = layout_of(lengths, torch.bfloat16)
    assert [part.length for part in layout.parts] == [32, 208, 208]
    assert [part.sequences for part in layout.parts] == [8, 2, 8]
    qkv = random_qkv(lengths).requires_grad_()
    mine = attend(qkv.bfloat16(), layout, 0.0, "matmul")
    plain = defined(qkv, lengths)
    torch.testing.assert_close(mine.double(), plain, rtol=0, atol=0.02)
    upstream = torch.randn_like(plain)
    (gradient,) = torch.autograd.grad(mine, qkv, upstream.bfloat16())
    (expected,) = torch.autograd.grad(plain, qkv, upstream)
    torch.testing.assert_close(gradient, expected, rtol=0, atol=0.05)


def test_flash_attention_is_told_a_rate_that_it_can_draw(flash: list[tuple[int, float]]) -> None:
    """Of 256 random bytes it keeps those up to floor(255 * (1 - rate)), and scales by 1/(1 - rate):
    unbiased where the rate is a multiple of 1/256."""
    attend(random_qkv(MIXED), layout_of(MIXED), 0.1, "varlen")
    assert flash == [(9, 26 / 256)]
    for rate in (0.0, 0.015, 0.1, 0.25, 0.5, 0.9):
        told = flash_rate(rate)
        assert abs(told - rate) <= 1 / 512
        kept = int(255 * (1 - told)) + 1 if told else 256
        assert kept / 256 == 1 - told


def test_flash_attention_is_for_gpus_and_half_precision() -> None:
    assert not flash_takes(torch.device("cpu"), torch.bfloat16, 64)
    assert not flash_takes(torch.device("cuda"), torch.float32, 64)
    assert not flash_takes(torch.device("cuda"), torch.bfloat16, 12)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("lengths", [[300, 17, 128, 1], [64, 64]])
def test_flash_attention_on_a_gpu_is_attention(lengths: list[int], causal: bool) -> None:
    torch.manual_seed(0)
    heads, hidden = 4, 4 * 64
    batch = FlatBatch.from_sequences([[1] * length for length in lengths]).to("cuda")
    exact = torch.randn(batch.tokens, 3 * hidden, device="cuda", requires_grad=True)
    half = exact.detach().bfloat16().requires_grad_()
    if not flash_takes(half.device, half.dtype, 64):
        pytest.skip("needs a GPU that PyTorch has flash attention for")
    mine = attend(half, Layout(batch, half.dtype, heads, causal), 0.0, "auto")
    plain = attend(exact, Layout(batch, exact.dtype, heads, causal), 0.0, "matmul")
    assert mine.grad_fn is not None
    torch.testing.assert_close(mine.float(), plain, rtol=0.02, atol=0.02)
    upstream = torch.randn_like(plain)
    (of_half,) = torch.autograd.grad(mine, half, upstream.bfloat16())
    (of_exact,) = torch.autograd.grad(plain, exact, upstream)
    torch.testing.assert_close(of_half.float(), of_exact, rtol=0.05, atol=0.05)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_dropped_flash_attention_on_a_gpu_keeps_its_expectation() -> None:
    lengths, hidden = [40, 24], 64
    batch = FlatBatch.from_sequences([[1] * length for length in lengths]).to("cuda")
    qkv = torch.randn(batch.tokens, 3 * hidden, device="cuda", dtype=torch.bfloat16)
    qkv[:, 2 * hidden :] = 1.0  # so that every output is the sum of what is kept
    if not flash_takes(qkv.device, qkv.dtype, 64):
        pytest.skip("needs a GPU that PyTorch has flash attention for")
    layout = Layout(batch, qkv.dtype, 1)
    draws = torch.stack([attend(qkv, layout, 0.1, "varlen")[:, 0].float() for _ in range(2000)])
    assert float(draws.std()) > 0.01
    assert float(draws.mean()) == pytest.approx(1.0, abs=1e-3)
