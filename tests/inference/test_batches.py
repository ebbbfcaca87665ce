"""An answer is the same whatever is computed with it: alone, in any batch, beside other batches."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertkit.inference.embed import embed_texts
from bertkit.inference.fill import fill_masks
from bertkit.inference.load import LoadedModel, load
from tests.tasks.tiny import save_tiny

WORDS = ["the", "man", "went", "big", "house", ",", "unaffable", "我", "é", "[MASK]"]


def predictions(model: LoadedModel, texts: list[str], budget: int) -> list[Any]:
    return [list(one.probabilities.values()) for one in model.predict(texts, budget)]


def vectors(model: LoadedModel, texts: list[str], budget: int) -> list[Any]:
    return [one.vectors[0] for one in embed_texts(model, texts, batch_tokens=budget).texts]


def token_vectors(model: LoadedModel, texts: list[str], budget: int) -> list[Any]:
    made = embed_texts(model, texts, "0,-1", unit="token", batch_tokens=budget)
    return [one.vectors for one in made.texts]


def chances(model: LoadedModel, texts: list[str], budget: int) -> list[Any]:
    """Of every entry for every mask, in the vocabulary's order."""
    every = len(model.tokenizer)
    found = fill_masks(model, texts, top=every, batch_tokens=budget)
    return [
        [[c.probability for c in sorted(mask, key=lambda c: c.token)] for mask in one.masks]
        for one in found
    ]


@pytest.fixture(scope="module")
def models(tmp_path_factory, tiny_tokenizer) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    return {
        "classification": save_tiny(folder / "c", tiny_tokenizer, "classification", ["a", "b"]),
        "pretraining": save_tiny(folder / "p", tiny_tokenizer),
    }


@pytest.mark.parametrize(
    ("answers", "head"),
    [
        (predictions, "classification"),
        (vectors, "pretraining"),
        (token_vectors, "pretraining"),
        (chances, "pretraining"),
    ],
)
def test_texts_of_mixed_lengths_get_the_same_answers_alone_and_in_any_batch(
    answers: Callable[[LoadedModel, list[str], int], list[Any]],
    head: str,
    models: dict[str, Path],
    threads: Callable[[int], None],
) -> None:
    threads(2)
    model = load(models[head])
    generator = random.Random(7)
    sizes = [0, 0, 1, 20, *(generator.randrange(20) for _ in range(25))]
    texts = [" ".join(["[MASK]", *generator.choices(WORDS, k=size)]) for size in sizes]
    alone = [answers(model, [text], 2048)[0] for text in texts]
    for budget in (1, 100, 100_000):  # a text at a time, several batches at a time, all at once
        for one, other in zip(alone, answers(model, texts, budget), strict=True):
            np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=0, atol=1e-5)
