"""The quickstart's report: its results in, one page that shows what pre-training gave out.

`QuickstartResults` is all the page needs, as plain values: `dataclasses.asdict` of it is the
JSON beside the page. The page shows the curves of pre-training, the comparison with the same model
without pre-training, masked sentences, answers of the tuned models and errors worth reading, where
everything lies, and what to type next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bertkit.report.page import (
    Html,
    Section,
    card,
    cards,
    command,
    duration,
    entity_sentence,
    facts,
    join,
    masked_sentence,
    paragraph,
    percent,
    subheading,
    table,
    tag,
    verdict,
    write_report,
)
from bertkit.report.pretraining import learning_charts, summary
from bertkit.report.statistics import Difference, mean_and_sd

HINT, FINDING = 2.0, 4.0
"""Standard errors from which on a difference is called likely, and clear."""

Entity = tuple[int, int, str]
"""First character, character behind the last, type."""


@dataclass
class Comparison:
    """One row of the comparison: a task with so many labelled examples, both ways.

    Attributes:
        task: "Sentiment of reviews".
        metric: "accuracy" or "entity F1".
        labels: labelled training examples.
        test_items: "4,000 reviews": size of the test set, in words.
        random, pretrained: the test score of each seed, as a share.
        difference, standard_error: of pre-trained minus random, from report/statistics.py.
        baseline: the score without any learning, where there is one (the larger class).
    """

    task: str
    metric: str
    labels: int
    test_items: str
    random: list[float]
    pretrained: list[float]
    difference: float
    standard_error: float
    baseline: float | None = None

    @property
    def in_standard_errors(self) -> float:
        return Difference(self.difference, self.standard_error).in_standard_errors


@dataclass
class Guess:
    """What the model thinks stands at a masked place.

    Attributes:
        place: offset of the masked character in the text.
        answer: what stands there.
        guesses: the likeliest tokens with their probabilities, best first.
    """

    place: int
    answer: str
    guesses: list[tuple[str, float]]

    @property
    def right(self) -> bool:
        return bool(self.guesses) and self.guesses[0][0] == self.answer


@dataclass
class MaskedResult:
    """A held-out sentence with guesses at its masked places."""

    text: str
    gloss: str
    guesses: list[Guess]


@dataclass
class LabelledResult:
    """A held-out text with the tuned model's label for it."""

    text: str
    gloss: str
    answer: str
    guess: str
    probability: float


@dataclass
class TaggedResult:
    """A held-out sentence with its entities and those the tuned model found."""

    text: str
    gloss: str
    answer: list[Entity]
    guess: list[Entity]


@dataclass
class QuickstartResults:
    """All that the page shows.

    Attributes:
        title: heading of the page.
        machine: what it ran on, in words.
        seconds: stage to its time, in order.
        data, model: names and values for the reader.
        records: the pre-training run's log (report/log.py reads it).
        comparisons: rows, in order.
        masked, labelled, tagged: the samples.
        labelled_errors, tagged_errors: confident mistakes on the test set.
        places: what lies where.
        commands: what to type next: (what for, command).
    """

    title: str
    machine: str
    seconds: dict[str, float]
    data: list[tuple[str, str]]
    model: list[tuple[str, str]]
    records: list[dict[str, Any]]
    comparisons: list[Comparison]
    masked: list[MaskedResult] = field(default_factory=list)
    labelled: list[LabelledResult] = field(default_factory=list)
    tagged: list[TaggedResult] = field(default_factory=list)
    labelled_errors: list[LabelledResult] = field(default_factory=list)
    tagged_errors: list[TaggedResult] = field(default_factory=list)
    places: list[tuple[str, str]] = field(default_factory=list)
    commands: list[tuple[str, str]] = field(default_factory=list)


def write_quickstart_report(path: Path, results: QuickstartResults) -> Path:
    """Writes the page and returns its path."""
    stages = [(stage, duration(seconds)) for stage, seconds in results.seconds.items()]
    whole = sum(results.seconds.values())
    timing = [*stages, ("Altogether", duration(whole)), ("Machine", results.machine)]
    lead = (
        "A BERT from nothing: a vocabulary, a corpus and a small encoder were made from raw text "
        f"in {duration(whole)}, the encoder was tuned on labelled examples, and the same model "
        "without pre-training was tuned beside it."
    )
    sections = [
        Section("What pre-training gave", _comparison(results.comparisons)),
        Section(
            "How it learned to read",
            [learning_charts(results.records), facts(summary(results.records))],
        ),
        Section("Masked sentences", _masked(results.masked)),
        Section("Labels of held-out texts", _cards(map(labelled_card, results.labelled))),
        Section("Names in held-out sentences", _cards(map(tagged_card, results.tagged))),
        Section("Errors worth reading", _errors(results)),
        Section("Text and model", [facts([*results.data, *results.model])]),
        Section("Time", [facts(timing)]),
        Section("Where everything lies", [facts(results.places)] if results.places else []),
        Section(
            "What to type next",
            [
                piece
                for what, line in results.commands
                for piece in (paragraph(what), command(line))
            ],
        ),
    ]
    return write_report(path, results.title, lead, sections)


def in_words(comparison: Comparison) -> str:
    """What one row says, in a sentence, with no more certainty than its standard error gives."""
    points = 100 * abs(comparison.difference)
    size = abs(comparison.in_standard_errors)
    direction = "higher" if comparison.difference > 0 else "lower"
    where = f"{comparison.task}, {comparison.labels:,} labels"
    if size < HINT:
        return f"{where}: no difference that this test set and these seeds can show."
    sure = "clearly" if size >= FINDING else "probably"
    return f"{where}: {sure} {direction} with pre-training, by {points:.1f} points."


def labelled_card(result: LabelledResult) -> Html:
    right = result.guess == result.answer
    line = join(verdict(f"{result.guess} {percent(result.probability, 0)}", right))
    if not right:
        line = join(line, f" labelled {result.answer}")
    return card(tag("p", result.text, "text"), _gloss(result.gloss), tag("p", line))


def tagged_card(result: TaggedResult) -> Html:
    """The sentence with the entities found; below it what is wrong with them, if anything is."""
    return card(
        tag("p", entity_sentence(result.text, result.guess), "text"),
        _gloss(result.gloss),
        tag("p", tagging_verdict(result)),
    )


def tagging_verdict(result: TaggedResult) -> Html:
    """The entities found rightly, found wrongly and missed, as words."""
    answer, guess = set(map(_entity, result.answer)), set(map(_entity, result.guess))

    def names(entities: set[Entity]) -> str:
        return ", ".join(
            f"{result.text[first:end]} {kind}" for first, end, kind in sorted(entities)
        )

    if answer == guess:
        return verdict("all right" if answer else "rightly none", True)
    pieces: list[str] = []
    for words, entities in (
        ("found but not there: ", guess - answer),
        ("missed: ", answer - guess),
    ):
        if entities:
            pieces += [verdict(words + names(entities), False), " "]
    return join(*pieces)


def masked_card(result: MaskedResult) -> Html:
    """The sentence with the best guesses; the runners-up and the truth below it."""
    answers = {
        guess.place: (guess.guesses[0][0] if guess.guesses else "?", guess.right)
        for guess in result.guesses
    }
    lines: list[str] = []
    for guess in result.guesses:
        ranked = " · ".join(f"{token} {percent(share, 0)}" for token, share in guess.guesses)
        lines.append(
            tag("p", join(verdict(guess.answer, guess.right), tag("span", f" ← {ranked}", "soft")))
        )
    return card(
        tag("p", masked_sentence(result.text, answers), "text"), _gloss(result.gloss), *lines
    )


def _comparison(comparisons: Sequence[Comparison]) -> list[str]:
    if not comparisons:
        return []
    rows: list[list[str]] = []
    for one in comparisons:
        rows.append(
            [
                f"{one.task} ({one.metric})",
                f"{one.labels:,}",
                percent(one.baseline) if one.baseline is not None else "",
                _scores(one.random),
                _scores(one.pretrained),
                f"{100 * one.difference:+.1f} ± {100 * one.standard_error:.1f}",
                f"{one.in_standard_errors:+.1f}",
            ]
        )
    seeds = sorted(
        {len(one.random) for one in comparisons} | {len(one.pretrained) for one in comparisons}
    )
    tests = Counter(f"{one.task}: {one.test_items}" for one in comparisons)
    return [
        *(paragraph(in_words(one)) for one in comparisons),
        table(
            [
                "Task",
                "Labels",
                "No learning",
                "Random start",
                "Pre-trained",
                "Difference, points",
                "In standard errors",
            ],
            rows,
            numbers=range(1, 7),
        ),
        tag(
            "p",
            f"Test scores as mean ± standard deviation over {_or(seeds)} seeds, same model, same "
            "tuning; only the start differs. The standard error of the difference covers other "
            "seeds and other test sets. Test sets: " + "; ".join(tests) + ".",
            "gloss",
        ),
    ]


def _masked(masked: Sequence[MaskedResult]) -> list[str]:
    guesses = [guess for result in masked for guess in result.guesses]
    if not guesses:
        return []
    right = sum(guess.right for guess in guesses)
    return [
        paragraph(
            f"Held-out sentences, chosen before any training, with a few places masked. The "
            f"best guess stands in the sentence; {right} of these {len(guesses)} are right. Below: "
            "what stands there ← the likeliest guesses."
        ),
        cards(*(masked_card(result) for result in masked)),
    ]


def _errors(results: QuickstartResults) -> list[str]:
    pieces: list[str] = []
    if results.labelled_errors:
        pieces += [
            subheading("Texts"),
            paragraph(
                "Where the tuned model was surest and its answer is not the label. Some of the "
                "labels are wrong themselves."
            ),
            *_cards(map(labelled_card, results.labelled_errors)),
        ]
    if results.tagged_errors:
        pieces += [subheading("Names"), *_cards(map(tagged_card, results.tagged_errors))]
    return pieces


def _cards(pieces: Iterable[Html]) -> list[Html]:
    block = cards(*pieces)
    return [block] if block else []


def _scores(scores: Sequence[float]) -> str:
    mean, sd = mean_and_sd(scores)
    return f"{100 * mean:.1f} ± {100 * sd:.1f}"


def _gloss(gloss: str) -> Html:
    return tag("p", gloss, "gloss") if gloss else Html("")


def _entity(entity: Sequence[Any]) -> Entity:
    first, behind, kind = entity
    return int(first), int(behind), str(kind)


def _or(numbers: Sequence[int]) -> str:
    return " or ".join(map(str, numbers))
