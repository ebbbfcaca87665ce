"""How much of a checkpoint a fine-tuning keeps: frozen layers below, fresh ones on top.

Fresh top layers: Zhang et al. 2021 (arXiv 2006.05987), who start the pooler anew with them, for
the top of an encoder is what its pre-training objective has shaped most.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import nn

from bertkit.errors import UserError
from bertkit.model.encoder import Block, Encoder
from bertkit.model.layers import Linear
from bertkit.training.seeds import derived_seed


def check_layers(model: nn.Module, reinitialise: int, freeze: int) -> None:
    """Raises UserError where the model has too few layers for both."""
    layers = len(_encoder(model).blocks)
    for option, count in (("--reinitialise-layers", reinitialise), ("--freeze-layers", freeze)):
        if not 0 <= count <= layers:
            raise UserError(f"{option} is {count}; the checkpoint has {layers} layers")
    if reinitialise + freeze > layers:
        raise UserError(
            f"--reinitialise-layers {reinitialise} and --freeze-layers {freeze} overlap; the "
            f"checkpoint has {layers} layers"
        )


def reinitialise(model: nn.Module, layers: int, seed: int) -> None:
    """Draws the top `layers` blocks and the pooler anew; nothing happens for 0."""
    if not layers:
        return
    encoder = _encoder(model)
    config = encoder.config
    torch.manual_seed(derived_seed("fresh layers", seed))
    for block in encoder.blocks[len(encoder.blocks) - layers :]:
        block.load_state_dict(Block(config).state_dict())
    if encoder.pooler is not None:
        fresh = Linear(config.hidden_size, config.hidden_size, config.initializer_range)
        encoder.pooler.load_state_dict(fresh.state_dict())


def freeze(model: nn.Module, layers: int, embeddings: bool) -> None:
    """Keeps the bottom `layers` blocks, and the embeddings under them, as they are.

    Gradients end above what is frozen, so it costs a forward pass only.
    """
    encoder = _encoder(model)
    if embeddings or layers:
        encoder.embeddings.requires_grad_(False)
    for block in encoder.blocks[:layers]:
        block.requires_grad_(False)


def _encoder(model: nn.Module) -> Encoder:
    return cast(Encoder, model.encoder)
