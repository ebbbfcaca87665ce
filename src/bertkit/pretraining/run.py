"""`bertkit pretrain`: a corpus in, a Hugging Face directory out, restartable at any moment.

RUN/pretrain.yaml     the configuration; the same command with the same options continues
RUN/run.json          facts fixed at the first start: the corpus' identity, the steps (facts.py)
RUN/log.jsonl, RUN/tensorboard/, RUN/checkpoints/
RUN/config.json, model.safetensors, vocab.txt, ...   once the run is done
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import cast

from torch import nn

from bertkit import config as configurations
from bertkit.corpus.format import Corpus
from bertkit.errors import Interrupted, UserError
from bertkit.files import writing_into
from bertkit.formats.huggingface import save_checkpoint
from bertkit.model.config import ModelConfig
from bertkit.pretraining.batches import PretrainingSource
from bertkit.pretraining.config import PretrainConfig
from bertkit.pretraining.dryrun import DryRun, dry_run
from bertkit.pretraining.facts import fix_facts
from bertkit.pretraining.guesses import Guesser
from bertkit.pretraining.masking import read_split
from bertkit.pretraining.objectives import (
    evaluate,
    first_step_remarks,
    make_objective,
    pairs_of,
)
from bertkit.pretraining.phases import PhasedSource, phase_steps, read_phases
from bertkit.pretraining.plan import check_documents, describe
from bertkit.pretraining.sources import (
    epochs_of,
    held_out_batches,
    tell_of_words,
    training_source,
)
from bertkit.pretraining.start import make_start
from bertkit.progress import say
from bertkit.report.pretraining import CONFIGURATION, write_pretraining_report
from bertkit.text.tokenizer import Tokenizer
from bertkit.training.batch import Batch
from bertkit.training.calibrate import measure
from bertkit.training.checkpoint import check_end, fitting, newest_restart_point
from bertkit.training.claim import claim, taking_back
from bertkit.training.compilation import compiles
from bertkit.training.config import TrainOptions
from bertkit.training.interrupt import InterruptGuard
from bertkit.training.loop import Witness, train
from bertkit.training.processes import Processes, joined

MAY_CHANGE = frozenset(
    {
        *("workers", "quiet", "keep_checkpoints", "keep_best", "output", "verify"),
        *("allow_changes", "dry_run", "preset", "shard_optimizer"),
        "from_checkpoint",  # where it lies; its weights have to stay (facts.py)
    }
)
"""Options that may differ when a run is continued, for they change no number in it."""

LEAST = {
    "batch_size": 1,
    "micro_batch_size": 1,
    "steps": 1,
    "log_steps": 1,
    "keep_checkpoints": 1,
    "workers": 0,
    "evaluate_steps": 0,
    "evaluate_examples": 0,
    "checkpoint_steps": 0,
    "weight_decay": 0,
}
"""The least that options may be."""

MUST_STAY = frozenset({"model", "max_positions", "learned_positions", "optimizer"})
"""Options that --allow-changes does not cover: the weights or the moments would not fit."""

_TASKS = (
    ("mlm", "masked LM", True),
    ("ltr", "next token", True),
    ("nsp", "next sentence", False),
    ("sop", "sentence order", False),
)
"""Names of the losses, for people, and whether they have a perplexity."""


@dataclass
class PretrainResult:
    """What a pre-training run did.

    Attributes:
        epochs: passes over the corpus, in examples.
        seconds: of training, evaluation left out, over all parts of an interrupted run.
        dev: means on held-out examples: losses, accuracies, perplexity; empty without held-out
            documents.
    """

    run: str
    parameters: int
    steps: int
    epochs: float
    seconds: float
    resumed_from: int
    dev: dict[str, float]

    def __str__(self) -> str:
        lines = [
            f"{self.run}: {self.parameters:,} parameters, {self.steps:,} steps "
            f"({self.epochs:.2f} epochs) in {self.seconds / 60:.1f} minutes"
        ]
        if self.dev:
            told = [
                f"{title} accuracy {self.dev[f'{name}_accuracy']:.1%}"
                + (f", perplexity {self.dev[f'{name}_perplexity']:.1f}" if tokens else "")
                for name, title, tokens in _TASKS
                if f"{name}_accuracy" in self.dev
            ]
            lines.append(f"held out: {'; '.join(told)}")
        lines.append(f"curves: {self.run}/report.html")
        if "ltr_loss" in self.dev:
            lines.append(f"next: bertkit finetune {self.run} --task NAME --data DIR -o RUN")
        else:
            lines.append(f'next: bertkit fill {self.run} "text with a [MASK]"')
        return "\n".join(lines)


def pretrain(config: PretrainConfig) -> PretrainResult | DryRun:
    """Pre-trains a model on `config.corpus`, or continues the run in `config.output`.

    With `config.dry_run` it only works out what that would take, and writes nothing. Started by
    `torchrun`, it is one of the processes that train the model together.

    Raises:
        UserError: options contradict each other, the corpus is too small or, for a random next,
            of one document, the run in `config.output` was started with other options, or any
            of what `Corpus.open` and `train` raise.
        Interrupted: after Ctrl-C or SIGTERM; the same call continues.
    """
    with joined(config.device) as processes:
        return _pretrain(replace(config, quiet=config.quiet or not processes.leads), processes)


def _pretrain(config: PretrainConfig, processes: Processes) -> PretrainResult | DryRun:
    run = Path(config.output)
    phases = read_phases(config.phases, config.sequence_length)
    processes.all(lambda: _check(config, Corpus.open(config.corpus)))
    corpus = Corpus.open(config.corpus)
    processes.all(lambda: _same_corpus(processes, corpus))
    tokenizer = corpus.tokenizer()
    if config.verify and not config.dry_run:
        processes.all(lambda: corpus.verify() if processes.local == 0 else None)
    tell_of_words(config, corpus.splits["train"], tokenizer)
    start = make_start(config, tokenizer)
    model = start.model
    sources = [
        training_source(config, corpus.splits["train"], tokenizer, phase.sequence_length)
        for phase in phases
    ]
    _enough_micro_batches(config, sources, processes)
    options = _train_options(config, config.steps, processes)
    objective = make_objective(config.objective)
    if config.dry_run:
        held_out = _planned(config, corpus, tokenizer, sources)
        device = processes.device
        return dry_run(config, model, objective, phases, sources, held_out, options, device)

    def save_tokenizer(folder: Path) -> None:
        tokenizer.save(folder, cast(ModelConfig, model.config).max_positions)

    def evaluation(model: nn.Module) -> dict[str, float]:
        return evaluate(model, held_out, objective, processes)

    with taking_back(run, {CONFIGURATION}) if processes.leads else nullcontext():
        changes = processes.first(
            lambda: claim(run, config, CONFIGURATION, MAY_CHANGE, config.allow_changes, MUST_STAY)
        )
        if changes:
            processes.first(lambda: _check_changed(config, model))
        held_out = _planned(config, corpus, tokenizer, sources)
        wanted = evaluation if held_out else None
        steps, pace = fix_facts(
            run,
            config,
            corpus,
            phases,
            lambda: measure(
                model,
                objective,
                sources,
                options,
                run,
                60 * (config.max_minutes or 0.0),
                wanted,
                processes=processes,
            ),
            changes,
            processes=processes,
            checkpoint=start.checkpoint,
        )
        if changes:  # and all of them stand
            processes.first(lambda: configurations.save(config, run / CONFIGURATION))
    result = train(
        model,
        objective,
        PhasedSource(sources, phase_steps(phases, steps), _identity(config)),
        replace(options, steps=steps, warmup_steps=round(config.warmup * steps)),
        run,
        evaluate=wanted,
        companions=save_tokenizer,
        label="pretrain",
        pace=pace,
        notes=[f"continued with other options: {'; '.join(changes)}"] if changes else [],
        witness=_witness(config, corpus, tokenizer, processes, fresh=start.checkpoint is None),
        processes=processes,
    )
    with InterruptGuard() as guard:
        processes.first(lambda: _write_result(run, model, save_tokenizer))
    if guard.received is not None:
        raise Interrupted(f"stopped; the run in {run} is finished", guard.received)
    ends = result.plan.phase_ends if result.plan else list(accumulate(phase_steps(phases, steps)))
    return PretrainResult(
        run=str(run),
        parameters=sum(p.numel() for p in model.parameters()),
        steps=result.steps,
        epochs=sum(
            epochs_of(source, end - begin)
            for source, (begin, end) in zip(sources, pairwise([0, *ends]), strict=True)
        ),
        seconds=result.seconds,
        resumed_from=result.resumed_from,
        dev=result.dev,
    )


def _check_changed(config: PretrainConfig, model: nn.Module) -> None:
    """Refuses changed options with which the run could not go on from where it is."""
    point = newest_restart_point(Path(config.output))
    if point is None:
        return
    fitting(point, model)
    if config.max_minutes is None:
        check_end(Path(config.output), point.step, config.steps)


def _planned(
    config: PretrainConfig,
    corpus: Corpus,
    tokenizer: Tokenizer,
    sources: Sequence[PretrainingSource],
) -> list[Batch]:
    """Makes the first plans, and says what they are; returns the held-out batches."""
    for source in sources:
        say(describe(source.plan(0), source.options), config.quiet)
    return held_out_batches(config, corpus, tokenizer)


def _witness(
    config: PretrainConfig,
    corpus: Corpus,
    tokenizer: Tokenizer,
    processes: Processes,
    fresh: bool,
) -> Witness:
    """What the run shows of itself: odd first losses, guesses on held-out sentences, the report."""
    run = Path(config.output)
    guesser = None
    if "dev" in corpus.splits:
        guesser = Guesser(corpus.splits["dev"], tokenizer)
        if processes.leads:
            guesser.write(run)
    return Witness(
        first_step=(lambda means: first_step_remarks(means, len(tokenizer))) if fresh else None,
        guesses=guesser if guesser is not None and guesser.sentences else None,
        report=lambda: write_pretraining_report(run),
    )


def _write_result(run: Path, model: nn.Module, save_tokenizer: Callable[[Path], None]) -> None:
    with writing_into(run) as partial:
        save_checkpoint(model, partial)
        save_tokenizer(partial)
    write_pretraining_report(run)


def _enough_micro_batches(
    config: PretrainConfig, sources: Sequence[PretrainingSource], processes: Processes
) -> None:
    """Refuses more processes than a step has micro-batches, for some would have nothing to do."""
    fewest = min(source.micro_batches for source in sources)
    if fewest >= processes.count:
        return
    what = f"{config.batch_size} sequences make {fewest} of {config.micro_batch_size}"
    if config.batch_tokens is not None:
        what = f"{config.batch_tokens} tokens make {fewest}"
    raise UserError(
        f"{processes.count} processes share the micro-batches of a step and it has {fewest}: {what}"
        "; start fewer processes, lower --micro-batch-size or raise the batch"
    )


def _same_corpus(processes: Processes, corpus: Corpus) -> None:
    """Refuses a process whose machine has another corpus under the same name."""
    if processes.first(lambda: corpus.identity) != corpus.identity:
        raise UserError(f"{corpus.path} is not the corpus of process 0; copy that one here")


def _identity(config: PretrainConfig) -> str:
    """Of all that the batches may depend on."""
    values = configurations.to_dict(config)
    return json.dumps({key: values[key] for key in sorted(values) if key not in MAY_CHANGE})


def _train_options(config: PretrainConfig, steps: int, processes: Processes) -> TrainOptions:
    on = compiles(config.compile, steps, processes.device, config.max_minutes)
    return TrainOptions(
        steps=steps,
        learning_rate=config.learning_rate,
        warmup_steps=round(config.warmup * steps),
        schedule=config.schedule,
        decay=config.decay,
        reference_warmup=config.reference_warmup,
        optimizer=config.optimizer,
        weight_decay=config.weight_decay,
        beta2=config.beta2,
        precision=config.precision,
        compile="on" if on else "off",
        seed=config.seed,
        log_steps=config.log_steps,
        evaluate_steps=config.evaluate_steps,
        checkpoint_steps=config.checkpoint_steps,
        keep_checkpoints=config.keep_checkpoints,
        keep_best=config.keep_best,
        activation_checkpointing=config.activation_checkpointing,
        shard_optimizer=config.shard_optimizer,
        workers=config.workers,
        quiet=config.quiet,
    )


def _check(config: PretrainConfig, corpus: Corpus) -> None:
    """Refuses what cannot be trained, before anything is written."""
    check_documents(corpus.splits["train"].documents, pairs_of(config), "train")
    read_split(config.mask_split)
    tokens = corpus.splits["train"].tokens
    if tokens < config.sequence_length:
        raise UserError(
            f"the corpus {config.corpus} has {tokens} tokens to train on, fewer than one sequence "
            f"of {config.sequence_length}; prepare more text or lower --sequence-length"
        )
    if config.max_positions is not None and config.max_positions < config.sequence_length:
        raise UserError(
            f"--sequence-length {config.sequence_length} is longer than the model's "
            f"{config.max_positions} positions; raise --max-positions"
        )
    if config.batch_tokens is not None and config.batch_tokens < config.sequence_length:
        raise UserError(
            f"--batch-tokens {config.batch_tokens} is less than one sequence of "
            f"{config.sequence_length} tokens; give at least as many"
        )
    if config.reference_warmup and config.schedule not in ("linear", "cosine"):
        raise UserError(
            f"--reference-warmup says how a fall begins, and the schedule {config.schedule} has "
            "none there; choose --schedule linear or cosine, or leave it out"
        )
    if config.max_minutes is not None and config.max_minutes <= 0:
        raise UserError(f"--max-minutes is {config.max_minutes:g}; give more than 0")
    for name, least in LEAST.items():
        if not getattr(config, name) >= least:
            flag = name.replace("_", "-")
            raise UserError(f"--{flag} is {getattr(config, name):g}; it must be at least {least}")
    for name in ("learning_rate", "initializer_range"):
        if not getattr(config, name) > 0:
            flag = name.replace("_", "-")
            raise UserError(f"--{flag} is {getattr(config, name):g}; it must be above 0")
    if not 0.0 <= config.beta2 < 1.0:
        raise UserError(f"--beta2 is {config.beta2:g}; give one from 0 to below 1")
    for name in ("warmup", "decay"):
        if not 0.0 <= getattr(config, name) < 1.0:
            raise UserError(
                f"--{name} is {getattr(config, name):g}; give a share of the steps from 0 to "
                "below 1"
            )
    if config.decay != PretrainConfig.decay and config.schedule != "wsd":
        raise UserError("--decay is for --schedule wsd: give both, or neither")
