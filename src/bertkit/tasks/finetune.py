"""`bertkit finetune`: a checkpoint and labelled examples in, a tuned model out (paper, section 4).

    RUN/config.json, model.safetensors, vocab.txt, ...   the tuned model, label names inside
    RUN/finetune.yaml          the configuration; the same command continues an interrupted run
    RUN/inputs.json            checksums of the files it started from
    RUN/metrics.json           scores on dev, seconds, steps, examples
    RUN/predictions.jsonl      what the model says about each dev example
    RUN/dev_rows.json          which training examples were held out, where no dev file was given
    RUN/log.jsonl, tensorboard/, checkpoints/

Everything in the model is trained, at the reference release's settings: Adam with decay, linear
warm-up over 10 % of int(examples * epochs / batch size) steps, linear decay, dropout as in the
checkpoint unless another rate is given.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn
from torch.nn import functional as F

from bertkit.errors import UserError
from bertkit.files import sha256, writing, writing_into
from bertkit.formats.hub import checkpoint_path
from bertkit.formats.huggingface import load_checkpoint, save_checkpoint
from bertkit.model.config import dropout_rates
from bertkit.progress import say
from bertkit.tasks.answers import Evaluation, check_sequence_length, evaluate_model, listed
from bertkit.tasks.batches import TrainingSource
from bertkit.tasks.config import FinetuneConfig
from bertkit.tasks.fit import check_fit
from bertkit.tasks.readers import find_file, require_file
from bertkit.tasks.registry import get_task
from bertkit.tasks.tables import metrics_line, write_jsonl
from bertkit.tasks.task import Columns, Task
from bertkit.text.tokenizer import Tokenizer
from bertkit.training.batch import Batch
from bertkit.training.claim import claim
from bertkit.training.config import TrainOptions
from bertkit.training.loop import LossSums, train
from bertkit.training.seeds import derived_seed, seed_initial_weights

MAY_CHANGE = frozenset({"output", "quiet", "checkpoint_steps", "evaluate_steps"})
"""Options that may differ when a run is continued, for they change no number in it."""


@dataclass
class FinetuneResult:
    """How a fine-tuning ended.

    Attributes:
        output: the run, which is the tuned model's directory.
        examples, dev_examples: how many were trained and scored on.
        truncated: training examples that lost tokens to the sequence length.
        metrics: on dev.
        table: precision, recall and F1 on dev of each label.
    """

    output: str
    task: str
    examples: int
    dev_examples: int
    truncated: int
    steps: int
    seconds: float
    metrics: dict[str, float]
    table: list[dict[str, Any]]

    def __str__(self) -> str:
        return (
            f"{self.output}: {self.task}, {self.examples:,} examples, {self.steps:,} steps in "
            f"{self.seconds:.1f} s\n"
            f"dev ({self.dev_examples:,} examples): {metrics_line(self.metrics)}\n"
            f"next: bertkit predict {self.output} FILE"
        )


@dataclass
class _Data:
    train: list[Any]
    dev: list[Any]
    labels: list[str]
    dev_rows: list[int] | None
    files: list[Path]


class LabelObjective:
    """Cross-entropy of the right labels, one for each answer asked."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"label": batch.targets["labels"].numel()}

    def __call__(self, model: nn.Module, batch: Batch) -> LossSums:
        logits, labels = self._task.logits(model, batch), batch.targets["labels"]
        right = (logits.detach().argmax(dim=1) == labels).sum()
        loss = F.cross_entropy(logits.float(), labels, reduction="sum")
        return LossSums({"label": loss}, {"accuracy": (right, labels.numel())})


def finetune(config: FinetuneConfig) -> FinetuneResult:
    """Tunes `config.checkpoint` on labelled examples, or continues the run in `config.output`.

    Raises:
        UserError: the data or the options cannot be used (the message says how to mend them), or
            `config.output` holds another run.
        Interrupted: after Ctrl-C or SIGTERM; the same call continues.
    """
    task = get_task(config.task)
    _check(config)
    start = checkpoint_path(config.checkpoint)
    tokenizer = Tokenizer.load(start)
    data = read_data(config, task)
    seed_initial_weights(config.seed)
    rates = {} if config.dropout is None else dropout_rates(config.dropout)
    loaded = load_checkpoint(start, head=task.head, labels=data.labels, **rates)
    model = loaded.model
    check_fit(tokenizer, model, start, config.quiet)
    check_sequence_length(config.sequence_length, model)
    if any(name.startswith("bert.pooler.") for name in loaded.missing):
        say("the checkpoint has no pooler; it starts untrained", config.quiet)
    if config.initialise == "random":
        seed_initial_weights(config.seed)
        model = type(model)(model.config, data.labels)
    run = Path(config.output)
    claim(run, config, "finetune.yaml", MAY_CHANGE)
    _same_inputs(run, [start / "model.safetensors", *data.files])
    made = task.features(data.train, tokenizer, data.labels, config.sequence_length)
    if not made.features:
        raise UserError("no training example holds a token; check the text column")
    if made.truncated:
        say(
            f"{made.truncated:,} of {len(data.train):,} training texts are longer than "
            f"{config.sequence_length} tokens and lose their ends (--sequence-length)",
            config.quiet,
        )
    last: list[Evaluation] = []

    def evaluate(model: nn.Module) -> dict[str, float]:
        last[:] = [evaluate_model(model, task, data.dev, tokenizer, config.sequence_length)]
        return last[0].scores.metrics

    result = train(
        model,
        LabelObjective(task),
        TrainingSource(
            made.features,
            config.batch_size,
            config.micro_batch_size or config.batch_size,
            config.seed,
        ),
        train_options(config, len(made.features)),
        run,
        evaluate=evaluate,
        companions=tokenizer.save,
        label="finetune",
    )
    evaluation = last[0]
    summary = FinetuneResult(
        output=str(run),
        task=task.name,
        examples=len(data.train),
        dev_examples=len(data.dev),
        truncated=made.truncated,
        steps=result.steps,
        seconds=round(result.seconds, 3),
        metrics=evaluation.scores.metrics,
        table=evaluation.scores.table,
    )
    with writing_into(run) as partial:
        save_checkpoint(model, partial)
        tokenizer.save(partial)
        predictions = evaluation.answers.predictions
        lines = (task.record(e, p) for e, p in zip(data.dev, predictions, strict=True))
        write_jsonl(partial / "predictions.jsonl", lines)
        text = json.dumps(asdict(summary), indent=2, ensure_ascii=False)
        (partial / "metrics.json").write_text(text + "\n", encoding="utf-8")
        if data.dev_rows is not None:
            (partial / "dev_rows.json").write_text(json.dumps(data.dev_rows), encoding="utf-8")
    return summary


def read_data(config: FinetuneConfig, task: Task) -> _Data:
    """Reads the examples, holds some out as dev where no dev file is given, and cuts to a number.

    The head's labels are those of the whole training file, whatever part of it is trained on.
    """
    columns = Columns(config.text, config.pair, config.label)
    if config.data is not None:
        folder = Path(config.data)
        train_file = require_file(task, folder, "train")
        dev_file = Path(config.dev) if config.dev else find_file(task, folder, "dev")
    else:
        train_file = Path(config.train or "")
        dev_file = Path(config.dev) if config.dev else None
    examples = task.read(train_file, columns)
    labels = task.labels(examples)
    if len(labels) < 2:
        raise UserError(
            f"all {len(examples)} examples of {train_file} have the one label "
            f"'{labels[0]}'; there is nothing to tell apart"
        )
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
        dev_rows = held_out_rows(len(examples), config.dev_share, config.seed)
        dev = [examples[row] for row in dev_rows]
        out = set(dev_rows)
        examples = [example for row, example in enumerate(examples) if row not in out]
        say(f"no dev file: {len(dev):,} training examples held out for it", config.quiet)
    if config.max_examples is not None and config.max_examples < len(examples):
        generator = np.random.default_rng(derived_seed("few examples", config.seed))
        chosen = generator.permutation(len(examples))[: config.max_examples]
        examples = [examples[row] for row in sorted(chosen)]
        if len(task.labels(examples)) < 2:
            raise UserError(
                f"the {config.max_examples} examples drawn all have the same label; "
                "raise --max-examples or change --seed"
            )
    files = [train_file] if dev_file is None else [train_file, dev_file]
    return _Data(examples, dev, labels, dev_rows, files)


def held_out_rows(examples: int, share: float, seed: int) -> list[int]:
    """The rows of the training file that become dev: `share` of them, drawn by the seed."""
    count = max(1, round(share * examples))
    if count >= examples:
        raise UserError(
            f"{examples} examples are too few to hold some out as dev set; give a dev file"
        )
    generator = np.random.default_rng(derived_seed("held out", seed))
    return sorted(int(row) for row in generator.permutation(examples)[:count])


def train_options(config: FinetuneConfig, examples: int) -> TrainOptions:
    """Steps and warm-up as in the reference release: int(examples * epochs / batch size)."""
    steps = max(1, int(examples * config.epochs / config.batch_size))
    return TrainOptions(
        steps=steps,
        learning_rate=config.learning_rate,
        warmup_steps=int(steps * config.warmup),
        weight_decay=config.weight_decay,
        precision=config.precision,
        seed=config.seed,
        evaluate_steps=config.evaluate_steps,
        checkpoint_steps=config.checkpoint_steps,
        quiet=config.quiet,
    )


def _same_inputs(run: Path, files: Sequence[Path]) -> None:
    """Writes down what a run starts from; refuses to continue it from something else."""
    path = run / "inputs.json"
    inputs = {str(file): sha256(file) for file in files if file.is_file()}
    if path.exists():
        before = json.loads(path.read_text(encoding="utf-8"))
        changed = [name for name in inputs if before.get(name) != inputs[name]]
        if changed:
            raise UserError(
                f"{', '.join(changed)} changed since the run in {run} began; "
                "give another --output, or remove that folder"
            )
        return
    with writing(path) as partial:
        partial.write_text(json.dumps(inputs, indent=2, ensure_ascii=False), encoding="utf-8")


def _check(config: FinetuneConfig) -> None:
    """Refuses numbers that make no training."""
    if (config.data is None) == (config.train is None):
        raise UserError("give the examples either as --data FOLDER or as --train FILE")
    positive: Sequence[tuple[str, float]] = (
        ("epochs", config.epochs),
        ("batch size", config.batch_size),
        ("micro-batch size", 1 if config.micro_batch_size is None else config.micro_batch_size),
        ("learning rate", config.learning_rate),
        ("number of examples", 1 if config.max_examples is None else config.max_examples),
    )
    for name, value in positive:
        if not value > 0:
            raise UserError(f"the {name} is {value}; give one above 0")
    if not 0 <= config.warmup < 1:
        raise UserError(f"the warm-up is {config.warmup}; give a share from 0 to below 1")
    if not 0 < config.dev_share < 1:
        raise UserError(f"the dev share is {config.dev_share}; give a share between 0 and 1")
