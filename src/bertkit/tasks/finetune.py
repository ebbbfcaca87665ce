"""`bertkit finetune`: a checkpoint and labelled examples in, a tuned model out (paper, section 4).

    RUN/config.json, model.safetensors, vocab.txt, ...   the tuned model, label names inside
    RUN/finetune.yaml          the configuration; the same command continues an interrupted run
    RUN/inputs.json            checksums of the files it started from
    RUN/metrics.json           scores on dev, seconds, steps, examples
    RUN/predictions.jsonl      what the model says about each dev example
    RUN/report.html            confusions, curves and the worst errors on dev
    RUN/README.md              the model card
    RUN/data.json              counts, lengths and duplicates of the data
    RUN/dev_rows.json          which training examples were held out, where no dev file was given
    RUN/best/                  until the end: the weights that scored best, with --keep-best
    RUN/log.jsonl, tensorboard/, checkpoints/

Everything in the model is trained, at the reference release's settings: Adam with decay, linear
warm-up over 10 % of int(examples * epochs / batch size) steps, linear decay, dropout as in the
checkpoint unless another rate is given.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from bertkit.errors import UserError
from bertkit.files import sha256, writing, writing_into
from bertkit.formats.hub import checkpoint_path
from bertkit.formats.huggingface import LoadedCheckpoint, load_checkpoint, save_checkpoint
from bertkit.formats.weights import weight_file, weight_parts
from bertkit.model.bert import LABELLED
from bertkit.model.config import dropout_rates
from bertkit.progress import say
from bertkit.report.card import write_card
from bertkit.report.finetuning import write_finetuning_report
from bertkit.tasks.answers import Evaluation, check_sequence_length, evaluate_model, listed
from bertkit.tasks.batches import TokenSource, TrainingSource
from bertkit.tasks.best import BestOnDev
from bertkit.tasks.config import FinetuneConfig
from bertkit.tasks.fit import check_fit
from bertkit.tasks.own_data import resolve
from bertkit.tasks.readers import find_file, require_file
from bertkit.tasks.registry import get_task
from bertkit.tasks.summary import summarise
from bertkit.tasks.tables import metrics_line, write_jsonl
from bertkit.tasks.task import Columns, FeatureSet, Task, TaskOptions
from bertkit.tasks.transfer import check_layers, freeze, reinitialise
from bertkit.text.tokenizer import Tokenizer
from bertkit.training.claim import claim
from bertkit.training.compilation import compiles
from bertkit.training.config import TrainOptions
from bertkit.training.loop import train
from bertkit.training.processes import alone
from bertkit.training.seeds import derived_seed, seed_initial_weights

FINE_TUNING_RATE = 5e-5
"""In the paper's grid (appendix A.3)."""
FEATURES_RATE = 1e-3
"""Of a BiLSTM that starts at random; the paper gives none."""

TASK_HEADS = ("classifier", "qa_outputs", "tagger")
"""What the weights of a task's head are called in the file."""

MAY_CHANGE = frozenset({"output", "quiet", "checkpoint_steps", "evaluate_steps"})
"""Options that may differ when a run is continued, for they change no number in it."""


@dataclass
class FinetuneResult:
    """How a fine-tuning ended.

    Attributes:
        output: the run, which is the tuned model's directory.
        examples, dev_examples: how many were trained and scored on.
        truncated: training examples that lost tokens to the sequence length.
        best_step: the step whose weights scored best on dev and were kept; None where those of
            the last step were.
        metrics: on dev.
        table: precision, recall and F1 on dev of each label.
        head: "fresh" for a pre-trained checkpoint, "replaced" where it had another task's,
            "kept" where it had this one.
    """

    output: str
    task: str
    examples: int
    dev_examples: int
    truncated: int
    steps: int
    best_step: int | None
    seconds: float
    metrics: dict[str, float]
    table: list[dict[str, Any]]
    head: str = "fresh"

    def __str__(self) -> str:
        kept = "" if self.best_step is None else f" (kept: step {self.best_step:,})"
        return (
            f"{self.output}: {self.task}, {self.examples:,} examples, {self.steps:,} steps{kept} "
            f"in {self.seconds:.1f} s\n"
            f"dev ({self.dev_examples:,} examples): {metrics_line(self.metrics)}\n"
            f"report: {self.output}/report.html\n"
            f"next: bertkit predict {self.output} FILE"
        )


@dataclass
class Data:
    """What a fine-tuning trains and is scored on.

    Attributes:
        labels: of the head.
        dev_rows: which rows of the training file were held out as dev, where no dev file was given.
        files: what was read.
    """

    train: list[Any]
    dev: list[Any]
    labels: list[str]
    dev_rows: list[int] | None
    files: list[Path]
    more_dev: dict[str, list[Any]]


def finetune(config: FinetuneConfig) -> FinetuneResult:
    """Tunes `config.checkpoint` on labelled examples, or continues the run in `config.output`.

    Raises:
        UserError: the data or the options cannot be used (the message says how to mend them), or
            `config.output` holds another run.
        Interrupted: after Ctrl-C or SIGTERM; the same call continues.
    """
    check(config)
    config = resolve(config)
    task = get_task(str(config.task))
    config = replace(config, learning_rate=peak_rate(config))  # so that the run's files tell it
    start = checkpoint_path(config.checkpoint)
    tokenizer = Tokenizer.load(start)
    processes = alone(config.device)
    compiles(config.compile, 0, processes.device)  # refuses what cannot be, before all else
    data = read_data(config, task)
    model, head = load_model(config, task, data, start)
    check_fit(tokenizer, model, start, config.quiet)
    model.to(processes.device)
    run = Path(config.output)
    best = BestOnDev(run, task.main, config.patience) if keeps_best(config) else None
    claim(run, config, "finetune.yaml", MAY_CHANGE - ({"evaluate_steps"} if best else set()))
    same_inputs(run, [*weight_parts(weight_file(start)), *data.files])
    options = task_options(config)
    made = task.features(data.train, tokenizer, data.labels, options)
    if not made.features:
        raise UserError("no training example holds a token; check the text column")
    summary_of_data = summarise(task, data.train, data.dev, made, options.sequence_length)
    say(str(summary_of_data), config.quiet)
    with writing(run / "data.json") as partial:
        text = json.dumps(asdict(summary_of_data), indent=2, ensure_ascii=False)
        partial.write_text(text + "\n", encoding="utf-8")
    for note in made.notes:
        say(note, config.quiet)
    last: list[Evaluation] = []

    def score(model: nn.Module) -> dict[str, float]:
        last[:] = [evaluate_model(model, task, data.dev, tokenizer, options, calibrate=True)]
        return last[0].scores.metrics

    def evaluate(model: nn.Module) -> dict[str, float]:
        metrics = score(model)
        if best is not None:
            best.look(model, metrics[task.main])
        return metrics

    result = train(
        model,
        task.objective,
        training_source(config, task, made, model),
        train_options(config, len(made.features), sum(made.lengths)),
        run,
        evaluate=evaluate,
        companions=tokenizer.save,
        label="finetune",
        processes=processes,
        stop=best.is_over if best is not None else None,
    )
    best_step = None
    if best is not None:
        best_step = best.restore(model)
        score(model)
    evaluation = last[0]
    metrics = dict(evaluation.scores.metrics)
    for name, examples in data.more_dev.items():
        more = evaluate_model(model, task, examples, tokenizer, options).scores.metrics
        metrics |= {f"{metric}-{name}": value for metric, value in more.items()}
    summary = FinetuneResult(
        output=str(run),
        task=task.name,
        examples=len(data.train),
        dev_examples=len(data.dev),
        truncated=made.truncated,
        steps=result.steps,
        best_step=best_step,
        seconds=round(result.seconds, 3),
        metrics=metrics,
        table=evaluation.scores.table,
        head=head,
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
    if best is not None:
        best.remove()
    write_finetuning_report(run)
    write_card(run)
    return summary


def load_model(
    config: FinetuneConfig, task: Task, data: Data, start: Path
) -> tuple[nn.Module, str]:
    """The checkpoint in `start` with the task's head, ready to be tuned, and what became of the
    head.

    Raises UserError where it does not go with the configuration.
    """
    seed_initial_weights(config.seed)
    rates = {} if config.dropout is None else dropout_rates(config.dropout)
    head_name, head_options = chosen_head(config, task)
    loaded = load_checkpoint(start, head_name, data.labels, head_options, **rates)
    model = loaded.model
    check_sequence_length(task_options(config).sequence_length, model)
    check_layers(model, config.reinitialise_layers, config.freeze_layers)
    head = _say_of_head(loaded, config.quiet)
    if any(name.startswith("bert.pooler.") for name in loaded.missing):
        say("the checkpoint has no pooler; it starts untrained", config.quiet)
    if config.initialise == "random":
        seed_initial_weights(config.seed)
        labelled = [data.labels] if head_name in LABELLED else []
        model = type(model)(model.config, *labelled, **head_options)
        head = "fresh"
    if task.start is not None:
        task.start(model, data.train, head != "kept")
    reinitialise(model, config.reinitialise_layers, config.seed)
    freeze(model, config.freeze_layers, config.freeze_embeddings)
    return model, head


def read_data(config: FinetuneConfig, task: Task) -> Data:
    """Reads the examples, holds some out as dev where no dev file is given, and cuts to a number.

    The head's labels are those of the whole training file, whatever part of it is trained on.
    """
    columns = columns_of(config)
    if config.data is not None:
        folder = Path(config.data)
        train_file = require_file(task, folder, "train")
        dev_file = Path(config.dev) if config.dev else find_file(task, folder, "dev")
    else:
        train_file = Path(config.train or "")
        dev_file = Path(config.dev) if config.dev else None
    examples = task.read(train_file, columns)
    if not any("".join(task.texts(example)).strip() for example in examples):
        raise UserError(
            f"all {len(examples)} texts of {train_file} are empty; name the column with --text"
        )
    labels = task.labels(examples)
    kinds = [label for label, count in task.counts(examples).items() if count]
    if len(kinds) < task.least_labels:
        one = f"have the one label '{kinds[0]}'" if kinds else "have no label"
        raise UserError(
            f"all {len(examples)} examples of {train_file} {one}; there is nothing to tell apart"
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
        dev_rows = held_out_rows(len(examples), config.dev_share, _split_seed(config))
        dev = [examples[row] for row in dev_rows]
        out = set(dev_rows)
        examples = [example for row, example in enumerate(examples) if row not in out]
        say(f"no dev file: {len(dev):,} training examples held out for it", config.quiet)
    if config.max_examples is not None and config.max_examples < len(examples):
        generator = np.random.default_rng(derived_seed("few examples", config.seed))
        chosen = generator.permutation(len(examples))[: config.max_examples]
        examples = [examples[row] for row in sorted(chosen)]
        if sum(map(bool, task.counts(examples).values())) < task.least_labels:
            raise UserError(
                f"the {config.max_examples} examples drawn all have the same label; "
                "raise --max-examples or change --seed"
            )
    files = [train_file] if dev_file is None else [train_file, dev_file]
    more_dev: dict[str, list[Any]] = {}
    for split in task.files:
        if split.startswith("dev-") and config.data is not None:
            path = find_file(task, Path(config.data), split)
            if path is not None:
                more_dev[split.removeprefix("dev-")] = task.read(path, columns)
                files.append(path)
    return Data(examples, dev, labels, dev_rows, files, more_dev)


def columns_of(config: FinetuneConfig) -> Columns:
    """The columns that a fine-tuning's configuration names."""
    return Columns(
        config.text,
        config.pair,
        config.label,
        delimiter=config.label_delimiter,
        choices=tuple(config.choices),
    )


def _say_of_head(loaded: LoadedCheckpoint, quiet: bool) -> str:
    """Whether the head is the checkpoint's own: "fresh", "replaced" or "kept"."""
    own = tuple(f"{prefix}." for prefix in TASK_HEADS)
    if any(name.startswith(own) for name in loaded.unexpected):
        say("the checkpoint has another task's head: it is replaced by a fresh one", quiet)
        return "replaced"
    if any(name.startswith(own) for name in loaded.missing):
        return "fresh"
    say("the checkpoint has a head with the same labels: it is trained on", quiet)
    return "kept"


def held_out_rows(examples: int, share: float, seed: int) -> list[int]:
    """The rows of the training file that become dev: `share` of them, drawn by the seed."""
    count = max(1, round(share * examples))
    if count >= examples:
        raise UserError(
            f"{examples} examples are too few to hold some out as dev set; give a dev file"
        )
    generator = np.random.default_rng(derived_seed("held out", seed))
    return sorted(int(row) for row in generator.permutation(examples)[:count])


def training_source(
    config: FinetuneConfig, task: Task, made: FeatureSet, model: nn.Module
) -> TrainingSource:
    """The training examples in steps and micro-batches, as the configuration wants them.

    Raises UserError where a step of `batch_tokens` could not hold the longest sequence.
    """
    tokens_at_once = config.micro_batch_tokens
    on_cpu = next(model.parameters()).device.type == "cpu"
    if tokens_at_once is None and config.micro_batch_size is None and on_cpu:
        tokens_at_once = task.micro_batch_tokens
    if config.batch_tokens is None:
        return TrainingSource(
            made,
            task.collate,
            config.batch_size,
            config.micro_batch_size or config.batch_size,
            config.seed,
            tokens_at_once,
        )
    longest = max(made.lengths)
    if config.batch_tokens < longest:
        raise UserError(
            f"--batch-tokens {config.batch_tokens} is less than the {longest} tokens of the "
            "longest training example; give more, or a shorter --sequence-length"
        )
    return TokenSource(
        made,
        task.collate,
        config.batch_tokens,
        tokens_at_once or config.batch_tokens,
        config.seed,
    )


def train_options(config: FinetuneConfig, examples: int, tokens: int = 0) -> TrainOptions:
    """Steps and warm-up as in the reference release: int(examples * epochs / batch size).

    With `batch_tokens` the training examples' `tokens` are counted instead.
    """
    size, in_step = examples, config.batch_size
    if config.batch_tokens is not None:
        size, in_step = tokens, config.batch_tokens
    steps = max(1, int(size * config.epochs / in_step))
    evaluate_steps = config.evaluate_steps
    if keeps_best(config) and not evaluate_steps:
        evaluate_steps = math.ceil(steps / config.epochs)
    return TrainOptions(
        steps=steps,
        learning_rate=peak_rate(config),
        warmup_steps=int(steps * config.warmup),
        schedule=config.schedule,
        decay=config.decay,
        reference_warmup=config.reference_warmup,
        optimizer=config.optimizer,
        weight_decay=config.weight_decay,
        layer_decay=config.layer_decay,
        precision=config.precision,
        compile=config.compile,
        seed=config.seed,
        evaluate_steps=evaluate_steps,
        checkpoint_steps=config.checkpoint_steps,
        quiet=config.quiet,
    )


def keeps_best(config: FinetuneConfig) -> bool:
    """Whether the run ends with its best weights on dev instead of its last ones."""
    return config.keep_best or config.patience > 0


def peak_rate(config: FinetuneConfig) -> float:
    """The learning rate given, or the default of what is trained."""
    if config.learning_rate is not None:
        return config.learning_rate
    return FINE_TUNING_RATE if config.features is None else FEATURES_RATE


def chosen_head(config: FinetuneConfig, task: Task) -> tuple[str, dict[str, Any]]:
    """The head's name, and what else than labels it is made with.

    Raises:
        UserError: features are asked for, and the task has no head for them.
    """
    if config.features is None:
        return task.head, {}
    if task.feature_head is None:
        raise UserError(
            f"--features are for tagging, and {task.name} has no head for them; leave them out, "
            "or write vectors with bertkit embed"
        )
    return task.feature_head, {"features": config.features, "lstm_size": config.lstm_size}


def task_options(config: FinetuneConfig) -> TaskOptions:
    """What a fine-tuning's configuration says about features and predictions."""
    return TaskOptions(
        sequence_length=config.sequence_length or get_task(str(config.task)).sequence_length,
        document_context=config.document_context,
        doc_stride=config.doc_stride,
        doc_overlap=config.doc_overlap,
        question_tokens=config.question_tokens,
        answer_tokens=config.answer_tokens,
        n_best=config.n_best,
    )


def _split_seed(config: FinetuneConfig) -> int:
    return config.seed if config.split_seed is None else config.split_seed


def same_inputs(run: Path, files: Sequence[Path]) -> None:
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


def check(config: FinetuneConfig) -> None:
    """Refuses numbers that make no training."""
    if (config.data is None) == (config.train is None):
        raise UserError("give the examples either as --data FOLDER or as --train FILE")
    positive: Sequence[tuple[str, float]] = (
        ("epochs", config.epochs),
        ("batch size", config.batch_size),
        ("micro-batch size", 1 if config.micro_batch_size is None else config.micro_batch_size),
        ("number of tokens a step", 1 if config.batch_tokens is None else config.batch_tokens),
        ("tokens at once", 1 if config.micro_batch_tokens is None else config.micro_batch_tokens),
        ("learning rate", peak_rate(config)),
        ("number of answer tokens", config.answer_tokens),
        ("number of best answers", config.n_best),
        ("number of examples", 1 if config.max_examples is None else config.max_examples),
    )
    for name, value in positive:
        if not value > 0:
            raise UserError(f"the {name} is {value}; give one above 0")
    if not 0 <= config.warmup < 1:
        raise UserError(f"the warm-up is {config.warmup}; give a share from 0 to below 1")
    if not 0 < config.decay <= 1:
        raise UserError(f"the decay is {config.decay}; give a share above 0, at most 1")
    if not 0 < config.layer_decay <= 1:
        raise UserError(f"the layer decay is {config.layer_decay}; give one above 0, at most 1")
    if config.reference_warmup and config.schedule not in ("linear", "cosine"):
        raise UserError("the reference's warm-up goes with --schedule linear or cosine")
    if config.batch_tokens is not None and config.micro_batch_size is not None:
        raise UserError("with --batch-tokens give --micro-batch-tokens, not --micro-batch-size")
    if config.micro_batch_tokens is not None and config.micro_batch_size is not None:
        raise UserError("give --micro-batch-size or --micro-batch-tokens, not both")
    if config.patience < 0:
        raise UserError(f"the patience is {config.patience}; give 0 or more")
    if not 0 < config.dev_share < 1:
        raise UserError(f"the dev share is {config.dev_share}; give a share between 0 and 1")
