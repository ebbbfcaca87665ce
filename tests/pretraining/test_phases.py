"""Phases of growing sequence length."""

from __future__ import annotations

import pytest

from bertkit.pretraining.phases import Phase, PhasedSource, phase_steps, read_phases
from bertkit.training.batch import Batch
from bertkit.training.objective import BatchSource


class Recorder(BatchSource):
    def __init__(self) -> None:
        self.asked: list[int] = []

    def step(self, step: int) -> list[Batch]:
        self.asked.append(step)
        return []


def test_the_papers_two_phases() -> None:
    phases = read_phases(["128:0.9"], 512)
    assert [phase.sequence_length for phase in phases] == [128, 512]
    assert phase_steps(phases, 1_000_000) == [900_000, 100_000]


def test_one_phase_has_all_steps() -> None:
    assert read_phases([], 128) == [Phase(128, 1.0)]
    assert phase_steps(read_phases([], 128), 7) == [7]


def test_every_step_belongs_to_one_phase_whatever_the_rounding() -> None:
    phases = read_phases(["16:0.333", "32:0.333"], 64)
    for steps in range(1, 50):
        assert sum(phase_steps(phases, steps)) == steps


def test_each_phase_counts_its_own_steps() -> None:
    first, second = Recorder(), Recorder()
    source = PhasedSource([first, second], [3, 2])
    for step in range(5):
        source.step(step)
    assert (first.asked, second.asked) == ([0, 1, 2], [0, 1])


@pytest.mark.parametrize(
    ("texts", "length", "expected"),
    [
        (None, 512, [(128, 0.9), (512, 0.1)]),
        (None, 128, [(128, 1.0)]),
        (None, 64, [(64, 1.0)]),
        (["none"], 512, [(512, 1.0)]),
        (["64:0.5", "128:0.25"], 256, [(64, 0.5), (128, 0.25), (256, 0.25)]),
    ],
)
def test_the_papers_two_phases_are_the_default_of_long_sequences(
    texts: list[str] | None, length: int, expected: list[tuple[int, float]]
) -> None:
    phases = read_phases(texts, length)
    assert [phase.sequence_length for phase in phases] == [one for one, _ in expected]
    assert [phase.share for phase in phases] == pytest.approx([share for _, share in expected])
