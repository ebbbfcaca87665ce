"""The limits of a machine: every shape is measured, and the peak is the best of them."""

from __future__ import annotations

import pytest

from bertkit.speed.roofline import Product, Roofline, measure_roofline, processor


def test_every_shape_of_a_layer_is_measured() -> None:
    found = measure_roofline(["float32"], hidden=(32,), seconds=0.001, array_bytes=1 << 16)
    assert {(one.inputs, one.outputs) for one in found.products} == {
        *((32, 96), (32, 128), (128, 32))
    }
    assert all(one.flops > 0 for one in found.products)
    assert found.copy_bytes > 0 and found.triad_bytes > 0
    assert found.processor == processor() != ""


def test_the_peak_is_that_of_the_best_shape_of_a_type() -> None:
    products = [
        Product("float32", 256, 32, 96, 1e9),
        Product("float32", 256, 32, 128, 3e9),
        Product("bfloat16", 256, 32, 96, 9e9),
    ]
    machine = Roofline("", 1, products, 1.0, 1.0)
    assert machine.peak("float32") == 3e9
    assert machine.best("float32").outputs == 128
    assert machine.peak("bfloat16") == 9e9
    with pytest.raises(ValueError):
        machine.peak("float16")
