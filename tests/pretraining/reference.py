"""The reference release's walk through the documents (B2), restated plainly, sentence by sentence.

`fed_walk` takes the draws of the plan, so that the two must agree row for row; it knows the
variants. `free_walk` draws from a generator of its own, as the reference does, truncation included,
so that rates can be compared. `python -m tests.pretraining.reference` prints both side by side.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np

from bertkit.pretraining import draws
from bertkit.pretraining.batches import SpecialIds, build_examples
from bertkit.pretraining.masking import MaskOptions
from bertkit.pretraining.plan import RANDOM_NEXT, SWAPPED, WALK_SENTENCES, PlanOptions, make_plan
from tests.pretraining.memory_split import MemorySplit

Row = tuple[int, int, int, int, int, int]


class Fed:
    """The plan's draws at every sentence of a split, one Python number at a time."""

    def __init__(self, sentences: int, options: PlanOptions, split: str, epoch: int) -> None:
        def stream(name: str) -> np.ndarray:
            key = draws.key("plan", options.seed, split, epoch, options.sequence_length, name)
            return draws.bits(key, np.arange(sentences))

        names = ("short", "target", "a", "next", "document", "sentence")
        self._bits = {name: stream(name) for name in names}

    def below(self, name: str, sentence: int, bound: int) -> int:
        return ((int(self._bits[name][sentence]) >> 32) * bound) >> 32

    def uniform(self, name: str, sentence: int) -> float:
        return (int(self._bits[name][sentence]) >> 11) * 2.0**-53

    def heads(self, sentence: int) -> bool:
        return bool(int(self._bits["next"][sentence]) & 1)


def fed_walk(
    documents: list[list[int]], options: PlanOptions, split: str, epoch: int
) -> Iterator[Row]:
    """Rows of the plan, for the pairs nsp, nsp-sentence and sop."""
    starts = np.concatenate([[0], np.cumsum([len(d) for d in documents])]).tolist()
    fed = Fed(starts[-1], options, split, epoch)
    longest = options.sequence_length - 3
    for number, document in enumerate(documents):
        for walk in range(0, len(document), WALK_SENTENCES):
            sentences = document[walk : walk + WALK_SENTENCES]
            first = starts[number] + walk
            if options.pairs == "sop" and len(sentences) < 2:
                continue
            target = longest
            if fed.uniform("short", first) < options.short_probability:
                target = 2 + fed.below("target", first, longest - 1)
            chunk: list[int] = []
            tokens = 0
            i = 0
            while i < len(sentences):
                if options.pairs == "sop" and not chunk and i == len(sentences) - 1:
                    i -= 1  # a lone last sentence takes the one before it along
                chunk.append(sentences[i])
                tokens += sentences[i]
                full = tokens >= target
                if options.pairs == "sop":
                    full = full and len(chunk) >= 2
                elif options.pairs == "nsp-sentence":
                    full = len(chunk) == 2
                if i == len(sentences) - 1 or full:
                    start = first + i + 1 - len(chunk)
                    a_end = 1
                    if len(chunk) >= 2:
                        a_end = 1 + fed.below("a", start, len(chunk) - 1)
                    a_tokens, a, b_start, b = sum(chunk[:a_end]), a_end, start + a_end, 0
                    flags = 0
                    if options.pairs != "sop" and (len(chunk) == 1 or fed.heads(start)):
                        other = fed.below("document", start, len(documents) - 1)
                        other += other >= number
                        begin = fed.below("sentence", start, len(documents[other]))
                        b_tokens = 0
                        for place in range(begin, len(documents[other])):
                            b_tokens += documents[other][place]
                            b += 1
                            if b_tokens >= target - a_tokens or options.pairs == "nsp-sentence":
                                break
                        b_start, flags = starts[other] + begin, RANDOM_NEXT
                        i -= len(chunk) - a_end
                    else:
                        b = len(chunk) - a_end
                        b_tokens = sum(chunk[a_end:])
                    a_start = start
                    if options.pairs == "sop" and fed.heads(start):
                        a_start, b_start, a, b, flags = b_start, a_start, b, a, SWAPPED
                    yield a_start, b_start, a, b, min(a_tokens + b_tokens, longest) + 3, flags
                    chunk, tokens = [], 0
                i += 1


RATES = (
    "random next",
    "shorter than the sequence",
    "tokens of an example",
    "sentences of A",
    "place of A in its document",
    "truncated examples",
    "dropped tokens from A",
    "dropped tokens from the front",
)


def _add(sums: np.ndarray, document: int, values: list[tuple[float, float]]) -> None:
    for rate, (value, count) in enumerate(values):
        sums[document, rate, 0] += value
        sums[document, rate, 1] += count


def free_walk(
    documents: list[list[int]], sequence_length: int, short_probability: float, seed: int
) -> np.ndarray:
    """The reference with its own draws: [documents, rates, 2] sums of each document."""
    generator = random.Random(seed)
    sums = np.zeros((len(documents), len(RATES), 2))
    longest = sequence_length - 3
    for number, document in enumerate(documents):
        target = longest
        if generator.random() < short_probability:
            target = generator.randint(2, longest)
        chunk: list[int] = []
        tokens = 0
        i = 0
        while i < len(document):
            chunk.append(document[i])
            tokens += document[i]
            if i == len(document) - 1 or tokens >= target:
                start = i + 1 - len(chunk)
                a_end = 1 if len(chunk) < 2 else generator.randint(1, len(chunk) - 1)
                a = sum(chunk[:a_end])
                is_random = len(chunk) == 1 or generator.random() < 0.5
                if is_random:
                    for _ in range(10):
                        other = generator.randint(0, len(documents) - 1)
                        if other != number:
                            break
                    b = 0
                    for place in range(
                        generator.randint(0, len(documents[other]) - 1), len(documents[other])
                    ):
                        b += documents[other][place]
                        if b >= target - a:
                            break
                    i -= len(chunk) - a_end
                else:
                    b = sum(chunk[a_end:])
                dropped = from_a = front = 0
                while a + b > longest:
                    dropped += 1
                    if a > b:
                        a -= 1
                        from_a += 1
                    else:
                        b -= 1
                    front += generator.random() < 0.5
                length = a + b + 3
                _add(
                    sums,
                    number,
                    [
                        (is_random, 1),
                        (length < sequence_length, 1),
                        (length, 1),
                        (a_end, 1),
                        (start / len(document), 1),
                        (dropped > 0, 1),
                        (from_a, dropped),
                        (front, dropped),
                    ],
                )
                chunk, tokens = [], 0
            i += 1
    return sums


def planned(documents: list[list[int]], options: PlanOptions) -> np.ndarray:
    """The same sums of the plan and of the examples built from it."""
    split = MemorySplit(documents)
    split.ids = np.arange(split.tokens, dtype=np.int32)  # a token's id tells where it stood
    plan = make_plan(split.sentence_lengths, split.document_bounds, options, "train", 0)
    masks = MaskOptions(mask_id=0, vocab_size=10, max_predictions=1)
    numbers = np.arange(len(plan))
    built = build_examples(split, plan, numbers, options, masks, SpecialIds(-1, -2), 0)
    row_start = np.cumsum(built.lengths) - built.lengths
    owner = np.repeat(numbers, built.lengths)
    text = built.original_ids >= 0
    kept_a = np.bincount(owner[text & (built.segment_ids == 0)], minlength=len(plan))
    kept_b = np.bincount(owner[text & (built.segment_ids == 1)], minlength=len(plan))
    a_first, b_first = split.starts[plan["a_start"]], split.starts[plan["b_start"]]
    a = split.starts[plan["a_start"].astype(int) + plan["a_sentences"]] - a_first
    b = split.starts[plan["b_start"].astype(int) + plan["b_sentences"]] - b_first
    front = built.original_ids[row_start + 1] - a_first
    front = front + built.original_ids[row_start + kept_a + 2] - b_first
    from_a, dropped = a - kept_a, a + b - kept_a - kept_b
    document = np.searchsorted(split.document_bounds, plan["a_start"], side="right") - 1
    size = np.diff(split.document_bounds)[document]
    ones = np.ones(len(plan))
    values = [
        ((plan["flags"] & RANDOM_NEXT) != 0, ones),
        (built.lengths < options.sequence_length, ones),
        (built.lengths, ones),
        (plan["a_sentences"], ones),
        ((plan["a_start"] - split.document_bounds[document]) / size, ones),
        (dropped > 0, ones),
        (from_a, dropped),
        (front, dropped),
    ]
    sums = np.zeros((len(documents), len(RATES), 2))
    for rate, pair in enumerate(values):
        for part, value in enumerate(pair):
            sums[:, rate, part] = np.bincount(document, weights=value, minlength=len(documents))
    return sums


def rate_and_error(sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rates, and their standard errors with documents as clusters, [rates] each."""
    value, count = sums[:, :, 0], sums[:, :, 1]
    rates = value.sum(axis=0) / count.sum(axis=0)
    residuals = value - rates * count
    spread = (residuals**2).sum(axis=0) * len(sums) / (len(sums) - 1)
    return rates, np.sqrt(spread) / count.sum(axis=0)


def natural_documents(count: int, seed: int) -> list[list[int]]:
    """Documents of 1 to 200 sentences, most of them short, with sentences of 1 to 200 tokens."""
    generator = np.random.default_rng(seed)
    sizes = np.clip(np.exp(generator.normal(2.5, 1.0, count)), 1, 200).astype(int)
    return [
        np.clip(np.exp(generator.normal(3.0, 0.7, size)), 1, 200).astype(int).tolist()
        for size in sizes
    ]


def main() -> None:
    documents = natural_documents(4000, seed=0)
    for length in (128, 512):
        theirs = rate_and_error(free_walk(documents, length, 0.1, seed=1))
        ours = rate_and_error(planned(documents, PlanOptions(length)))
        print(f"sequence length {length}: reference, bertkit, standard errors of the difference")
        for name, one, other, e1, e2 in zip(
            RATES, theirs[0], ours[0], theirs[1], ours[1], strict=True
        ):
            print(f"  {name:<32}{one:10.4f}{other:10.4f}{(other - one) / np.hypot(e1, e2):8.2f}")


if __name__ == "__main__":
    main()
