"""What a run fixes when it starts: RUN/run.json.

corpus      its identity, for a run continues on the same corpus only
checkpoint  with --from-checkpoint: where it was, SHA-256 of its weights, what it lacked
steps       of the whole run; with --max-minutes the latest plan's
plan        with --max-minutes: the first plan and what was measured for it
changes     options that were changed with --allow-changes, in words
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bertkit.corpus.format import Corpus
from bertkit.errors import UserError
from bertkit.files import writing
from bertkit.pretraining.config import PretrainConfig
from bertkit.pretraining.phases import Phase
from bertkit.progress import say
from bertkit.training.budget import Budget, Costs, Pace, Plan
from bertkit.training.processes import Processes, alone

Clock = Callable[[], float]


def fix_facts(
    run: Path,
    config: PretrainConfig,
    corpus: Corpus,
    phases: Sequence[Phase],
    measure: Callable[[], Costs],
    changes: Sequence[str] = (),
    clock: Clock = time.monotonic,
    processes: Processes | None = None,
    checkpoint: dict[str, Any] | None = None,
) -> tuple[int, Pace | None]:
    """The steps of a run, and what keeps it to its minutes where it has a budget of them.

    Args:
        measure: what the parts of the run take; called when the run starts with a budget.
        changes: options that differ from those that the run was started with.
        processes: all of them call this; the first one reads and writes the file.
        checkpoint: what the model was made from (start.py), None for fresh weights.

    Raises UserError for another corpus or checkpoint than the run's, or when not one step fits
    the minutes.
    """
    processes = processes or alone()
    path = run / "run.json"
    stored = processes.first(lambda: _read(path))
    facts = stored or {"corpus": corpus.identity, "steps": config.steps}
    known = stored is not None
    if not known and checkpoint is not None:
        facts["checkpoint"] = checkpoint
    if facts["corpus"] != corpus.identity:
        raise UserError(
            f"{config.corpus} is not the corpus that the run in {run} was started with; "
            "give another --output"
        )
    if known:
        _check_checkpoint(run, facts.get("checkpoint"), checkpoint)
    if changes:
        facts.setdefault("changes", []).extend(changes)
        facts["steps"] = config.steps
        facts.pop("plan", None)
    budget = budget_of(config, phases) if config.max_minutes is not None else None
    if budget is not None and (changes or not known):
        began = clock()
        costs = measure()
        (used,) = processes.largest([clock() - began])
        plan = budget.plan(costs, used=used)
        facts |= {"steps": plan.steps, "plan": plan.to_dict(), "calibration_seconds": used}
        say(
            f"{plan.steps:,} steps fit {config.max_minutes:g} minutes "
            f"at {' and '.join(f'{each:.3g}' for each in plan.costs.steps)} s a step",
            config.quiet,
        )
    if (changes or not known) and processes.leads:
        _write(path, facts)
    if budget is None or "plan" not in facts:
        return facts["steps"], None

    def tell(plan: Plan) -> None:
        facts["steps"] = plan.steps
        if processes.leads:
            _write(path, facts)

    plan = Plan.from_dict(facts["plan"])
    return plan.steps, Pace(budget, plan, facts["calibration_seconds"], tell, clock)


def budget_of(config: PretrainConfig, phases: Sequence[Phase]) -> Budget:
    """The budget of --max-minutes."""
    assert config.max_minutes is not None
    return Budget(
        seconds=60 * config.max_minutes,
        shares=tuple(phase.share for phase in phases),
        warmup=config.warmup,
        evaluate_steps=config.evaluate_steps,
        checkpoint_steps=config.checkpoint_steps,
    )


def _read(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    facts: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return facts


def _check_checkpoint(run: Path, before: dict[str, Any] | None, now: dict[str, Any] | None) -> None:
    if before is None and now is not None:
        raise UserError(
            f"the run in {run} was started with fresh weights; leave --from-checkpoint out, or "
            "give another --output"
        )
    if before is not None and now is None:
        raise UserError(
            f"the run in {run} was started from a checkpoint; give it again, with "
            f"--from-checkpoint {before['path']}"
        )
    if before is not None and now is not None and before["sha256"] != now["sha256"]:
        raise UserError(
            f"the weights in {now['path']} are not those that the run in {run} was started from; "
            "put them back, or give another --output"
        )


def _write(path: Path, facts: dict[str, Any]) -> None:
    with writing(path) as partial:
        partial.write_text(json.dumps(facts, indent=2), encoding="utf-8")
