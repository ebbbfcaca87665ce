"""The optimizers, with the reference's groups: no weight decay on LayerNorm and biases (A.2).

adamw        PyTorch's AdamW, with bias correction
adam-paper   the reference's AdamWeightDecayOptimizer: Adam without bias correction, whose
             decay is added to the update before the learning rate multiplies both
lamb         You et al. 2019 (arXiv 1904.00962), for very large batches: Adam's update, scaled
             for each matrix to the size of its weights
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from bertkit.training.config import OptimizerName, TrainOptions
from bertkit.training.processes import Processes


def decays(parameter: torch.Tensor) -> bool:
    """Whether weight decay applies: to matrices and embeddings, not to LayerNorm and biases.

    The reference names the exceptions; they are exactly the parameters with one dimension.
    """
    return parameter.ndim >= 2


_LAYER = re.compile(r"encoder\.blocks\.(\d+)\.")


def rate_share(name: str, layers: int, layer_decay: float) -> float:
    """The share of the learning rate that a parameter of a model with so many layers learns at.

    All of it for the top layer and what stands on it, `layer_decay` of the layer above for each
    layer below, and likewise for the embeddings, which lie under the first.
    """
    if name.startswith("encoder.embeddings."):
        return float(layer_decay**layers)
    layer = _LAYER.match(name)
    return float(layer_decay ** (layers - 1 - int(layer[1]))) if layer else 1.0


def parameter_groups(
    model: nn.Module, weight_decay: float, layer_decay: float = 1.0
) -> list[dict[str, Any]]:
    """The parameters that need gradients by weight decay and by `rate_share`."""
    names = [name for name, _ in model.named_parameters()]
    layers = 1 + max((int(found[1]) for found in map(_LAYER.match, names) if found), default=0)
    groups: dict[tuple[float, float], dict[str, Any]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            share = rate_share(name, layers, layer_decay)
            decay = weight_decay if decays(parameter) else 0.0
            empty = {"params": [], "weight_decay": decay, "rate_share": share}
            # what decays is kept apart even where the decay is 0: Lamb scales only that
            group = groups.setdefault((share, float(decays(parameter))), empty)
            group["params"].append(parameter)
    return list(groups.values())


def make_optimizer(
    model: nn.Module, options: TrainOptions, processes: Processes | None = None
) -> torch.optim.Optimizer:
    """The optimizer that `options` names, over the parameters that need gradients.

    With `options.shard_optimizer` each of many processes keeps the moments of its share of the
    parameters, updates these and sends them to the others.
    """
    groups = parameter_groups(model, options.weight_decay, options.layer_decay)
    settings: dict[str, Any] = {
        "lr": options.learning_rate,
        "betas": (options.beta1, options.beta2),
        "eps": options.epsilon,
    }
    if options.optimizer == "adamw":
        settings["fused"] = True
    kind = _KINDS[options.optimizer]
    if options.shard_optimizer and processes is not None and processes.count > 1:
        from torch.distributed.optim import ZeroRedundancyOptimizer

        return ZeroRedundancyOptimizer(groups, kind, **settings)
    return kind(groups, **settings)


class _Moments(torch.optim.Optimizer, ABC):
    """What PaperAdam and Lamb share: the moving means of the gradient and of its square."""

    def __init__(
        self,
        groups: list[dict[str, Any]],
        lr: float,
        betas: tuple[float, float],
        eps: float,
    ) -> None:
        super().__init__(groups, {"lr": lr, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One update of every parameter that has a gradient."""
        assert closure is None
        for group in self.param_groups:
            parameters = [p for p in group["params"] if p.grad is not None]
            if not parameters:
                continue
            gradients = [p.grad for p in parameters]
            for parameter in parameters:
                if not self.state[parameter]:
                    self.state[parameter]["step"] = torch.zeros(())
                    self.state[parameter]["exp_avg"] = torch.zeros_like(parameter)
                    self.state[parameter]["exp_avg_sq"] = torch.zeros_like(parameter)
                self.state[parameter]["step"] += 1
            first = [self.state[p]["exp_avg"] for p in parameters]
            second = [self.state[p]["exp_avg_sq"] for p in parameters]
            beta1, beta2 = group["betas"]
            torch._foreach_lerp_(first, gradients, 1 - beta1)
            torch._foreach_mul_(second, beta2)
            torch._foreach_addcmul_(second, gradients, gradients, 1 - beta2)
            self._move(group, parameters, first, second)

    @abstractmethod
    def _move(
        self,
        group: dict[str, Any],
        parameters: list[torch.Tensor],
        first: list[torch.Tensor],
        second: list[torch.Tensor],
    ) -> None:
        """Moves the parameters of a group by the means of their gradients and squares."""


class PaperAdam(_Moments):
    """p -= rate * (m / (sqrt(v) + eps) + decay * p), as in the reference's optimization.py."""

    def _move(
        self,
        group: dict[str, Any],
        parameters: list[torch.Tensor],
        first: list[torch.Tensor],
        second: list[torch.Tensor],
    ) -> None:
        updates = torch._foreach_sqrt(second)
        torch._foreach_add_(updates, group["eps"])
        updates = torch._foreach_div(first, updates)
        if group["weight_decay"]:
            torch._foreach_add_(updates, parameters, alpha=group["weight_decay"])
        torch._foreach_add_(parameters, updates, alpha=-group["lr"])


class Lamb(_Moments):
    """p -= rate * |p| / |r| * r, where r is Adam's bias-corrected update plus decay * p.

    As in the authors' own release, what is spared the decay (LayerNorm and biases) is spared the
    scaling too; it also falls away where either norm is zero.
    """

    def _move(
        self,
        group: dict[str, Any],
        parameters: list[torch.Tensor],
        first: list[torch.Tensor],
        second: list[torch.Tensor],
    ) -> None:
        beta1, beta2 = group["betas"]
        scaled = decays(parameters[0])
        for parameter, mean, square in zip(parameters, first, second, strict=True):
            count = float(self.state[parameter]["step"])
            divisor = (square / (1 - beta2**count)).sqrt_().add_(group["eps"])
            update = (mean / (1 - beta1**count)).div_(divisor)
            if group["weight_decay"]:
                update.add_(parameter, alpha=group["weight_decay"])
            trust = 1.0
            if scaled:
                of_weights, of_update = float(parameter.norm()), float(update.norm())
                if of_weights > 0 and of_update > 0:
                    trust = of_weights / of_update
            parameter.add_(update, alpha=-group["lr"] * trust)


_KINDS: dict[OptimizerName, Any] = {
    "adamw": torch.optim.AdamW,
    "adam-paper": PaperAdam,
    "lamb": Lamb,
}


def moments(
    model: nn.Module, optimizer: torch.optim.Optimizer, processes: Processes | None = None
) -> dict[str, torch.Tensor]:
    """The optimizer's state as flat named tensors: `<parameter>/exp_avg`, ...

    Where it is sharded over processes, all of them must call this, and the first gets it whole.
    """
    own = _own(optimizer)
    part = {
        f"{name}/{key}": value
        for name, parameter in model.named_parameters()
        for key, value in own.state.get(parameter, {}).items()
    }
    if processes is None or own is optimizer:
        return part
    parts: list[Any] | None = [None] * processes.count if processes.leads else None
    # a pickled tensor comes back on its own device, which the first process may not have
    torch.distributed.gather_object({k: v.cpu() for k, v in part.items()}, parts, dst=0)
    return {name: value for one in parts or [] for name, value in one.items()}


def restore_moments(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    tensors: Iterable[tuple[str, torch.Tensor]],
) -> None:
    """Puts back what `moments` returned, name by name, or this process's part of it."""
    own = _own(optimizer)
    kept = {id(p) for group in own.param_groups for p in group["params"]}
    parameters = dict(model.named_parameters())
    for name, value in tensors:
        parameter, _, key = name.rpartition("/")
        if id(parameters[parameter]) in kept:
            own.state[parameters[parameter]][key] = value


def _own(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """The part of a sharded optimizer that this process has; another optimizer as it is."""
    own: torch.optim.Optimizer = getattr(optimizer, "optim", optimizer)
    return own
