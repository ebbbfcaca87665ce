"""The run's log on disk."""

from __future__ import annotations

from pathlib import Path

from bertkit.training.log import LOG_NAME, RunLog, read_log


def write(run: Path, first: int, last: int, resumed_from: int = 0) -> None:
    log = RunLog(run, resumed_from)
    for step in range(first, last + 1):
        log.write("train", step, loss=1.0 / step)
    log.close()


def test_a_continued_run_tells_no_step_twice(tmp_path: Path) -> None:
    write(tmp_path, 1, 8)
    write(tmp_path, 6, 10, resumed_from=5)
    assert [record["step"] for record in read_log(tmp_path)] == list(range(1, 11))


def test_an_evaluation_that_is_done_again_is_told_once(tmp_path: Path) -> None:
    for _ in range(2):
        log = RunLog(tmp_path, resumed_from=5)
        log.write("dev", 5, accuracy=0.5)
        log.write("note", 5, text="a")
        log.close()
    kinds = [record["kind"] for record in read_log(tmp_path)]
    assert (kinds.count("dev"), kinds.count("note")) == (1, 2)


def test_a_fresh_start_begins_an_empty_log(tmp_path: Path) -> None:
    write(tmp_path, 1, 8)
    write(tmp_path, 1, 2)
    assert [record["step"] for record in read_log(tmp_path)] == [1, 2]


def test_a_half_written_last_line_is_passed_over(tmp_path: Path) -> None:
    write(tmp_path, 1, 3)
    with (tmp_path / LOG_NAME).open("a", encoding="utf-8") as file:
        file.write('{"kind": "train", "st')
    assert len(read_log(tmp_path)) == 3
    write(tmp_path, 3, 4, resumed_from=2)
    assert [record["step"] for record in read_log(tmp_path)] == [1, 2, 3, 4]


def test_tensorboard_can_read_the_curves(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    write(tmp_path, 1, 4)
    board = EventAccumulator(str(tmp_path / "tensorboard"))
    board.Reload()
    assert [event.step for event in board.Scalars("train/loss")] == [1, 2, 3, 4]
