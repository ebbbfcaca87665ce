"""Work in several processes: order, errors, death, and nothing read far ahead."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from operator import mul
from pathlib import Path

import pytest

from bertkit.errors import UserError
from bertkit.text.vocabulary import check_size
from bertkit.workers import parallel_map, processors


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_results_come_in_the_order_of_the_items(workers: int) -> None:
    assert list(parallel_map(partial(mul, 2), range(20), workers)) == list(range(0, 40, 2))
    assert list(parallel_map(partial(mul, 2), [], workers)) == []


@pytest.mark.parametrize("workers", [1, 2])
def test_items_are_not_read_far_ahead(workers: int) -> None:
    read = []

    def items() -> Iterator[int]:
        for number in range(100):
            read.append(number)
            yield number

    with closing(parallel_map(partial(mul, 2), items(), workers)) as results:
        for _ in range(10):
            next(results)
        assert len(read) <= 10 + 2 * workers


@pytest.mark.parametrize("workers", [1, 2])
def test_a_users_mistake_comes_through_as_such(workers: int) -> None:
    with pytest.raises(UserError, match="a vocabulary of 3 entries has no room"):
        list(parallel_map(check_size, [100, 3], workers))


def test_another_exception_comes_with_its_traceback() -> None:
    with pytest.raises(RuntimeError, match=r"(?s)Traceback.*invalid literal for int"):
        list(parallel_map(int, ["1", "x"], 2))


def test_a_worker_that_dies_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bertkit.workers._START", "import os; os.kill(os.getpid(), 9)")
    with pytest.raises(UserError, match=r"signal 9.*--workers"):
        list(parallel_map(int, ["1", "2"], 2))


def test_a_worker_ends_with_its_caller_amid_an_item() -> None:
    """The caller is killed while its workers sleep for a minute."""
    script = (
        "import time; from bertkit.workers import parallel_map; "
        "list(parallel_map(time.sleep, [60, 60], 2))"
    )
    caller = subprocess.Popen([sys.executable, "-c", script])
    children = Path(f"/proc/{caller.pid}/task/{caller.pid}/children")
    if not children.exists():
        caller.kill()
        pytest.skip("needs Linux to see the workers")
    while len(workers := children.read_text().split()) < 2:
        assert caller.poll() is None
        time.sleep(0.01)
    time.sleep(1.0)
    caller.kill()
    caller.wait()
    until = time.monotonic() + 20
    while any(Path("/proc", worker).exists() for worker in workers):
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_stop_waits_for_the_workers_and_a_second_one_does_not(tmp_path: Path) -> None:
    work = (
        "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        f"open(os.path.join({str(tmp_path)!r}, str(os.getpid())), 'w').close(); time.sleep(60)"
    )
    script = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "  # as in a shell
        f"from bertkit.workers import parallel_map; list(parallel_map(exec, [{work!r}] * 2, 2))"
    )
    caller = subprocess.Popen([sys.executable, "-c", script])
    while len(list(tmp_path.iterdir())) < 2:
        assert caller.poll() is None
        time.sleep(0.01)
    caller.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        caller.wait(1.0)
    caller.send_signal(signal.SIGINT)
    assert caller.wait(20.0) != 0


def test_there_is_a_processor() -> None:
    assert processors() >= 1
