"""The same work with `transformers`, where it is installed: what bertkit is compared with.

A setting names how: "float32" or "bf16" (autocast), an attention of its (ATTENTIONS), "compile".
Batches are padded to their longest sequence.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch

from bertkit.model.config import ModelConfig
from bertkit.speed.steps import LABELS, Step, Tokens

ATTENTIONS = ("eager", "sdpa", "flash_attention_2")

BATCH = 32
"""Sequences that it answers at once."""


def installed() -> bool:
    """Whether there is a peer to compare with."""
    return find_spec("transformers") is not None


def pretraining_step(
    sizes: ModelConfig, tokens: Tokens, setting: str, device: torch.device | str = "cpu"
) -> Step:
    """Forward, backward, clipping and AdamW of `BertForPreTraining`."""
    from transformers import BertForPreTraining

    model = BertForPreTraining(bert_config(sizes, setting))
    return training_step(model, [pretraining_batch(tokens)], setting, device)


def pretraining_batch(tokens: Tokens) -> dict[str, torch.Tensor]:
    """All sequences, as `BertForPreTraining` takes them."""
    inputs = _padded(tokens, "cpu")
    width = inputs["input_ids"].shape[1]
    labels = np.where(tokens.masked[:, :width], tokens.ids[:, :width], -100)
    inputs["labels"] = torch.from_numpy(labels)
    inputs["next_sentence_label"] = torch.from_numpy(tokens.labels)
    return inputs


def finetuning_step(
    sizes: ModelConfig, tokens: Tokens, setting: str, device: torch.device | str = "cpu"
) -> Step:
    """The same of `BertForSequenceClassification`."""
    from transformers import BertForSequenceClassification

    inputs = _padded(tokens, device) | {"labels": torch.from_numpy(tokens.labels).to(device)}
    model = BertForSequenceClassification(bert_config(sizes, setting))
    return training_step(model, [inputs], setting, device)


def answering(
    sizes: ModelConfig, tokens: Tokens, setting: str, device: torch.device | str = "cpu"
) -> Callable[[], object]:
    """Labels of all sequences, sorted by length; in bfloat16 the weights are so too."""
    from transformers import BertForSequenceClassification

    model: Any = BertForSequenceClassification(bert_config(sizes, setting))
    model = model.to(device).eval()
    if "bf16" in setting:
        model = model.to(torch.bfloat16)
    order = np.argsort(tokens.lengths, kind="stable")
    batches = [
        _padded(tokens, device, order[start : start + BATCH])
        for start in range(0, len(order), BATCH)
    ]

    @torch.inference_mode()
    def answer() -> list[Any]:
        return [model(**batch).logits.float().cpu().numpy() for batch in batches]

    return answer


def bert_config(sizes: ModelConfig, setting: str) -> Any:
    """Its configuration of a model of these sizes."""
    import transformers

    make: Any = transformers.BertConfig  # its options are not declared
    return make(
        vocab_size=sizes.vocab_size,
        hidden_size=sizes.hidden_size,
        num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.heads,
        intermediate_size=sizes.intermediate_size,
        attn_implementation=next(one for one in ATTENTIONS if one in setting.split()),
        num_labels=len(LABELS),
    )


def _padded(
    tokens: Tokens, device: torch.device | str, rows: np.ndarray | None = None
) -> dict[str, torch.Tensor]:
    chosen = slice(None) if rows is None else rows
    width = int(tokens.lengths[chosen].max())
    real = tokens.real[chosen, :width]
    made = {
        "input_ids": tokens.ids[chosen, :width],
        "token_type_ids": tokens.segments[chosen, :width],
    }
    if not real.all():
        made["attention_mask"] = real.astype(np.int64)
    return {name: torch.from_numpy(values.copy()).to(device) for name, values in made.items()}


def training_step(
    model: Any,
    batches: Sequence[dict[str, torch.Tensor]],
    setting: str,
    device: torch.device | str,
) -> Step:
    """A step on the next of the batches, again and again: what people write around a model."""
    model.to(device).train()
    groups = [
        {"params": [p for p in model.parameters() if p.ndim >= 2], "weight_decay": 0.01},
        {"params": [p for p in model.parameters() if p.ndim < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=1e-4, eps=1e-6, fused=True)
    forward = torch.compile(model) if "compile" in setting else model
    kind = torch.device(device).type
    stream = itertools.cycle(batches)

    def step() -> float:
        inputs = {name: value.to(device, non_blocking=True) for name, value in next(stream).items()}
        with torch.autocast(kind, torch.bfloat16, enabled="bf16" in setting):
            loss = forward(**inputs).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return float(loss.detach())

    return step
