"""The choice of the type to compute in."""

from __future__ import annotations

import pytest
import torch

from bertkit.training import precision


def test_a_named_precision_is_obeyed() -> None:
    assert precision.compute_dtype("fp32") is torch.float32
    assert precision.compute_dtype("bf16") is torch.bfloat16


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({"avx2", "avx512f"}, torch.float32),
        ({"avx2", "avx512_bf16"}, torch.bfloat16),
        ({"amx_bf16", "amx_tile"}, torch.bfloat16),
        (set(), torch.float32),
    ],
)
def test_auto_takes_bf16_only_where_the_processor_has_it(
    flags: set[str], expected: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision, "_processor_flags", lambda: frozenset(flags))
    assert precision.compute_dtype("auto") is expected


@pytest.mark.parametrize(("has_it", "expected"), [(True, torch.bfloat16), (False, torch.float32)])
def test_auto_takes_bf16_on_a_gpu_that_has_it(
    has_it: bool, expected: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    def supported(including_emulation: bool = True) -> bool:
        return has_it or including_emulation  # an emulated one is slow

    monkeypatch.setattr(torch.cuda, "is_bf16_supported", supported)
    assert precision.compute_dtype("auto", "cuda") is expected
