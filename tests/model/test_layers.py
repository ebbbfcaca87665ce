"""A Linear gives the same numbers whichever way its product is computed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as F

from bertkit.model.layers import FEW_ROWS, Linear


@pytest.mark.parametrize("rows", [0, 1, 7, FEW_ROWS, FEW_ROWS + 1])
def test_few_rows_have_the_numbers_of_many(rows: int, threads: Callable[[int], None]) -> None:
    threads(2)
    torch.manual_seed(rows)
    layer, values = Linear(48, 96, deviation=0.2), torch.randn(rows, 48)
    layer.bias.data.normal_()
    expected = F.linear(values, layer.weight, layer.bias)
    torch.testing.assert_close(layer(values), expected, rtol=0, atol=0)  # while it learns
    with torch.inference_mode():
        found = layer(values)
        assert found.shape == (rows, 96)
        torch.testing.assert_close(found, expected.detach(), rtol=1e-5, atol=1e-5)
        if rows > 1:
            assert (found.stride(0) == 1) == (rows <= FEW_ROWS)
        threads(1)
        torch.testing.assert_close(layer(values), expected.detach(), rtol=1e-5, atol=1e-5)
    assert layer(values.expand(2, rows, 48)).shape == (2, rows, 96)
