"""One update of the weights: micro-batches forward and backward, clipping, the optimizer.

Each loss is divided by its count over the whole step, in all processes, so that how a step is cut
into micro-batches and shared out changes nothing but the order of sums. Gradients meet once a step,
in the backward pass of each process's last micro-batch.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from contextlib import nullcontext

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from bertkit.errors import UserError
from bertkit.training.batch import Batch
from bertkit.training.config import TrainOptions
from bertkit.training.objective import LossSums, Objective
from bertkit.training.processes import Processes, alone
from bertkit.training.schedule import learning_rate
from bertkit.training.seeds import seed_micro_batch

Numbered = Sequence[tuple[int, Batch]]
"""Micro-batches with their numbers in the step."""


class NotFiniteError(UserError):
    """The loss or the gradient of a step is not finite; the weights are those before the step."""


class _Forward(nn.Module):
    """The objective as a module's forward pass, which is what DistributedDataParallel wraps."""

    def __init__(self, model: nn.Module, objective: Objective) -> None:
        super().__init__()
        self.model, self.objective = model, objective

    def forward(self, batch: Batch) -> LossSums:
        return self.objective(self.model, batch)


class Updater:
    """Updates a model step by step, alone or together with other processes."""

    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        optimizer: torch.optim.Optimizer,
        processes: Processes | None = None,
    ) -> None:
        self.model, self.objective, self.optimizer = model, objective, optimizer
        self.processes = processes or alone()
        self._forward: nn.Module = _Forward(model, objective)
        if self.processes.count > 1:
            self._forward = DistributedDataParallel(self._forward, gradient_as_bucket_view=True)
        self._runs_ahead = (
            self.processes.device.type == "cuda"
            and self.processes.count == 1
            and type(optimizer) is torch.optim.AdamW
        )

    def __call__(
        self, step: int, batches: Numbered, options: TrainOptions
    ) -> dict[str, tuple[float, float]]:
        """Makes update number `step` (from 0) of this process's part of the micro-batches.

        Returns name -> (sum, count) over all processes, for the log: each loss, each metric,
        "tokens", "padding" (of the places that attention computes), "gradient_norm" before
        clipping, "learning_rate". Raises NotFiniteError, in every process, when
        the loss or the gradient is not finite.
        """
        totals = self._totals(batches)
        told: list[tuple[str, Tensor]] = []  # sums that stay on the device until the step's end
        logged: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for place, (number, batch) in enumerate(batches):
            seed_micro_batch(options.seed, step, number)
            with self._synchronized(place == len(batches) - 1):
                sums = self._forward(batch.to(self.processes.device))
                loss = torch.stack(
                    [sums.losses[name].float() / total for name, total in totals.items() if total]
                ).sum()
                # DistributedDataParallel takes the mean over the processes, and the sum is wanted.
                (loss * self.processes.count if self.processes.count > 1 else loss).backward()
            for name, value in sums.losses.items():
                told.append((f"{name}_loss", value.detach()))
            for name, (metric, count) in sums.metrics.items():
                if isinstance(metric, Tensor):
                    told.append((name, metric.detach()))
                else:
                    logged[name][0] += float(metric)
                logged[name][1] += count
            slots = batch.inputs.sequences * batch.inputs.max_length
            logged["tokens"][0] += batch.inputs.tokens
            logged["padding"][0] += slots - batch.inputs.tokens
            logged["padding"][1] += slots
        norm = torch.nn.utils.clip_grad_norm_(
            self.model.parameters(), options.clip_norm or math.inf, foreach=True
        )
        rate = learning_rate(step, options)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["rate_share"]
        if self._runs_ahead:
            self._step_if_finite([norm, *(value for _, value in told)])
        *told_values, norm_value = _on_host([*(value for _, value in told), norm])
        for (name, _), told_value in zip(told, told_values, strict=True):
            logged[name][0] += told_value
        names = list(logged)
        flat = self.processes.sums([number for name in names for number in logged[name]])
        values = dict(zip(names, zip(flat[::2], flat[1::2], strict=True), strict=True))
        for name, total in totals.items():
            values[f"{name}_loss"] = (values[f"{name}_loss"][0], total)
        loss_value = sum(
            values[f"{name}_loss"][0] / total for name, total in totals.items() if total
        )
        if not math.isfinite(norm_value) or not math.isfinite(loss_value):
            what = "gradient" if math.isfinite(loss_value) else "loss"
            raise NotFiniteError(f"the {what} is no longer finite at step {step + 1}")
        if not self._runs_ahead:
            self.optimizer.step()
        self.model.zero_grad(set_to_none=True)
        values["loss"] = (loss_value, 1)
        values["gradient_norm"] = (norm_value, 1)
        values["learning_rate"] = (rate, 1)
        return values

    def _step_if_finite(self, values: Sequence[Tensor]) -> None:
        """An update that the GPU leaves out by itself if a value is not finite.

        So the host need not see the values first, and the GPU has work while it does.
        """
        finite = torch.stack([value.float() for value in values]).isfinite().all()
        self.optimizer.found_inf = (~finite).float()  # type: ignore[attr-defined]
        self.optimizer.step()

    def _totals(self, batches: Numbered) -> dict[str, int]:
        """The terms of each loss over the whole step."""
        counts: dict[str, int] = defaultdict(int)
        for _, batch in batches:
            for name, count in self.objective.counts(batch).items():
                counts[name] += count
        names = list(counts)
        sums = self.processes.sums([counts[name] for name in names])
        return {name: int(total) for name, total in zip(names, sums, strict=True)}

    def _synchronized(self, last: bool) -> nullcontext[None]:
        """Where gradients meet only if this is the last micro-batch of the step."""
        if last or not isinstance(self._forward, DistributedDataParallel):
            return nullcontext()
        return self._forward.no_sync()  # type: ignore[return-value]


def _on_host(values: Sequence[Tensor]) -> list[float]:
    """The numbers in scalar tensors, in one transfer."""
    numbers: list[float] = torch.stack([value.double() for value in values]).tolist()
    return numbers
