"""What the quickstart does with its minutes, found by trying: see docs/quickstart.md.

Short masked-LM training sits on a plateau first, where it predicts little more than how frequent
each character is. Two layers, short sequences, small steps, a high learning rate, no dropout and
positions that start as sinusoids leave it soonest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from bertkit.model.config import PositionInit


@dataclass(frozen=True)
class Tuning:
    """How to fine-tune: peak learning rate and passes over the labelled examples."""

    learning_rate: float
    epochs: int


@dataclass(frozen=True)
class Recipe:
    """The choices for one language.

    Attributes:
        review_share: share of reviews in the pre-training text's characters; None takes all.
        tuning: of the pre-trained model, by task: with few labels and with many.
        grid: of the random start, which gets the best of these on the dev set; by task, with
            few labels and with many.
        seeds: how many times the configured number, by task, with few labels and with many. The
            draw of a few noisy reviews matters much.
        tuning_dropout: in fine-tuning, from either start; pre-training has its own.
        task_length: tokens of the longest sequence in fine-tuning; a longer sentence is tagged in
            windows.
    """

    vocab_size: int
    model: str
    sequence_length: int
    phases: tuple[str, ...]
    batch_size: int
    learning_rate: float
    warmup: float
    beta2: float
    mask_rate: float
    dropout: float
    position_init: PositionInit
    initializer_range: float
    review_share: float | None
    tuning: dict[str, tuple[Tuning, Tuning]]
    grid: dict[str, tuple[tuple[Tuning, ...], tuple[Tuning, ...]]]
    seeds: dict[str, tuple[int, int]]
    tuning_dropout: float
    task_length: int


def grid(*epochs: int) -> tuple[Tuning, ...]:
    """Three rates with each number of epochs."""
    return tuple(Tuning(rate, number) for rate in (5e-4, 1e-3, 2e-3) for number in epochs)


CHINESE = Recipe(
    vocab_size=5000,
    model="2x128x8",
    sequence_length=64,
    phases=("32:0.4",),
    batch_size=64,
    learning_rate=3e-3,
    warmup=0.03,
    beta2=0.98,
    mask_rate=0.3,
    dropout=0.0,
    position_init="sinusoidal",
    initializer_range=0.04,
    review_share=0.6,
    tuning={
        "reviews": (Tuning(1e-3, 10), Tuning(1e-3, 6)),
        "names": (Tuning(1e-3, 20), Tuning(1e-3, 6)),
    },
    grid={"reviews": (grid(5, 10), grid(3, 6)), "names": (grid(10, 20), grid(3, 6))},
    seeds={"reviews": (2, 1), "names": (1, 1)},
    tuning_dropout=0.1,
    task_length=64,
)

ENGLISH = replace(CHINESE, vocab_size=4000)
