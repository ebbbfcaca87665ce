"""A vocabulary and texts in several scripts that every test of the corpus can afford."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertkit.corpus.config import PrepareConfig
from bertkit.text.tokenizer import Tokenizer

TEXTS = [
    "The dog ran. The cat saw the dog.\nShe read a good book.\n",
    "我是好人。你不是他的人！\n书店是的",
    "The Café wanted milk. 😀 He ran \x00\x07to the \u200bhouse.\u0301",
    "A good day\n\nA bad night",
    "dogs unaffable runs... and the old man bought milk",
]


@pytest.fixture
def vocab(tmp_path: Path, tiny_tokenizer: Tokenizer) -> Path:
    """The small tokenizer's folder."""
    folder = tmp_path / "vocab"
    folder.mkdir()
    tiny_tokenizer.save(folder)
    return folder


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """A folder of forty different documents."""
    folder = tmp_path / "texts"
    folder.mkdir()
    for number in range(40):
        (folder / f"{number:02d}.txt").write_text(
            TEXTS[number % len(TEXTS)]
            + f"\n\nBook {chr(97 + number % 26)}{chr(97 + number // 26)}.",
            encoding="utf-8",
        )
    return folder


@pytest.fixture
def config(texts: Path, vocab: Path, tmp_path: Path) -> PrepareConfig:
    """Prepares `texts` in this process, with two documents or more held out."""
    return PrepareConfig(
        inputs=[str(texts)],
        vocab=str(vocab),
        output=str(tmp_path / "corpus"),
        held_out=0.1,
        workers=1,
        shard_bytes=1000,
        quiet=True,
    )
