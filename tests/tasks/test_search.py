"""A search tries the grid, spreads seeds at its best point, keeps one model, and goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bertkit.errors import Interrupted, UserError
from bertkit.formats.huggingface import load_checkpoint
from bertkit.journey.config import InspectConfig
from bertkit.journey.inspect import inspect
from bertkit.tasks import finetune as finetuning
from bertkit.tasks import runs as module
from bertkit.tasks.config import EvaluateConfig, SearchConfig
from bertkit.tasks.evaluate import evaluate
from bertkit.tasks.grid import Attempt, Point, best_attempt, best_point, grid_lines, summary
from bertkit.tasks.readers import TextExample, WordsExample
from bertkit.tasks.registry import get_task
from bertkit.tasks.runs import Ended, how_it_ended
from bertkit.tasks.search import grid_points, score_of_chance, search
from bertkit.training.update import NotFiniteError
from tests.tasks.tiny import write_data


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """Less than the other tests have, for there are many runs."""
    return write_data(tmp_path_factory.mktemp("data"), 120, 60)


@pytest.fixture
def config(checkpoint: Path, data: Path, tmp_path: Path) -> SearchConfig:
    return SearchConfig(
        checkpoint=str(checkpoint),
        task="classification",
        data=str(data),
        output=str(tmp_path / "out"),
        batch_size=[16],
        learning_rate=[1e-7, 3e-3],
        epochs=[1, 6],
        sequence_length=32,
        precision="fp32",
        quiet=True,
    )


def records(folder: Path) -> dict[str, float]:
    """When each run of a search ended."""
    return {path.name: path.stat().st_mtime_ns for path in (folder / "runs").glob("*.json")}


def command_line(config: SearchConfig, *more: str) -> list[str]:
    line = [sys.executable, "-m", "bertkit", "search", config.checkpoint, "-o", config.output]
    line += ["--task", "classification", "--data", config.data, "--batch-size", "16"]
    line += ["--learning-rate", "3e-3", "--sequence-length", "32", "--precision", "fp32"]
    return [*line, *more]


def endless_search(config: SearchConfig) -> tuple[subprocess.Popen[str], Path]:
    """A search by two workers that has begun its first long run; and that run's log."""
    more = ("--epochs", "1,2000", "--seeds", "2", "--grid-seeds", "2", "--workers", "2")
    process = subprocess.Popen(command_line(config, *more), stderr=subprocess.PIPE, text=True)
    long = Path(config.output, "runs", "batch16-rate0.003-epochs2000-seed0", "log.jsonl")
    while not long.exists():
        assert process.poll() is None
        time.sleep(0.01)
    return process, long


def opened(process: int) -> list[Path]:
    """The files that a process has open."""
    return [link.resolve() for link in Path(f"/proc/{process}/fd").iterdir()]


def weights_on_disk(folder: Path) -> set[str]:
    return {path.parent.name for path in (folder / "runs").glob("*/model.safetensors")}


def test_the_default_grid_is_the_papers() -> None:
    config = SearchConfig(checkpoint="x", output="y")
    points = grid_points(config)
    assert len(points) == 18
    assert {point.batch_size for point in points} == {16, 32}
    assert {point.learning_rate for point in points} == {2e-5, 3e-5, 5e-5}
    assert {point.epochs for point in points} == {2, 3, 4}
    features = grid_points(replace(config, features="last"))
    assert {point.learning_rate for point in features} == {1e-3}


def test_the_best_point_gets_the_seeds_and_its_best_run_is_kept(config: SearchConfig) -> None:
    result = search(replace(config, seeds=3))
    out = Path(config.output)
    best = result.points[result.best_point]
    assert (best.learning_rate, best.epochs, best.runs) == (3e-3, 6, 3)
    assert [point.runs for point in result.points] == [1, 1, 1, 3]
    assert len(result.runs) == 6
    scores = [run["score"] for run in result.runs if run["learning_rate"] == 3e-3][1:]
    assert best.mean == pytest.approx(sum(scores) / 3)
    assert best.median == sorted(scores)[1]
    assert best.best == max(scores) == result.metrics["accuracy"]
    assert weights_on_disk(out) == {Path(result.best_run).name}
    again = evaluate(EvaluateConfig(str(out), config.data, precision="fp32", quiet=True))
    assert again.metrics == pytest.approx(result.metrics)
    assert json.loads((out / "results.json").read_text())["points"][3]["runs"] == 3
    assert "*" in str(result).splitlines()[5]
    card = (out / "README.md").read_text(encoding="utf-8")
    assert "# out\n" in card and 'bertkit.load("out")' in card
    assert Path(result.best_run).name not in card
    assert "<title>Fine-tuning: out</title>" in (out / "report.html").read_text(encoding="utf-8")
    seen = inspect(InspectConfig(str(out)))
    assert (seen.kind, seen.facts["runs_ended"]) == ("search", 6)
    assert "finished, 6 runs ended" in str(seen) and str(seen).count("*") == 1
    (out / "results.json").unlink()
    assert "not finished, 6 runs ended" in str(inspect(InspectConfig(str(out))))
    (out / "README.md").write_text("# Mine\n", encoding="utf-8")
    search(replace(config, seeds=3))
    assert (out / "README.md").read_text(encoding="utf-8") == "# Mine\n"


def test_a_run_that_is_no_better_than_one_answer_for_all_has_failed(config: SearchConfig) -> None:
    result = search(config)
    slow = [run for run in result.runs if run["learning_rate"] == 1e-7]
    glad = Path(config.data, "dev.tsv").read_text().count("\tglad\n")
    assert result.chance == pytest.approx(max(glad, 60 - glad) / 60)
    for run in result.runs:
        assert run["failed"] == (run["score"] <= result.chance)
    assert not result.runs[-1]["failed"]
    assert any(run["failed"] for run in slow)
    assert f"failed: {sum(run['failed'] for run in result.runs)} of 4 runs" in str(result)


def test_chance_is_the_best_of_what_needs_no_reading() -> None:
    texts = [TextExample("a", label=label) for label in "xxyxz"]
    assert score_of_chance(get_task("classification"), texts, ["x", "y", "z"]) == 0.6
    assert score_of_chance(get_task("cola"), texts, ["x", "y"]) == 0.0
    assert score_of_chance(get_task("regression"), texts, ["score"]) == 0.0
    sets = [TextExample("a", labels=one) for one in [("a", "b")] * 4 + [("a",), ("c",), ()]]
    both = 2 * 9 / (2 * 7 + 10)  # a and b for all; one label alone or all three score less
    assert score_of_chance(get_task("multi-label"), sets, ["a", "b", "c"]) == pytest.approx(both)
    words = [WordsExample(["a", "b", "c"], ["O", "B-PER", "O"])]
    tags = ["O", "B-PER", "I-PER"]
    assert score_of_chance(get_task("tagging"), words, tags) == pytest.approx(0.5)  # all B-PER


def test_a_finished_run_is_not_done_again_and_a_larger_search_adds_to_it(
    config: SearchConfig,
) -> None:
    first = search(replace(config, epochs=[1]))
    out = Path(config.output)
    before = records(out)
    assert len(before) == 2
    same = search(replace(config, epochs=[1], quiet=False))
    assert records(out) == before
    assert same.points == first.points
    search(replace(config, seeds=2))
    after = records(out)
    assert len(after) == 5
    assert {name: after[name] for name in before} == before
    with pytest.raises(UserError, match=r"other options \(seed was 0, is 1\)"):
        search(replace(config, seed=1))


def test_a_smaller_search_makes_its_model_again_where_it_was_dropped(config: SearchConfig) -> None:
    search(config)
    name = "runs/batch16-rate1e-07-epochs1-seed0"
    record = Path(config.output, f"{name}.json")
    before = json.loads(record.read_text())
    record.write_text(json.dumps(before | {"metrics": {"accuracy": 0.125}}))  # another machine's
    small = search(replace(config, learning_rate=[1e-7], epochs=[1]))
    assert small.best_run == name
    assert small.metrics == before["metrics"]  # of the weights that are there
    assert [run["score"] for run in small.runs] == [before["metrics"]["accuracy"]]
    assert json.loads(record.read_text())["metrics"] == before["metrics"]
    saved = load_checkpoint(config.output).model.state_dict()
    kept = load_checkpoint(Path(config.output, small.best_run)).model.state_dict()
    assert all(saved[name].equal(kept[name]) for name in saved)
    assert weights_on_disk(Path(config.output)) == {Path(small.best_run).name}
    assert not list(Path(config.output).glob("runs/*/checkpoints"))


def test_two_processes_find_what_one_finds(config: SearchConfig, tmp_path: Path) -> None:
    changes = {"learning_rate": [3e-3], "seeds": 2}
    one = search(replace(config, **changes))
    two = search(replace(config, **changes, output=str(tmp_path / "two"), workers=2))

    def scores(result) -> list[float]:
        return [run["score"] for run in result.runs]

    assert scores(two) == pytest.approx(scores(one))
    assert two.best_run == one.best_run


@pytest.mark.slow
def test_a_ray_cluster_finds_the_same(config: SearchConfig, tmp_path: Path, monkeypatch) -> None:
    ray = pytest.importorskip("ray", reason="needs Ray: pip install ray")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    one = search(replace(config, learning_rate=[3e-3]))
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        two = search(
            replace(config, learning_rate=[3e-3], output=str(tmp_path / "two"), engine="ray")
        )
    finally:
        ray.shutdown()
    assert [run["score"] for run in two.runs] == pytest.approx([run["score"] for run in one.runs])


def test_without_a_dev_file_all_runs_share_one_split(config: SearchConfig) -> None:
    train = str(Path(config.data, "train.tsv"))
    search(replace(config, data=None, train=train, learning_rate=[3e-3], epochs=[1], seeds=2))
    splits = [
        json.loads(path.read_text()) for path in Path(config.output).glob("runs/*/dev_rows.json")
    ]
    assert len(splits) == 2
    assert splits[0] == splits[1]


def test_a_run_that_diverges_is_counted_and_the_search_goes_on(
    config: SearchConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = module.finetune_to_the_end

    def diverging(one):
        if one.learning_rate == 1e-7:
            raise UserError("stopped") from NotFiniteError("the loss is no longer finite at step 3")
        return real(one)

    monkeypatch.setattr(module, "finetune_to_the_end", diverging)
    result = search(replace(config, epochs=[1]))
    assert result.points[0].failed == 1
    assert result.points[0].mean is None
    assert result.runs[0]["problem"] == "the loss is no longer finite at step 3"
    assert result.best_point == 1
    with pytest.raises(UserError, match=r"no run has a score on dev \(the loss is no longer"):
        search(replace(config, epochs=[1], learning_rate=[1e-7]))


def test_an_interrupted_search_goes_on_within_the_run(
    config: SearchConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C between steps of the second run: the first stays, the second continues."""
    changes = {"learning_rate": [3e-3], "checkpoint_steps": 5}
    whole = search(replace(config, **changes, output=str(tmp_path / "whole")))
    command = command_line(config, "--epochs", "1,6", "--checkpoint-steps", "5")
    second = Path(config.output, "runs", "batch16-rate0.003-epochs6-seed0")
    for number in (signal.SIGINT, signal.SIGKILL):
        points = len(list(second.glob("checkpoints/step-*")))
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        while process.poll() is None:
            found = list(second.glob("checkpoints/step-*"))
            if len(found) > points or (points and found):
                process.send_signal(number)
                break
            time.sleep(0.001)
        _, told = process.communicate()
        assert process.returncode in (128 + number, -number, 0), told
    result = search(replace(config, **changes))
    first = Path(config.output, "runs", "batch16-rate0.003-epochs1-seed0.json")
    assert first.is_file()
    assert [run["score"] for run in result.runs] == [run["score"] for run in whole.runs]
    ours, theirs = (load_checkpoint(o).model.state_dict() for o in (config.output, whole.output))
    assert all(ours[name].equal(theirs[name]) for name in ours)


@pytest.mark.parametrize("moment", ["_write", "evaluate_model"])
def test_a_signal_at_a_runs_end_stops_the_search(
    config: SearchConfig, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Amid the writing of the first run, which is kept; amid its evaluation, which is redone."""
    original = getattr(finetuning, moment)
    calls = 0

    def signalled(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            os.kill(os.getpid(), signal.SIGINT)
        return original(*arguments, **options)

    monkeypatch.setattr(finetuning, moment, signalled)
    config = replace(config, learning_rate=[3e-3], seeds=2, grid_seeds=2)
    with pytest.raises(Interrupted) as stopped:
        search(config)
    assert stopped.value.signal == signal.SIGINT
    before = records(Path(config.output))
    assert len(before) == (1 if moment == "_write" else 0)
    result = search(config)
    assert len(result.runs) == 4
    after = records(Path(config.output))
    assert {name: after[name] for name in before} == before


def test_after_ctrl_c_the_workers_write_restart_points_and_end(config: SearchConfig) -> None:
    process, long = endless_search(config)
    while not long.stat().st_size:  # its training has begun
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT, told
    assert "restart points of the others are saved; run the same command again" in told
    assert "Traceback" not in told
    assert list(long.parent.glob("checkpoints/step-*"))
    assert 1 <= len(records(Path(config.output))) <= 2
    size = long.stat().st_size
    time.sleep(0.5)
    assert long.stat().st_size == size


def test_a_worker_that_dies_is_told_and_the_search_can_go_on(config: SearchConfig) -> None:
    process, long = endless_search(config)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    if not children.exists():
        process.kill()
        process.wait()
        pytest.skip("needs Linux to see the workers")
    workers: list[int] = []
    while not workers:  # the log is there a moment before it is held open
        assert process.poll() is None
        workers = [one for one in map(int, children.read_text().split()) if long in opened(one)]
    os.kill(workers[0], signal.SIGKILL)
    _, told = process.communicate(timeout=300)
    assert process.returncode == 2, told
    assert "a worker process ended early (signal 9)" in told
    before = records(Path(config.output))
    assert before
    changes = {"learning_rate": [3e-3], "epochs": [1], "seeds": 2, "grid_seeds": 2}
    result = search(replace(config, **changes))
    assert len(result.runs) == 2
    after = records(Path(config.output))
    assert {name: after[name] for name in before} == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": 0}, "--seeds is 0"),
        ({"grid_seeds": 0}, "--grid-seeds is 0"),
        ({"workers": 0}, "--workers is 0"),
        ({"epochs": []}, "--epochs has no values"),
        ({"epochs": [3, 0]}, "epochs is 0"),
        ({"learning_rate": [-1.0]}, "learning rate is -1.0"),
        ({"sequence_length": 65}, "beyond the model's 64 positions"),
        ({"freeze_layers": 3}, "--freeze-layers is 3; the checkpoint has 2 layers"),
        ({"task": "ner"}, "no task 'ner'"),
        ({"data": None}, "--data"),
        ({"batch_tokens": 4}, "--batch-tokens 4 is less than"),
        ({"max_examples": 2, "seeds": 20}, "drawn with seed .* all have the same label"),
    ],
)
def test_what_cannot_work_is_told_before_anything_is_written(
    config: SearchConfig, changes: dict, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        search(replace(config, **changes))
    assert not Path(config.output).exists()


def made(point: Point, seed: int, score: float | None) -> Attempt:
    return Attempt(point, seed, Ended("x", {}), score, score is None or score <= 0.5)


def test_a_points_statistics_leave_out_runs_without_a_score_but_count_them() -> None:
    point, other = Point(16, 2e-5, 3), Point(32, 2e-5, 3)
    attempts = [made(point, n, score) for n, score in enumerate((0.5, 0.7, None, 0.9))]
    attempts += [made(other, 0, None)]
    found = summary(point, attempts)
    assert (found.runs, found.failed) == (4, 2)
    assert (found.mean, found.sd) == (pytest.approx(0.7), pytest.approx(0.2))
    assert (found.median, found.best) == (0.7, 0.9)
    assert summary(other, attempts).mean is None
    assert best_point([other, point], attempts) == point
    assert best_attempt(attempts, other) is None
    lines = grid_lines([summary(one, attempts) for one in (other, point)], 1)
    assert lines[0].split()[3:] == ["runs", "failed", "mean", "sd", "median", "best"]
    assert lines[1].split()[3:] == ["1", "1", "-", "-", "-", "-"]
    assert lines[2].split()[3:] == ["4", "2", "70.00", "20.00", "70.00", "90.00", "*"]


def test_the_first_of_equal_runs_and_points_is_taken() -> None:
    points = [Point(16, rate, 3) for rate in (1e-5, 2e-5)]
    attempts = [made(point, seed, 0.7) for point in points for seed in (0, 1)]
    assert best_point(points, attempts) == points[0]
    assert best_attempt(attempts, points[1]) == attempts[2]


def test_a_negative_score_is_a_score() -> None:
    point = Point(16, 2e-5, 3)
    attempts = [made(point, 0, -0.2), made(point, 1, -0.1)]
    assert best_attempt(attempts, point) == attempts[1]


def test_a_run_knows_its_end_only_by_its_record(tmp_path: Path) -> None:
    assert how_it_ended(str(tmp_path / "run")) is None
    (tmp_path / "run").mkdir()
    assert how_it_ended(str(tmp_path / "run")) is None
