"""The examples of a fine-tuning: files in; training examples, dev examples and labels out.

Where no dev file is given a share of the training examples is held out. The head's labels are
those of the whole training file, whatever part of it is trained on.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bertkit.errors import UserError, listed
from bertkit.files import sha256, writing
from bertkit.progress import say
from bertkit.tasks.config import FinetuneConfig
from bertkit.tasks.readers import find_file, require_file
from bertkit.tasks.task import Columns, Task
from bertkit.training.seeds import derived_seed


@dataclass
class Data:
    """What a fine-tuning trains and is scored on.

    Attributes:
        labels: of the head.
        train_rows: which rows of the training file the training examples are, from 0.
        dev_rows: which rows of the training file were held out as dev, where no dev file was given.
        files: what was read.
        more_dev: the task's further dev sets by name, as MNLI's "mismatched".
    """

    train: list[Any]
    dev: list[Any]
    labels: list[str]
    train_rows: list[int]
    dev_rows: list[int] | None
    files: list[Path]
    more_dev: dict[str, list[Any]]


def read_data(config: FinetuneConfig, task: Task) -> Data:
    """Reads the examples, holds some out as dev where no dev file is given, and cuts to a number.

    Raises:
        UserError: whatever the task's reader refuses; examples without texts, or without labels to
            tell apart; dev labels that the training file lacks; too few examples.
    """
    columns = columns_of(config)
    train_file, dev_file = _files(config, task)
    train = task.read(train_file, columns)
    labels = _labels(task, train, train_file)
    rows = list(range(len(train)))
    dev_rows = None
    if dev_file is not None:
        dev = task.read(dev_file, columns)
        unknown = task.unknown(dev, labels)
        if unknown:
            raise UserError(
                f"{dev_file} has labels that {train_file} lacks: {listed(unknown)}; "
                "every label needs training examples"
            )
    else:
        seed = config.seed if config.split_seed is None else config.split_seed
        dev_rows = held_out_rows(task, train, config.dev_share, seed)
        dev = [train[row] for row in dev_rows]
        out = set(dev_rows)
        rows = [row for row in rows if row not in out]
        say(f"no dev file: {len(dev):,} training examples held out for it", config.quiet)
    if config.max_examples is not None and config.max_examples < len(rows):
        rows = _drawn(task, train, rows, config.max_examples, config.seed)
    train = [train[row] for row in rows]
    more_files = _more_dev_files(config, task)
    more_dev = {name: task.read(path, columns) for name, path in more_files.items()}
    files = [path for path in (train_file, dev_file, *more_files.values()) if path is not None]
    return Data(train, dev, labels, rows, dev_rows, files, more_dev)


def columns_of(config: FinetuneConfig) -> Columns:
    """The columns that a fine-tuning's configuration names."""
    return Columns(
        config.text,
        config.pair,
        config.label,
        delimiter=config.label_delimiter,
        choices=tuple(config.choices),
    )


def held_out_rows(task: Task, examples: Sequence[Any], share: float, seed: int) -> list[int]:
    """The rows of the training file that become dev: about `share` of them, drawn by the seed.

    Questions on one context stay together, and every label keeps an example to be trained on.

    Raises:
        UserError: nothing can be held out so.
    """
    groups = _groups(task, examples)
    wanted = max(round(share * len(examples)), min(map(len, groups)))
    generator = np.random.default_rng(derived_seed("held out", seed))
    of_groups = [
        Counter(label for row in rows for label in task.unknown([examples[row]], []))
        for rows in groups
    ]
    left: Counter[str] = Counter()
    for labels in of_groups:
        left.update(labels)
    out: list[int] = []
    for number in generator.permutation(len(groups)):
        rows, labels = groups[number], of_groups[number]
        nearer = abs(len(out) + len(rows) - wanted) < abs(len(out) - wanted)
        spared = all(left[label] > count for label, count in labels.items())
        if nearer and spared and len(out) + len(rows) < len(examples):
            out += rows
            left.subtract(labels)
    if not out:
        about = "" if task.context is None else f" on {len(groups)} contexts"
        raise UserError(
            f"{len(examples)} examples{about} are too few to hold some out as dev "
            "set with every label left to be trained on; give a dev file"
        )
    return sorted(out)


def _groups(task: Task, examples: Sequence[Any]) -> list[list[int]]:
    """The rows that belong together: those on one context, or each by itself."""
    groups: dict[Any, list[int]] = {}
    for row, example in enumerate(examples):
        context = task.context(example) if task.context is not None else ""
        groups.setdefault(context if context.strip() else row, []).append(row)
    return list(groups.values())


def same_inputs(run: Path, files: Sequence[Path]) -> None:
    """Writes down what a run starts from; refuses to continue it from something else."""
    path = run / "inputs.json"
    inputs = {str(file): sha256(file) for file in files if file.is_file()}
    if path.exists():
        before = json.loads(path.read_text(encoding="utf-8"))
        names = [*before, *(name for name in inputs if name not in before)]
        changed = [name for name in names if before.get(name) != inputs.get(name)]
        if changed:
            raise UserError(
                f"{', '.join(changed)} changed, came or went since the run in {run} began; "
                "give another --output, or remove that folder"
            )
        return
    with writing(path) as partial:
        partial.write_text(json.dumps(inputs, indent=2, ensure_ascii=False), encoding="utf-8")


def _files(config: FinetuneConfig, task: Task) -> tuple[Path, Path | None]:
    """The files of the training and the dev examples; no dev file means to hold some out."""
    dev_file = Path(config.dev) if config.dev else None
    if config.data is None:
        return Path(config.train or ""), dev_file
    folder = Path(config.data)
    return require_file(task, folder, "train"), dev_file or find_file(task, folder, "dev")


def _more_dev_files(config: FinetuneConfig, task: Task) -> dict[str, Path]:
    """Name -> file of each further dev set that lies in the data folder."""
    if config.data is None:
        return {}
    found = {
        split.removeprefix("dev-"): find_file(task, Path(config.data), split)
        for split in task.files
        if split.startswith("dev-")
    }
    return {name: path for name, path in found.items() if path is not None}


def _labels(task: Task, examples: Sequence[Any], file: Path) -> list[str]:
    """The labels of the head; UserError where there is nothing to read or to tell apart."""
    if not any("".join(task.texts(example)).strip() for example in examples):
        raise UserError(
            f"all {len(examples)} texts of {file} are empty; name the column with --text"
        )
    kinds = [label for label, count in task.counts(examples).items() if count]
    if len(kinds) < task.least_labels:
        one = f"have the one label '{kinds[0]}'" if kinds else "have no label"
        raise UserError(
            f"all {len(examples)} examples of {file} {one}; there is nothing to tell apart"
        )
    if kinds == [task.trivial]:
        raise UserError(
            f"all {len(examples)} questions of {file} are of the kind '{task.trivial}'; there is "
            "nothing to tell apart"
        )
    labels = task.labels(examples)
    if task.head == "tagging" and len(labels) == 1:
        raise UserError(f"all words of {file} have the tag '{labels[0]}'; nothing to tell apart")
    return labels


def _drawn(
    task: Task, examples: Sequence[Any], rows: Sequence[int], count: int, seed: int
) -> list[int]:
    """So many of the rows, drawn by the seed, in their order; more include fewer."""
    generator = np.random.default_rng(derived_seed("few examples", seed))
    drawn = [rows[place] for place in sorted(generator.permutation(len(rows))[:count])]
    found = task.counts([examples[row] for row in drawn])
    if sum(map(bool, found.values())) < task.least_labels:
        raise UserError(
            f"the {count} examples drawn with seed {seed} all have the same label; "
            "raise --max-examples or change --seed"
        )
    return drawn
