"""The judge of `finetuning.py`: fine-tuning as a plain transformers loop, from file to dev score.

It shares nothing with bertkit but the files: its own readers, the tokenizer of transformers,
batches padded to their longest sequence (or all to the maximum), and metrics from scikit-learn,
SciPy and seqeval. The recipe is in `finetuning_tasks.py`; AdamW with the decay of matrices 0.01,
gradients clipped to 1. What is question answering's own is in `finetuning_peer_squad.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from finetuning_peer_squad import (
    Question,
    Window,
    choose_answers,
    cut,
    read_questions,
    squad_scores,
)
from finetuning_tasks import BATCH, RATE, SQUAD_FILE, TASKS, WARMUP
from torch import Tensor

SETTINGS = ("float32 maximum", "float32 longest", "bf16 longest")
"""Precision of autocast, and what a batch is padded to."""

GROUPED = "float32 grouped"
"""Padded to the longest too, but a step takes examples of like lengths instead of any."""

GROUPS = 50
"""Batches whose examples are sorted by length together."""

INPUTS = ("input_ids", "token_type_ids", "attention_mask")


@dataclass(frozen=True)
class Table:
    """Where the columns of a table are, counted from 0."""

    texts: tuple[int, ...]
    label: int
    header: bool = True


TABLES = {
    "mrpc": Table((3, 4), 0),
    "rte": Table((1, 2), 3),
    "cola": Table((3,), 1, header=False),
    "sts-b": Table((7, 8), 9),
    "sst-2": Table((0,), 1),
}


@dataclass
class Examples:
    """Encoded examples.

    Attributes:
        ids, segments: [examples][tokens].
        labels: [examples]: a class, a score, for tagging a list of one for each token, for
            question answering the answer's first and last token.
        gold: tagging: the tags of each sentence.
        words: tagging: [examples][tokens] the word of each first piece, None elsewhere.
        questions, windows: question answering: an example is a window.
    """

    ids: list[list[int]]
    segments: list[list[int]]
    labels: list[Any]
    gold: list[list[str]] | None = None
    words: list[list[int | None]] | None = None
    questions: list[Question] | None = None
    windows: list[Window] | None = None

    def __len__(self) -> int:
        return len(self.ids)


@dataclass
class Work:
    """A task, ready to be trained on.

    Attributes:
        model: the class of transformers that has its head.
        length: tokens of the longest sequence.
        names: of the classes or tags.
        pad: id of [PAD].
    """

    model: str
    length: int
    train: Examples
    dev: Examples
    names: list[str]
    pad: int


def read_table(table: Table, path: Path) -> tuple[list[tuple[str, ...]], list[str]]:
    """Texts and labels of a tab-separated file without quoting."""
    lines = path.read_text(encoding="utf-8-sig").rstrip("\n").split("\n")[int(table.header) :]
    cells = [line.rstrip("\r").split("\t") for line in lines]
    return [tuple(row[c] for c in table.texts) for row in cells], [
        row[table.label] for row in cells
    ]


def read_conll(path: Path) -> tuple[list[list[str]], list[list[str]]]:
    """Words and IOB2 tags of CoNLL's columns in IOB1."""
    words: list[list[str]] = [[]]
    tags: list[list[str]] = [[]]
    for line in path.read_text(encoding="utf-8").split("\n"):
        cells = line.split()
        if not cells or cells[0] == "-DOCSTART-":
            words.append([])
            tags.append([])
            continue
        tag, before = cells[-1], tags[-1][-1] if tags[-1] else "O"
        if tag[0] == "I" and (before == "O" or before[2:] != tag[2:]):
            tag = "B" + tag[1:]
        words[-1].append(cells[0])
        tags[-1].append(tag)
    return [w for w in words if w], [t for t in tags if t]


def prepare(task: str, data: Path, checkpoint: str) -> Work:
    """Reads and encodes a task."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    family = {"conll-2003": prepare_words, "squad-1.1": prepare_questions}.get(task, prepare_texts)
    return family(task, data, tokenizer)


def prepare_texts(task: str, data: Path, tokenizer: Any) -> Work:
    """Classification and regression."""
    setup, table = TASKS[task], TABLES[task]
    found = {s: read_table(table, data / setup.folder / f"{s}.tsv") for s in ("train", "dev")}
    if setup.rows:
        found["train"] = tuple(part[: setup.rows] for part in found["train"])  # type: ignore[assignment]
    names = [] if task == "sts-b" else sorted(set(found["train"][1]))
    number: Callable[[str], Any] = float if task == "sts-b" else names.index
    made = []
    for texts, labels in found.values():
        columns = (list(part) for part in zip(*texts, strict=True))
        encoded = tokenizer(*columns, truncation=True, max_length=setup.length)
        made.append(
            Examples(encoded["input_ids"], encoded["token_type_ids"], [number(x) for x in labels])
        )
    head = "AutoModelForSequenceClassification"
    return Work(head, setup.length, made[0], made[1], names, tokenizer.pad_token_id)


def prepare_words(task: str, data: Path, tokenizer: Any) -> Work:
    """Tagging."""
    setup = TASKS[task]
    read = {s: read_conll(data / setup.folder / f"eng.{s}") for s in ("train", "testa")}
    names = sorted({tag for tags in read["train"][1] for tag in tags})
    train, dev = (encode_words(tokenizer, *one, names, setup.length) for one in read.values())
    head = "AutoModelForTokenClassification"
    return Work(head, setup.length, train, dev, names, tokenizer.pad_token_id)


def prepare_questions(task: str, data: Path, tokenizer: Any) -> Work:
    """Question answering: the file's first articles are trained on, its last ones scored on."""
    setup = TASKS[task]
    first, last = setup.articles or (0, 0)
    made = []
    for articles in (slice(first), slice(-last, None)):
        questions = read_questions(data / setup.folder / SQUAD_FILE, articles)
        windows = cut(tokenizer, questions, setup.length)
        made.append(
            Examples(
                [window.ids for window in windows],
                [window.segments for window in windows],
                [window.span for window in windows],
                questions=questions,
                windows=windows,
            )
        )
    head = "AutoModelForQuestionAnswering"
    return Work(head, setup.length, made[0], made[1], [], tokenizer.pad_token_id)


def encode_words(
    tokenizer: Any, words: list[list[str]], tags: list[list[str]], names: list[str], length: int
) -> Examples:
    """Sentences with the label at the first piece of each word."""
    encoded = tokenizer(words, is_split_into_words=True, truncation=True, max_length=length)
    labels, firsts = [], []
    for row, gold in enumerate(tags):
        of_tokens = encoded.word_ids(row)
        first = [
            word if word is not None and word != (of_tokens[k - 1] if k else None) else None
            for k, word in enumerate(of_tokens)
        ]
        firsts.append(first)
        labels.append([-100 if word is None else names.index(gold[word]) for word in first])
    return Examples(encoded["input_ids"], encoded["token_type_ids"], labels, tags, firsts)


def batch_of(work: Work, examples: Examples, rows: list[int], setting: str) -> dict[str, Tensor]:
    """A padded batch."""
    longest = max(len(examples.ids[row]) for row in rows)
    width = work.length if setting.endswith("maximum") else longest

    def padded(values: list[list[int]], fill: int) -> Tensor:
        return torch.tensor([v[:width] + [fill] * (width - len(v)) for v in values])

    ids = [examples.ids[row] for row in rows]
    labels = [examples.labels[row] for row in rows]
    batch = {
        "input_ids": padded(ids, work.pad),
        "token_type_ids": padded([examples.segments[row] for row in rows], 0),
        "attention_mask": padded([[1] * len(one) for one in ids], 0),
    }
    if examples.windows is not None:
        batch["start_positions"], batch["end_positions"] = torch.tensor(labels).T
    else:
        tags = isinstance(labels[0], list)
        batch["labels"] = padded(labels, -100) if tags else torch.tensor(labels)
    return batch


class Loop:
    """The model, its optimizer and one step at a time."""

    def __init__(self, work: Work, checkpoint: str, setting: str, seed: int, steps: int) -> None:
        import transformers

        torch.manual_seed(seed)
        self.work, self.setting = work, setting
        outputs = 2 if work.train.windows is not None else len(work.names) or 1
        self.model = getattr(transformers, work.model).from_pretrained(
            checkpoint, num_labels=outputs, attn_implementation="sdpa"
        )
        self.model.train()
        named = list(self.model.named_parameters())
        groups = [
            {"params": [p for _, p in named if p.ndim >= 2], "weight_decay": 0.01},
            {"params": [p for _, p in named if p.ndim < 2], "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(groups, lr=RATE, eps=1e-6)
        self.schedule = transformers.get_linear_schedule_with_warmup(
            self.optimizer, int(WARMUP * steps), steps
        )

    def forward(self, batch: dict[str, Tensor]) -> Any:
        with torch.autocast("cpu", torch.bfloat16, enabled=self.setting.startswith("bf16")):
            return self.model(**batch)

    def step(self, rows: list[int]) -> float:
        """Trains on so many examples; returns the loss."""
        loss = self.forward(batch_of(self.work, self.work.train, rows, self.setting)).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.schedule.step()
        self.optimizer.zero_grad()
        return float(loss.detach())

    @torch.inference_mode()
    def logits(self) -> Iterator[np.ndarray]:
        """Of each dev example, in order; of a window [tokens, 2]: scores of starts and ends."""
        self.model.eval()
        for first in range(0, len(self.work.dev), 64):
            rows = list(range(first, min(first + 64, len(self.work.dev))))
            batch = batch_of(self.work, self.work.dev, rows, self.setting)
            inputs = {name: batch[name] for name in INPUTS}
            found = self.forward(inputs)
            if self.work.dev.windows is None:
                logits = found.logits
            else:
                logits = torch.stack([found.start_logits, found.end_logits], dim=2)
            yield from logits.float().numpy()
        self.model.train()


def batches_of(lengths: list[int], setting: str, generator: np.random.Generator) -> list[list[int]]:
    """The rows of each step of an epoch: at random, or of like lengths as `transformers.Trainer`
    groups them, with the batches in random order."""
    order = generator.permutation(len(lengths)).tolist()
    if setting == GROUPED:
        group = GROUPS * BATCH
        parts = [order[first : first + group] for first in range(0, len(order), group)]
        order = [row for part in parts for row in sorted(part, key=lambda row: lengths[row])]
    batches = [order[first : first + BATCH] for first in range(0, len(order), BATCH)]
    if setting == GROUPED:
        batches = [batches[place] for place in generator.permutation(len(batches))]
    return batches


def run(task: str, data: Path, checkpoint: str, setting: str, seed: int) -> dict[str, Any]:
    """A whole fine-tuning: {"metrics", "seconds" of training}."""
    work, epochs = prepare(task, data, checkpoint), TASKS[task].epochs
    per_epoch = -(-len(work.train) // BATCH)
    loop = Loop(work, checkpoint, setting, seed, epochs * per_epoch)
    generator = np.random.default_rng(seed)
    lengths = [len(ids) for ids in work.train.ids]
    began = time.perf_counter()
    for _ in range(epochs):
        for rows in batches_of(lengths, setting, generator):
            loop.step(rows)
    seconds = time.perf_counter() - began
    return {"metrics": score(work, list(loop.logits())), "seconds": seconds}


def score(work: Work, logits: list[np.ndarray]) -> dict[str, float]:
    """The task's official metrics on dev."""
    from scipy.stats import pearsonr, spearmanr
    from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

    if work.dev.windows is not None:
        questions = work.dev.questions or []
        return squad_scores(questions, choose_answers(questions, work.dev.windows, logits))
    if work.dev.words is not None:
        from seqeval.metrics import f1_score as entity_f1

        found = []
        for words, gold, rows in zip(work.dev.words, work.dev.gold or [], logits, strict=True):
            tags = ["O"] * len(gold)  # words beyond the maximum stay so
            for token, word in enumerate(words):
                if word is not None:
                    tags[word] = work.names[int(rows[token].argmax())]
            found.append(tags)
        return {"f1": float(entity_f1(work.dev.gold, found))}
    gold = work.dev.labels
    if not work.names:
        scores = [float(row[0]) for row in logits]
        return {
            "pearson": float(pearsonr(gold, scores)[0]),
            "spearman": float(spearmanr(gold, scores)[0]),
        }
    predicted = [int(row.argmax()) for row in logits]
    return {
        "accuracy": float(accuracy_score(gold, predicted)),
        "f1": float(f1_score(gold, predicted)),
        "matthews": float(matthews_corrcoef(gold, predicted)),
    }
