"""The examples in docstrings are true."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import bertkit

ROOT = Path(bertkit.__file__).parent
WITH_EXAMPLES = sorted(
    ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)
    for path in ROOT.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_the_examples_of_a_module(name):
    failed, tried = doctest.testmod(importlib.import_module(name))
    assert tried and not failed
