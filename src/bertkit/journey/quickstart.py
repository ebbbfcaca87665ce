"""`bertkit quickstart`: the whole journey on text that an installed package carries.

    OUT/data/        pre-training text; reviews and names with their labels
    OUT/vocab/       the WordPiece vocabulary learned from the text
    OUT/corpus/      the prepared corpus
    OUT/pretrained/  the pre-training run, a checkpoint once it is done
    OUT/tuning/      the fine-tunings: results of all, the models worth keeping
    OUT/report.html, OUT/results.json

Each stage leaves its result whole or not at all; run again, the command goes on where it stopped.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar, cast

from bertkit.corpus.config import PrepareConfig
from bertkit.corpus.prepare import prepare
from bertkit.errors import UserError
from bertkit.files import writing
from bertkit.journey.chinese import write_chinese
from bertkit.journey.comparison import TaskData, compare
from bertkit.journey.config import QuickstartConfig
from bertkit.journey.english import write_english
from bertkit.journey.recipe import CHINESE, ENGLISH, Recipe
from bertkit.journey.results import QuickstartResult, write_results
from bertkit.pretraining.config import PretrainConfig
from bertkit.pretraining.run import PretrainResult, pretrain
from bertkit.progress import say
from bertkit.report.quickstart import Comparison
from bertkit.text.config import VocabConfig
from bertkit.text.vocabulary import learn_vocabulary
from bertkit.training.claim import claim

PRETRAINING_SHARE = 0.5
"""Of the minutes, at least this much is pre-training ..."""

TUNING_MINUTES = 6.0
"""... and all that is left beyond what the comparison takes on two cores."""

FULL_MINUTES = 13.0
"""With fewer minutes the many labels (to twice the few) and the test sets shrink in proportion."""

T = TypeVar("T")


def quickstart(config: QuickstartConfig) -> QuickstartResult:
    """From raw text to answers, with a table of what pre-training bought.

    Raises:
        UserError: the package with the text is not installed, or the folder holds another run.
        Interrupted: after Ctrl-C or SIGTERM; the same call continues.
    """
    _check(config)
    out = Path(config.output)
    claim(out, config, "quickstart.yaml", frozenset({"output", "workers", "quiet"}))
    recipe = CHINESE if config.language == "zh" else ENGLISH
    clock = _Clock(out / "seconds.json")

    def stage(name: str, what: str, work: Callable[[], T]) -> T:
        say(f"[{name}] {what}", config.quiet)
        with clock.stage(name):
            return work()

    tasks, text_facts = stage(
        "text",
        "writing the text and the labels that the packages carry",
        lambda: _once(out / "data.json", lambda: _write_data(config, recipe, out / "data")),
    )
    tasks = [TaskData(**{**task, "data": out / task["data"]}) for task in tasks]
    stage(
        "vocabulary",
        "learning a WordPiece vocabulary",
        lambda: _once(out / "vocab.json", lambda: _learn_vocabulary(config, recipe, out)),
    )
    stage(
        "corpus",
        "preparing the corpus",
        lambda: _once(out / "corpus.json", lambda: _prepare(config, out)),
    )
    pretrained = stage(
        "pre-training",
        "masked LM and next sentence; the loss starts near the logarithm of the vocabulary's size",
        lambda: cast(PretrainResult, pretrain(_pretrain_config(config, recipe, out))),
    )
    comparisons: list[Comparison] = []
    models: dict[str, Path] = {}
    scale = min(1.0, config.minutes / FULL_MINUTES)
    test = max(1, round(scale * config.test))
    if tasks:
        comparisons, models = stage(
            "fine-tuning",
            "the tasks, from the pre-trained weights and from random ones",
            lambda: compare(
                tasks,
                recipe,
                out / "pretrained",
                out / "tuning",
                labels=(
                    config.few,
                    max(min(2 * config.few, config.many), round(scale * config.many)),
                ),
                seeds=config.seeds,
                test=test,
                workers=config.workers,
                quiet=config.quiet,
            ),
        )
    return stage(
        "report",
        f"writing {out / 'report.html'}",
        lambda: write_results(
            config, recipe, tasks, text_facts, pretrained, comparisons, models, test, clock.seconds
        ),
    )


def pretraining_minutes(minutes: float) -> float:
    """What the tasks leave of the minutes."""
    return max(PRETRAINING_SHARE * minutes, minutes - TUNING_MINUTES)


def _check(config: QuickstartConfig) -> None:
    if config.minutes <= 0:
        raise UserError(f"--minutes is {config.minutes:g}; give more than 0")
    if config.few < 8 or config.few >= config.many:
        raise UserError("--few must be at least 8 and less than --many")
    if config.seeds < 2:
        raise UserError("--seeds must be at least 2: one seed has no standard error")
    if config.test < 1:
        raise UserError(f"--test is {config.test}; give at least 1")
    if config.workers < 1:
        raise UserError("--workers must be at least 1")


def _write_data(config: QuickstartConfig, recipe: Recipe, folder: Path) -> tuple[Any, Any]:
    """Writes the texts; returns the tasks as plain values and facts for the report."""
    if config.language == "zh":
        chinese = write_chinese(folder, config.seed, recipe.review_share)
        tasks = [
            TaskData("reviews", "Sentiment of reviews", "classification", chinese.reviews,
                     recipe.task_length, "reviews"),
            TaskData("names", "Persons, places, organizations", "tagging", chinese.entities,
                     recipe.task_length, "sentences"),
        ]  # fmt: skip
        characters = chinese.characters
    else:
        english = write_english(folder, config.seed)
        tasks = []
        if english.reviews is not None:
            tasks = [
                TaskData("reviews", "Sentiment of reviews", "classification", english.reviews,
                         recipe.task_length, "sentences")
            ]  # fmt: skip
        characters = english.characters
    facts = [(f"Characters, {name}", f"{count:,}") for name, count in characters.items()]
    out = Path(config.output)
    return [
        {**asdict(task), "data": task.data.relative_to(out).as_posix()} for task in tasks
    ], facts


def _learn_vocabulary(config: QuickstartConfig, recipe: Recipe, out: Path) -> dict[str, Any]:
    result = learn_vocabulary(
        VocabConfig(
            inputs=[str(out / "data" / "text")],
            output=str(out / "vocab"),
            size=recipe.vocab_size,
            held_out=0,  # a little text: all of it counts
            quiet=config.quiet,
        )
    )
    return asdict(result)


def _prepare(config: QuickstartConfig, out: Path) -> dict[str, Any]:
    result = prepare(
        PrepareConfig(
            inputs=[str(out / "data" / "text")],
            vocab=str(out / "vocab"),
            output=str(out / "corpus"),
            sentences="line",
            held_out=0.02,
            seed=config.seed,
            quiet=config.quiet,
        )
    )
    return asdict(result)


def _pretrain_config(config: QuickstartConfig, recipe: Recipe, out: Path) -> PretrainConfig:
    return PretrainConfig(
        corpus=str(out / "corpus"),
        output=str(out / "pretrained"),
        model=recipe.model,
        sequence_length=recipe.sequence_length,
        phases=list(recipe.phases),
        batch_size=recipe.batch_size,
        micro_batch_size=recipe.batch_size,
        max_minutes=pretraining_minutes(config.minutes),
        learning_rate=recipe.learning_rate,
        warmup=recipe.warmup,
        beta2=recipe.beta2,
        dropout=recipe.dropout,
        mask_rate=recipe.mask_rate,
        position_init=recipe.position_init,
        initializer_range=recipe.initializer_range,
        evaluate_steps=500,
        evaluate_examples=512,
        checkpoint_steps=500,
        log_steps=50,
        seed=config.seed,
        quiet=config.quiet,
    )


def _once(path: Path, work: Callable[[], Any]) -> Any:
    """The result of `work`, done once and kept as JSON at `path`."""
    if not path.exists():
        result = work()
        with writing(path) as partial:
            partial.write_text(json.dumps(result, ensure_ascii=False), encoding="utf-8")
    return json.loads(path.read_text(encoding="utf-8"))


class _Clock:
    """Seconds of each stage, kept on disk so that a continued journey adds to them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.seconds: dict[str, float] = {}
        if path.exists():
            self.seconds = json.loads(path.read_text(encoding="utf-8"))

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """A context whose time is added to that of the stage."""
        began = time.monotonic()
        try:
            yield
        finally:
            seconds = self.seconds.get(name, 0.0) + time.monotonic() - began
            self.seconds[name] = round(seconds, 1)
            with writing(self._path) as partial:
                partial.write_text(json.dumps(self.seconds), encoding="utf-8")
