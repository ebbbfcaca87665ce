"""Many fine-tunings: configurations in, how each ended out; the finished ones are not done again.

    FOLDER/NAME/        a run, see `finetune.py`
    FOLDER/NAME.json    how it ended, once it has

They run one after another in this process, in several processes, or on a Ray cluster whose
machines share the folder, the data and the checkpoint by the same paths. A run that was stopped
goes on from its newest restart point. On this machine each running one writes it after Ctrl-C or
SIGTERM; after a crash, and on a cluster, it is that of `checkpoint_steps`, or none.
"""

from __future__ import annotations

import json
import math
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import torch

from bertkit.cluster import ray_map
from bertkit.errors import Interrupted, UserError
from bertkit.files import write_json, writing
from bertkit.interrupts import interrupting
from bertkit.tasks.config import FinetuneConfig
from bertkit.tasks.finetune import finetune_to_the_end
from bertkit.training.update import NotFiniteError
from bertkit.workers import parallel_map, processors

Engine = Literal["processes", "ray"]

STOPPED = (
    "stopped; fine-tunings that had ended and restart points of the others are saved; run the same "
    "command again to go on"
)


@dataclass(frozen=True)
class Ended:
    """How a fine-tuning ended.

    Attributes:
        output: its folder.
        metrics: on dev, those that are numbers; none for a run that diverged.
        seconds: of training.
        problem: why it stopped, where it diverged.
    """

    output: str
    metrics: dict[str, float]
    steps: int = 0
    seconds: float = 0.0
    problem: str = ""


def fine_tune_all(
    configs: Sequence[FinetuneConfig],
    workers: int | None = 1,
    engine: Engine = "processes",
    threads: int | None = None,
    done: Callable[[Ended], None] = lambda ended: None,
) -> list[Ended]:
    """Fine-tunes with each configuration whose run has not ended yet; results in their order.

    Args:
        done: gets each result as soon as it and those before it are there.
        workers: fine-tunings at the same time; None for one, on a Ray cluster for one on each
            processor.
        threads: of each fine-tuning; by default one on a cluster, else as many as there are for
            one after another, and their share of this machine's processors for several at once.

    Raises:
        UserError: what `finetune` raises, except for runs that diverge: they have ended.
        Interrupted: after Ctrl-C or SIGTERM; the same call continues.
    """
    waiting = [config for config in configs if how_it_ended(config.output) is None]
    if engine == "ray":
        share = threads or threads_each(engine, workers)
        results = ray_map(partial(_fine_tune, share, os.getcwd()), waiting, workers)
    else:
        workers = min(workers or 1, max(len(waiting), 1))
        share = threads or threads_each(engine, workers)
        results = parallel_map(partial(_fine_tune, share, os.getcwd()), waiting, workers)
    found: list[Ended] = []
    with interrupting(signal.SIGINT, signal.SIGTERM, message=STOPPED), closing(results):
        for config in configs:
            ended = how_it_ended(config.output)
            while ended is None:  # results come in the order of what waits
                problem = next(results)
                if problem is not None:
                    raise UserError(problem)
                ended = how_it_ended(config.output)
            done(ended)
            found.append(ended)
    return found


def threads_each(engine: Engine, workers: int | None) -> int | None:
    """Threads of each of so many fine-tunings at the same time; None for all that there are."""
    if engine == "ray":
        return 1
    return max(processors() // workers, 1) if workers is not None and workers > 1 else None


def how_it_ended(output: str) -> Ended | None:
    """What is written about the run in that folder; None while it has not ended."""
    path = _record(output)
    if not path.is_file():
        return None
    return replace(Ended(**json.loads(path.read_text(encoding="utf-8"))), output=output)


def forget(output: str) -> None:
    """Lets the run in that folder be done again."""
    _record(output).unlink(missing_ok=True)


def _record(output: str) -> Path:
    return Path(f"{output}.json")


def _fine_tune(threads: int | None, folder: str, config: FinetuneConfig) -> str | None:
    """One fine-tuning; returns the user's mistake that ended it, as any engine can.

    `folder` is where the configuration's paths start, for a cluster's workers start elsewhere.
    """
    os.chdir(folder)
    before = torch.get_num_threads()
    torch.set_num_threads(threads or before)
    try:
        result, stop = finetune_to_the_end(replace(config, quiet=True))
        metrics = {name: value for name, value in result.metrics.items() if math.isfinite(value)}
        ended = Ended(config.output, metrics, result.steps, result.seconds)
    except UserError as error:
        if not isinstance(error.__cause__, NotFiniteError):
            return str(error)
        ended, stop = Ended(config.output, {}, problem=str(error.__cause__)), None
    finally:
        torch.set_num_threads(before)
    with writing(_record(config.output)) as partial_file:
        write_json(partial_file, asdict(ended))
    if stop is not None:
        raise Interrupted(STOPPED, stop)
    return None
