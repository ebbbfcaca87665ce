"""What the parts of a run take, measured on an injected clock."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch import nn

from bertkit.training.batch import Batch
from bertkit.training.calibrate import MEASURED_STEPS, WARM_STEPS, measure
from bertkit.training.config import TrainOptions
from bertkit.training.objective import LossSums
from tests.training.small import Classify, RandomBatches, small_model
from tests.training.test_budget import Timepiece


class Jerky(Classify):
    """Two micro-batches a step: half a second each, and now and then a minute."""

    def __init__(self, clock: Timepiece, jerks: tuple[int, ...]) -> None:
        self.clock, self.jerks, self.passes = clock, jerks, 0

    def __call__(self, model: nn.Module, batch: Batch) -> LossSums:
        self.clock.now += 60.0 if self.passes in self.jerks else 0.5
        self.passes += 1
        return super().__call__(model, batch)


OPTIONS = TrainOptions(steps=100, learning_rate=1e-3, checkpoint_steps=10)


def test_slow_moments_do_not_count_and_nothing_is_left_behind(tmp_path: Path) -> None:
    clock, model = Timepiece(), small_model()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    objective = Jerky(clock, (0, 1, 7, 9))

    def evaluate(_: nn.Module) -> dict[str, float]:
        clock.now += 2.5
        return {}

    costs = measure(model, objective, [RandomBatches()], OPTIONS, tmp_path, 1e5, evaluate, clock)
    assert costs.steps == (1.0,)
    assert costs.evaluation == 2.5
    assert not list(tmp_path.iterdir())
    assert all(value.equal(before[name]) for name, value in model.state_dict().items())


def test_each_phase_is_measured_at_its_own_length(tmp_path: Path) -> None:
    clock = Timepiece()
    sources = [RandomBatches(8, 4), RandomBatches(8, 1)]
    costs = measure(small_model(), Jerky(clock, ()), sources, OPTIONS, tmp_path, 1e5, None, clock)
    assert costs.steps == (1.0, 4.0)


@pytest.mark.parametrize(
    ("seconds", "passes"), [(1e5, 2 * (WARM_STEPS + MEASURED_STEPS + 1)), (10, 4)]
)
def test_a_small_budget_is_not_spent_on_measuring(
    tmp_path: Path, seconds: float, passes: int
) -> None:
    clock = Timepiece()
    objective = Jerky(clock, ())
    measure(small_model(), objective, [RandomBatches()], OPTIONS, tmp_path, seconds, None, clock)
    assert objective.passes == passes
