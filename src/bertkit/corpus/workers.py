"""Worker processes that encode chunks of documents, with the results in the order of the chunks.

Each worker is a fresh Python that talks over its own pipes. So nothing is forked beside running
threads, a caller's script needs no `if __name__ == "__main__"`, Ctrl-C reaches only the caller,
and a worker ends when its caller does, however that ends: its pipe closes.
"""

from __future__ import annotations

import os
import pickle
import queue
import subprocess
import sys
import traceback
from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from bertkit.corpus.encode import Encoded, Item, encode
from bertkit.errors import UserError
from bertkit.text.tokenizer import Tokenizer

_START = (
    "import sys; sys.path[:] = sys.argv[1:]; "
    "from bertkit.corpus.workers import serve; raise SystemExit(serve())"
)


def encode_chunks(
    chunks: Iterable[list[Item]], tokenizer: Tokenizer, sentences: str, workers: int
) -> Generator[dict[str, Encoded], None, None]:
    """The chunks, encoded, one for one and in order, by `workers` processes.

    One worker is this process itself. At most two chunks for each worker are in memory.
    """
    if workers == 1:
        for chunk in chunks:
            yield encode(chunk, tokenizer, sentences)
        return
    idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
    started: list[_Worker] = []

    def work(chunk: list[Item]) -> dict[str, Encoded]:
        worker = idle.get()
        try:
            return worker.encode(chunk)
        finally:
            idle.put(worker)

    pending: deque[Future[dict[str, Encoded]]] = deque()
    threads = ThreadPoolExecutor(workers, thread_name_prefix="encode")
    try:
        for _ in range(workers):
            started.append(_Worker(tokenizer, sentences))
            idle.put(started[-1])
        for chunk in chunks:
            pending.append(threads.submit(work, chunk))
            if len(pending) >= 2 * workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for worker in started:
            worker.end()  # a thread that waits for it goes on
        threads.shutdown(cancel_futures=True)


class _Worker:
    """One process, as its caller sees it."""

    def __init__(self, tokenizer: Tokenizer, sentences: str) -> None:
        self.greeting: tuple[Tokenizer, str] | None = (tokenizer, sentences)
        single = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
        self.process = subprocess.Popen(
            [sys.executable, "-c", _START, *sys.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | single,
            process_group=0,  # Ctrl-C is for the caller
        )

    def encode(self, chunk: list[Item]) -> dict[str, Encoded]:
        assert self.process.stdout is not None
        if self.greeting is not None:  # not earlier: it would wait until Python has started
            self._send(self.greeting)
            self.greeting = None
        self._send(chunk)
        try:
            result: Any = pickle.load(self.process.stdout)
        except (EOFError, pickle.UnpicklingError) as error:
            raise _ended(self.process) from error
        if isinstance(result, str):
            raise RuntimeError(f"a worker process failed:\n{result}")
        encoded: dict[str, Encoded] = result
        return encoded

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
        f"a worker process ended early ({reason}), perhaps for lack of memory; "
        "try fewer --workers, or smaller documents"
    )


def serve() -> int:
    """The worker's side: reads chunks from standard input until it closes."""
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever else prints must not get between the results
    try:
        tokenizer, sentences = pickle.load(source)
        while True:
            chunk = pickle.load(source)
            result: dict[str, Encoded] | str
            try:
                result = encode(chunk, tokenizer, sentences)
            except Exception:
                result = traceback.format_exc()
            pickle.dump(result, sink, protocol=pickle.HIGHEST_PROTOCOL)
            sink.flush()
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        return 0
