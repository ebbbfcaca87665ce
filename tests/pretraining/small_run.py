"""A small corpus of made-up sentences, and the options of a small run on it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path

import pytest

from bertkit.corpus.config import PrepareConfig
from bertkit.corpus.prepare import prepare
from bertkit.pretraining.config import PretrainConfig
from bertkit.pretraining.phases import PhasedSource
from bertkit.pretraining.run import pretrain
from bertkit.text.tokenizer import Tokenizer
from bertkit.training.batch import Batch

WORDS = [
    *("the", "man", "woman", "dog", "cat", "house", "river", "went", "came", "saw", "ran"),
    *("to", "of", "and", "a", "good", "bad", "red", "big"),
]


def write_text(path: Path, documents: int, words: Sequence[str] = WORDS) -> None:
    """Documents of a few sentences, each on six of the words."""
    generator = random.Random(0)
    lines = []
    for _ in range(documents):
        topic = generator.sample(words, 6)
        for _ in range(generator.randint(4, 12)):
            lines.append(" ".join(generator.choices(topic, k=generator.randint(4, 9))) + ".")
        lines.append("")
    path.write_text("\n".join(lines), encoding="utf-8")


def small_corpus(folder: Path, tokenizer: Tokenizer, documents: int = 120) -> Path:
    """A corpus in `folder`, and its vocabulary and text beside it."""
    write_text(folder / "text.txt", documents)
    (folder / "vocab").mkdir()
    tokenizer.save(folder / "vocab")
    return make_corpus(folder / "corpus", folder / "text.txt", folder / "vocab")


def make_corpus(corpus: Path, text: Path, vocabulary: Path) -> Path:
    """The text, a sentence a line, as a corpus; a tenth of it is held out."""
    prepare(
        PrepareConfig(
            inputs=[str(text)],
            vocab=str(vocabulary),
            output=str(corpus),
            sentences="line",
            held_out=0.1,
            workers=1,
            quiet=True,
        )
    )
    return corpus


def configuration(corpus: Path, run: Path, **changes: object) -> PretrainConfig:
    config = PretrainConfig(
        corpus=str(corpus),
        output=str(run),
        model="1x32x2",
        sequence_length=32,
        batch_size=8,
        micro_batch_size=4,
        steps=60,
        learning_rate=3e-3,
        warmup=0.1,
        evaluate_steps=30,
        evaluate_examples=32,
        checkpoint_steps=10,
        quiet=True,
    )
    return replace(config, **changes)  # type: ignore[arg-type]


def flags(config: PretrainConfig) -> list[str]:
    """The command line of a configuration: what differs from the defaults."""
    plain = PretrainConfig(corpus=config.corpus, output=config.output)
    found = [config.corpus, "--output", config.output]
    for field in fields(config):
        value = getattr(config, field.name)
        name = field.name.replace("_", "-")
        if value == getattr(plain, field.name):
            continue
        if isinstance(value, bool):
            found.append(f"--{name}" if value else f"--no-{name}")
        else:
            found += [f"--{name}", *map(str, value if isinstance(value, list) else [value])]
    return found


class StopError(Exception):
    """Ends a run in the middle, as a crash would."""


def pretrain_until(step: int, config: PretrainConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Starts the run, which crashes when it asks for the micro-batches of `step`."""
    real = PhasedSource.share

    def share(self: PhasedSource, number: int, rank: int, count: int) -> list[tuple[int, Batch]]:
        if number == step:
            raise StopError
        return real(self, number, rank, count)

    with monkeypatch.context() as patch:
        patch.setattr(PhasedSource, "share", share)
        with pytest.raises(StopError):
            pretrain(config)
