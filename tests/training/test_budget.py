"""A budget of minutes: planned once, set right at restart points, kept within a few percent."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from torch import nn

from bertkit.errors import UserError
from bertkit.training.batch import Batch
from bertkit.training.budget import Budget, Costs, Pace, Plan
from bertkit.training.checkpoint import FOLDER
from bertkit.training.config import TrainOptions
from bertkit.training.log import read_log
from bertkit.training.loop import train
from bertkit.training.objective import LossSums
from tests.training.small import Classify, RandomBatches, small_model

TWO_PHASES = Budget(3600.0, (0.9, 0.1), 0.1, 500, 1000)


class Timepiece:
    """A clock that the tests move on."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def simulated(
    budget: Budget, believed: Costs, cost: Callable[[int, int], float]
) -> tuple[float, Plan, list[int]]:
    """Seconds a run takes, its last plan, and where it was set anew; `cost(step, phase)`."""
    clock = Timepiece()
    pace = Pace(budget, budget.plan(believed), clock=clock)
    pace.start(0, None)
    done, changes = 0, []
    while done < pace.plan.steps:
        phase = next(k for k, end in enumerate(pace.plan.phase_ends) if done < end)
        clock.now += cost(done, phase)
        pace.stepped(done)
        done += 1
        last = done == pace.plan.steps
        if done % budget.evaluate_steps == 0 or last:
            clock.now += believed.evaluation
            pace.evaluated()
        if not last and (pace.due(done) or done % budget.checkpoint_steps == 0):
            before = pace.plan.steps
            changes += [done] * (pace.look(done).steps != before)
            clock.now += believed.restart_point
            pace.saved()
    return clock.now, pace.plan, changes


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


def test_a_check_that_an_interrupt_fell_on_is_made_up_for() -> None:
    """Ctrl-C at the very step: the restart point is written without a look at the plan."""
    clock = Timepiece()
    plan = TWO_PHASES.plan(Costs((0.2, 0.9)))
    stopped = Pace(TWO_PHASES, plan, clock=clock)
    pace = Pace(TWO_PHASES, plan, clock=clock)
    pace.start(plan.next_check, stopped.state())
    assert pace.due(plan.next_check + 1)
    pace.look(plan.next_check + 1)
    assert not pace.due(plan.next_check + 1)


def test_a_plan_survives_json() -> None:
    plan = TWO_PHASES.plan(Costs((0.2, 0.9), 1.0, 2.0))
    assert Plan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan


class Slow(Classify):
    """Each micro-batch takes `seconds` on the clock."""

    def __init__(self, clock: Timepiece, seconds: float) -> None:
        self.clock, self.seconds = clock, seconds

    def __call__(self, model: nn.Module, batch: Batch) -> LossSums:
        self.clock.now += self.seconds
        return super().__call__(model, batch)


BUDGET = Budget(40.0, (0.7, 0.3), 0.1, 0, 25)
OPTIONS = TrainOptions(
    steps=1, learning_rate=1e-3, checkpoint_steps=25, keep_checkpoints=100, quiet=True
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


def first_plan(believed: float) -> Plan:
    return BUDGET.plan(Costs((believed, believed), restart_point=0.05), used=1.0)


def timed_run(run: Path, believed: float, stop: int | None = None) -> tuple[nn.Module, float]:
    """A run of two micro-batches of 0.25 s a step; the clock's end counts this part only."""
    clock = Timepiece()
    model = small_model()
    plan = first_plan(believed)
    pace = Pace(BUDGET, plan, used=1.0, clock=clock)
    train(model, Slow(clock, 0.25), Stopping(stop), OPTIONS, run, pace=pace)
    return model, clock.now


@pytest.mark.parametrize("wrong", [pytest.param(1 / 3, marks=pytest.mark.slow), 3.0])
def test_a_training_that_began_at_an_odd_moment_ends_in_time(tmp_path: Path, wrong: float) -> None:
    _, seconds = timed_run(tmp_path, 0.5 * wrong)
    assert abs((seconds + 1) / 40 - 1) < 0.05
    notes = [r for r in read_log(tmp_path) if r["kind"] == "note"]
    assert notes and "fit the minutes" in notes[0]["text"]
    rates = [r["learning_rate"] for r in read_log(tmp_path) if r["kind"] == "train"]
    assert rates[-1] < 0.06 * max(rates)


@pytest.mark.parametrize("wrong", [pytest.param(1 / 3, marks=pytest.mark.slow), 3.0])
def test_killed_after_the_plan_was_set_anew_it_ends_with_the_same_weights(
    tmp_path: Path, wrong: float
) -> None:
    whole, _ = timed_run(tmp_path / "whole", 0.5 * wrong)
    planned = [
        json.loads(path.read_text())["more"]["budget"]["plan"]["steps"]
        for path in sorted((tmp_path / "whole" / FOLDER).glob("step-*/state.json"))
    ]
    assert planned[-1] != first_plan(0.5 * wrong).steps
    with pytest.raises(KeyboardInterrupt):
        timed_run(tmp_path / "cut", 0.5 * wrong, stop=53)
    cut, _ = timed_run(tmp_path / "cut", 0.5 * wrong)
    for name, value in whole.state_dict().items():
        assert value.equal(cut.state_dict()[name]), name
    steps = [[r["step"] for r in read_log(tmp_path / run)] for run in ("whole", "cut")]
    assert steps[0] == steps[1]


def test_the_stored_plan_goes_before_the_one_made_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        timed_run(tmp_path, 1.5, stop=53)
    newest = max((tmp_path / FOLDER).iterdir())
    stored = json.loads((newest / "state.json").read_text())
    steps = stored["more"]["budget"]["plan"]["steps"]
    _, seconds = timed_run(tmp_path, 0.01)  # a plan of 50 times as many steps
    assert seconds < 40
    assert read_log(tmp_path)[-1]["step"] == steps
