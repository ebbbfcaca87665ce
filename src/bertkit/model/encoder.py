"""The encoder of BERT, in one sitting's read (paper, section 3; faithful-BERT's `modeling.py`).

In: a FlatBatch, the tokens of all sequences end to end. Out: [tokens, hidden].

    embeddings   token + segment + learned position, LayerNorm, dropout
    block        x = LayerNorm(x + dropout(attention(x)))      post-LN, as in the paper
                 x = LayerNorm(x + dropout(feed_forward(x)))
    pooled       tanh(dense(x at the first token of each sequence)); at the last one in a causal
                 model, where no other has seen the whole sequence

Matrices start as a normal of deviation 0.02 cut at two deviations, biases at 0, LayerNorm at 1 and
0. Everything but attention works on [tokens, hidden] and never sees padding.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from bertkit.errors import UserError
from bertkit.model.attention import BACKENDS, Backend, Layout, attend
from bertkit.model.batch import FlatBatch
from bertkit.model.config import ModelConfig
from bertkit.model.dropout import Dropout
from bertkit.model.layers import (
    ACTIVATIONS,
    LayerNorm,
    Linear,
    any_rows,
    compiled,
    missing_rows,
    truncated_normal_,
)


def sinusoids(positions: int, hidden: int, deviation: float) -> Tensor:
    """[positions, hidden] sines and cosines of falling frequency, scaled to a deviation.

    The fixed embeddings of "Attention Is All You Need", here only where learned ones start.
    """
    angles = torch.arange(positions)[:, None] * torch.exp(
        torch.arange(0, hidden, 2) * (-math.log(10000.0) / hidden)
    )
    table = torch.stack([angles.sin(), angles.cos()], dim=2).view(positions, -1)[:, :hidden]
    return table * (deviation / 0.5**0.5)  # a sine wave has a deviation of sqrt(1/2)


class Embeddings(nn.Module):
    """The sum of token, segment and position embeddings, normalised: -> [tokens, hidden]."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.empty(config.vocab_size, config.hidden_size))
        self.position = nn.Parameter(torch.empty(config.max_positions, config.hidden_size))
        self.segment = nn.Parameter(torch.empty(config.segment_types, config.hidden_size))
        self.norm = LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.dropout = Dropout(config.hidden_dropout)
        self.compiled = False
        for table in (self.token, self.position, self.segment):
            truncated_normal_(table.data, config.initializer_range)
        if config.position_init == "sinusoidal":
            self.position.data = sinusoids(
                config.max_positions, config.hidden_size, config.initializer_range
            )

    def forward(self, batch: FlatBatch) -> Tensor:
        self._check(batch)
        tokens = F.embedding(batch.token_ids, self.token)  # [tokens, hidden]
        if tokens.device.type == "cpu":
            positions = F.embedding(batch.positions, self.position)
            segments = F.embedding(batch.segment_ids, self.segment)
        else:
            positions, segments = self._positions(batch), self._segments(batch)
        if self.compiled and torch.is_grad_enabled():
            any_rows(tokens, positions, segments)
            return compiled(Embeddings.together)(self, tokens, positions, segments)
        return self.together(tokens, positions, segments)

    def together(self, tokens: Tensor, positions: Tensor, segments: Tensor) -> Tensor:
        """The normalised sum, [tokens, hidden]; what of the layer gains by being compiled."""
        return self.dropout(self.norm(tokens + positions + segments))

    def _positions(self, batch: FlatBatch) -> Tensor:
        """[tokens, hidden]. Where all sequences have one length the gradient is a plain sum."""
        if batch.tokens != batch.sequences * batch.max_length:
            return F.embedding(batch.positions, self.position)
        return self.position[: batch.max_length].repeat(batch.sequences, 1)

    def _segments(self, batch: FlatBatch) -> Tensor:
        """[tokens, hidden], as a product: a GPU is slow to sort thousands of tokens into two
        rows of a gradient, and a table of 0 and 1 changes no number."""
        types = torch.arange(self.segment.shape[0], device=batch.segment_ids.device)
        return (batch.segment_ids[:, None] == types).to(self.segment.dtype) @ self.segment

    def _check(self, batch: FlatBatch) -> None:
        """Raises UserError where an id or a position has no embedding."""
        if batch.max_length > self.position.shape[0]:
            raise UserError(
                f"a sequence of {batch.max_length} tokens, but the model has "
                f"{self.position.shape[0]} positions; shorten it or cut it into windows"
            )
        for name, ids, size in (
            ("token", batch.token_ids, self.token.shape[0]),
            ("segment", batch.segment_ids, self.segment.shape[0]),
        ):
            if ids.device.type != "cpu" or not ids.numel():
                continue  # a look at the values would make a GPU wait
            low, high = (int(value) for value in torch.aminmax(ids))
            if low < 0 or high >= size:
                raise UserError(
                    f"{name} id {low if low < 0 else high} is outside the model's {size} "
                    f"{name} embeddings; use the vocabulary that the model was made with"
                )


class Block(nn.Module):
    """One layer: attention and feed-forward, each followed by dropout, residual and LayerNorm."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        hidden, deviation = config.hidden_size, config.initializer_range
        self.attention_backend: Backend = "auto"
        self.compiled = False
        self.activation = ACTIVATIONS[config.activation]
        self.qkv = Linear(hidden, 3 * hidden, deviation)
        self.attention_dropout = Dropout(config.attention_dropout)
        self.attention_output = Linear(hidden, hidden, deviation)
        self.attention_output_dropout = Dropout(config.hidden_dropout)
        self.attention_norm = LayerNorm(hidden, config.layer_norm_eps)
        self.expand = Linear(hidden, config.intermediate_size, deviation)
        self.contract = Linear(config.intermediate_size, hidden, deviation)
        self.feed_forward_dropout = Dropout(config.hidden_dropout)
        self.feed_forward_norm = LayerNorm(hidden, config.layer_norm_eps)

    def forward(self, hidden: Tensor, layout: Layout, rows: Tensor | None = None) -> Tensor:
        """[tokens, hidden] -> [tokens, hidden], or [rows, hidden] of the tokens in `rows`."""
        rate = self.attention_dropout.active_rate
        context = attend(self.qkv(hidden), layout, rate, self.attention_backend)
        if rows is not None:
            context, hidden = context.index_select(0, rows), hidden.index_select(0, rows)
        if self.compiled and torch.is_grad_enabled():
            any_rows(context, hidden)
            return compiled(Block.after_attention)(self, context, hidden)
        return self.after_attention(context, hidden)

    def after_attention(self, context: Tensor, hidden: Tensor) -> Tensor:
        """Attention's result and the block's input, both [rows, hidden] -> its output.

        What of the block gains by being compiled: attention is a kernel of its own.
        """
        attended = self.attention_output(context)
        hidden = self.attention_norm(self.attention_output_dropout.add(hidden, attended))
        fed = self.contract(self.activation(self.expand(hidden)))
        return self.feed_forward_norm(self.feed_forward_dropout.add(hidden, fed))


class Encoder(nn.Module):
    """Embeddings and blocks, and the pooler that classification and next sentence start from.

    Models that never look at a sequence as a whole have no pooler.
    """

    def __init__(self, config: ModelConfig, pooler: bool = True) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.pooler: Linear | None = None
        if pooler:
            self.pooler = Linear(config.hidden_size, config.hidden_size, config.initializer_range)
        self.compute_dtype = torch.float32
        self.activation_checkpointing = False

    def forward(self, batch: FlatBatch, rows: Tensor | None = None) -> Tensor:
        """The last layer's hidden states.

        Args:
            batch: the sequences.
            rows: [rows] index into the tokens. With it only these tokens are carried through the
                last layer's dense parts: the same numbers for a fraction of the work.

        Returns:
            [tokens, hidden], or [rows, hidden] in the order of `rows`.
        """
        wanted = batch.tokens if rows is None else rows.numel()
        if rows is not None:
            rows = F.pad(rows, (0, self._missing(wanted, rows.device)))
        hidden, layout = self._start(batch)
        last = len(self.blocks) - 1
        for number, block in enumerate(self.blocks):
            block_rows = rows if number == last else None
            if self.activation_checkpointing and torch.is_grad_enabled():
                hidden = checkpoint(block, hidden, layout, block_rows, use_reentrant=False)
            else:
                hidden = block(hidden, layout, block_rows)
        return hidden[:wanted]

    def hidden_states(self, batch: FlatBatch) -> list[Tensor]:
        """layers + 1 tensors [tokens, hidden]: the embeddings, then the output of each block."""
        hidden, layout = self._start(batch)
        states = [hidden]
        for block in self.blocks:
            states.append(block(states[-1], layout))
        return [state[: batch.tokens] for state in states]

    def _start(self, batch: FlatBatch) -> tuple[Tensor, Layout]:
        """Embeddings in the compute type, with padding after the last token where that pays."""
        extra = self._missing(batch.tokens, batch.token_ids.device)
        batch = batch.extended(extra, self.config.pad_id)
        hidden = self.embeddings(batch).to(self.compute_dtype)
        return hidden, Layout(batch, hidden.dtype, self.config.heads, self.config.causal)

    def _missing(self, rows: int, device: torch.device) -> int:
        return missing_rows(rows, self.compute_dtype, device)

    def pooled(self, hidden: Tensor, batch: FlatBatch) -> Tensor:
        """[tokens, hidden] of the last layer -> [sequences, hidden]."""
        return self.pool(hidden.index_select(0, self.summary_rows(batch)))

    def summary_rows(self, batch: FlatBatch) -> Tensor:
        """[sequences] index into the tokens: the one that stands for the whole sequence."""
        return batch.bounds[1:] - 1 if self.config.causal else batch.bounds[:-1]

    def pool(self, summary: Tensor) -> Tensor:
        """The last layer at the summary rows, [sequences, hidden] -> the same."""
        assert self.pooler is not None, "this model has no pooler"
        return torch.tanh(self.pooler(summary))


def set_attention(model: nn.Module, backend: Backend) -> None:
    """Chooses the attention back-end of every block: one of BACKENDS."""
    if backend not in BACKENDS:
        raise UserError(f"no attention back-end '{backend}'; choose one of {', '.join(BACKENDS)}")
    for module in model.modules():
        if isinstance(module, Block):
            module.attention_backend = backend


def set_compute_dtype(model: nn.Module, dtype: torch.dtype) -> None:
    """Chooses the type that matrix products run in; master weights stay float32."""
    for module in model.modules():
        if isinstance(module, (Linear, Encoder)):
            module.compute_dtype = dtype


def set_activation_checkpointing(model: nn.Module, on: bool) -> None:
    """Whether a block keeps only its input for the backward pass and computes the rest again.

    The same numbers, dropout masks included, for less memory and a third more work.
    """
    for module in model.modules():
        if isinstance(module, Encoder):
            module.activation_checkpointing = on


def set_compiled(model: nn.Module, on: bool) -> None:
    """Whether training runs what lies around attention, and the masked LM's loss, through
    `torch.compile`; the same numbers but for the order of sums."""
    for module in model.modules():
        if hasattr(module, "compiled"):
            module.compiled = on  # type: ignore[assignment]
