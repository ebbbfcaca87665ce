"""Whether a training goes through `torch.compile`: only where that pays after its slow start."""

from __future__ import annotations

import importlib.util
import shutil

import torch

from bertkit.errors import UserError
from bertkit.training.config import Compile

WORTH_STEPS, WORTH_MINUTES = 1000, 10.0
"""From where on "auto" compiles; a shorter training is over before it has paid."""

COMPILERS = ("c++", "g++", "clang++", "gcc", "cc", "clang", "cl")
"""Any of these makes the kernels of a processor, or the starters of a GPU's."""


def compiles(
    choice: Compile, steps: int, device: torch.device, minutes: float | None = None
) -> bool:
    """What the option comes to for a training of so many steps, or of minutes, on a device.

    "auto" depends on the kind of the device, on steps or minutes and on what is installed, never
    on a measurement: the same run is always computed in the same way.

    Raises UserError where it is "on" and something is missing.
    """
    if choice == "off":
        return False
    lacking = _lacking(device)
    if choice == "on":
        if lacking:
            raise UserError(f"--compile on needs {lacking}; install it, or give --compile off")
        return True
    long = steps >= WORTH_STEPS if minutes is None else minutes >= WORTH_MINUTES
    return device.type == "cuda" and long and not lacking


def _lacking(device: torch.device) -> str | None:
    """What `torch.compile` needs and is not here."""
    if not any(map(shutil.which, COMPILERS)):
        return "a C++ compiler, as g++"
    if device.type == "cuda" and importlib.util.find_spec("triton") is None:
        return "the package triton"
    return None
