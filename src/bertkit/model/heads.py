"""What stands on the encoder: masked LM, next sentence, classification, tagging, answer spans
(paper, sections 3 and 4).

The masked-LM head works on the masked positions only, and its loss takes them a few rows at a
time: [masked, vocabulary] logits are never in memory at once, and the gradient is computed in the
forward pass, chunk by chunk, while the logits are at hand.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bertkit.model.config import ModelConfig
from bertkit.model.dropout import Dropout
from bertkit.model.layers import (
    ACTIVATIONS,
    LayerNorm,
    Linear,
    compiled,
    missing_rows,
    truncated_normal_,
)

CHUNK_ROWS, GPU_CHUNK_ROWS = 512, 2048
"""Masked positions whose logits exist at the same time; a GPU is full with more of them."""

GPU_ROW_MULTIPLE = 8
"""A GPU's matrix units want rows of 16 bytes or more; logits lie as [vocabulary, rows]."""

IGNORED = -100
"""A target that counts for nothing."""


def chunk_rows(device: torch.device) -> int:
    """How many masked positions' logits exist at the same time on a device."""
    return CHUNK_ROWS if device.type == "cpu" else GPU_CHUNK_ROWS


class LossSum(NamedTuple):
    """A loss summed over its terms (scalar float32) and how many were predicted right."""

    loss: Tensor
    correct: Tensor


class _ChunkedCrossEntropy(torch.autograd.Function):
    """Summed cross-entropy of `hidden @ embeddings.T + bias`, differentiated on the way.

    With e = exp(logits - their maximum) and s = sum(e), the gradient of a row's logits is
    (e - s * onehot(target)) / s. The division is moved to the small side of the products.
    Logits lie as [vocabulary, rows], which matrix libraries multiply half as fast again as
    [rows, vocabulary].
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        embeddings: Tensor,
        bias: Tensor,
        targets: Tensor,
        learn: bool,
        compile: bool,
    ) -> tuple[Tensor, Tensor]:
        dtype = hidden.dtype
        table = embeddings.to(dtype)  # [vocabulary, hidden]
        loss = torch.zeros((), device=hidden.device)
        correct = torch.zeros((), dtype=torch.int64, device=hidden.device)
        if learn:
            of_hidden = torch.empty_like(hidden)
            of_table = torch.zeros_like(embeddings)
            of_bias = torch.zeros_like(bias)
        cross_entropy = compiled(_cross_entropy) if compile else _cross_entropy
        size = chunk_rows(hidden.device)
        for start in range(0, hidden.shape[0], size):
            rows = hidden[start : start + size]
            logits = torch.mm(table, rows.t())  # [vocabulary, rows]
            target = targets[None, start : start + size]
            if compile:
                torch._dynamo.maybe_mark_dynamic(logits, 1)
                torch._dynamo.maybe_mark_dynamic(target, 1)
            of_chunk, right, gradients = cross_entropy(logits, bias, target, learn)
            loss += of_chunk
            correct += right
            if gradients is None:
                continue
            of_logits, inverse, of_chunk = gradients
            of_bias += of_chunk
            of_rows = torch.mm(of_logits.t(), table, out=of_hidden[start : start + size])
            of_rows.mul_(inverse.t())
            scaled = (rows * inverse.t()).to(dtype)
            if dtype == of_table.dtype:
                of_table.addmm_(of_logits, scaled)
            else:
                of_table += torch.mm(of_logits, scaled)
        if learn:
            ctx.save_for_backward(of_hidden, of_table, of_bias)
        ctx.mark_non_differentiable(correct)
        return loss, correct

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        of_hidden, of_table, of_bias = ctx.saved_tensors
        return of_hidden * gradient, of_table * gradient, of_bias * gradient, None, None, None


def _cross_entropy(
    raw: Tensor, bias: Tensor, target: Tensor, learn: bool
) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor, Tensor] | None]:
    """One chunk's loss and right predictions; when it learns, what its gradient is made of.

    Args:
        raw: [vocabulary, rows] logits without `bias`.
        target: [1, rows].

    Returns:
        Both sums, and [vocabulary, rows] the gradient of the logits times `total` in the logits'
        type, [1, rows] 1 / `total`, or 0 at ignored rows, which so get no gradient, and
        [vocabulary] the bias' gradient.
    """
    real, target = target >= 0, target.clamp(min=0)
    logits = raw.float().add_(bias[:, None])
    top = logits.amax(dim=0, keepdim=True)
    chosen = logits.gather(0, target)
    correct = (real & (chosen >= top)).sum()
    exponentials = logits.sub_(top).exp_()
    total = exponentials.sum(dim=0, keepdim=True)
    loss = torch.where(real, total.log() + top - chosen, 0.0).sum()
    if not learn:
        return loss, correct, None
    inverse = real / total
    exponentials.scatter_add_(0, target, -total)
    of_bias = torch.mv(exponentials, inverse.squeeze(0))
    return loss, correct, (exponentials.to(raw.dtype), inverse, of_bias)


class MaskedLMHead(nn.Module):
    """Predicts the token at a masked position: dense, activation, LayerNorm, then the token
    embeddings transposed plus a bias. The embeddings are the encoder's own unless the
    configuration unties them."""

    def __init__(self, config: ModelConfig, embeddings: nn.Parameter) -> None:
        super().__init__()
        self.dense = Linear(config.hidden_size, config.hidden_size, config.initializer_range)
        self.activation = ACTIVATIONS[config.activation]
        self.norm = LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.embeddings = embeddings
        if not config.tied:
            self.embeddings = nn.Parameter(torch.empty_like(embeddings))
            truncated_normal_(self.embeddings.data, config.initializer_range)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        self.compiled = False

    def transform(self, hidden: Tensor) -> Tensor:
        """[rows, hidden] -> [rows, hidden]."""
        return self.norm(self.activation(self.dense(hidden)))

    def logits(self, hidden: Tensor) -> Tensor:
        """[rows, hidden] -> [rows, vocabulary] float32."""
        transformed = self.transform(hidden)
        dtype = transformed.dtype
        return F.linear(transformed, self.embeddings.to(dtype), self.bias.to(dtype)).float()

    def loss(self, hidden: Tensor, targets: Tensor) -> LossSum:
        """Of the masked positions' hidden states [masked, hidden] and true ids [masked].

        A prediction counts as right when no token has a larger logit than the true one. Rows
        with the target IGNORED count for nothing.
        """
        extra = missing_rows(hidden.shape[0], self.dense.compute_dtype, hidden.device)
        if hidden.device.type != "cpu":
            extra = -hidden.shape[0] % GPU_ROW_MULTIPLE
        hidden = F.pad(hidden, (0, 0, 0, extra))
        targets = F.pad(targets, (0, extra), value=IGNORED)
        learn = torch.is_grad_enabled()
        loss, correct = _ChunkedCrossEntropy.apply(
            self.transform(hidden),
            self.embeddings,
            self.bias,
            targets,
            learn,
            learn and self.compiled,
        )
        return LossSum(loss, correct)


class NextSentenceHead(nn.Module):
    """Is B the sentence after A? Label 0 says it is, 1 that B is random (reference release)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.dense = Linear(config.hidden_size, 2, config.initializer_range)

    def forward(self, pooled: Tensor) -> Tensor:
        """[sequences, hidden] -> logits [sequences, 2]."""
        return self.dense(pooled)

    def loss(self, pooled: Tensor, labels: Tensor) -> LossSum:
        """Of pooled output [sequences, hidden] and labels [sequences]."""
        logits = self(pooled).float()
        correct = (logits.detach().argmax(dim=1) == labels).sum()
        return LossSum(F.cross_entropy(logits, labels, reduction="sum"), correct)


class LabelHead(nn.Module):
    """Dropout and one dense layer: pooled output or token states -> logits of the labels."""

    def __init__(self, config: ModelConfig, labels: int, inputs: int | None = None) -> None:
        super().__init__()
        self.dropout = Dropout(config.hidden_dropout)
        self.dense = Linear(inputs or config.hidden_size, labels, config.initializer_range)

    def forward(self, values: Tensor) -> Tensor:
        """[rows, hidden], or [rows, inputs], -> [rows, labels] float32."""
        return self.dense(self.dropout(values)).float()


class SpanHead(nn.Module):
    """The start vector and the end vector (paper, section 4.2), with the reference release's bias.

    There is no dropout before it, as in the reference release.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.dense = Linear(config.hidden_size, 2, config.initializer_range)

    def forward(self, hidden: Tensor) -> Tensor:
        """[tokens, hidden] -> [tokens, 2] float32: how well a token starts and ends the answer."""
        return self.dense(hidden).float()


def span_loss(scores: Tensor, targets: Tensor, bounds: Tensor) -> LossSum:
    """Cross-entropy of the right starts and ends, each a softmax over its sequence's own tokens.

    P_i = exp(S . T_i) / sum_j exp(S . T_j), j over the sequence; the same for ends.

    Args:
        scores: [tokens, 2] of `SpanHead`.
        targets: [sequences, 2] the right start and end, index into the tokens.
        bounds: [sequences + 1] as in `FlatBatch`.

    Returns:
        The loss summed over 2 x sequences terms, and how many of them are predicted right.
    """
    sequences = bounds.numel() - 1
    owner = torch.repeat_interleave(
        torch.arange(sequences, device=scores.device), bounds.diff(), output_size=len(scores)
    )[:, None].expand_as(scores)  # [tokens, 2]
    with torch.no_grad():
        lowest = scores.new_full((sequences, 2), float("-inf"))
        top = lowest.scatter_reduce(0, owner, scores, "amax")  # [sequences, 2]
    exponentials = (scores - top.gather(0, owner)).exp()
    total = torch.zeros_like(top).scatter_add(0, owner, exponentials)
    chosen = scores.gather(0, targets)  # [sequences, 2]
    loss = (total.log() + top - chosen).sum()
    return LossSum(loss, (chosen.detach() >= top).sum())
