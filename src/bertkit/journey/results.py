"""What the quickstart ends with: the page, results.json, and what to type next."""

from __future__ import annotations

import platform
import shutil
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from bertkit.files import write_json, writing
from bertkit.journey.comparison import TaskData
from bertkit.journey.config import QuickstartConfig
from bertkit.journey.recipe import Recipe
from bertkit.journey.samples import ENGLISH_MASKED, MASKED_SAMPLES, NEWS_SAMPLES, REVIEW_SAMPLES
from bertkit.journey.showcase import labelled_results, masked_results, tagged_results
from bertkit.model.config import model_config
from bertkit.pretraining.run import PretrainResult
from bertkit.report.columns import text_table
from bertkit.report.log import read_records
from bertkit.report.quickstart import (
    Comparison,
    QuickstartResults,
    in_words,
    write_quickstart_report,
)
from bertkit.report.statistics import mean_and_sd


@dataclass
class QuickstartResult:
    """What the journey gave.

    Attributes:
        comparisons: rows of the table, scores as shares.
        pretraining: of the held-out pairs: losses, accuracies, perplexity.
        seconds: stage to its time; a stage done in an earlier part of the run keeps its time.
        commands: what to type next: (what for, command).
    """

    output: str
    language: str
    minutes: float
    report: str
    comparisons: list[Comparison]
    pretraining: dict[str, float]
    seconds: dict[str, float]
    places: list[tuple[str, str]]
    commands: list[tuple[str, str]]

    def __str__(self) -> str:
        lines = [""]
        if self.comparisons:
            lines += [*table_lines(self.comparisons), ""]
            lines += [in_words(one) for one in self.comparisons]
        lines.append(
            f"Held-out text: {self.pretraining['mlm_accuracy']:.1%} of masked tokens guessed, "
            f"next sentence {self.pretraining['nsp_accuracy']:.1%} right."
        )
        total = sum(self.seconds.values())
        stages = ", ".join(f"{name} {value:.0f} s" for name, value in self.seconds.items())
        lines += [f"Time: {total / 60:.1f} minutes ({stages}).", ""]
        width = max(len(place) for place, _ in self.places)
        lines += [f"{place:<{width}}  {what}" for place, what in self.places]
        lines.append("")
        for what, command in self.commands:
            lines += [f"{what}:", f"    {command}"]
        return "\n".join(lines)


def table_lines(comparisons: list[Comparison]) -> list[str]:
    """The comparison as lines of text."""
    head = ("task", "labels", "random start", "pre-trained", "difference", "in SE")
    rows = [
        (
            f"{one.task} ({one.metric})",
            f"{one.labels:,}",
            "{:.1%} ± {:.1%}".format(*mean_and_sd(one.random)),
            "{:.1%} ± {:.1%}".format(*mean_and_sd(one.pretrained)),
            f"{100 * one.difference:+.1f} ± {100 * one.standard_error:.1f}",
            f"{one.in_standard_errors:+.1f}",
        )
        for one in comparisons
    ]
    lines = text_table([head, *rows], names=1)
    return [lines[0], "-" * max(map(len, lines)), *lines[1:]]


def write_results(
    config: QuickstartConfig,
    recipe: Recipe,
    tasks: list[TaskData],
    text_facts: list[tuple[str, str]],
    pretrained: PretrainResult,
    comparisons: list[Comparison],
    models: dict[str, Path],
    test: int,
    seconds: dict[str, float],
) -> QuickstartResult:
    """Writes the page and results.json.

    Args:
        tasks: those whose data there are.
        text_facts: (name, value) about the text.
        models: task -> the tuned model that is kept.
        test: examples of a test set that are answered.
        seconds: of each stage so far.
    """
    out = Path(config.output)
    checkpoint = out / "pretrained"
    results = QuickstartResults(
        title="bertkit quickstart",
        machine=f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}",
        seconds=seconds,
        data=[tuple(fact) for fact in text_facts],  # type: ignore[misc]
        model=_model_facts(out, recipe, pretrained),
        records=read_records(checkpoint),
        comparisons=comparisons,
        places=_places(out, models),
        commands=_commands(config, out, models),
    )
    if config.language == "zh":
        results.masked = masked_results(checkpoint, MASKED_SAMPLES)
    for task in tasks:
        if task.family == "classification":
            samples = REVIEW_SAMPLES if config.language == "zh" else []
            results.labelled, results.labelled_errors = labelled_results(
                models[task.name], task, samples, test
            )
        else:
            results.tagged, results.tagged_errors = tagged_results(
                models[task.name], task, NEWS_SAMPLES, test
            )
    write_quickstart_report(out / "report.html", results)
    result = QuickstartResult(
        output=str(out),
        language=config.language,
        minutes=config.minutes,
        report=str(out / "report.html"),
        comparisons=comparisons,
        pretraining=pretrained.dev,
        seconds=seconds,
        places=results.places,
        commands=results.commands,
    )
    with writing(out / "results.json") as partial:
        write_json(partial, asdict(result))
    return result


def _model_facts(out: Path, recipe: Recipe, pretrained: PretrainResult) -> list[tuple[str, str]]:
    entries = len((out / "vocab" / "vocab.txt").read_text(encoding="utf-8").splitlines())
    sizes = model_config(recipe.model, entries)
    return [
        ("Vocabulary", f"{entries:,} WordPieces"),
        ("Layers, hidden size, heads", f"{sizes.layers}, {sizes.hidden_size}, {sizes.heads}"),
        ("Parameters", f"{pretrained.parameters:,}"),
        ("Pre-training", f"{pretrained.steps:,} steps, {pretrained.epochs:.1f} epochs"),
    ]


def _places(out: Path, models: dict[str, Path]) -> list[tuple[str, str]]:
    places = [
        (str(out / "report.html"), "this journey with curves, samples and errors"),
        (str(out / "data"), "the text and the labelled examples"),
        (str(out / "vocab"), "the vocabulary"),
        (str(out / "corpus"), "the prepared corpus"),
        (str(out / "pretrained"), "the pre-trained model"),
    ]
    return places + [(str(model), f"the model tuned for {name}") for name, model in models.items()]


def _program() -> str:
    """How to call bertkit: by its name where that is found, else as this run was called."""
    called = Path(sys.argv[0])
    if called.name == "bertkit" and shutil.which("bertkit") is None:
        return sys.argv[0]
    return "bertkit"


def _commands(
    config: QuickstartConfig, out: Path, models: dict[str, Path]
) -> list[tuple[str, str]]:
    """What to type next."""
    bertkit = _program()
    if config.language == "zh":
        blank = "酒店的服[MASK]很好，下次还会来。"
        review = "房间很干净，服务员也很热情，下次还住这里。"
    else:
        blank = ENGLISH_MASKED[0]
        review = "a warm and funny film with a clever ending"
    commands = [("Fill a blank", f'{bertkit} fill {out / "pretrained"} "{blank}"')]
    if "reviews" in models:
        commands.append(
            ("Classify a text of yours", f'echo "{review}" | {bertkit} predict {models["reviews"]}')
        )
    if "names" in models:
        sentence = "张建国昨天从北京到上海访问。"
        commands.append(("Find names", f'echo "{sentence}" | {bertkit} predict {models["names"]}'))
    commands.append(
        (
            "Use your own text",
            f"{bertkit} vocab my-texts -o my-vocab && "
            f"{bertkit} prepare my-texts --vocab my-vocab -o my-corpus && "
            f"{bertkit} pretrain my-corpus --model mini --max-minutes 60 -o my-model",
        )
    )
    return commands
