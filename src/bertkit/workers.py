"""Worker processes that do the same with each of many items, results in the order of the items.

Each worker is a fresh Python that talks over its own pipes. So nothing is forked beside running
threads, a caller's script needs no `if __name__ == "__main__"`, Ctrl-C reaches only the caller,
and a worker ends when its caller does, however that ends: its pipe closes, and amid a long item it
sees that it has another parent.
"""

from __future__ import annotations

import os
import pickle
import queue
import subprocess
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from bertkit.errors import Interrupted, UserError

Item = TypeVar("Item")
Result = TypeVar("Result")

_START = (
    "import sys; sys.path[:] = sys.argv[1:]; "
    "from bertkit.workers import serve; raise SystemExit(serve())"
)


@dataclass
class _Failure:
    """What a worker sends instead of a result: the user's mistake, or the traceback of ours."""

    message: str
    is_mistake: bool


def parallel_map(
    work: Callable[[Item], Result], items: Iterable[Item], workers: int
) -> Generator[Result, None, None]:
    """`work(item)` for each item, in order, by `workers` processes.

    One worker is this process itself. At most two items for each worker are in memory. Close the
    generator to end the workers early: they get SIGTERM, and what they do about it is waited for.

    Args:
        work: something that can be pickled: a function of an importable module, a `partial` of
            one, or an object with `__call__`. Each worker gets it once.
        items: anything that can be pickled; read no further ahead than needed.
        workers: number of processes, at least 1.

    Raises:
        UserError: `work` raised one, or a worker ended early.
        RuntimeError: `work` raised something else; with its traceback.
    """
    if workers == 1:
        for item in items:
            yield work(item)
        return
    idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
    started: list[_Worker] = []

    def run(item: Item) -> Result:
        worker = idle.get()
        try:
            result: Result = worker.run(item)
            return result
        finally:
            idle.put(worker)

    pending: deque[Future[Result]] = deque()
    threads = ThreadPoolExecutor(workers, thread_name_prefix="worker")
    try:
        for _ in range(workers):
            started.append(_Worker(work))
            idle.put(started[-1])
        for item in items:
            pending.append(threads.submit(run, item))
            if len(pending) >= 2 * workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()
        try:
            for worker in started:
                worker.process.terminate()  # a training saves its state before it ends
            threads.shutdown()
        finally:  # a second Ctrl-C does not wait for that
            for worker in started:
                worker.end()


def processors() -> int:
    """Processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Worker:
    """One process, as its caller sees it."""

    def __init__(self, work: Callable[[Any], Any]) -> None:
        self.greeting: Callable[[Any], Any] | None = work
        single = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
        self.process = subprocess.Popen(
            [sys.executable, "-c", _START, *sys.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | single,
            process_group=0,  # Ctrl-C is for the caller
        )

    def run(self, item: object) -> Any:
        assert self.process.stdout is not None
        if self.greeting is not None:  # not earlier: it would wait until Python has started
            self._send(self.greeting)
            self.greeting = None
        self._send(item)
        try:
            result: Any = pickle.load(self.process.stdout)
        except (EOFError, pickle.UnpicklingError) as error:
            raise _ended(self.process) from error
        if isinstance(result, _Failure):
            if result.is_mistake:
                raise UserError(result.message)
            raise RuntimeError(f"a worker process failed:\n{result.message}")
        return result

    def _send(self, message: object) -> None:
        assert self.process.stdin is not None
        try:
            pickle.dump(message, self.process.stdin, protocol=pickle.HIGHEST_PROTOCOL)
            self.process.stdin.flush()
        except BrokenPipeError as error:
            raise _ended(self.process) from error

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def _ended(process: subprocess.Popen[bytes]) -> UserError:
    code = process.wait()
    reason = f"signal {-code}" if code < 0 else f"exit code {code}"
    return UserError(
        f"a worker process ended early ({reason}), perhaps for lack of memory; try fewer --workers"
    )


def _end_with(parent: int) -> None:
    """Ends this process at once when it is no longer a child of `parent`."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def serve() -> int:
    """The worker's side: reads items from standard input until it closes."""
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever else prints must not get between the results
    try:
        work = pickle.load(source)
        while True:
            item = pickle.load(source)
            result: Any
            try:
                result = work(item)
            except UserError as error:
                result = _Failure(str(error), is_mistake=True)
            except Exception:
                result = _Failure(traceback.format_exc(), is_mistake=False)
            pickle.dump(result, sink, protocol=pickle.HIGHEST_PROTOCOL)
            sink.flush()
    except (EOFError, BrokenPipeError, KeyboardInterrupt, Interrupted):
        return 0
