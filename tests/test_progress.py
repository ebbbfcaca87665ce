"""People see a bar on a terminal and plain lines elsewhere; quiet means silent."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from bertkit import progress
from bertkit.progress import Progress, say


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """A terminal in place of stderr; what it was sent."""
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=100, emoji=False, highlight=False)
    monkeypatch.setattr(progress, "console", console)
    return stream


def test_elsewhere_a_plain_line_comes_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("reading", total=3, unit="documents") as bar:
        for _ in range(3):
            bar.advance()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("reading: 3/3 documents in ")
    assert captured.err.count("\n") == 1


def test_elsewhere_a_plain_line_comes_now_and_then_with_the_time_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with Progress("training", total=40, unit="steps") as bar:
        for _ in range(20):
            now += 2.0
            bar.advance(detail="loss 2.5")
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "training: 8/40 steps in 16 s, 64 s left loss 2.5",
        "training: 16/40 steps in 32 s, 48 s left loss 2.5",
        "training: 20/40 steps in 40 s loss 2.5",  # it ended here
    ]


def test_the_end_is_told_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with Progress("reading", total=1, unit="texts") as bar:
        now += 20.0
        bar.advance()
    assert capsys.readouterr().err == "reading: 1/1 texts in 20 s\n"


def test_the_time_left_of_continued_work_counts_without_its_earlier_part(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with Progress("training", total=1000, unit="steps", done=900) as bar:
        now += 20.0
        bar.advance(20)
    assert (
        capsys.readouterr()
        .err.splitlines()[0]
        .startswith("training: 920/1000 steps in 20 s, 80 s left")
    )


def test_work_that_failed_does_not_say_that_it_ended(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="bad"), Progress("reading", unit="files") as bar:
        bar.advance()
        raise ValueError("bad")
    assert capsys.readouterr().err == ""


def test_quiet_is_silent(capsys: pytest.CaptureFixture[str], terminal: io.StringIO) -> None:
    with Progress("reading", total=1, quiet=True) as bar:
        bar.advance()
    say("hello", quiet=True)
    assert capsys.readouterr().err == "" and terminal.getvalue() == ""


def test_a_terminal_shows_a_bar_with_its_detail_as_it_is(terminal: io.StringIO) -> None:
    with Progress("filling [MASK]", total=2, unit="texts") as bar:
        bar.advance(2, detail="[bold] :dog:")
    shown = terminal.getvalue()
    assert "filling [MASK]" in shown and "2/2" in shown and "[bold] :dog:" in shown


def test_the_total_may_be_unknown(terminal: io.StringIO) -> None:
    with Progress("reading") as bar:
        bar.advance(7)
    assert "7/?" in terminal.getvalue()


def test_a_message_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    say("wrote [MASK] :dog: 书 to " + "x" * 200)
    assert capsys.readouterr().err == "wrote [MASK] :dog: 书 to " + "x" * 200 + "\n"
