"""A budget of seconds as a number of steps: planned once, set anew only at a restart point.

The first plan rests on a short calibration. It may have met a slow or a fast moment, so the run
looks again when it writes a restart point: after a twentieth of the steps, then from time to time.
When the time that was really used says that the budget would be missed by more than a few percent,
the steps, the ends of the phases and the warm-up are set anew. The plan is stored in the restart
point, so a run that continues from there goes on to the same end.

The budget counts the calibration, the steps, the evaluations and the restart points.
"""

from __future__ import annotations

import json
import math
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate
from typing import Any

from bertkit.errors import UserError

TOLERANCE = 0.03
"""The plan stays while the projected end is this close to the budget, as a share of it."""

FIRST_CHECK = 20
"""The first check comes after this part of the planned steps; so a calibration twenty times too
fast is still found out in time."""

MOST_CHECKS, FEWEST_CHECKS = 20, 4
"""How often a whole run looks again; as often as it can for a hundredth of the budget."""

FEWEST_STEPS = 3
"""A phase's mean counts from so many steps on."""

LAST_CHECK = 0.03
"""No check comes when less than this share of the steps is left."""


@dataclass(frozen=True)
class Costs:
    """Seconds that the parts of a run take.

    Attributes:
        steps: of one step of each phase.
        evaluation: of one evaluation; 0 where there is none.
        restart_point: of writing one.
    """

    steps: tuple[float, ...]
    evaluation: float = 0.0
    restart_point: float = 0.0


@dataclass(frozen=True)
class Plan:
    """Where a run ends.

    Attributes:
        steps: of the whole run, those already done included.
        warmup_steps: of them, at its start.
        phase_ends: the step at which each phase ends; the last is `steps`.
        next_check: the step after which a restart point is written to look again; 0 for none.
        costs: as last measured.
    """

    steps: int
    warmup_steps: int
    phase_ends: tuple[int, ...]
    next_check: int
    costs: Costs

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Plan:
        costs = values["costs"]
        return cls(
            values["steps"],
            values["warmup_steps"],
            tuple(values["phase_ends"]),
            values["next_check"],
            Costs(tuple(costs["steps"]), costs["evaluation"], costs["restart_point"]),
        )


@dataclass(frozen=True)
class Budget:
    """The seconds that a run may take, and what they have to pay for.

    Attributes:
        seconds: in all.
        shares: of the steps, for each phase; they sum to 1.
        warmup: share of the steps.
        evaluate_steps: from one evaluation to the next; 0 for one at the end.
        checkpoint_steps: from one restart point to the next; 0 for none, and then no checks.
    """

    seconds: float
    shares: tuple[float, ...]
    warmup: float
    evaluate_steps: int
    checkpoint_steps: int

    def key(self) -> str:
        """Tells budgets apart, in restart points."""
        return json.dumps(asdict(self), sort_keys=True)

    def plan(
        self, costs: Costs, step: int = 0, used: float = 0.0, before: Plan | None = None
    ) -> Plan:
        """As many steps as fit.

        Args:
            costs: what the parts take.
            step: finished steps.
            used: seconds spent so far.
            before: the plan so far; phases and a warm-up that are over stay as they were.

        Raises UserError when not even one step fits at the start.
        """
        fits, too_many = step, step + 1
        while self._ends_at(costs, too_many, step, used, before) <= self.seconds:
            fits, too_many = too_many, 2 * too_many
        while too_many - fits > 1:
            middle = (fits + too_many) // 2
            if self._ends_at(costs, middle, step, used, before) <= self.seconds:
                fits = middle
            else:
                too_many = middle
        if fits == 0:
            raise UserError(
                f"one step takes {costs.steps[0]:.2g} s here and the budget is "
                f"{self.seconds / 60:g} minutes, evaluation and restart points included: not one "
                "step fits; give more --max-minutes, a smaller --model or a smaller --batch-size"
            )
        steps = max(fits, step + 1)  # a run always ends with a step
        warmup = round(self.warmup * steps)
        if before is not None:
            over = step >= before.warmup_steps
            warmup = before.warmup_steps if over else max(step, warmup)
        return Plan(
            steps,
            min(warmup, steps - 1),
            self._phase_ends(steps, step, before),
            self._next_check(step, steps, costs),
            costs,
        )

    def projected(self, plan: Plan, step: int, used: float) -> float:
        """Seconds that the whole run will have taken, by the plan's costs."""
        return used + self._left(plan.costs, plan.phase_ends, step)

    def check(self, plan: Plan, step: int, used: float) -> Plan:
        """The plan after `step` steps and `used` seconds; its `steps` change where they must."""
        if abs(self.projected(plan, step, used) - self.seconds) > TOLERANCE * self.seconds:
            return self.plan(plan.costs, step, used, plan)
        return replace(plan, next_check=self._next_check(step, plan.steps, plan.costs))

    def _ends_at(
        self, costs: Costs, steps: int, step: int, used: float, before: Plan | None
    ) -> float:
        return used + self._left(costs, self._phase_ends(steps, step, before), step)

    def _left(self, costs: Costs, ends: Sequence[int], step: int) -> float:
        """Seconds from `step` to the end of the last phase."""
        steps, seconds, begin = ends[-1], 0.0, step
        for end, each in zip(ends, costs.steps, strict=True):
            seconds += max(0, end - begin) * each
            begin = max(begin, end)
        every = self.evaluate_steps
        evaluations = steps // every - step // every + bool(steps % every) if every else 1
        points = 0
        if self.checkpoint_steps:
            points = steps // self.checkpoint_steps - step // self.checkpoint_steps + 1
            points += math.ceil(self._checks(costs) * (steps - step) / max(steps, 1))
        return seconds + evaluations * costs.evaluation + points * costs.restart_point

    def _phase_ends(self, steps: int, step: int, before: Plan | None) -> tuple[int, ...]:
        ends = []
        for number, share in enumerate(accumulate(self.shares)):
            end = max(step, round(share * steps))
            if before is not None and before.phase_ends[number] <= step:
                end = before.phase_ends[number]
            ends.append(end)
        return (*ends[:-1], steps)

    def _checks(self, costs: Costs) -> int:
        affordable = int(0.01 * self.seconds / max(costs.restart_point, 1e-9))
        return min(MOST_CHECKS, max(FEWEST_CHECKS, affordable))

    def _next_check(self, step: int, steps: int, costs: Costs) -> int:
        left = steps - step
        if not self.checkpoint_steps or left < max(2, LAST_CHECK * steps):
            return 0
        parts = self._checks(costs) if step else FIRST_CHECK
        return step + max(1, min(steps // parts, left // 2))


class Pace:
    """Keeps one run to its budget: what it has taken so far, and its plan.

    Args:
        plan: the first plan; the one that a restart point stores goes before it.
        used: seconds spent before the training, as on the calibration.
        tell: called with each new plan, once it is stored in a restart point.
        clock: seconds from any start.
    """

    def __init__(
        self,
        budget: Budget,
        plan: Plan,
        used: float = 0.0,
        tell: Callable[[Plan], None] = lambda plan: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.budget, self.plan, self._tell, self._clock = budget, plan, tell, clock
        self._used = used
        self._started = self._now = clock()
        self._steps: dict[int, list[float]] = {}
        self._evaluation: float | None = None
        self._checked = 0
        self._told = plan

    def start(self, step: int, stored: dict[str, Any] | None) -> None:
        """The training goes on from `step`, with what `state` returned for it, if anything."""
        if stored is not None:
            self._used = stored["used"]
            if stored["of"] == self.budget.key():
                self.plan = Plan.from_dict(stored["plan"])
        self._checked, self._told = step, self.plan
        self._started = self._now = self._clock()

    def state(self) -> dict[str, Any]:
        """What a restart point stores; the time that writing it takes is added."""
        used = self.seconds() + self.plan.costs.restart_point
        return {"of": self.budget.key(), "plan": self.plan.to_dict(), "used": used}

    def seconds(self) -> float:
        """Spent so far, over all parts of the run."""
        return self._used + self._clock() - self._started

    def stepped(self, step: int) -> None:
        """Update number `step` ends now; it began where the part before it ended."""
        entry = self._steps.setdefault(bisect_right(self.plan.phase_ends, step), [0.0, 0])
        entry[0] += self._part()
        entry[1] += 1

    def evaluated(self) -> None:
        """An evaluation ends now."""
        self._evaluation = self._part()

    def saved(self) -> None:
        """A restart point, if any was due, is written now."""
        self._part()
        if self.plan.steps != self._told.steps:
            self._told = self.plan
            self._tell(self.plan)

    def due(self, done: int) -> bool:
        """Whether a restart point should be written after `done` steps to look again."""
        return 0 < self.plan.next_check <= done

    def look(self, done: int) -> Plan:
        """Looks again, at a restart point; the plan from now on, perhaps of other steps."""
        if not self.due(done) and done - self._checked < self.plan.steps / MOST_CHECKS:
            return self.plan
        self._checked = done
        before = self.plan
        costs = self._seen(before.costs)
        used = self.seconds() + costs.restart_point
        self.plan = self.budget.check(replace(before, costs=costs), done, used)
        return self.plan

    def _part(self) -> float:
        """Seconds since the last call."""
        before, self._now = self._now, self._clock()
        return self._now - before

    def _seen(self, costs: Costs) -> Costs:
        """`costs` with what was seen since the last call in place of what was thought before.

        A phase that has not begun is taken to be as much slower or faster than it was measured
        as the phase that runs now.
        """
        steps = list(costs.steps)
        seen = {phase: entry for phase, entry in self._steps.items() if entry[1] >= FEWEST_STEPS}
        if seen:
            newest = max(seen)
            ratio = seen[newest][0] / seen[newest][1] / costs.steps[newest]
            for phase in range(len(steps)):
                if phase in seen:
                    seconds, count = seen[phase]
                    steps[phase] = seconds / count
                    del self._steps[phase]
                elif phase > newest:
                    steps[phase] *= ratio
        evaluation = costs.evaluation if self._evaluation is None else self._evaluation
        return Costs(tuple(steps), evaluation, costs.restart_point)
