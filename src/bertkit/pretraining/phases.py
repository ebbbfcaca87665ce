"""Phases of growing sequence length: most steps on short, cheap sequences (paper, appendix A.2).

The paper trains 90 % of the steps with sequences of 128 tokens and the rest with 512, to learn
the later positions. Each phase has a plan of its own and counts its own epochs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from bertkit.errors import UserError
from bertkit.training.batch import Batch
from bertkit.training.objective import BatchSource


@dataclass(frozen=True)
class Phase:
    """A sequence length, and the share of the steps that have it."""

    sequence_length: int
    share: float


SHORT = 128
"""The paper's first phase has sequences of this length, in nine steps of ten."""


def read_phases(texts: Sequence[str] | None, last_length: int) -> list[Phase]:
    """The phases before the last as `LENGTH:SHARE`, and the last with what they leave.

    Where nothing is said (None) they are the paper's; "none" stands for no phase before the last.

    Raises UserError for texts that say no such thing, and for lengths that do not grow.
    """
    if texts is None:
        texts = [f"{SHORT}:0.9"] if last_length > SHORT else []
    phases: list[Phase] = []
    for text in [] if list(texts) == ["none"] else texts:
        length, _, share = text.partition(":")
        try:
            phases.append(Phase(int(length), float(share)))
        except ValueError:
            raise UserError(
                f"--phases has '{text}'; give LENGTH:SHARE, as 128:0.9 for nine steps in ten, or "
                "none"
            ) from None
    left = 1.0 - sum(phase.share for phase in phases)
    if not left > 0 or not all(phase.share > 0 for phase in phases):  # also for NaN
        raise UserError(
            "the shares of --phases must be above 0 and together below 1, "
            f"to leave steps for --sequence-length {last_length}"
        )
    phases.append(Phase(last_length, left))
    lengths = [phase.sequence_length for phase in phases]
    if lengths != sorted(set(lengths)):
        raise UserError(
            f"the lengths of --phases and --sequence-length are {lengths}; each must be longer "
            "than the one before"
        )
    if lengths[0] < 8:
        raise UserError(f"a sequence length of {lengths[0]} is too short for a sentence pair")
    return phases


def phase_steps(phases: Sequence[Phase], steps: int) -> list[int]:
    """How many of the steps each phase gets; they sum to `steps`."""
    ends = [round(share * steps) for share in accumulate(phase.share for phase in phases)]
    return [end - start for start, end in zip([0, *ends], ends, strict=False)]


class PhasedSource(BatchSource):
    """One source after another.

    Args:
        sources: one for each phase.
        steps: how many each of them has.
        identity: of all that the batches depend on; the state of another one is not taken back.
    """

    def __init__(
        self, sources: Sequence[BatchSource], steps: Sequence[int], identity: str = ""
    ) -> None:
        self.sources = list(sources)
        self.identity = identity
        self.set_ends(list(accumulate(steps)))

    def set_ends(self, ends: Sequence[int]) -> None:
        self._ends = list(ends)
        self._begins = [0, *self._ends[:-1]]

    def step(self, step: int) -> list[Batch]:
        return [batch for _, batch in self.share(step, 0, 1)]

    def share(self, step: int, rank: int, count: int) -> list[tuple[int, Batch]]:
        number = next(k for k, end in enumerate(self._ends) if step < end)
        return self.sources[number].share(step - self._begins[number], rank, count)

    def state(self) -> dict[str, Any]:
        return {"of": self.identity, "phases": [source.state() for source in self.sources]}

    def restore(self, state: dict[str, Any]) -> None:
        if state.get("of") != self.identity:
            return  # the options were changed; what the state would spare is worked out again
        for source, saved in zip(self.sources, state["phases"], strict=True):
            source.restore(saved)
