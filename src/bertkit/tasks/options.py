"""What a fine-tuning's configuration comes to: for the task, for the loop, for its batches.

Defaults that depend on something else (the task, what is trained) are filled in here, and numbers
that make no training are refused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from torch import nn

from bertkit import config as configurations
from bertkit.errors import UserError
from bertkit.model.config import SIZES, ModelConfig
from bertkit.report.finetuning import CONFIGURATION
from bertkit.tasks.answers import max_positions
from bertkit.tasks.batches import TokenSource, TrainingSource
from bertkit.tasks.config import FinetuneConfig, TuningOptions
from bertkit.tasks.registry import family_of, get_task
from bertkit.tasks.task import FeatureSet, Task, TaskOptions
from bertkit.training.config import TrainOptions

FINE_TUNING_RATE = 5e-5
"""In the paper's grid (appendix A.3)."""
FEATURES_RATE = 1e-3
"""Of a BiLSTM that starts at random; the paper gives none."""


def tuned_with(directory: Path) -> FinetuneConfig | None:
    """The configuration a model was tuned with, where it lies beside it."""
    saved = directory / CONFIGURATION
    return configurations.load(FinetuneConfig, saved) if saved.is_file() else None


def chosen_task(
    checkpoint: str, model: nn.Module, name: str | None, tuned: FinetuneConfig | None
) -> Task:
    """The task of that name, or else the one the model was tuned for, or its head's family.

    Raises:
        UserError: there is no such task, or the model's head is of another one.
    """
    head = str(model.head)
    name = name or (tuned.task if tuned else None)
    task = get_task(name) if name else family_of(head)
    if head not in (task.head, task.feature_head):
        raise UserError(
            f"{checkpoint} is not tuned for {task.name}: its head is {head}; "
            f"tune it with bertkit finetune {checkpoint} --task {task.name}"
        )
    return task


def answer_options(tuned: FinetuneConfig | None, model: nn.Module) -> TaskOptions:
    """As in the fine-tuning, or where that is not known with all the model's positions."""
    return task_options(tuned) if tuned else TaskOptions(max_positions(model))


def task_options(config: FinetuneConfig) -> TaskOptions:
    """What a fine-tuning's configuration says about features and predictions."""
    length = config.sequence_length
    return TaskOptions(
        sequence_length=get_task(str(config.task)).sequence_length if length is None else length,
        document_context=config.document_context,
        doc_stride=config.doc_stride,
        doc_overlap=config.doc_overlap,
        question_tokens=config.question_tokens,
        answer_tokens=config.answer_tokens,
        n_best=config.n_best,
    )


def peak_rate(config: FinetuneConfig) -> float:
    """The learning rate given, or the default of what is trained."""
    if config.learning_rate is not None:
        return config.learning_rate
    return FINE_TUNING_RATE if config.features is None else FEATURES_RATE


def keeps_best(config: FinetuneConfig) -> bool:
    """Whether the run ends with its best weights on dev instead of its last ones."""
    return config.keep_best or config.patience > 0


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


def default_micro_batch_tokens(task: Task, model: nn.Module) -> int | None:
    """Tokens computed at once: those of the task at base size, with a smaller model as many more
    as take the same memory."""
    if task.micro_batch_tokens is None:
        return None
    sizes: ModelConfig = model.config  # type: ignore[assignment]
    layers, hidden, _ = SIZES["base"]
    return task.micro_batch_tokens * layers * hidden // (sizes.layers * sizes.hidden_size)


def training_source(
    config: FinetuneConfig, task: Task, made: FeatureSet, model: nn.Module
) -> TrainingSource:
    """The training examples in steps and micro-batches, as the configuration wants them.

    Raises UserError where a step of `batch_tokens` could not hold the longest sequence.
    """
    tokens_at_once = config.micro_batch_tokens
    on_cpu = next(model.parameters()).device.type == "cpu"
    if tokens_at_once is None and config.micro_batch_size is None and on_cpu:
        tokens_at_once = default_micro_batch_tokens(task, model)
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


_OF_ONE_HEAD = {
    "label_delimiter": "multi-label",
    "choices": "multiple-choice",
    "document_context": "tagging",
    "doc_stride": "question-answering",
    "doc_overlap": "question-answering",
    "question_tokens": "question-answering",
    "answer_tokens": "question-answering",
    "n_best": "question-answering",
}
"""Options that mean something to one head alone."""


def check_task(config: TuningOptions, task: Task) -> None:
    """Refuses options that mean nothing to the task."""
    for option in configurations.options(TuningOptions):
        head = _OF_ONE_HEAD.get(option.name, task.head)
        if head != task.head and getattr(config, option.name) != option.default:
            kind = "" if task.name == task.head else f", which is {task.head}"
            raise UserError(
                f"{option.flag} is for {head}, and the task is {task.name}{kind}; leave it out"
            )


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
        ("sequence length", 1 if config.sequence_length is None else config.sequence_length),
    )
    for name, value in positive:
        if not value > 0:
            raise UserError(f"the {name} is {value}; give one above 0")
    if not 0 <= config.warmup < 1:
        raise UserError(f"the warm-up is {config.warmup}; give a share from 0 to below 1")
    if not 0 < config.decay <= 1:
        raise UserError(f"the decay is {config.decay}; give a share above 0, at most 1")
    if config.decay != TuningOptions.decay and config.schedule != "wsd":
        raise UserError("--decay is for --schedule wsd: give both, or neither")
    if not 0 < config.layer_decay <= 1:
        raise UserError(f"the layer decay is {config.layer_decay}; give one above 0, at most 1")
    if config.reference_warmup and config.schedule not in ("linear", "cosine"):
        raise UserError("the reference's warm-up goes with --schedule linear or cosine")
    if config.batch_tokens is not None and config.micro_batch_size is not None:
        raise UserError("with --batch-tokens give --micro-batch-tokens, not --micro-batch-size")
    if config.micro_batch_tokens is not None and config.micro_batch_size is not None:
        raise UserError("give --micro-batch-size or --micro-batch-tokens, not both")
    if not math.isfinite(config.epochs):
        raise UserError(f"the number of epochs is {config.epochs}; give a finite one")
    for name, value in (
        ("patience", config.patience),
        ("weight decay", config.weight_decay),
        ("number of steps between evaluations", config.evaluate_steps),
        ("number of steps between restart points", config.checkpoint_steps),
    ):
        if not value >= 0:
            raise UserError(f"the {name} is {value}; give 0 or more")
    if config.label_delimiter == "":
        raise UserError("--label-delimiter is empty; give what stands between two labels, as ;")
    if not 0 < config.dev_share < 1:
        raise UserError(f"the dev share is {config.dev_share}; give a share between 0 and 1")
