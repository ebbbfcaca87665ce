"""Ten held-out sentences with masked tokens, and what the model makes of them as it learns.

The sentences are chosen once, from those of a handy length, and are the same for every run on a
corpus; RUN/sentences.json holds them and the log what the model guessed at each restart point. A
left-to-right model guesses the same tokens from those before them.

    {"tokens": ["he", "opened", "the", "door"], "places": [3]}      a sentence
    {"kind": "guesses", "step": 500, "guesses": [[["door", 0.62]], ...]}      a line of the log
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from bertkit.corpus.format import CorpusSplit
from bertkit.files import writing
from bertkit.model.batch import FlatBatch
from bertkit.report.guesses import FILE
from bertkit.text.tokenizer import Tokenizer
from bertkit.training.seeds import derived_seed

SENTENCES = 10
FEWEST_TOKENS, MOST_TOKENS = 8, 24
MASK_RATE = 0.15


@dataclass(frozen=True)
class Sentence:
    """A sentence's token ids, without special tokens, and the places that are to be guessed."""

    ids: list[int]
    places: list[int]


class Guesser:
    """Asks a model for the masked tokens of the same sentences again and again.

    Args:
        split: where the sentences come from; fewer than ten where it has fewer.
    """

    def __init__(self, split: CorpusSplit, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.sentences = choose_sentences(split)

    def write(self, run: Path) -> None:
        """Writes the sentences for the reports; they stay the same when a run continues."""
        vocabulary = self._tokenizer.vocabulary
        told = [
            {"tokens": [vocabulary[i] for i in sentence.ids], "places": sentence.places}
            for sentence in self.sentences
        ]
        with writing(run / FILE) as partial:
            partial.write_text(json.dumps(told, ensure_ascii=False, indent=1), encoding="utf-8")

    def __call__(self, model: nn.Module) -> dict[str, Any]:
        """The most probable token at each place of each sentence, with its probability."""
        causal = model.config.causal  # type: ignore[union-attr]
        tokenizer, guesses = self._tokenizer, []
        for sentence in self.sentences:
            ids = [tokenizer.cls_id, *sentence.ids, tokenizer.sep_id]
            if not causal:
                for place in sentence.places:
                    ids[place + 1] = tokenizer.mask_id
            batch = FlatBatch.from_sequences([ids], [[0] * len(ids)])
            # A causal model predicts a token at the one before it; [CLS] shifts places by one.
            asked = torch.tensor([place + (0 if causal else 1) for place in sentence.places])
            device = next(model.parameters()).device
            hidden = model.encoder(batch.to(device), asked.to(device))  # type: ignore[operator]
            logits = model.masked_lm.logits(hidden)  # type: ignore[union-attr, operator]
            best = logits.float().softmax(dim=1).max(dim=1)
            guesses.append(
                [
                    [tokenizer.vocabulary[token], round(probability, 4)]
                    for token, probability in zip(
                        best.indices.tolist(), best.values.tolist(), strict=True
                    )
                ]
            )
        return {"guesses": guesses}


def choose_sentences(split: CorpusSplit) -> list[Sentence]:
    """Ten sentences of a handy length, drawn at random, with their places to guess.

    Not by the run's seed: a run that goes on with another one is asked what it was asked before.
    """
    generator = np.random.default_rng(derived_seed("guesses", 0))
    lengths = np.asarray(split.sentence_lengths)
    handy = np.flatnonzero((lengths >= FEWEST_TOKENS) & (lengths <= MOST_TOKENS))
    chosen = np.sort(generator.permutation(handy)[:SENTENCES])
    sentences = []
    for number in chosen:
        ids, _ = split.read(np.array([number]), np.array([1]))
        count = max(1, round(MASK_RATE * len(ids)))
        places = np.sort(generator.permutation(len(ids))[:count])
        sentences.append(Sentence(ids.tolist(), places.tolist()))
    return sentences
