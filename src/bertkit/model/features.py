"""Which layers make a feature, and how (paper, section 5.3 and table 7).

    embeddings           layer 0
    last, second-to-last
    sum-last-four, concat-last-four, weighted-last-four
    sum-all, weighted-all           every layer but the embeddings
    0,-1                            numbers: these layers, joined

Layers count from the embeddings, 0, to the last block; -1 is the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from bertkit.errors import UserError

How = Literal["concat", "sum", "weighted"]

LAST_FOUR = (-4, -3, -2, -1)
NAMED: dict[str, tuple[tuple[int, ...], How]] = {
    "last": ((-1,), "concat"),
    "second-to-last": ((-2,), "concat"),
    "embeddings": ((0,), "concat"),
    "sum-last-four": (LAST_FOUR, "sum"),
    "concat-last-four": (LAST_FOUR, "concat"),
    "weighted-last-four": (LAST_FOUR, "weighted"),
    "sum-all": ((), "sum"),
    "weighted-all": ((), "weighted"),
}
"""Name -> (layers, how they become one vector); no layers stand for all but the embeddings."""


@dataclass(frozen=True)
class LayerChoice:
    """Layers, numbered from 0 (the embeddings), and how they become one vector."""

    layers: tuple[int, ...]
    how: How

    def size(self, hidden: int) -> int:
        """Numbers in a vector."""
        return hidden * (len(self.layers) if self.how == "concat" else 1)

    def mix(self, states: Sequence[Tensor], weights: Tensor | None = None) -> Tensor:
        """The feature of each token.

        Args:
            states: layers + 1 tensors [tokens, hidden], as `Encoder.hidden_states` gives.
            weights: [layers chosen], for a weighted sum.

        Returns:
            [tokens, size] float32.
        """
        chosen = [states[layer].float() for layer in self.layers]
        if self.how == "concat":
            return torch.cat(chosen, dim=1) if len(chosen) > 1 else chosen[0]
        if self.how == "sum":
            return torch.stack(chosen).sum(dim=0)
        assert weights is not None
        return torch.einsum("l,lth->th", weights, torch.stack(chosen))

    def weighted(self, count: int) -> LayerChoice:
        """The same layers for a sum with `count` weights.

        Raises:
            UserError: there is not one weight for each layer.
        """
        if count != len(self.layers):
            raise UserError(
                f"{count} weights for {len(self.layers)} layers; give one weight for each layer"
            )
        return replace(self, how="weighted")


def parse_layers(layers: str, count: int) -> LayerChoice:
    """The layers that a name or a list of numbers stands for in a model of `count` blocks.

    Raises:
        UserError: not a name or numbers, or a layer that the model does not have.
    """
    if layers in NAMED:
        numbers, how = NAMED[layers]
        numbers = numbers or tuple(range(1, count + 1))
    else:
        try:
            numbers, how = tuple(int(part) for part in layers.split(",")), "concat"
        except ValueError:
            raise UserError(
                f"no layers '{layers}'; give {', '.join(NAMED)}, or numbers as 0,-1"
            ) from None
    for number in numbers:
        if not -count - 1 <= number <= count:
            raise UserError(
                f"layers '{layers}' ask for layer {number}, but the model has layers 0 "
                f"(embeddings) to {count}"
            )
    return LayerChoice(tuple(number % (count + 1) for number in numbers), how)
