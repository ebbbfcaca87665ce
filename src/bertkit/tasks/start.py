"""What a fine-tuning starts from: the encoder of a checkpoint under the task's head.

A head is the checkpoint's own where it is of the same kind and labels, and starts fresh otherwise,
which is said. The encoder may start fresh too (`--initialise random`, a baseline), or its top
layers alone, or stay frozen in part (`transfer.py`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from torch import nn

from bertkit.errors import UserError
from bertkit.formats.assembly import LoadedCheckpoint
from bertkit.formats.huggingface import load_checkpoint
from bertkit.model.bert import LABELLED
from bertkit.model.config import dropout_rates
from bertkit.progress import say
from bertkit.tasks.answers import TASK_HEADS, check_sequence_length
from bertkit.tasks.config import FinetuneConfig
from bertkit.tasks.data import Data
from bertkit.tasks.options import task_options
from bertkit.tasks.task import Task
from bertkit.tasks.transfer import check_layers, freeze, reinitialise
from bertkit.training.seeds import seed_initial_weights

HeadStart = Literal["fresh", "replaced", "kept"]
"""Of a pre-trained checkpoint; where it had another task's head; where it had this one."""

_OF_HEAD: dict[HeadStart, str] = {
    "replaced": "the checkpoint has another task's head: it is replaced by a fresh one",
    "kept": "the checkpoint has a head with the same labels: it is trained on",
}


def load_model(
    config: FinetuneConfig, task: Task, data: Data, start: Path
) -> tuple[nn.Module, HeadStart]:
    """The checkpoint in `start` with the task's head, ready to be tuned, and what became of the
    head.

    Raises UserError where it does not go with the configuration.
    """
    seed_initial_weights(config.seed)
    rates = {} if config.dropout is None else dropout_rates(config.dropout)
    head_name, head_options = chosen_head(config, task)
    loaded = load_checkpoint(start, head_name, data.labels, head_options, **rates)
    model = loaded.model
    check_sequence_length(task_options(config).sequence_length, model)
    check_layers(model, config.reinitialise_layers, config.freeze_layers)
    head = _head_start(loaded)
    if any(name.startswith("bert.pooler.") for name in loaded.missing):
        say("the checkpoint has no pooler; it starts untrained", config.quiet)
    if config.initialise == "random":
        seed_initial_weights(config.seed)
        labelled = [data.labels] if head_name in LABELLED else []
        model = type(model)(model.config, *labelled, **head_options)
        head = "fresh"
    if task.start is not None and task.start(model, data.train, head != "kept") and head == "kept":
        head = "replaced"
        say("the checkpoint's head is for other numbers: a fresh one replaces it", config.quiet)
    elif head != "fresh":
        say(_OF_HEAD[head], config.quiet)
    reinitialise(model, config.reinitialise_layers, config.seed)
    freeze(model, config.freeze_layers, config.freeze_embeddings)
    return model, head


def chosen_head(config: FinetuneConfig, task: Task) -> tuple[str, dict[str, Any]]:
    """The head's name, and what else than labels it is made with.

    Raises:
        UserError: features are asked for, and the task has no head for them.
    """
    if config.features is None:
        return task.head, {}
    if task.feature_head is None:
        raise UserError(
            f"--features are for tagging, and {task.name} has no head for them; leave them out, "
            "or write vectors with bertkit embed"
        )
    return task.feature_head, {"features": config.features, "lstm_size": config.lstm_size}


def _head_start(loaded: LoadedCheckpoint) -> HeadStart:
    """Whether the head is the checkpoint's own."""
    if any(name.startswith(TASK_HEADS) for name in loaded.unexpected):
        return "replaced"
    if any(name.startswith(TASK_HEADS) for name in loaded.missing):
        return "fresh"
    return "kept"
