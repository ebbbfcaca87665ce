"""Sizes of the encoder: the paper's two and the small ones released later, by name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

from bertkit.errors import UserError

Activation = Literal["gelu", "gelu_tanh", "relu"]
PositionInit = Literal["normal", "sinusoidal"]

_SIZES = (
    "vocab_size",
    "hidden_size",
    "layers",
    "heads",
    "intermediate_size",
    "max_positions",
    "segment_types",
)


@dataclass
class ModelConfig:
    """Everything that fixes the shape and the arithmetic of an encoder (paper, section 3).

    `activation` "gelu" is the erf form that the released weights were trained with, "gelu_tanh"
    the approximation that the reference release uses since February 2019. With `causal` a token
    attends to itself and those before it only: the left-to-right model of the ablations. `tied`
    tells whether the masked LM predicts with the token embeddings, as BERT does, or with a matrix
    of its own.
    """

    vocab_size: int
    hidden_size: int
    layers: int
    heads: int
    intermediate_size: int
    max_positions: int = 512
    segment_types: int = 2
    activation: Activation = "gelu"
    hidden_dropout: float = 0.1
    attention_dropout: float = 0.1
    layer_norm_eps: float = 1e-12
    initializer_range: float = 0.02
    position_init: PositionInit = "normal"
    pad_id: int = 0
    causal: bool = False
    tied: bool = True

    def __post_init__(self) -> None:
        for name in _SIZES:
            if getattr(self, name) < 1:
                raise UserError(f"{_words(name)} is {getattr(self, name)}; it must be at least 1")
        if self.hidden_size % self.heads:
            raise UserError(
                f"hidden size {self.hidden_size} is not a multiple of {self.heads} heads; "
                "choose a hidden size that the heads divide"
            )
        for name in ("hidden_dropout", "attention_dropout"):
            if not 0.0 <= getattr(self, name) <= 0.99:
                raise UserError(
                    f"{_words(name)} is {getattr(self, name)}; choose a rate from 0 to 0.99"
                )
        for name, kind in (("activation", Activation), ("position_init", PositionInit)):
            if getattr(self, name) not in get_args(kind):
                raise UserError(
                    f"no {_words(name)} '{getattr(self, name)}'; "
                    f"choose one of {', '.join(get_args(kind))}"
                )

    @property
    def head_size(self) -> int:
        return self.hidden_size // self.heads


SIZES: dict[str, tuple[int, int, int]] = {
    "tiny": (2, 128, 2),
    "mini": (4, 256, 4),
    "small": (4, 512, 8),
    "medium": (8, 512, 8),
    "base": (12, 768, 12),
    "large": (24, 1024, 16),
}
"""(layers, hidden size, heads); the feed-forward is always four times the hidden size."""


def model_config(name: str, vocab_size: int, **changes: object) -> ModelConfig:
    """The configuration of a named size, or of `LAYERSxHIDDENxHEADS` such as `2x256x4`.

    Raises UserError for a name that is neither.
    """
    if name in SIZES:
        layers, hidden, heads = SIZES[name]
    else:
        try:
            layers, hidden, heads = (int(part) for part in name.split("x"))
        except ValueError:
            raise UserError(
                f"no model size '{name}'; choose one of {', '.join(SIZES)} "
                "or give LAYERSxHIDDENxHEADS, as 2x256x4"
            ) from None
    config = ModelConfig(
        vocab_size=vocab_size,
        hidden_size=hidden,
        layers=layers,
        heads=heads,
        intermediate_size=4 * hidden,
    )
    return replace(config, **changes)  # type: ignore[arg-type]


def dropout_rates(rate: float) -> dict[str, float]:
    """The fields that set dropout to one rate at every site, as changes to a configuration."""
    return {"hidden_dropout": rate, "attention_dropout": rate}


def _words(field: str) -> str:
    return field.replace("_", " ")
