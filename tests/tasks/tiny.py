"""Tiny random models, and data sets that one can learn in seconds, for the tests of two rooms."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from bertkit.formats.huggingface import save_checkpoint
from bertkit.model.bert import MODELS
from bertkit.model.config import ModelConfig
from bertkit.tasks import finetune as module
from bertkit.tasks.config import FinetuneConfig
from bertkit.text.tokenizer import Tokenizer

POSITIVE = ("good", "new", "wrote", "bought", "green")
NEGATIVE = ("bad", "old", "sat", "saw", "red")
NEUTRAL = ("the", "a", "man", "dog", "house", "city", "to", "in")
PLACES = ("river", "house", "city", "store")


def tiny_config(tokenizer: Tokenizer, **changes: int | float) -> ModelConfig:
    config = ModelConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        layers=2,
        heads=2,
        intermediate_size=64,
        max_positions=64,
        pad_id=tokenizer.pad_id,
        initializer_range=0.1,
    )
    for name, value in changes.items():
        setattr(config, name, value)
    return config


def save_tiny(
    directory: Path,
    tokenizer: Tokenizer,
    head: str = "pretraining",
    labels: Sequence[str] = (),
    **changes: int | float,
) -> Path:
    """A random checkpoint on disk, always the same."""
    torch.manual_seed(0)
    kind: type[nn.Module] = MODELS[head]
    config = tiny_config(tokenizer, **changes)
    model = kind(config, list(labels)) if labels else kind(config)
    directory.mkdir(parents=True)
    save_checkpoint(model, directory)
    tokenizer.save(directory)
    return directory


def sentiment_rows(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """(text, label): one word of a text tells the label."""
    generator = random.Random(seed)
    rows = []
    for _ in range(count):
        positive = generator.random() < 0.5
        words = generator.choices(NEUTRAL, k=generator.randrange(1, 8))
        words.insert(
            generator.randrange(len(words) + 1),
            generator.choice(POSITIVE if positive else NEGATIVE),
        )
        rows.append((" ".join(words), "glad" if positive else "sad"))
    return rows


def write_sentiment(path: Path, count: int, seed: int = 0) -> Path:
    lines = [f"{text}\t{label}" for text, label in sentiment_rows(count, seed)]
    path.write_text("\n".join(["text\tlabel", *lines]) + "\n", encoding="utf-8")
    return path


def write_entities(path: Path, count: int, seed: int = 0) -> Path:
    """Sentences where "big X" is a two-word place, and "man" a person."""
    generator = random.Random(seed)
    lines = []
    for _ in range(count):
        for _ in range(generator.randrange(1, 6)):
            kind = generator.random()
            if kind < 0.3:
                lines += ["big B-LOC", f"{generator.choice(PLACES)} I-LOC"]
            elif kind < 0.5:
                lines.append("man B-PER")
            else:
                lines.append(f"{generator.choice(('the', 'went', 'to', 'ran'))} O")
        lines.append("")
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def write_data(folder: Path, train: int, dev: int) -> Path:
    """So many training and dev examples, each of sentiment (.tsv) and of entities (.txt)."""
    for split, count, seed in (("train", train, 1), ("dev", dev, 2)):
        write_sentiment(folder / f"{split}.tsv", count, seed)
        write_entities(folder / f"{split}.txt", count, seed)
    return folder


def tuning(checkpoint: Path, output: Path, /, **changes: Any) -> FinetuneConfig:
    """A fine-tuning that takes a second or two."""
    given = {
        "epochs": 5,
        "batch_size": 16,
        "learning_rate": 2e-3,
        "sequence_length": 32,
        "precision": "fp32",
        "quiet": True,
    }
    given |= {"checkpoint": str(checkpoint), "output": str(output)}
    return FinetuneConfig(**(given | changes))


class StopError(Exception):
    """Ends a run in the middle, as a crash would."""


def finetune_until(step: int, config: FinetuneConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Starts the run, which crashes when it asks for the micro-batches of `step`."""
    real = module.training_source

    def crashing(*arguments: Any) -> Any:
        source = real(*arguments)

        def micro_batches(number: int) -> Any:
            if number == step:
                raise StopError
            return type(source).step(source, number)

        source.step = micro_batches  # type: ignore[method-assign]
        return source

    with monkeypatch.context() as patch:
        patch.setattr(module, "training_source", crashing)
        with pytest.raises(StopError):
            module.finetune(config)
