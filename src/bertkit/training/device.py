"""Where a command computes: the processor, or a GPU where there is one."""

from __future__ import annotations

import os

import torch

from bertkit.errors import UserError


def choose_device(name: str = "auto") -> torch.device:
    """The device of that name.

    Args:
        name: "auto" for a GPU where there is one, "cpu", "cuda", or a certain GPU as "cuda:1".
            Of many processes that `torchrun` started each has a GPU of its own, and only the
            first two and "cuda" are known.

    Raises UserError where there is no such device.
    """
    kind, _, number = name.partition(":")
    of_many = int(os.environ.get("WORLD_SIZE", "1")) > 1
    if kind not in ("auto", "cpu", "cuda") or (number and kind != "cuda"):
        raise UserError(f"no device '{name}'; give auto, cpu, cuda, or cuda:1 for the second GPU")
    if number and of_many:
        raise UserError(f"--device {name} would put every process on one GPU; give cuda")
    if kind == "cpu" or (kind == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    if not torch.cuda.is_available():
        built = torch.version.cuda or torch.version.hip
        why = "PyTorch finds no GPU here" if built else "this PyTorch is built for the CPU alone"
        raise UserError(f"--device {name}, but {why}; give --device cpu, or leave it out")
    count = torch.cuda.device_count()
    if of_many:
        own = int(os.environ.get("LOCAL_RANK", "0"))
        if own >= count:
            raise UserError(
                f"process {own} of this machine has no GPU of its own, for there are {count}; "
                "start as many processes as GPUs, or give --device cpu"
            )
        return torch.device("cuda", own)
    if number and not (number.isdecimal() and int(number) < count):
        raise UserError(f"--device {name}, but the GPUs here are cuda:0 to cuda:{count - 1}")
    return torch.device(name if number else "cuda")


def synchronize(device: torch.device | str) -> None:
    """Waits until a GPU has done what it was told, so that a clock tells how long that takes."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)
