"""Multiple choice (paper, section 4.4): which of several endings or answers is right.

    [CLS] context [SEP] question choice [SEP]     one sequence for each choice

The score of a choice is one vector times the pooled output; a softmax over the choices of a
question makes probabilities. Questions may have any number of choices, also side by side in one
batch. A context that is too long is cut at its end, whichever part is the longer first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from bertkit.errors import UserError
from bertkit.model.batch import FlatBatch
from bertkit.tasks.choice_readers import ChoiceExample, read_choices
from bertkit.tasks.metrics import class_scores
from bertkit.tasks.readers import own_files
from bertkit.tasks.task import FeatureSet, Scores, Task, TaskOptions, one_by_one
from bertkit.tasks.windows import OVERLAP, merge_softmax, moving_windows
from bertkit.text.tokenizer import Tokenizer, truncated_lengths
from bertkit.training.batch import Batch
from bertkit.training.objective import LossSums

ChoiceInput = tuple[str, list[str]] | tuple[str, str, list[str]]
"""What one may ask: a text and choices, or a text, a question on it and choices."""


@dataclass(frozen=True)
class ChoiceFeatures:
    """The sequences of one question, which stay together.

    Attributes:
        ids, segments: [choices][tokens].
        target: number of the right choice, or None.
    """

    example: int
    ids: list[list[int]]
    segments: list[list[int]]
    target: int | None


@dataclass(frozen=True)
class ChoicePrediction:
    """The most probable choice: its number from 0, its text, and every choice's probability."""

    choice: int
    text: str
    probability: float
    probabilities: list[float]


def features(
    examples: Sequence[ChoiceExample],
    tokenizer: Tokenizer,
    labels: Sequence[str] | None,
    options: TaskOptions,
) -> FeatureSet:
    """One unit for each question, or for each window over its context."""
    made: list[ChoiceFeatures] = []
    truncated = 0
    whole: list[int] = []
    room = max(options.sequence_length - 3, 0)
    for number, example in enumerate(examples):
        context = tokenizer.token_ids(example.context)
        seconds = [tokenizer.token_ids(f"{example.question} {one}") for one in example.choices]
        target = example.answer if labels is not None else None
        cut = False
        whole.append(len(context) + max(map(len, seconds)) + 3)
        for part in _contexts(context, max(map(len, seconds)), room, options):
            all_ids, all_segments = [], []
            for second in seconds:
                kept = truncated_lengths(len(part), len(second), room)
                cut |= kept != (len(part), len(second))
                ids = [tokenizer.cls_id, *part[: kept[0]], tokenizer.sep_id]
                all_segments.append([0] * len(ids) + [1] * (kept[1] + 1))
                all_ids.append([*ids, *second[: kept[1]], tokenizer.sep_id])
            made.append(ChoiceFeatures(number, all_ids, all_segments, target))
        truncated += cut
    return FeatureSet(made, [sum(map(len, one.ids)) for one in made], truncated, whole)


def _contexts(context: list[int], longest: int, room: int, options: TaskOptions) -> list[list[int]]:
    """The context, or its windows beside choices of up to `longest` tokens.

    The choices stay whole where they leave the windows a quarter of the room.
    """
    if options.long == "cut" or len(context) + longest <= room:
        return [context]
    windows = moving_windows(len(context), max(room - longest, room // OVERLAP))
    return [context[shown.start : shown.stop] for shown, _ in windows]


def collate(features: Sequence[ChoiceFeatures]) -> Batch:
    """One micro-batch; `targets` holds "choices", how many each question has ([questions]), and
    "answers" [questions] where they are known."""
    inputs = FlatBatch.from_sequences(
        [ids for one in features for ids in one.ids],
        [segments for one in features for segments in one.segments],
    )
    choices = torch.tensor([len(one.ids) for one in features])
    answers = [one.target for one in features if one.target is not None]
    return Batch(inputs, {"choices": choices, "answers": torch.tensor(answers, dtype=torch.int64)})


def log_probabilities(model: nn.Module, batch: Batch) -> Tensor:
    """[questions, most choices] float32, -inf where a question has no such choice."""
    scores = model(batch.inputs).float()  # [sequences]
    parts = scores.split(batch.targets["choices"].tolist())
    padded = pad_sequence(parts, batch_first=True, padding_value=-torch.inf)
    return padded.log_softmax(dim=1)


class ChoiceObjective:
    """Cross-entropy of the right choice among the question's choices."""

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"choice": batch.targets["answers"].numel()}

    def __call__(self, model: nn.Module, batch: Batch) -> LossSums:
        rows, answers = log_probabilities(model, batch), batch.targets["answers"]
        right = (rows.detach().argmax(dim=1) == answers).sum()
        loss = -rows.gather(1, answers[:, None]).sum()
        return LossSums({"choice": loss}, {"accuracy": (right, answers.numel())})


def outputs(model: nn.Module, batch: Batch, features: Sequence[ChoiceFeatures]) -> list[np.ndarray]:
    """The probabilities of each question's choices, [choices] float32."""
    rows = log_probabilities(model, batch).exp().cpu().numpy()
    return [row[: len(one.ids)] for row, one in zip(rows, features, strict=True)]


def decode_one(
    example: ChoiceExample, probabilities: np.ndarray, labels: Sequence[str]
) -> ChoicePrediction:
    """The most probable choice; `probabilities` are [choices]."""
    best = int(probabilities.argmax())
    return ChoicePrediction(
        best, example.choices[best], float(probabilities[best]), probabilities.tolist()
    )


def metric(examples: Sequence[ChoiceExample], predictions: Sequence[ChoicePrediction]) -> Scores:
    """Accuracy."""
    gold = [str(example.answer) for example in examples]
    scores = class_scores(gold, [str(prediction.choice) for prediction in predictions])
    return Scores({"accuracy": scores.metrics["accuracy"]}, [])


def record(example: ChoiceExample, prediction: ChoicePrediction) -> dict[str, Any]:
    """A line of the prediction file: the question, the choice, and the right one where known."""
    line: dict[str, Any] = {"id": example.id} if example.id else {}
    line |= {"text": example.context, "question": example.question, "choices": example.choices}
    line |= {
        "choice": prediction.choice,
        "answer": prediction.text,
        "probability": round(prediction.probability, 6),
        "probabilities": [round(p, 6) for p in prediction.probabilities],
    }
    if example.answer is not None:
        line["gold"] = example.answer
    return line


def from_input(one: Any, tokenizer: Tokenizer) -> ChoiceExample:
    """(text, choices) or (text, question, choices) as an example.

    Raises:
        UserError: anything else, or no choices.
    """
    if isinstance(one, tuple) and len(one) in (2, 3) and isinstance(one[-1], (list, tuple)):
        *asked, choices = one
        if choices and all(isinstance(text, str) for text in (*asked, *choices)):
            return ChoiceExample(asked[0], asked[1] if len(asked) == 2 else "", list(choices))
    raise UserError(
        "a multiple-choice model takes (text, choices) or (text, question, choices), "
        f"not {one!r:.60}"
    )


def texts(example: ChoiceExample) -> tuple[str, ...]:
    """Context, question and choices."""
    return (example.context, example.question, *example.choices)


def counts(examples: Sequence[ChoiceExample]) -> dict[str, int]:
    """Questions with each number of choices."""
    found = Counter(len(example.choices) for example in examples)
    return {
        f"{choices} choice{'s' if choices > 1 else ''}": found[choices] for choices in sorted(found)
    }


def blind(examples: Sequence[ChoiceExample], labels: Sequence[str]) -> list[list[ChoicePrediction]]:
    """The first choice, the second, ..., always; of fewer choices the last."""
    return [
        [ChoicePrediction(min(number, len(e.choices) - 1), "", 1.0, []) for e in examples]
        for number in range(max((len(e.choices) for e in examples), default=0))
    ]


MULTIPLE_CHOICE = Task(
    name="multiple-choice",
    summary="which of several choices is right, from your own table",
    files=own_files(),
    read=read_choices,
    features=features,
    collate=collate,
    head="multiple-choice",
    objective=ChoiceObjective(),
    outputs=outputs,
    decode=one_by_one(decode_one),
    metric=metric,
    record=record,
    texts=texts,
    counts=counts,
    context=lambda example: example.context,
    from_input=from_input,
    is_labelled=lambda example: example.answer is not None,
    main="accuracy",
    merge=merge_softmax,
    blind=blind,
    least_labels=0,
    trivial="1 choice",
)
