"""Configurations of the commands that see every room; imports no torch."""

from __future__ import annotations

from dataclasses import dataclass

from bertkit.config import option


@dataclass
class InspectConfig:
    """Tells what a folder or file of bertkit's is, and whether it is whole."""

    path: str = option(
        help="a corpus, vocabulary, run or checkpoint, or a model size such as base or 2x256x4",
        positional=True,
    )
    document: int | None = option(
        None, help="show this document of a corpus in words, counted from 0 (default: none)"
    )
    split: str = option("train", help="the part of the corpus that --document counts in")
    verify: bool = option(True, help="read all data and compare its checksums")
    vocab_size: int = option(30522, help="vocabulary entries that a model size is reckoned with")
