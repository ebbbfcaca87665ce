"""What a machine can do at most: matrix products at the shapes of BERT's layers, and memory.

    product   [rows, inputs] @ [inputs, outputs] into a buffer that is there already, for a fresh
              one costs page faults (15 to 20 % of the time on a CPU); the best of several
    copy      a <- b, and triad a <- b + 3 c, over arrays larger than any cache; bytes that the
              program reads and writes, the best of several

A step that needs F operations and takes s seconds reaches the share F / s / peak.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from bertkit.training.device import synchronize
from bertkit.training.precision import compute_dtype

HIDDEN = (256, 512, 768, 1024)
"""Hidden sizes of mini, small and medium, base, large."""

MOST_ROWS = 4096
FEWEST_ROWS = 256
PRODUCT_SECONDS = 0.25
"""Each product is timed so long; rows are added until one takes a fifth of it, or `MOST_ROWS`."""

ARRAY_BYTES = 1 << 28
PASSES = 5


@dataclass(frozen=True)
class Product:
    """One shape of a matrix product, and its best speed in floating-point operations a second."""

    precision: str
    rows: int
    inputs: int
    outputs: int
    flops: float


@dataclass(frozen=True)
class Roofline:
    """The limits of a machine.

    Attributes:
        processor: its name.
        threads: of the products; 0 on a GPU.
        products: of each shape in float32 and bfloat16.
        copy_bytes, triad_bytes: a second, read and written.
    """

    processor: str
    threads: int
    products: list[Product]
    copy_bytes: float
    triad_bytes: float

    def peak(self, precision: str) -> float:
        """The best product's operations a second in "float32" or "bfloat16"."""
        return max(one.flops for one in self.products if one.precision == precision)

    def best(self, precision: str) -> Product:
        """The product that reaches the peak."""
        return max(
            (one for one in self.products if one.precision == precision), key=lambda one: one.flops
        )


def measure_roofline(
    precisions: Sequence[str] = ("float32", "bfloat16"),
    hidden: Sequence[int] = HIDDEN,
    device: torch.device | str = "cpu",
    seconds: float = PRODUCT_SECONDS,
    array_bytes: int = ARRAY_BYTES,
) -> Roofline:
    """Measures the limits, `seconds` for each product.

    Args:
        precisions: names of torch's types.
        hidden: sizes whose layers are measured: 3, 4 and 1/4 times as many outputs as inputs.
    """
    device = torch.device(device)
    products = []
    for precision in precisions:
        for size in hidden:
            for inputs, outputs in ((size, 3 * size), (size, 4 * size), (4 * size, size)):
                products.append(_product(precision, inputs, outputs, device, seconds))
    source, other, into = (
        torch.ones(array_bytes // 4, dtype=torch.float32, device=device) for _ in range(3)
    )
    moved = source.numel() * source.element_size()
    copy = _best(lambda: into.copy_(source), PASSES, device)
    triad = _best(lambda: torch.add(source, other, alpha=3.0, out=into), PASSES, device)
    return Roofline(
        processor=processor(device),
        threads=torch.get_num_threads() if device.type == "cpu" else 0,
        products=products,
        copy_bytes=2 * moved / copy,
        triad_bytes=3 * moved / triad,
    )


def dtype_name(precision: str, device: torch.device | str = "cpu") -> str:
    """The name, as "float32", of the type that a run with `--precision` computes in."""
    return str(compute_dtype(precision, device)).removeprefix("torch.")  # type: ignore[arg-type]


def processor(device: torch.device | str = "cpu") -> str:
    """The name of the processor, or of the GPU, where the system tells it."""
    if torch.device(device).type == "cuda":
        return torch.cuda.get_device_name(device)
    listing = Path("/proc/cpuinfo")
    if listing.exists():
        for line in listing.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _product(
    precision: str, inputs: int, outputs: int, device: torch.device, seconds: float
) -> Product:
    dtype = getattr(torch, precision)
    weight = torch.randn(outputs, inputs, device=device).to(dtype).t()
    rows = FEWEST_ROWS
    while True:
        values = torch.randn(rows, inputs, device=device).to(dtype)
        into = torch.empty(rows, outputs, dtype=dtype, device=device)

        def multiply(values: torch.Tensor = values, into: torch.Tensor = into) -> None:
            torch.mm(values, weight, out=into)

        took = _best(multiply, 2, device)
        if rows >= MOST_ROWS or took > seconds / 5:
            break
        rows *= 2
    took = min(took, _best(multiply, max(1, min(50, int(seconds / took))), device))
    return Product(precision, rows, inputs, outputs, 2 * rows * inputs * outputs / took)


def _best(work: Callable[[], object], times: int, device: torch.device) -> float:
    """Seconds of the quickest of so many, after one that counts for nothing."""
    work()
    found = []
    for _ in range(times):
        synchronize(device)
        began = time.perf_counter()
        work()
        synchronize(device)
        found.append(time.perf_counter() - began)
    return min(found)
