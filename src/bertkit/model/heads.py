"""What stands on the encoder: masked LM, next sentence, classification, tagging (paper, 3 and 4).

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
from bertkit.model.layers import ACTIVATIONS, LayerNorm, Linear

CHUNK_ROWS = 256
"""Masked positions whose logits exist at the same time."""


class LossSum(NamedTuple):
    """A loss summed over its terms (scalar float32) and how many were predicted right."""

    loss: Tensor
    correct: Tensor


class _ChunkedCrossEntropy(torch.autograd.Function):
    """Summed cross-entropy of `hidden @ embeddings.T + bias`, differentiated on the way.

    With e = exp(logits - their maximum) and s = sum(e), the gradient of a row's logits is
    (e - s * onehot(target)) / s. The division is moved to the small side of both products.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, embeddings: Tensor, bias: Tensor, targets: Tensor, learn: bool
    ) -> tuple[Tensor, Tensor]:
        dtype = hidden.dtype
        table = embeddings.to(dtype)  # [vocabulary, hidden]
        loss = torch.zeros((), device=hidden.device)
        correct = torch.zeros((), dtype=torch.int64, device=hidden.device)
        if learn:
            of_hidden = torch.empty_like(hidden)
            of_table = torch.zeros_like(embeddings)
            of_bias = torch.zeros_like(bias)
        for start in range(0, hidden.shape[0], CHUNK_ROWS):
            rows = hidden[start : start + CHUNK_ROWS]
            target = targets[start : start + CHUNK_ROWS, None]
            logits = torch.addmm(bias.to(dtype), rows, table.t()).float()  # [rows, vocabulary]
            top = logits.amax(dim=1, keepdim=True)
            chosen = logits.gather(1, target)
            correct += (chosen >= top).sum()
            exponentials = logits.sub_(top).exp_()
            total = exponentials.sum(dim=1, keepdim=True)
            loss += (total.log() + top - chosen).sum()
            if learn:
                exponentials.scatter_add_(1, target, -total)
                of_logits = exponentials.to(dtype)
                torch.mm(of_logits, table, out=of_hidden[start : start + CHUNK_ROWS])
                of_hidden[start : start + CHUNK_ROWS].div_(total)
                if dtype == torch.float32:
                    of_table.addmm_(of_logits.t(), rows / total)
                else:
                    of_table += torch.mm(of_logits.t(), (rows / total).to(dtype))
                of_bias += torch.mv(exponentials.t(), total.reciprocal().squeeze(1))
        if learn:
            ctx.save_for_backward(of_hidden, of_table, of_bias)
        ctx.mark_non_differentiable(correct)
        return loss, correct

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        of_hidden, of_table, of_bias = ctx.saved_tensors
        return of_hidden * gradient, of_table * gradient, of_bias * gradient, None, None


class MaskedLMHead(nn.Module):
    """Predicts the token at a masked position: dense, activation, LayerNorm, then the token
    embeddings transposed plus a bias. The embeddings are the encoder's own (tied)."""

    def __init__(self, config: ModelConfig, embeddings: nn.Parameter) -> None:
        super().__init__()
        self.dense = Linear(config.hidden_size, config.hidden_size, config.initializer_range)
        self.activation = ACTIVATIONS[config.activation]
        self.norm = LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.embeddings = embeddings
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

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

        A prediction counts as right when no token has a larger logit than the true one.
        """
        loss, correct = _ChunkedCrossEntropy.apply(
            self.transform(hidden), self.embeddings, self.bias, targets, torch.is_grad_enabled()
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

    def __init__(self, config: ModelConfig, labels: int) -> None:
        super().__init__()
        self.dropout = Dropout(config.hidden_dropout)
        self.dense = Linear(config.hidden_size, labels, config.initializer_range)

    def forward(self, values: Tensor) -> Tensor:
        """[rows, hidden] -> [rows, labels] float32."""
        return self.dense(self.dropout(values)).float()
