"""A package that is missing is told with the extra that installs it."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

from bertkit.errors import UserError
from bertkit.extras import need


def test_a_module_that_is_there_is_returned() -> None:
    assert need("json.decoder", "hub", "JSON needs") is sys.modules["json.decoder"]


def test_a_missing_package_is_one_line_that_says_what_to_install() -> None:
    with pytest.raises(UserError) as caught:
        need("no_such_package.part", "hub", "the hub needs", "or leave it out")
    assert str(caught.value) == (
        'the hub needs the package no_such_package; pip install "bertkit[hub]", or leave it out'
    )


def test_every_extra_that_a_message_names_is_one_of_ours(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    sources = [path.read_text(encoding="utf-8") for path in (root / "src").rglob("*.py")]
    named = {one for text in sources for one in re.findall(r"need\(\s*\"[\w.]+\", \"(\w+)\"", text)}
    named |= {one for text in sources for one in re.findall(r"bertkit\[(\w[\w-]*)\]", text)}
    assert {"chinese", "extract", "hub", "onnx", "parquet", "ray"} <= named
    assert named <= set(project["optional-dependencies"])
