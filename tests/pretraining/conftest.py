"""A small corpus split in memory."""

from __future__ import annotations

import pytest

from tests.pretraining.memory_split import MemorySplit, random_documents


@pytest.fixture
def split() -> MemorySplit:
    return MemorySplit(random_documents(60, seed=1))
