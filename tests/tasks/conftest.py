"""What the tests of the tasks train on: a random checkpoint, and data that it can learn."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tasks.tiny import save_tiny, write_data


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory, tiny_tokenizer) -> Path:
    """Two layers with the head of pre-training. Nobody writes into it."""
    return save_tiny(tmp_path_factory.mktemp("tiny") / "my-bert", tiny_tokenizer)


@pytest.fixture(scope="session")
def data(tmp_path_factory) -> Path:
    """400 training and 100 dev examples, each of sentiment (.tsv) and of entities (.txt)."""
    return write_data(tmp_path_factory.mktemp("data"), 400, 100)
