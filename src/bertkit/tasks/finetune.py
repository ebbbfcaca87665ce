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
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import nn

from bertkit.errors import Interrupted, UserError
from bertkit.files import write_json, writing, writing_into
from bertkit.formats.hub import checkpoint_path
from bertkit.formats.huggingface import save_checkpoint
from bertkit.formats.kinds import weight_file, weight_parts
from bertkit.progress import say
from bertkit.report.card import write_card
from bertkit.report.finetuning import CONFIGURATION, write_finetuning_report
from bertkit.tasks.answers import Evaluation, evaluate_model, max_positions
from bertkit.tasks.best import BestOnDev
from bertkit.tasks.config import FinetuneConfig
from bertkit.tasks.data import Data, read_data, same_inputs
from bertkit.tasks.fit import check_fit
from bertkit.tasks.options import (
    check,
    check_task,
    keeps_best,
    peak_rate,
    task_options,
    train_options,
    training_source,
)
from bertkit.tasks.own_data import resolve
from bertkit.tasks.registry import get_task
from bertkit.tasks.start import HeadStart, load_model
from bertkit.tasks.summary import summarise
from bertkit.tasks.tables import metrics_line, write_jsonl
from bertkit.tasks.task import FeatureSet, Task, TaskOptions
from bertkit.text.tokenizer import Tokenizer
from bertkit.training.claim import claim, taking_back
from bertkit.training.compilation import compiles
from bertkit.training.interrupt import InterruptGuard
from bertkit.training.loop import train
from bertkit.training.processes import alone, refuse_others

MAY_CHANGE = frozenset({"output", "quiet", "checkpoint_steps", "evaluate_steps"})
"""Options that may differ when a run is continued, for they change no number in it."""
FIRST_FILES = frozenset({CONFIGURATION, "inputs.json", "data.json"})
"""What is in a run before its training begins."""


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
    head: HeadStart = "fresh"

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
class _Scorer:
    """Scores a model on dev, and keeps the weights that score best where that is asked for.

    Attributes:
        newest: the last evaluation.
    """

    task: Task
    data: Data
    tokenizer: Tokenizer
    options: TaskOptions
    best: BestOnDev | None
    newest: Evaluation = field(init=False)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """The metrics of a moment of the training."""
        metrics = self._score(model)
        if self.best is not None:
            self.best.look(model, metrics[self.task.main])
        return metrics

    def finish(self, model: nn.Module) -> int | None:
        """Puts the best weights back where they were kept; returns the step that they are from."""
        if self.best is None:
            return None
        step = self.best.restore(model)
        self._score(model)
        return step

    def metrics(self, model: nn.Module) -> dict[str, float]:
        """The newest metrics, and those on the task's further dev sets as metric-NAME."""
        metrics = dict(self.newest.scores.metrics)
        for name, examples in self.data.more_dev.items():
            more = evaluate_model(model, self.task, examples, self.tokenizer, self.options)
            metrics |= {f"{key}-{name}": value for key, value in more.scores.metrics.items()}
        return metrics

    def _score(self, model: nn.Module) -> dict[str, float]:
        self.newest = evaluate_model(
            model, self.task, self.data.dev, self.tokenizer, self.options, calibrate=True
        )
        return self.newest.scores.metrics


def finetune(config: FinetuneConfig) -> FinetuneResult:
    """Tunes `config.checkpoint` on labelled examples, or continues the run in `config.output`.

    Raises:
        UserError: the data or the options cannot be used (the message says how to mend them), or
            `config.output` holds another run.
        Interrupted: after Ctrl-C or SIGTERM; the same call continues.
    """
    result, signal = finetune_to_the_end(config)
    if signal is not None:
        raise Interrupted(f"stopped; the run in {result.output} is finished", signal)
    return result


def finetune_to_the_end(config: FinetuneConfig) -> tuple[FinetuneResult, int | None]:
    """The same, for callers that have more to write of a run that has ended before they stop.

    Returns:
        The result, and the signal that came when nothing but scores and files was left to do.
    """
    refuse_others("finetune")
    check(config)
    config = resolve(config)
    task = get_task(str(config.task))
    check_task(config, task)
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
    options = task_options(config)
    with taking_back(run, FIRST_FILES):
        claim(run, config, CONFIGURATION, MAY_CHANGE - ({"evaluate_steps"} if best else set()))
        same_inputs(run, [*weight_parts(weight_file(start)), *data.files])
        made = _features(run, task, data, tokenizer, options, config.quiet)
        source = training_source(config, task, made, model)
    scorer = _Scorer(task, data, tokenizer, options, best)
    result = train(
        model,
        task.objective,
        source,
        train_options(config, len(made.features), sum(made.lengths)),
        run,
        evaluate=scorer.evaluate,
        companions=lambda folder: tokenizer.save(folder, max_positions(model)),
        label="finetune",
        processes=processes,
        stop=best.is_over if best is not None else None,
    )
    with InterruptGuard() as guard:
        best_step = scorer.finish(model)
        summary = FinetuneResult(
            output=str(run),
            task=task.name,
            examples=len(data.train),
            dev_examples=len(data.dev),
            truncated=made.truncated,
            steps=result.steps,
            best_step=best_step,
            seconds=round(result.seconds, 3),
            metrics=scorer.metrics(model),
            table=scorer.newest.scores.table,
            head=head,
        )
        _write(run, summary, model, scorer)
        if best is not None:
            best.remove()
        write_finetuning_report(run)
        write_card(run)
    return summary, guard.received


def _features(
    run: Path, task: Task, data: Data, tokenizer: Tokenizer, options: TaskOptions, quiet: bool
) -> FeatureSet:
    """The units to train on; what they are made of is said, and written to the run."""
    made = task.features(data.train, tokenizer, data.labels, options)
    if not made.features:
        raise UserError("; ".join(made.notes) or "no training example holds a token; check --text")
    summary = summarise(task, data.train, data.dev, made, options.sequence_length, data.train_rows)
    say(str(summary), quiet)
    with writing(run / "data.json") as partial:
        write_json(partial, asdict(summary))
    for note in made.notes:
        say(note, quiet)
    return made


def _write(run: Path, summary: FinetuneResult, model: nn.Module, scorer: _Scorer) -> None:
    """Puts the tuned model into the run, and what it says about the dev examples."""
    data = scorer.data
    with writing_into(run) as partial:
        save_checkpoint(model, partial)
        scorer.tokenizer.save(partial, max_positions(model))
        records = scorer.newest.answers.records(scorer.task, data.dev)
        write_jsonl(partial / "predictions.jsonl", records)
        write_json(partial / "metrics.json", asdict(summary))
        if data.dev_rows is not None:
            (partial / "dev_rows.json").write_text(json.dumps(data.dev_rows), encoding="utf-8")
