"""The configuration of `bertkit bench`; imports no torch."""

from __future__ import annotations

from dataclasses import dataclass

from bertkit.config import option
from bertkit.training.config import Precision


@dataclass
class BenchConfig:
    """Measures training and answering on this machine, beside what its processor can do."""

    size: list[str] = option(
        ["tiny", "mini", "small"],
        help="model sizes: tiny, mini, small, medium, base, large, or LAYERSxHIDDENxHEADS as "
        "2x256x4",
    )
    sequence_length: int = option(128, help="tokens of a sequence in training, the longest one")
    batch_size: int = option(16, help="sequences in a step")
    seconds: float = option(2.0, help="how long each side of each line is timed, at least")
    rounds: int = option(3, help="turns of each side, so that a busy moment slows both")
    precision: Precision = option("auto", help="arithmetic of the matrix products")
    device: str = option(
        "auto", help="cpu, cuda, cuda:1 for the second GPU, or auto: a GPU where there is one"
    )
    threads: int | None = option(
        None, help="threads of the matrix products (default: as many as torch takes)"
    )
    peer: bool = option(
        True, help="time transformers too, in turns with bertkit, where it is installed"
    )
    quiet: bool = option(False, help="print no progress")
