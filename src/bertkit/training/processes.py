"""Many processes, one run: `torchrun` starts them, on one machine or many; this joins them.

    torchrun --nproc-per-node 2 -m bertkit pretrain my-corpus -o my-bert

Process `rank` of `count` computes the micro-batches rank, rank + count, ... of every step. The
first one (rank 0) writes all files and speaks; what it decides alone, by a clock or by what lies on
its disk, it tells the others. Without `torchrun` there is one process and nothing to join.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from bertkit.errors import Interrupted, UserError
from bertkit.training.device import choose_device

T = TypeVar("T")

PATIENCE = timedelta(minutes=30)
"""How long a process waits for the others, as while the first writes a large restart point."""

ROLL_CALL = timedelta(seconds=10)
"""How long the processes that are left wait for a sign of life of one that is gone."""


class GoneError(UserError):
    """Another process of the run ended or cannot be reached."""


@dataclass(frozen=True)
class Processes:
    """The processes of a run, seen from one of them.

    Attributes:
        rank: this one's number, from 0.
        count: how many there are.
        device: where this one computes.
        local: this one's number on its machine, from 0.
    """

    rank: int
    count: int
    device: torch.device
    local: int = 0

    @property
    def leads(self) -> bool:
        """Whether this is the one that writes and speaks."""
        return self.rank == 0

    def first(self, decide: Callable[[], T]) -> T:
        """What `decide` returns, or the UserError or Interrupted it raises, in the first process;
        the others get the same. The value must be picklable when there are others."""
        if self.count == 1:
            return decide()
        told: list[Any] = [None, None]
        failure: Exception | None = None
        if self.leads:
            try:
                told[0] = decide()
            except (UserError, Interrupted) as error:
                told[1] = error
            except Exception as error:
                failure = error
                told[1] = UserError(f"process 0 failed ({type(error).__name__}: {error})")
        torch.distributed.broadcast_object_list(told, src=0)
        if failure is not None:
            raise failure
        if told[1] is not None:
            raise told[1]
        return cast(T, told[0])

    def all(self, check: Callable[[], None]) -> None:
        """Runs `check` everywhere; where it raises UserError, every process raises the first."""
        message: str | None = None
        try:
            check()
        except UserError as error:
            message = str(error)
        if self.count == 1:
            if message is not None:
                raise UserError(message)
            return
        told: list[str | None] = [None] * self.count
        torch.distributed.all_gather_object(told, message)
        for rank, text in enumerate(told):
            if text is not None:
                raise UserError(text if text == told[0] else f"process {rank}: {text}")

    def sums(self, values: Sequence[float]) -> list[float]:
        """Of each number over the processes, in float64."""
        return self._reduced(values, torch.distributed.ReduceOp.SUM)

    def largest(self, values: Sequence[float]) -> list[float]:
        """The largest of each number over the processes."""
        return self._reduced(values, torch.distributed.ReduceOp.MAX)

    def spread(self, tensors: Sequence[Tensor]) -> None:
        """Puts the first process's values into everyone's tensors."""
        if self.count > 1:
            for tensor in tensors:
                torch.distributed.broadcast(tensor, src=0)

    def _reduced(self, values: Sequence[float], operation: Any) -> list[float]:
        if self.count == 1:
            return list(values)
        tensor = torch.tensor(values, dtype=torch.float64, device=self.device)
        torch.distributed.all_reduce(tensor, operation)
        return cast("list[float]", tensor.tolist())


def refuse_others(command: str) -> None:
    """Raises UserError where `torchrun` started several processes of a command that is for one."""
    count = os.environ.get("WORLD_SIZE", "1")
    if count != "1":
        raise UserError(
            f"bertkit {command} is for one process, and WORLD_SIZE says that it is one of {count}; "
            "start it without torchrun (bertkit search --workers runs several fine-tunings)"
        )


def alone(device: str = "auto") -> Processes:
    """One process without others, on the device of that name (`choose_device`)."""
    return Processes(0, 1, choose_device(device))


@contextmanager
def joined(device_name: str = "auto") -> Iterator[Processes]:
    """The processes that `torchrun` started with this one, connected while it is open.

    Args:
        device_name: where each of them computes; see `choose_device`.

    Raises:
        UserError: there is no such device.
        GoneError: another process ended or was lost; it says which one and where it ran.
        SystemExit: in all but the first process, for an error that the first one tells.
    """
    count, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    if count == 1:
        yield alone(device_name)
        return
    device, local = choose_device(device_name), int(os.environ.get("LOCAL_RANK", "0"))
    if device.type == "cuda":
        torch.cuda.set_device(device)
    store, _, _ = next(torch.distributed.rendezvous("env://", timeout=PATIENCE))
    # torchrun may start everyone again; what the earlier ones said is not heard.
    store = torch.distributed.PrefixStore(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"), store)
    torch.distributed.init_process_group(
        "nccl" if device.type == "cuda" else "gloo",
        store=torch.distributed.PrefixStore("group", store),
        rank=rank,
        world_size=count,
        timeout=PATIENCE,
    )
    store.set(
        f"place/{rank}", f"process {rank} of {count} (pid {os.getpid()} on {socket.gethostname()})"
    )
    try:
        yield Processes(rank, count, device, local)
    except (UserError, Interrupted) as error:
        store.set(f"error/{rank}", str(error))
        if rank and _heard(store, "error/0") == str(error):
            code = 128 + error.signal if isinstance(error, Interrupted) else 2
            raise SystemExit(code) from None
        raise
    except RuntimeError as error:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun ends those that are left
        store.set(f"alive/{rank}", "")
        _heard(store, *(f"alive/{other}" for other in range(count)))
        gone = [other for other in range(count) if not store.check([f"alive/{other}"])]
        if not gone or isinstance(error, torch.OutOfMemoryError):
            raise
        if rank != min(set(range(count)) - set(gone)):
            raise SystemExit(2) from None
        names = ", ".join(store.get(f"place/{other}").decode() for other in gone)
        raise GoneError(
            f"{names} ended or cannot be reached, so the others stop too; the same command goes on "
            "from the newest restart point"
        ) from error
    finally:
        torch.distributed.destroy_process_group()


def _heard(store: Any, *keys: str) -> str | None:
    """What another process says under the last of the keys, once all of them are there; None
    where they are not within some seconds."""
    try:
        store.wait(list(keys), ROLL_CALL)
        return cast(str, store.get(keys[-1]).decode())
    except (RuntimeError, ValueError):
        return None
