"""A corpus split in memory, with the attributes that the plan and the batches read."""

from __future__ import annotations

import numpy as np


class MemorySplit:
    """Stands for `CorpusSplit`: sentences are random token ids from 5 up."""

    name = "train"

    def __init__(self, documents: list[list[int]], vocab_size: int = 100, seed: int = 0) -> None:
        self.sentence_lengths = np.array([n for d in documents for n in d], dtype=np.uint32)
        self.document_bounds = np.concatenate([[0], np.cumsum([len(d) for d in documents])])
        self.tokens = int(self.sentence_lengths.sum())
        generator = np.random.default_rng(seed)
        self.ids = generator.integers(5, vocab_size, self.tokens).astype(np.int32)
        self.starts = np.concatenate([[0], np.cumsum(self.sentence_lengths, dtype=np.int64)])

        self.words: np.ndarray | None = None  # [tokens] bool, where a corpus would have bits

    @property
    def has_words(self) -> bool:
        return self.words is not None

    def word_starts(self, first: np.ndarray, count: np.ndarray) -> np.ndarray:
        assert self.words is not None
        runs = zip(first, count, strict=True)
        return np.concatenate([self.words[self.starts[f] : self.starts[f + c]] for f, c in runs])

    def read(self, first: np.ndarray, count: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        runs = [
            self.ids[self.starts[f] : self.starts[f + c]] for f, c in zip(first, count, strict=True)
        ]
        return np.concatenate(runs), np.array([len(run) for run in runs], dtype=np.int64)


def random_documents(
    count: int, seed: int, most_sentences: int = 40, most_tokens: int = 60
) -> list[list[int]]:
    generator = np.random.default_rng(seed)
    return [
        generator.integers(1, most_tokens + 1, generator.integers(1, most_sentences + 1)).tolist()
        for _ in range(count)
    ]
