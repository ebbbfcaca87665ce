"""The presets: the paper's two runs by name."""

from __future__ import annotations

import pytest

from bertkit.arguments import parse
from bertkit.model.config import SIZES
from bertkit.pretraining.config import PretrainConfig
from bertkit.pretraining.phases import phase_steps, read_phases


@pytest.mark.parametrize(
    ("name", "size"), [("paper-base", (12, 768, 12)), ("paper-large", (24, 1024, 16))]
)
def test_a_preset_is_the_papers_run(name: str, size: tuple[int, int, int]) -> None:
    """Appendix A.2: 1M steps of 256 sequences, 1e-4, 10,000 steps of warm-up, nine in ten short."""
    values, _ = parse(PretrainConfig, ["corpus", "-o", "run", "--preset", name])
    config = PretrainConfig(**values)
    assert SIZES[config.model] == size
    assert (config.steps, config.batch_size, config.learning_rate) == (1_000_000, 256, 1e-4)
    assert round(config.warmup * config.steps) == 10_000
    phases = read_phases(config.phases, config.sequence_length)
    assert [phase.sequence_length for phase in phases] == [128, 512]
    assert phase_steps(phases, config.steps) == [900_000, 100_000]
    assert (config.optimizer, config.reference_warmup) == ("adam-paper", True)


def test_what_the_line_says_goes_before_the_preset() -> None:
    line = ["corpus", "-o", "run", "--preset", "paper-large", "--sequence-length", "128"]
    values, _ = parse(PretrainConfig, line)
    assert PretrainConfig(**values).sequence_length == 128


def test_without_a_preset_nothing_changes() -> None:
    config = PretrainConfig(corpus="corpus", output="run")
    assert (config.model, config.sequence_length, config.phases) == (None, 512, None)
    assert (config.optimizer, config.schedule, config.reference_warmup) == (
        "adamw",
        "linear",
        False,
    )
