"""Tagging of words (paper, section 5.3: named entities).

The first sub-token of a word carries its tag, the others are not asked. The label with the
highest probability wins, word by word; there is no CRF, as in the paper.

    word      Jim   Henson      was  a   puppeteer
    piece     Jim   Hen ##son   was  a   puppet ##eer
    asked      x     x           x   x     x

A sentence that does not fit is read in windows that overlap by a quarter, and each word is asked
in the window that shows most of its surroundings on its poorer side, so every word gets a tag.
Training and answers use the same windows.
A word that becomes no token (control characters) cannot be asked: its tag is "O" and it is
counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
from torch import Tensor, nn

from bertkit.errors import UserError
from bertkit.tasks.labelling import LabelObjective, collate, probabilities
from bertkit.tasks.metrics import OUTSIDE, chunks, entity_scores, split_tag, tag_scores
from bertkit.tasks.readers import WordsExample, own_files
from bertkit.tasks.task import Features, FeatureSet, Scores, Task, TaskOptions
from bertkit.tasks.windows import OVERLAP
from bertkit.tasks.word_readers import LIST_SUFFIXES, TAGGED, read_pos, read_tagged
from bertkit.text.tokenizer import Tokenizer
from bertkit.training.batch import Batch


@dataclass(frozen=True)
class Entity:
    """A named thing: `text[start:end]` in characters; the mean probability of its words' tags."""

    label: str
    text: str
    start: int
    end: int
    probability: float


@dataclass(frozen=True)
class TagPrediction:
    """The tag of each word with its probability, and the entities they make.

    Where the words were given and not a text, entities count characters in the words joined by
    one blank.
    """

    words: list[str]
    tags: list[str]
    probabilities: list[float]
    entities: list[Entity]


def label_names(examples: Sequence[WordsExample]) -> list[str]:
    """ "O" first, then each type's B- and I- (both, so that no later sentence meets a gap)."""
    types = {split_tag(tag) for tag in set().union(*(example.tags for example in examples))}
    bare = {label for prefix, label in types if prefix == "S"}
    chunked = {label for prefix, label in types if prefix in ("B", "I")}
    outside = [OUTSIDE] if chunked or (OUTSIDE, "") in types else []
    return [*outside, *sorted(bare), *(f"{p}-{label}" for label in sorted(chunked) for p in "BI")]


def features(
    examples: Sequence[WordsExample],
    tokenizer: Tokenizer,
    labels: Sequence[str] | None,
    options: TaskOptions,
) -> FeatureSet:
    """One sequence for a sentence that fits, overlapping windows for another.

    With `options.document_context` the sequence of a sentence that fits is filled up with the
    text of its document before and after it, in equal parts where there is enough of both; only
    the sentence's own words are asked.
    """
    made: list[Features] = []
    unseen_words = 0
    room = options.sequence_length - 2
    number_of = {label: number for number, label in enumerate(labels or [])}
    whole: list[int] = []
    divided = 0
    seen: dict[str, list[int]] = {}
    pieces_of: list[list[list[int]]] = []
    for example in examples:
        pieces: list[list[int]] = []
        for text in example.words:
            if text not in seen:
                seen[text] = tokenizer.token_ids(text)
            pieces.append(seen[text][:room])
        unseen_words += sum(not piece for piece in pieces)
        pieces_of.append(pieces)
    around: list[tuple[list[int], list[int]]] = [([], [])] * len(examples)
    if options.document_context:
        documents = [example.document for example in examples]
        if labels is not None and all(document is None for document in documents):
            raise UserError(
                "the data mark no documents (lines that begin with -DOCSTART-); "
                "leave --document-context out"
            )
        around = contexts(documents, pieces_of, room)
    for number, (example, pieces) in enumerate(zip(examples, pieces_of, strict=True)):
        before, after = around[number]
        lengths = [len(piece) for piece in pieces]
        whole.append(sum(lengths) + 2)
        divided += sum(lengths) > room
        for first, last, asked in windows(lengths, room):
            ids = [tokenizer.cls_id, *before]
            positions = {}
            for word in range(first, last):
                positions[word] = len(ids)
                ids += pieces[word]
            ids += [*after, tokenizer.sep_id]
            targets = [number_of[example.tags[word]] for word in asked] if labels else []
            made.append(
                Features(number, ids, [0] * len(ids), [positions[w] for w in asked], asked, targets)
            )
    notes = []
    if divided and labels is not None:
        notes = [
            f"{divided:,} of {len(examples):,} sentences are longer than {options.sequence_length} "
            f"tokens and read in windows: {len(made):,} sequences in all"
        ]
    return FeatureSet(
        made, [len(one.ids) for one in made], whole=whole, unseen_words=unseen_words, notes=notes
    )


def contexts(
    documents: Sequence[int | None], pieces_of: Sequence[Sequence[Sequence[int]]], room: int
) -> list[tuple[list[int], list[int]]]:
    """The tokens of its document that stand before and after each sentence, as many as fit.

    Args:
        documents: [sentences] number of each one's document; None has no context.
        pieces_of: [sentences][words][tokens].
        room: tokens of a sequence without [CLS] and [SEP].
    """
    flat = [[token for piece in pieces for token in piece] for pieces in pieces_of]
    found: list[tuple[list[int], list[int]]] = []
    for _, group in groupby(range(len(documents)), key=lambda number: documents[number]):
        numbers = list(group)
        text = [token for number in numbers for token in flat[number]]
        start = 0
        for number in numbers:
            end = start + len(flat[number])
            spare = max(room - len(flat[number]), 0)
            if documents[number] is None:
                spare = 0
            after = min(len(text) - end, spare - min(start, spare // 2))
            before = min(start, spare - after)
            found.append((text[start - before : start], text[end : end + after]))
            start = end
    return found


def windows(lengths: Sequence[int], room: int) -> list[tuple[int, int, list[int]]]:
    """Cuts a sentence into windows of at most `room` tokens.

    Args:
        lengths: [words] tokens of each word, each at most `room`; 0 for a word without tokens.

    Returns:
        (first word, word after the last, words to ask there) of each window. Every word that has
        tokens is asked in exactly one window; a window where nothing is asked is left out.
    """
    if sum(lengths) <= room:
        seen = [word for word, length in enumerate(lengths) if length]
        return [(0, len(lengths), seen)] if seen else []
    bounds = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])  # [words + 1]
    asked: dict[tuple[int, int], list[int]] = {}
    spans: list[tuple[int, int]] = []
    first = 0
    while True:
        last = int(np.searchsorted(bounds, bounds[first] + room, side="right")) - 1
        spans.append((first, last))
        if last == len(lengths):
            break
        # the next window starts a quarter before this one's end, and at least one word further
        start = int(np.searchsorted(bounds, bounds[last] - room // OVERLAP))
        first = max(min(start, last), first + 1)
    earliest = latest = 0  # the spans that hold the word are spans[earliest:latest]
    for word, length in enumerate(lengths):
        while spans[earliest][1] <= word:
            earliest += 1
        while latest < len(spans) and spans[latest][0] <= word:
            latest += 1
        if length:
            # context on the poorer side; the text's own ends count as no loss
            best = max(
                spans[earliest:latest],
                key=lambda span: min(
                    bounds[word] - bounds[span[0]] if span[0] else room,
                    bounds[span[1]] - bounds[word + 1] if span[1] < len(lengths) else room,
                ),
            )
            asked.setdefault(best, []).append(word)
    return [(first, last, words) for (first, last), words in sorted(asked.items())]


def logits(model: nn.Module, batch: Batch) -> Tensor:
    """[words, labels]."""
    return model(batch.inputs, batch.targets["asked"])


def decode(
    examples: Sequence[WordsExample],
    asked: Sequence[Features],
    outputs: Sequence[np.ndarray],
    labels: Sequence[str],
    options: TaskOptions,
) -> list[TagPrediction]:
    """The most probable tag of each word; `outputs` are probabilities [words asked, labels]."""
    tags, certain = best_tags(examples, asked, outputs, labels)
    return [
        TagPrediction(example.words, t, c, find_entities(example, t, c))
        for example, t, c in zip(examples, tags, certain, strict=True)
    ]


def best_tags(
    examples: Sequence[WordsExample],
    asked: Sequence[Features],
    outputs: Sequence[np.ndarray],
    labels: Sequence[str],
    missing: str = OUTSIDE,
) -> tuple[list[list[str]], list[list[float]]]:
    """The most probable tag of each word and its probability; `missing` where none was asked."""
    tags = [[missing] * len(example.words) for example in examples]
    certain = [[0.0] * len(example.words) for example in examples]
    for one, rows in zip(asked, outputs, strict=True):
        best = rows.argmax(axis=1)
        for word, label, probability in zip(one.words, best, rows.max(axis=1), strict=True):
            tags[one.example][word] = labels[label]
            certain[one.example][word] = float(probability)
    return tags, certain


def find_entities(
    example: WordsExample, tags: Sequence[str], probabilities: Sequence[float]
) -> list[Entity]:
    """The entities of a tagged sentence, placed in its text (a stray I- begins one)."""
    text, offsets = example.text, example.offsets
    if text is None or offsets is None:
        text = " ".join(example.words)
        ends = np.cumsum([len(word) + 1 for word in example.words]) - 1
        offsets = [
            (int(end) - len(word), int(end)) for word, end in zip(example.words, ends, strict=True)
        ]
    entities = []
    for label, first, last in chunks(tags):
        start, end = offsets[first][0], offsets[last][1]
        mean = sum(probabilities[first : last + 1]) / (last + 1 - first)
        entities.append(Entity(label, text[start:end], start, end, mean))
    return entities


def unknown(examples: Sequence[WordsExample], labels: Sequence[str]) -> list[str]:
    """Types of the examples' tags that the model does not have."""
    known = {split_tag(label)[1] for label in labels} | {""}
    return sorted({split_tag(tag)[1] for tag in set().union(*(e.tags for e in examples))} - known)


def metric(examples: Sequence[WordsExample], predictions: Sequence[TagPrediction]) -> Scores:
    """Entity F1, precision and recall as conlleval's, and the accuracy of the tags."""
    return entity_scores([e.tags for e in examples], [p.tags for p in predictions])


def record(example: WordsExample, prediction: TagPrediction) -> dict[str, Any]:
    """A line of the prediction file: of a text its entities, of given words their tags too."""
    line: dict[str, Any] = {}
    if example.text is not None:
        line["text"] = example.text
    else:
        line |= {"words": prediction.words, "tags": prediction.tags}
    if example.tags:
        line["gold"] = example.tags
    line["entities"] = [
        {**vars(entity), "probability": round(entity.probability, 6)}
        for entity in prediction.entities
    ]
    return line


def texts(example: WordsExample) -> tuple[str, ...]:
    """The words."""
    return tuple(example.words)


def counts(examples: Sequence[WordsExample]) -> dict[str, int]:
    """Entities of each type, or words of each bare tag."""
    found = Counter(chunk.label for example in examples for chunk in chunks(example.tags))
    return dict(sorted(found.items()))


def blind(examples: Sequence[WordsExample], labels: Sequence[str]) -> list[list[TagPrediction]]:
    """Each tag on all words."""
    return [
        [TagPrediction(e.words, [label] * len(e.words), [], []) for e in examples]
        for label in labels
    ]


TAGGING = Task(
    name="tagging",
    summary="a tag for each word, from your own CoNLL columns or lists",
    files=own_files((".txt", *TAGGED, ".tsv", *LIST_SUFFIXES)),
    read=read_tagged,
    labels=label_names,
    features=features,
    collate=collate,
    head="tagging",
    feature_head="bilstm-tagging",
    objective=LabelObjective(logits),
    outputs=partial(probabilities, logits),
    decode=decode,
    unknown=unknown,
    metric=metric,
    record=record,
    texts=texts,
    counts=counts,
    is_labelled=lambda example: bool(example.tags),
    main="f1",
    blind=blind,
    least_labels=1,
)

PARTS_OF_SPEECH = replace(
    TAGGING,
    name="pos",
    summary="parts of speech: Universal Dependencies, word/tag pairs, or columns",
    files={
        "train": ("*-ud-train.conllu", "train.txt", "train.conllu", "199801.txt"),
        "dev": ("*-ud-dev.conllu", "dev.txt", "dev.conllu"),
        "test": ("*-ud-test.conllu", "test.txt", "test.conllu"),
    },
    read=read_pos,
    metric=lambda examples, predictions: tag_scores(
        [e.tags for e in examples], [p.tags for p in predictions]
    ),
    main="accuracy",
    least_labels=2,
)
