"""The encoder's input: the tokens of all sequences end to end, without padding.

sequence   [CLS] a b [SEP]   [CLS] c [SEP]
tokens      101  7 8  102     101  9  102       [tokens]
positions     0  1 2    3       0  1    2       [tokens]
bounds        0                 4             7 [sequences + 1]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass
class FlatBatch:
    """Sequences laid end to end.

    Attributes:
        token_ids: [tokens] int64.
        segment_ids: [tokens] int64, 0 for sentence A and 1 for sentence B.
        positions: [tokens] int64, counted from 0 within each sequence.
        bounds: [sequences + 1] int64; sequence k is `bounds[k]:bounds[k + 1]`.
        max_length: tokens of the longest sequence.
    """

    token_ids: Tensor
    segment_ids: Tensor
    positions: Tensor
    bounds: Tensor
    max_length: int

    @property
    def sequences(self) -> int:
        return self.bounds.numel() - 1

    @property
    def tokens(self) -> int:
        return self.token_ids.numel()

    @property
    def lengths(self) -> Tensor:
        """[sequences] int64."""
        return self.bounds.diff()

    @classmethod
    def from_arrays(
        cls, token_ids: np.ndarray, segment_ids: np.ndarray, lengths: np.ndarray
    ) -> FlatBatch:
        """From flat ids and segments ([tokens]) and the length of each sequence ([sequences])."""
        bounds = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        positions = np.arange(bounds[-1]) - np.repeat(bounds[:-1], lengths)
        return cls(
            token_ids=torch.from_numpy(token_ids.astype(np.int64)),
            segment_ids=torch.from_numpy(segment_ids.astype(np.int64)),
            positions=torch.from_numpy(positions),
            bounds=torch.from_numpy(bounds),
            max_length=int(np.max(lengths)),
        )

    @classmethod
    def from_sequences(
        cls, token_ids: Sequence[Sequence[int]], segment_ids: Sequence[Sequence[int]] | None = None
    ) -> FlatBatch:
        """From one list of ids for each sequence, and one of segments (all 0 when absent)."""
        lengths = np.array([len(ids) for ids in token_ids], dtype=np.int64)
        flat = np.concatenate([np.asarray(ids, dtype=np.int64) for ids in token_ids])
        if segment_ids is None:
            segments = np.zeros_like(flat)
        else:
            segments = np.concatenate([np.asarray(s, dtype=np.int64) for s in segment_ids])
        return cls.from_arrays(flat, segments, lengths)

    @classmethod
    def from_padded(
        cls, token_ids: Tensor, mask: Tensor, segment_ids: Tensor | None = None
    ) -> FlatBatch:
        """From padded ids [sequences, length] and a mask that is 1 at real tokens."""
        real = mask.bool()
        if segment_ids is None:
            segment_ids = torch.zeros_like(token_ids)
        return cls.from_arrays(
            token_ids[real].numpy(), segment_ids[real].numpy(), real.sum(dim=1).numpy()
        )

    def part(self, begin: int, end: int, max_length: int) -> FlatBatch:
        """The sequences from `begin` to before `end`, to be padded to `max_length` tokens."""
        bounds = self.bounds[begin : end + 1]
        tokens = slice(int(bounds[0]), int(bounds[-1]))
        return FlatBatch(
            token_ids=self.token_ids[tokens],
            segment_ids=self.segment_ids[tokens],
            positions=self.positions[tokens],
            bounds=bounds - bounds[0],
            max_length=max_length,
        )

    def extended(self, extra: int, pad_id: int = 0) -> FlatBatch:
        """The same sequences, then sequences of padding with `extra` tokens in all.

        Sequences never look at each other, so the first `self.tokens` rows of what an encoder
        makes of it stay the same.
        """
        if not extra:
            return self
        device = self.token_ids.device
        more = torch.arange(extra, device=device)
        ends = torch.arange(0, extra, self.max_length, device=device)[1:]
        last = torch.tensor([extra], device=device)
        return FlatBatch(
            token_ids=F.pad(self.token_ids, (0, extra), value=pad_id),
            segment_ids=F.pad(self.segment_ids, (0, extra)),
            positions=torch.cat([self.positions, more % self.max_length]),
            bounds=torch.cat([self.bounds, self.tokens + ends, self.tokens + last]),
            max_length=self.max_length,
        )

    def to(self, device: torch.device | str) -> FlatBatch:
        return self.map(lambda tensor: moved(tensor, device))

    def map(self, change: Callable[[Tensor], Tensor]) -> FlatBatch:
        """The batch with another form of each tensor."""
        return FlatBatch(
            token_ids=change(self.token_ids),
            segment_ids=change(self.segment_ids),
            positions=change(self.positions),
            bounds=change(self.bounds),
            max_length=self.max_length,
        )


def moved(tensor: Tensor, device: torch.device | str) -> Tensor:
    """The tensor on a device; a GPU fetches it from pinned memory while the caller goes on."""
    device = torch.device(device)
    return tensor.to(device, non_blocking=device.type == "cuda")
