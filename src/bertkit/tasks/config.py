"""Configurations of `bertkit finetune` and `bertkit evaluate`; imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bertkit.config import option
from bertkit.training.config import Precision

Initialise = Literal["checkpoint", "random"]


@dataclass
class FinetuneConfig:
    """Trains a task's head and the encoder on labelled examples.

    Defaults are the paper's grid (appendix A.3) where it names one value and the reference
    release's otherwise: batch 32, 5e-5, 3 epochs, 10 % warm-up, 128 tokens.
    """

    checkpoint: str = option(
        help="a checkpoint or a finished pre-training run (Hugging Face directory), or the name of "
        "a released one, as bert-base-chinese",
        positional=True,
    )
    task: str = option(
        help="classification, tagging, sst-2, chnsenticorp, conll-2003 or msra", short="t"
    )
    output: str = option(help="folder of the run; the tuned model is written there", short="o")
    data: str | None = option(
        None, help="folder with the task's train, dev and test files", short="d"
    )
    train: str | None = option(None, help="file of training examples, instead of --data")
    dev: str | None = option(None, help="file of dev examples, instead of --data")
    text: str | None = option(None, help="column of the text (default: text, or the task's own)")
    pair: str | None = option(None, help="column of the second text of a pair (default: none)")
    label: str | None = option(None, help="column of the label (default: label, or the task's own)")
    epochs: float = option(3.0, help="passes over the training examples")
    batch_size: int = option(32, help="sequences a step")
    micro_batch_size: int | None = option(
        None, help="sequences computed at once; smaller needs less memory (default: the batch size)"
    )
    learning_rate: float = option(5e-5, help="peak learning rate")
    warmup: float = option(0.1, help="share of the steps in which the learning rate rises")
    weight_decay: float = option(0.01, help="decoupled weight decay")
    dropout: float | None = option(
        None, help="at every site of the paper, attention included (default: as in the checkpoint)"
    )
    sequence_length: int = option(128, help="tokens of the longest sequence, specials included")
    dev_share: float = option(
        0.1, help="share of the training examples held out as dev set where none is given"
    )
    max_examples: int | None = option(
        None, help="train on this many examples only, drawn by the seed (default: all)"
    )
    initialise: Initialise = option(
        "checkpoint", help="checkpoint, or random: same configuration, no pre-training (a baseline)"
    )
    seed: int = option(0, help="seed of the head, the order, the dropout and the dev split")
    precision: Precision = option("auto", help="arithmetic of the matrix products")
    evaluate_steps: int = option(0, help="steps between evaluations on dev (0: only at the end)")
    checkpoint_steps: int = option(0, help="steps between restart points (0: none)")
    quiet: bool = option(False, help="print no progress")


@dataclass
class EvaluateConfig:
    """Scores a tuned model on labelled examples."""

    checkpoint: str = option(help="a tuned model", positional=True)
    data: str = option(help="a file, or a folder with the task's files (see --split)", short="d")
    task: str | None = option(
        None, help="the task's name (default: the one the model was tuned for)", short="t"
    )
    split: Literal["train", "dev", "test"] = option("dev", help="which file of the folder")
    text: str | None = option(None, help="column of the text (default: text, or the task's own)")
    pair: str | None = option(None, help="column of the second text of a pair (default: none)")
    label: str | None = option(None, help="column of the label (default: label, or the task's own)")
    output: str | None = option(None, help="write the predictions there, as JSONL", short="o")
    sequence_length: int | None = option(
        None, help="tokens of the longest sequence (default: as in fine-tuning)"
    )
    batch_tokens: int = option(2048, help="tokens computed at once")
    precision: Precision = option("auto", help="arithmetic of the matrix products")
    quiet: bool = option(False, help="print no progress")
