"""Whether a training goes through `torch.compile`: only where that pays after its slow start."""

from __future__ import annotations

import importlib.util
import shutil

import torch

from bertkit.errors import UserError
from bertkit.training.config import TrainOptions

WORTH_STEPS = 1000
"""Steps from which on "auto" compiles; a shorter training is over before it has paid."""

COMPILERS = ("c++", "g++", "clang++", "gcc", "cc", "clang", "cl")
"""Any of these makes the kernels of a processor, or the starters of a GPU's."""


def compiles(options: TrainOptions, device: torch.device) -> bool:
    """What `options.compile` comes to on a device.

    "auto" depends on the kind of the device, on the steps and on what is installed, never on a
    measurement: the same run is always computed in the same way.

    Raises UserError where it is "on" and something is missing.
    """
    if options.compile == "off":
        return False
    lacking = _lacking(device)
    if options.compile == "on":
        if lacking:
            raise UserError(f"--compile on needs {lacking}; install it, or give --compile off")
        return True
    return device.type == "cuda" and options.steps >= WORTH_STEPS and not lacking


def _lacking(device: torch.device) -> str | None:
    """What `torch.compile` needs and is not here."""
    if not any(map(shutil.which, COMPILERS)):
        return "a C++ compiler, as g++"
    if device.type == "cuda" and importlib.util.find_spec("triton") is None:
        return "the package triton"
    return None
