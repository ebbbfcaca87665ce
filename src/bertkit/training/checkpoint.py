"""Restart points: everything a run needs to go on bit for bit, written whole or not at all.

    run/checkpoints/step-00000100/
        config.json, model.safetensors, ...   a Hugging Face directory, usable as it is
        optimizer.safetensors                 the optimizer's moments and step counts
        state.json                            step, batch source's state, environment, checksums,
                                              the plan of a run with a budget
    run/checkpoints/best/                     the one with the lowest held-out loss, where asked for

A point is written beside its place and renamed into it, so a kill at any moment leaves either
the whole new point or none. Random generators need no state: see `seeds.py`.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from bertkit.errors import UserError, listed
from bertkit.files import disk_errors, sha256, writing
from bertkit.formats.huggingface import load_checkpoint, save_checkpoint
from bertkit.progress import say
from bertkit.training.config import TrainOptions
from bertkit.training.optimizer import restore_moments
from bertkit.training.processes import Processes, alone

FOLDER = "checkpoints"
BEST = "best"
_STATE = "state.json"
_OPTIMIZER = "optimizer.safetensors"
_NAME = re.compile(r"step-(\d{8})")


@dataclass
class RestartPoint:
    """A restart point found on disk, with its checksums verified.

    Attributes:
        more: what the loop added: the plan of a run with a budget, the held-out loss of the best.
    """

    path: Path
    step: int
    source: dict[str, Any]
    environment: dict[str, Any]
    more: dict[str, Any]


def environment(processes: int, device: torch.device) -> dict[str, Any]:
    """What must stay the same for a continued run to be the same bit for bit."""
    processor = torch.backends.cpu.get_cpu_capability()
    if device.type == "cuda":
        processor = torch.cuda.get_device_name(device)
    return {
        "processes": processes,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "processor": processor,
    }


def save_restart_point(
    run: Path,
    step: int,
    model: nn.Module,
    moments: dict[str, Tensor],
    source: dict[str, Any],
    keep: int,
    companions: Callable[[Path], None] | None = None,
    more: dict[str, Any] | None = None,
    name: str | None = None,
    processes: int = 1,
) -> Path:
    """Writes the restart point of `step` finished steps; leaves the newest `keep` on disk.

    `moments` is the optimizer's state, `companions` writes what should lie beside the weights, the
    tokenizer for example; `more` goes into its state; `name` is its folder's, instead of the step;
    `processes` is how many the run has. Raises UserError when the disk is
    full or too small for it, which is looked at first; the older points stay.
    """
    folder = run / FOLDER / (name or f"step-{step:08d}")
    check_space(run, point_bytes(model, moments), f"the restart point of step {step}")
    with writing(folder) as partial:
        partial.mkdir()
        save_checkpoint(model, partial)
        save_file(moments, partial / _OPTIMIZER)
        if companions is not None:
            companions(partial)
        state = {
            "step": step,
            "source": source,
            "environment": environment(processes, next(model.parameters()).device),
            "more": more or {},
            "sha256": {
                path.name: sha256(path) for path in sorted(partial.iterdir()) if path.is_file()
            },
        }
        (partial / _STATE).write_text(json.dumps(state, indent=2), encoding="utf-8")
    for old in _folders(run)[keep:]:
        shutil.rmtree(old, ignore_errors=True)
    return folder


def point_bytes(model: nn.Module, moments: dict[str, Tensor] | None = None) -> int:
    """Bytes of a restart point: the weights and the optimizer's state, two moments at first."""
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    if not moments:
        return 3 * weights
    return weights + sum(tensor.numel() * tensor.element_size() for tensor in moments.values())


def check_space(folder: Path, needed: int, what: str) -> None:
    """Raises UserError where the disk under `folder` has less room than `needed` bytes."""
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    with disk_errors(folder):
        free = shutil.disk_usage(place).free
    if free < needed:
        raise UserError(
            f"{what} needs {_size(needed)} and the disk of {folder} has {_size(free)} free; "
            "free some space, or lower --keep-checkpoints"
        )


def most_points(options: TrainOptions) -> int:
    """Restart points of a run that writes them, and that lie on the disk at once: those that stay,
    the one that is being written, and the best one."""
    written = options.steps // options.checkpoint_steps + 1
    return min(options.keep_checkpoints + 1, written) + options.keep_best


def check_space_for_run(run: Path, model: nn.Module, options: TrainOptions) -> None:
    """Raises UserError where the restart points of a whole run and its result do not fit."""
    there = len(_folders(run)) + (run / FOLDER / BEST).is_dir()
    points = max(1, most_points(options) - there)
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    what = f"this run, with {points} restart point{'s' if points > 1 else ''} to come,"
    check_space(run, points * point_bytes(model) + weights, what)


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


def best_loss(run: Path) -> float | None:
    """The held-out loss of the best restart point on disk; None without a whole one."""
    if not (run / FOLDER / BEST).is_dir():
        return None
    point, _ = _read(run / FOLDER / BEST)
    return None if point is None else point.more.get("loss")


def newest_restart_point(run: Path) -> RestartPoint | None:
    """The newest whole restart point; a damaged one is named and the one before it taken.

    Raises UserError when there are restart points and none is whole.
    """
    folders = _folders(run)
    for folder in folders:
        point, problem = _read(folder)
        if point is not None:
            return point
        say(f"the restart point {folder} is damaged ({problem}); trying the one before it")
    if folders:
        raise UserError(
            f"every restart point in {run / FOLDER} is damaged; "
            "remove that folder to start from the beginning"
        )
    return None


def check_end(run: Path, step: int, steps: int) -> None:
    """Raises UserError where a run at `step` has gone further than its `steps`."""
    if step > steps:
        raise UserError(
            f"the run in {run} is at step {step}, which is after its end at {steps}; give more "
            "steps, or another --output"
        )


def fitting(point: RestartPoint, model: nn.Module) -> nn.Module:
    """The model of a restart point, as it was.

    Raises:
        UserError: it is another than `model`: weights of other names or shapes, other labels, or
            these in another order.
    """
    saved: Any = load_checkpoint(point.path).model
    shapes = [{n: list(w.shape) for n, w in one.state_dict().items()} for one in (saved, model)]
    before, now = shapes
    other = sorted(name for name in before | now if before.get(name) != now.get(name))
    if other:
        told = [shape.get(other[0], "missing") for shape in shapes]
        raise UserError(
            f"the restart point {point.path} is of another model ({other[0]} is {told[0]} there "
            f"and {told[1]} here); give the run's own options, or another --output"
        )
    labels = [list(getattr(one, "labels", [])) for one in (saved, model)]
    if labels[0] != labels[1]:
        raise UserError(
            f"the restart point {point.path} has the labels {listed(labels[0])} and not "
            f"{listed(labels[1])}, in this order; start a run in another --output"
        )
    return saved  # type: ignore[no-any-return]


def restore(
    point: RestartPoint,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    processes: Processes | None = None,
) -> None:
    """Puts the weights and the optimizer's state of a restart point into place.

    The first process reads them and sends them to the others.

    Raises UserError for one of another model, see `fitting`.
    """
    processes = processes or alone()
    tensors: dict[str, Tensor] = {}

    def read() -> dict[str, tuple[torch.Size, torch.dtype]]:
        model.load_state_dict(fitting(point, model).state_dict())
        tensors.update(load_file(point.path / _OPTIMIZER))
        return {name: (tensor.shape, tensor.dtype) for name, tensor in tensors.items()}

    moments = processes.first(read)
    processes.spread(list(model.state_dict().values()))

    def spread() -> Iterator[tuple[str, Tensor]]:
        """One by one, for a process may keep few of them."""
        for name, (shape, dtype) in moments.items():
            tensor = tensors.pop(name) if processes.leads else torch.empty(shape, dtype=dtype)
            tensor = tensor.to(processes.device)
            processes.spread([tensor])
            yield name, tensor

    restore_moments(model, optimizer, spread())
    changed = [
        f"{name} {point.environment.get(name)} before, {value} now"
        for name, value in environment(processes.count, processes.device).items()
        if point.environment.get(name, 1) != value
    ]
    if changed and processes.leads:
        say(f"continuing, but not bit for bit: {'; '.join(changed)}")


def _folders(run: Path) -> list[Path]:
    """Folders of restart points, newest first."""
    if not (run / FOLDER).is_dir():
        return []
    return sorted((p for p in (run / FOLDER).iterdir() if _NAME.fullmatch(p.name)), reverse=True)


def _read(folder: Path) -> tuple[RestartPoint | None, str]:
    try:
        state = json.loads((folder / _STATE).read_text(encoding="utf-8"))
        for name, checksum in state["sha256"].items():
            if sha256(folder / name) != checksum:
                return None, f"{name} has another checksum"
        point = RestartPoint(
            folder, state["step"], state["source"], state["environment"], state.get("more", {})
        )
    except (OSError, ValueError, KeyError) as error:
        return None, str(error)
    return point, ""
