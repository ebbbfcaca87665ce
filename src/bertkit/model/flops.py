"""The arithmetic of a model, from its sizes: floating-point operations a token. Needs no torch.

A product of [m, k] and [k, n] takes 2·m·k·n. Counted are the products of the layers, attention's
two and those with the vocabulary; embeddings, softmax, LayerNorm and dropout are passes over
memory. Backward takes twice what forward does.
"""

from __future__ import annotations

from typing import Any

from bertkit.model.config import ModelConfig


def forward_flops(
    sizes: ModelConfig, lengths: Any, predicted: float = 0.0, carried: float = 1.0
) -> float:
    """Floating-point operations of an answer, for a token.

    Args:
        lengths: [sequences] array of tokens, whose mean square is what attention takes.
        predicted: share of the tokens that meet the vocabulary.
        carried: share of the tokens that the last layer's dense parts after attention work on; a
            model asked at few positions needs no more than those.
    """
    hidden, inner = sizes.hidden_size, sizes.intermediate_size
    packed, after = 2 * 3 * hidden**2, 2 * (hidden**2 + 2 * hidden * inner)
    dense = sizes.layers * packed + (sizes.layers - 1 + carried) * after
    attention = sizes.layers * 4 * hidden * float((lengths**2).mean() / lengths.mean())
    output = predicted * 2 * (hidden**2 + hidden * sizes.vocab_size)
    return dense + attention + output


def training_flops(
    sizes: ModelConfig, lengths: Any, predicted: float = 0.0, carried: float = 1.0
) -> float:
    """Floating-point operations of training, forward and backward, for a token."""
    return 3 * forward_flops(sizes, lengths, predicted, carried)
