"""The heads as files know them: one row for each family of models, all that a format asks of it.

A new head is one row of HEADS, and a row of HEAD_NAMES and GOOGLE_HEAD_NAMES for each of its
parameters that is not there yet. Two heads may share names, as every classifier does. Loading,
saving, conversion with its proof, and ONNX need no more. What Google's files have no name for is
not in GOOGLE_HEAD_NAMES, and is not written there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from bertkit.model.batch import FlatBatch
from bertkit.model.bilstm import LSTM_LAYERS


@dataclass(frozen=True)
class Output:
    """One thing that a model computes: a dense layer on the encoder's output, or that itself.

    Attributes:
        of: "tokens", from the last hidden states, or "sequences", from the pooled output.
        layer: own name of the dense layer, MASKED_LM or WHOLE; None: the states as they are.
        column: of the layer's outputs, where each has a name of its own.
    """

    of: Literal["tokens", "sequences"]
    layer: str | None = None
    column: int | None = None


MASKED_LM = "masked_lm"
"""In place of a dense layer: the whole masked-LM head."""
WHOLE = "whole"
"""In place of a dense layer: all that the model computes by itself, which no graph has."""

_LSTM = [
    f"lstm.{kind}_l{layer}{direction}"
    for layer in range(LSTM_LAYERS)
    for direction in ("", "_reverse")
    for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
]
_TAGGER = [
    f"tagger.{name}"
    for name in ("layer_weights", "scale", *_LSTM, "output.dense.weight", "output.dense.bias")
]

HEAD_NAMES = {
    "masked_lm.dense.weight": "cls.predictions.transform.dense.weight",
    "masked_lm.dense.bias": "cls.predictions.transform.dense.bias",
    "masked_lm.norm.weight": "cls.predictions.transform.LayerNorm.weight",
    "masked_lm.norm.bias": "cls.predictions.transform.LayerNorm.bias",
    "masked_lm.bias": "cls.predictions.bias",
    "masked_lm.embeddings": "cls.predictions.decoder.weight",  # where it is not tied
    "next_sentence.dense.weight": "cls.seq_relationship.weight",
    "next_sentence.dense.bias": "cls.seq_relationship.bias",
    "classifier.dense.weight": "classifier.weight",
    "classifier.dense.bias": "classifier.bias",
    "spans.dense.weight": "qa_outputs.weight",
    "spans.dense.bias": "qa_outputs.bias",
    **{name: name for name in _TAGGER},  # no other software has it
}
"""The parameters of heads and their names in a Hugging Face file."""

GOOGLE_HEAD_NAMES = {
    "masked_lm.dense.weight": "cls/predictions/transform/dense/kernel",
    "masked_lm.dense.bias": "cls/predictions/transform/dense/bias",
    "masked_lm.norm.weight": "cls/predictions/transform/LayerNorm/gamma",
    "masked_lm.norm.bias": "cls/predictions/transform/LayerNorm/beta",
    "masked_lm.bias": "cls/predictions/output_bias",
    "next_sentence.dense.weight": "cls/seq_relationship/output_weights",
    "next_sentence.dense.bias": "cls/seq_relationship/output_bias",
    "classifier.dense.weight": "output_weights",  # of run_classifier.py, as [labels, hidden]
    "classifier.dense.bias": "output_bias",
    "spans.dense.weight": "cls/squad/output_weights",  # of run_squad.py, as [2, hidden]
    "spans.dense.bias": "cls/squad/output_bias",
}
"""The same and Google's variables; only a name that ends in /kernel is transposed there."""


@dataclass(frozen=True)
class Head:
    """A family of models in files.

    Attributes:
        name: of the family, a name in `bertkit.model.bert.MODELS`.
        architecture: the class in transformers, or, with "Bertkit" before it, here only.
        outputs: what it computes, by transformers' names.
        task: the beginning of the own names of its parameters that mean something to this task
            only: they start fresh where a file is of another head, or of other labels.
        labelled: whether the model is made with a list of labels.
        problem: `problem_type` of config.json, which tells heads of one architecture apart.
        numbers: attributes of the model, numbers or None, that config.json keeps by these names.
        options: what else the model is made with, and of which type; config.json keeps it too.
    """

    name: str
    architecture: str
    outputs: dict[str, Output]
    task: str | None = None
    labelled: bool = False
    problem: str | None = None
    numbers: tuple[str, ...] = ()
    options: dict[str, type] = field(default_factory=dict)


REGRESSION = "regression"
"""The head of a sequence classifier with one output that names no problem."""

_CLASSIFIER = Head(
    "classification",
    "BertForSequenceClassification",
    {"logits": Output("sequences", "classifier.dense")},
    task="classifier.",
    labelled=True,
    problem="single_label_classification",
)

HEADS = {
    head.name: head
    for head in (
        Head(
            "encoder",
            "BertModel",
            {"last_hidden_state": Output("tokens"), "pooler_output": Output("sequences")},
        ),
        Head(
            "pretraining",
            "BertForPreTraining",
            {
                "prediction_logits": Output("tokens", MASKED_LM),
                "seq_relationship_logits": Output("sequences", "next_sentence.dense"),
            },
        ),
        Head("masked-lm", "BertForMaskedLM", {"logits": Output("tokens", MASKED_LM)}),
        Head("left-to-right", "BertLMHeadModel", {"logits": Output("tokens", MASKED_LM)}),
        _CLASSIFIER,
        replace(_CLASSIFIER, name=REGRESSION, problem="regression"),
        replace(_CLASSIFIER, name="multi-label", problem="multi_label_classification"),
        Head(
            "multiple-choice",
            "BertForMultipleChoice",
            {"logits": Output("sequences", "classifier.dense", column=0)},  # one a choice
            task="classifier.",
        ),
        Head(
            "tagging",
            "BertForTokenClassification",
            {"logits": Output("tokens", "classifier.dense")},
            task="classifier.",
            labelled=True,
        ),
        Head(
            "question-answering",
            "BertForQuestionAnswering",
            {
                "start_logits": Output("tokens", "spans.dense", column=0),
                "end_logits": Output("tokens", "spans.dense", column=1),
            },
            numbers=("null_threshold",),
        ),
        Head(
            "bilstm-tagging",
            "BertkitBiLstmForTokenClassification",
            {"logits": Output("tokens", WHOLE)},
            task="tagger.",
            labelled=True,
            options={"features": str, "lstm_size": int},
        ),
    )
}


def model_outputs(model: Any, batch: FlatBatch) -> dict[str, Tensor]:
    """What a model in evaluation computes for a batch, by the names of its head's `outputs`.

    Of [tokens, ...] where there is an answer for each token, of [sequences, ...] elsewhere.
    """
    with torch.no_grad():
        hidden = model.encoder(batch)
        found: dict[str, Tensor] = {}
        for name, output in HEADS[model.head].outputs.items():
            states = hidden
            if output.of == "sequences":
                states = model.encoder.pooled(hidden, batch)
            if output.layer == MASKED_LM:
                states = model.masked_lm.logits(states)
            elif output.layer == WHOLE:
                states = model(batch, torch.arange(len(hidden), device=hidden.device))
            elif output.layer:
                layer = dense_layer(model, output.layer)
                states = F.linear(states.float(), layer.weight, layer.bias)
            found[name] = states if output.column is None else states[..., output.column]
        return found


class DenseLayer(NamedTuple):
    """A layer's weight [outputs, inputs] and bias [outputs], as a file has them."""

    weight: Tensor
    bias: Tensor


def dense_layer(model: Any, name: str) -> DenseLayer:
    """The dense layer of that own name; of a regression's, the numbers at their own scale."""
    state = model.state_dict()
    return DenseLayer(state[f"{name}.weight"], state[f"{name}.bias"])


def task_names() -> list[str]:
    """Own names of the parameters that mean something to one task only."""
    tasks = tuple(head.task for head in HEADS.values() if head.task)
    return [own for own in HEAD_NAMES if own.startswith(tasks)]


def stored_head(
    values: dict[str, Any], tensors: Mapping[str, Any], table: Mapping[str, str]
) -> str:
    """The head of a file: the one that its configuration names, else what its tensors tell.

    The released weights call themselves BertForMaskedLM and have the next-sentence head too, and
    a BertLMHeadModel that is no decoder looks both ways.

    Args:
        values: the configuration's keys and values.
        tensors: the file's, by name, each with its shape.
        table: HEAD_NAMES or GOOGLE_HEAD_NAMES.
    """
    architectures = values.get("architectures")
    named = architectures[0] if isinstance(architectures, list) and architectures else None
    same = [head for head in HEADS.values() if head.architecture == named]
    head = same[0].name if same else None
    if len(same) > 1:
        labels = values.get("id2label")
        outputs = len(labels) if isinstance(labels, dict) else 0
        classifier = tensors.get(table["classifier.dense.weight"])
        if not outputs and classifier is not None and classifier.shape:
            outputs = classifier.shape[0]
        if outputs == 1:
            head = REGRESSION
        problem = values.get("problem_type")
        head = next((one.name for one in same if one.problem == problem), head)
    predicts = table["masked_lm.bias"] in tensors
    follows = table["next_sentence.dense.weight"] in tensors
    if head is None:
        if predicts:
            return "pretraining" if follows else "masked-lm"
        if named is None and table is GOOGLE_HEAD_NAMES:  # whose configuration names no head
            if table["spans.dense.weight"] in tensors:
                return "question-answering"
            if table["classifier.dense.weight"] in tensors:
                return "classification"
        return "encoder"
    if head == "left-to-right" and not values.get("is_decoder"):
        head = "masked-lm"
    return "pretraining" if head == "masked-lm" and follows else head
