"""AdamW with the reference's groups: no weight decay on LayerNorm and biases (paper, A.2)."""

from __future__ import annotations

import torch
from torch import nn

from bertkit.training.config import TrainOptions


def decays(parameter: torch.Tensor) -> bool:
    """Whether weight decay applies: to matrices and embeddings, not to LayerNorm and biases.

    The reference names the exceptions; they are exactly the parameters with one dimension.
    """
    return parameter.ndim >= 2


def make_optimizer(model: nn.Module, options: TrainOptions) -> torch.optim.AdamW:
    """PyTorch's fused AdamW, with bias correction, over the parameters that need gradients."""
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    return torch.optim.AdamW(
        [
            {
                "params": [p for _, p in named if decays(p)],
                "weight_decay": options.weight_decay,
            },
            {"params": [p for _, p in named if not decays(p)], "weight_decay": 0.0},
        ],
        lr=options.learning_rate,
        betas=(options.beta1, options.beta2),
        eps=options.epsilon,
        fused=True,
    )


def moments(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """The optimizer's state as flat named tensors: `<parameter>/exp_avg`, ..."""
    return {
        f"{name}/{key}": value
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }


def restore_moments(
    model: nn.Module, optimizer: torch.optim.Optimizer, tensors: dict[str, torch.Tensor]
) -> None:
    """Puts back what `moments` returned."""
    parameters = dict(model.named_parameters())
    for name, value in tensors.items():
        parameter, _, key = name.rpartition("/")
        optimizer.state[parameters[parameter]][key] = value
