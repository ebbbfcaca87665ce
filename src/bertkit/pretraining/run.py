"""`bertkit pretrain`: a corpus in, a Hugging Face directory out, restartable at any moment.

RUN/pretrain.yaml     the configuration; the same command with the same options continues
RUN/run.json          facts fixed at the first start: the corpus' identity, the steps
RUN/log.jsonl, RUN/tensorboard/, RUN/checkpoints/
RUN/config.json, model.safetensors, vocab.txt, ...   once the run is done
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from bertkit.corpus.format import Corpus, CorpusSplit
from bertkit.errors import UserError
from bertkit.files import writing, writing_into
from bertkit.formats.huggingface import save_checkpoint
from bertkit.model.config import ModelConfig, dropout_rates, model_config
from bertkit.pretraining.batches import PretrainingSource, SpecialIds, to_batch
from bertkit.pretraining.config import PretrainConfig
from bertkit.pretraining.masking import MaskOptions, default_max_predictions, read_split
from bertkit.pretraining.objectives import evaluate, make_model, make_objective, pairs_of
from bertkit.pretraining.phases import Phase, PhasedSource, phase_steps, read_phases
from bertkit.pretraining.plan import PlanOptions, check_documents, describe
from bertkit.pretraining.words import chinese_share, continuing
from bertkit.progress import say
from bertkit.report.pretraining import write_pretraining_report
from bertkit.text.tokenizer import Tokenizer
from bertkit.training.batch import Batch
from bertkit.training.calibrate import seconds_per_step, steps_in
from bertkit.training.claim import claim
from bertkit.training.config import TrainOptions
from bertkit.training.loop import Objective, train
from bertkit.training.seeds import seed_initial_weights

MAY_CHANGE = frozenset({"workers", "quiet", "keep_checkpoints", "output"})
"""Options that may differ when a run is continued, for they change no number in it."""

DUPLICATES = 10
"""Epochs that differ with static masking (reference: dupe_factor)."""

CHINESE = 0.05
"""A share of Chinese characters from which on a missing segmentation is worth a word."""

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


def pretrain(config: PretrainConfig) -> PretrainResult:
    """Pre-trains a model on `config.corpus`, or continues the run in `config.output`.

    Raises:
        UserError: options contradict each other, the corpus is too small or, for a random next,
            of one document, the run in `config.output` was started with other options, or any
            of what `Corpus.open` and `train` raise.
        Interrupted: after Ctrl-C or SIGTERM; the same call continues.
    """
    corpus = Corpus.open(config.corpus)
    tokenizer = corpus.tokenizer()
    run = Path(config.output)
    phases = read_phases(config.phases, config.sequence_length)
    _check(config, corpus)
    _tell_of_words(config, corpus.splits["train"], tokenizer)
    sizes = _model_config(config, tokenizer)
    claim(run, config, "pretrain.yaml", MAY_CHANGE)
    seed_initial_weights(config.seed)
    model = make_model(config.objective, sizes)
    sources = [
        source_of(config, corpus.splits["train"], tokenizer, phase.sequence_length)
        for phase in phases
    ]
    pairs: list[int] = []
    for source in sources:
        plan = source.plan(0)
        pairs.append(len(plan))
        say(describe(plan, source.options), config.quiet)
    objective = make_objective(config.objective)
    facts = _facts(run, config, corpus, model, objective, sources, phases)
    steps = phase_steps(phases, facts["steps"])
    held_out = _held_out(config, corpus, tokenizer)
    result = train(
        model,
        objective,
        PhasedSource(sources, steps),
        _train_options(config, facts["steps"]),
        run,
        evaluate=(lambda model: evaluate(model, held_out, objective)) if held_out else None,
        companions=tokenizer.save,
        label="pretrain",
    )
    with writing_into(run) as partial:
        save_checkpoint(model, partial)
        tokenizer.save(partial)
    write_pretraining_report(run)
    return PretrainResult(
        run=str(run),
        parameters=sum(p.numel() for p in model.parameters()),
        steps=result.steps,
        epochs=sum(
            count * config.batch_size / in_epoch
            for count, in_epoch in zip(steps, pairs, strict=True)
        ),
        seconds=result.seconds,
        resumed_from=result.resumed_from,
        dev=result.dev,
    )


def plan_options(config: PretrainConfig, sequence_length: int) -> PlanOptions:
    """What the configuration says about the plan of a phase."""
    return PlanOptions(
        sequence_length=sequence_length,
        short_probability=config.short_probability,
        seed=config.seed,
        pairs=pairs_of(config),
        duplicates=(config.duplicates or DUPLICATES) if config.masking == "static" else None,
    )


def mask_options(
    config: PretrainConfig, tokenizer: Tokenizer, sequence_length: int
) -> MaskOptions | None:
    """What the configuration says about masking in a phase; None where nothing is masked."""
    if config.objective == "ltr":
        return None
    mask_share, random_share = read_split(config.mask_split)
    return MaskOptions(
        mask_id=tokenizer.mask_id,
        vocab_size=len(tokenizer),
        rate=config.mask_rate,
        max_predictions=config.max_predictions
        or default_max_predictions(sequence_length, config.mask_rate),
        mask_share=mask_share,
        random_share=random_share,
        units=config.mask_units,
        continues=None if config.mask_units == "token" else continuing(tokenizer),
    )


def source_of(
    config: PretrainConfig, split: CorpusSplit, tokenizer: Tokenizer, sequence_length: int
) -> PretrainingSource:
    """The examples of a phase as the configuration wants them."""
    return PretrainingSource(
        split,
        plan_options(config, sequence_length),
        mask_options(config, tokenizer, sequence_length),
        SpecialIds(tokenizer.cls_id, tokenizer.sep_id),
        config.batch_size,
        min(config.micro_batch_size, config.batch_size),
    )


def _held_out(config: PretrainConfig, corpus: Corpus, tokenizer: Tokenizer) -> list[Batch]:
    """The first examples of the dev part's permuted order; none when it has too few documents."""
    split = corpus.splits.get("dev")
    if split is None or not config.evaluate_examples:
        say("no held-out documents to evaluate on", config.quiet)
        return []
    source = source_of(config, split, tokenizer, config.sequence_length)
    try:
        count = min(config.evaluate_examples, len(source.plan(0)))
    except UserError:  # its documents are too few or too short for pairs
        say("too few held-out documents to evaluate on", config.quiet)
        return []
    return [
        to_batch(part)
        for first in range(0, count, source.micro_batch_size)
        for part in source.examples(first, min(source.micro_batch_size, count - first))
    ]


def _model_config(config: PretrainConfig, tokenizer: Tokenizer) -> ModelConfig:
    return model_config(
        config.model,
        len(tokenizer),
        **dropout_rates(config.dropout),
        position_init=config.position_init,
        initializer_range=config.initializer_range,
        max_positions=config.max_positions or max(512, config.sequence_length),
        pad_id=tokenizer.pad_id,
        causal=config.objective == "ltr",
    )


def _train_options(config: PretrainConfig, steps: int) -> TrainOptions:
    return TrainOptions(
        steps=steps,
        learning_rate=config.learning_rate,
        warmup_steps=round(config.warmup * steps),
        weight_decay=config.weight_decay,
        beta2=config.beta2,
        precision=config.precision,
        seed=config.seed,
        log_steps=config.log_steps,
        evaluate_steps=config.evaluate_steps,
        checkpoint_steps=config.checkpoint_steps,
        keep_checkpoints=config.keep_checkpoints,
        workers=config.workers,
        quiet=config.quiet,
    )


def _check(config: PretrainConfig, corpus: Corpus) -> None:
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


def _tell_of_words(config: PretrainConfig, split: CorpusSplit, tokenizer: Tokenizer) -> None:
    """Says so where whole words are wanted of a Chinese corpus that does not know its words."""
    if config.mask_units == "token" or split.has_words:
        return
    share = chinese_share(split, tokenizer)
    if share > CHINESE:
        say(
            f"{share:.0%} of the tokens are Chinese characters and the corpus has no word starts, "
            "so each of them is masked as a word; prepare it with --words jieba for whole words",
            config.quiet,
        )


def _facts(
    run: Path,
    config: PretrainConfig,
    corpus: Corpus,
    model: nn.Module,
    objective: Objective,
    sources: list[PretrainingSource],
    phases: list[Phase],
) -> dict[str, Any]:
    """The corpus' identity and the number of steps, fixed when the run starts."""
    path = run / "run.json"
    if path.exists():
        facts = json.loads(path.read_text(encoding="utf-8"))
        if facts["corpus"] != corpus.identity:
            raise UserError(
                f"{config.corpus} is not the corpus that the run in {run} was started with; "
                "give another --output"
            )
        return facts
    facts = {"corpus": corpus.identity, "steps": config.steps}
    if config.max_minutes is not None:
        options = _train_options(config, config.steps)
        step_seconds = sum(
            phase.share * seconds_per_step(model, objective, source, options)
            for phase, source in zip(phases, sources, strict=True)
        )
        facts["seconds_per_step"] = step_seconds
        facts["steps"] = steps_in(config.max_minutes, step_seconds)
        say(
            f"{facts['steps']:,} steps fit {config.max_minutes:g} minutes "
            f"at {step_seconds:.3f} s a step",
            config.quiet,
        )
    with writing(path) as partial:
        partial.write_text(json.dumps(facts, indent=2), encoding="utf-8")
    return facts
