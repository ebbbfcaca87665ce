"""Which floating-point type to compute in: bfloat16 where the processor is fast at it.

Master weights, optimizer state, LayerNorm statistics and losses stay float32.
"""

from __future__ import annotations

import platform
from pathlib import Path

import torch

from bertkit.training.config import Precision

FAST_BF16_FLAGS = frozenset({"amx_bf16", "avx512_bf16"})
"""Instructions of x86 processors without which bfloat16 is slower than float32."""


def compute_dtype(precision: Precision, device: torch.device | str = "cpu") -> torch.dtype:
    """The type that linear layers compute in, for "auto" by what the device is fast at."""
    if precision == "fp32":
        return torch.float32
    if precision == "bf16":
        return torch.bfloat16
    return torch.bfloat16 if _fast_bfloat16(torch.device(device)) else torch.float32


def _fast_bfloat16(device: torch.device) -> bool:
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return bool(FAST_BF16_FLAGS & _processor_flags())


def _processor_flags() -> frozenset[str]:
    """Names of the processor's instruction sets, where the system lists them (Linux on x86)."""
    listing = Path("/proc/cpuinfo")
    if platform.machine() not in ("x86_64", "AMD64") or not listing.exists():
        return frozenset()
    for line in listing.read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("flags"):
            return frozenset(line.partition(":")[2].split())
    return frozenset()
