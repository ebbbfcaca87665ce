"""A budget of minutes: planned once, set right at restart points, kept within a few percent."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import nn

from bertkit.errors import UserError
from bertkit.training.batch import Batch
from bertkit.training.budget import Budget, Costs, Plan, Spent
from bertkit.training.checkpoint import FOLDER
from bertkit.training.config import TrainOptions
from bertkit.training.log import read_log
from bertkit.training.loop import LossSums, Timed, train
from tests.training.small import Classify, RandomBatches, small_model

TWO_PHASES = Budget(3600.0, (0.9, 0.1), 0.1, 500, 1000)


def simulated(
    budget: Budget, believed: Costs, cost: Callable[[int, int], float]
) -> tuple[float, Plan, list[int]]:
    """Seconds a run takes, its last plan, and where it was set anew; `cost(step, phase)`."""
    plan = budget.plan(believed)
    now, spent, step, changes = 0.0, Spent(0.0, 0.0), 0, []
    while step < plan.steps:
        phase = next(k for k, end in enumerate(plan.phase_ends) if step < end)
        now += cost(step, phase)
        step += 1
        spent.step(phase, now)
        if step % budget.evaluate_steps == 0 or step == plan.steps:
            now += believed.evaluation
            spent.evaluated(now)
        if step < plan.steps and (step == plan.next_check or step % budget.checkpoint_steps == 0):
            before = plan.steps
            costs = spent.costs(plan.costs)
            plan = budget.check(Plan(**{**vars(plan), "costs": costs}), step, spent.seconds(now))
            changes += [step] * (plan.steps != before)
            now += believed.restart_point
            spent.saved(now)
    return now, plan, changes


@pytest.mark.parametrize("wrong", [1 / 3, 1.0, 3.0, 10.0])
def test_a_wrong_calibration_ends_within_a_few_percent(wrong: float) -> None:
    believed = Costs((0.2 * wrong, 0.9 * wrong), evaluation=3.0, restart_point=0.5)
    seconds, plan, changes = simulated(TWO_PHASES, believed, lambda _, k: (0.2, 0.9)[k])
    assert abs(seconds / 3600 - 1) < 0.04
    first, second = plan.phase_ends
    assert abs(first / second - 0.9) < 0.01
    assert bool(changes) == (wrong != 1.0)


def test_a_machine_that_slows_down_half_way_still_ends_in_time() -> None:
    believed = Costs((0.2, 0.9))
    seconds, _, changes = simulated(
        TWO_PHASES, believed, lambda step, k: (0.2, 0.9)[k] * (2.0 if step > 6000 else 1.0)
    )
    assert abs(seconds / 3600 - 1) < 0.05
    assert changes


def test_evaluations_and_restart_points_are_paid_for() -> None:
    costly = Costs((0.2, 0.9), evaluation=60.0, restart_point=20.0)
    plan = TWO_PHASES.plan(costly)
    assert plan.steps < 0.8 * TWO_PHASES.plan(Costs((0.2, 0.9))).steps
    assert TWO_PHASES.projected(plan, 0, 0.0) <= 3600


def test_a_phase_and_a_warm_up_that_are_over_stay_as_they_were() -> None:
    plan = TWO_PHASES.plan(Costs((0.2, 0.9)))
    first, total = plan.phase_ends
    later = TWO_PHASES.plan(Costs((0.2, 0.3)), first + 50, 3000.0, plan)
    assert later.phase_ends[0] == first
    assert later.steps > total
    assert later.warmup_steps == plan.warmup_steps
    early = TWO_PHASES.plan(Costs((0.1, 0.3)), 100, 30.0, plan)
    assert early.warmup_steps == round(0.1 * early.steps)


def test_the_budget_of_a_run_that_is_late_ends_it_with_one_more_step() -> None:
    plan = TWO_PHASES.plan(Costs((0.2, 0.9)))
    assert TWO_PHASES.plan(Costs((0.2, 0.9)), 500, 4000.0, plan).steps == 501


def test_not_one_step_in_the_minutes_is_said_so() -> None:
    with pytest.raises(UserError, match=r"not one step fits; give more --max-minutes"):
        TWO_PHASES.plan(Costs((4000.0, 4000.0)))


def test_checks_are_few_and_end() -> None:
    budget = Budget(3600.0, (1.0,), 0.1, 0, 10**9)
    for point, most in ((0.01, 30), (100.0, 12)):
        plan = budget.plan(Costs((0.2,), 0.0, point))
        checks = [plan.next_check]
        while checks[-1]:
            checks.append(budget.check(plan, checks[-1], 0.2 * checks[-1]).next_check)
        assert checks[0] == plan.steps // 20
        assert all(a < b for a, b in pairwise(checks[:-1]))
        assert len(checks) < most


def test_a_plan_survives_json() -> None:
    plan = TWO_PHASES.plan(Costs((0.2, 0.9), 1.0, 2.0))
    assert Plan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan


class Timepiece:
    """A clock that the objective moves on."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Slow(Classify):
    """Each micro-batch takes `seconds` on the clock."""

    def __init__(self, clock: Timepiece, seconds: float) -> None:
        self.clock, self.seconds = clock, seconds

    def __call__(self, model: nn.Module, batch: Batch) -> LossSums:
        self.clock.now += self.seconds
        return super().__call__(model, batch)


BUDGET = Budget(100.0, (0.7, 0.3), 0.1, 0, 20)
OPTIONS = TrainOptions(
    steps=1, learning_rate=1e-3, checkpoint_steps=20, keep_checkpoints=100, quiet=True
)


class Stopping(RandomBatches):
    """Ends the process, as good as, while the batch of a step is built."""

    def __init__(self, stop: int | None = None) -> None:
        super().__init__()
        self.stop = stop

    def step(self, step: int) -> list[Batch]:
        if step == self.stop:
            raise KeyboardInterrupt
        return super().step(step)


def timed_run(run: Path, believed: float, stop: int | None = None) -> tuple[nn.Module, float]:
    """A run of two micro-batches of 0.25 s a step; the clock's end counts this part only."""
    clock = Timepiece()
    model = small_model()
    plan = BUDGET.plan(Costs((believed, believed)), used=1.0)
    timed = Timed(BUDGET, plan, used=1.0, clock=clock)
    train(model, Slow(clock, 0.25), Stopping(stop), OPTIONS, run, timed=timed)
    return model, clock.now


@pytest.mark.parametrize("wrong", [1 / 3, 3.0])
def test_a_training_that_began_at_an_odd_moment_ends_in_time(tmp_path: Path, wrong: float) -> None:
    _, seconds = timed_run(tmp_path, 0.5 * wrong)
    assert abs((seconds + 1) / 100 - 1) < 0.04
    notes = [r for r in read_log(tmp_path) if r["kind"] == "note"]
    assert notes and "fit the minutes" in notes[0]["text"]
    rates = [r["learning_rate"] for r in read_log(tmp_path) if r["kind"] == "train"]
    assert rates[-1] < 0.06 * max(rates)


@pytest.mark.parametrize("wrong", [1 / 3, 3.0])
def test_killed_after_the_plan_was_set_anew_it_ends_with_the_same_weights(
    tmp_path: Path, wrong: float
) -> None:
    whole, _ = timed_run(tmp_path / "whole", 0.5 * wrong)
    planned = [
        json.loads(path.read_text())["more"]["budget"]["plan"]["steps"]
        for path in sorted((tmp_path / "whole" / FOLDER).glob("step-*/state.json"))
    ]
    assert planned[-1] != BUDGET.plan(Costs((0.5 * wrong,) * 2), used=1.0).steps
    with pytest.raises(KeyboardInterrupt):
        timed_run(tmp_path / "cut", 0.5 * wrong, stop=93)
    cut, _ = timed_run(tmp_path / "cut", 0.5 * wrong)
    for name, value in whole.state_dict().items():
        assert value.equal(cut.state_dict()[name]), name
    steps = [[r["step"] for r in read_log(tmp_path / run)] for run in ("whole", "cut")]
    assert steps[0] == steps[1]


def test_the_stored_plan_goes_before_the_one_made_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        timed_run(tmp_path, 1.5, stop=93)
    stored = json.loads((tmp_path / FOLDER / "step-00000080" / "state.json").read_text())
    steps = stored["more"]["budget"]["plan"]["steps"]
    torch.manual_seed(0)
    _, seconds = timed_run(tmp_path, 0.01)  # a plan of 50 times as many steps
    assert seconds < 100
    assert read_log(tmp_path)[-1]["step"] == steps
