"""Configurations of `bertkit finetune` and `bertkit evaluate`; imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bertkit.config import option
from bertkit.training.config import Precision

Long = Literal["windows", "cut"]
WindowMean = Literal["probabilities", "logits"]
Initialise = Literal["checkpoint", "random"]


@dataclass
class FinetuneConfig:
    """Trains a task's head and the encoder on labelled examples.

    Defaults are the paper's grid (appendix A.3) where it names one value and the reference
    release's otherwise: batch 32, 5e-5, 3 epochs, 10 % warm-up, 128 tokens.
    """

    checkpoint: str = option(
        help="a checkpoint or a finished pre-training run (Hugging Face directory)", positional=True
    )
    output: str = option(help="folder of the run; the tuned model is written there", short="o")
    task: str | None = option(
        None,
        help="classification, regression, multi-label, multiple-choice, tagging, "
        "question-answering, or a data set by name, as mrpc (default: what your own data look "
        "like)",
        short="t",
    )
    data: str | None = option(
        None,
        help="folder with the task's train, dev and test files, a table of your own, or a data "
        "set of the hub as hub:NAME[:CONFIG]",
        short="d",
    )
    train: str | None = option(None, help="file of training examples, instead of --data")
    dev: str | None = option(None, help="file of dev examples, instead of --data")
    text: str | None = option(None, help="column of the text (default: text, or the task's own)")
    pair: str | None = option(None, help="column of the second text of a pair (default: none)")
    label: str | None = option(None, help="column of the label (default: label, or the task's own)")
    label_delimiter: str | None = option(
        None, help="what divides several labels in one cell; means multi-label classification"
    )
    choices: list[str] = option(
        [], help="columns of the choices, or one that holds lists; means multiple choice"
    )
    document_context: bool = option(
        False, help="tagging: fill each sentence's sequence with the text around it"
    )
    epochs: float = option(3.0, help="passes over the training examples")
    batch_size: int = option(32, help="sequences a step")
    micro_batch_size: int | None = option(
        None,
        help="sequences computed at once; smaller needs less memory (default: the batch size; "
        "2,048 tokens for question answering on a CPU)",
    )
    learning_rate: float | None = option(
        None, help="peak learning rate (default: 5e-5, with --features 1e-3)"
    )
    warmup: float = option(0.1, help="share of the steps in which the learning rate rises")
    weight_decay: float = option(0.01, help="decoupled weight decay")
    dropout: float | None = option(
        None, help="at every site of the paper, attention included (default: as in the checkpoint)"
    )
    sequence_length: int | None = option(
        None,
        help="tokens of the longest sequence, specials included (default: 128, and 384 for "
        "question answering)",
    )
    doc_stride: int | None = option(
        None,
        help="question answering: tokens from the start of a context's window to the start of the "
        "next, as in the reference release (default: 128)",
    )
    doc_overlap: int | None = option(
        None,
        help="question answering: instead, tokens that two neighbouring windows share, which is "
        "what later software calls stride",
    )
    question_tokens: int = option(64, help="question answering: longer questions lose their ends")
    answer_tokens: int = option(30, help="question answering: tokens of the longest answer")
    n_best: int = option(20, help="question answering: candidates kept of each question")
    dev_share: float = option(
        0.1, help="share of the training examples held out as dev set where none is given"
    )
    max_examples: int | None = option(
        None, help="train on this many examples only, drawn by the seed (default: all)"
    )
    features: str | None = option(
        None,
        help="tagging by a BiLSTM on these layers of the encoder, which stays as it is: last, "
        "concat-last-four, weighted-all or others of bertkit embed (default: train everything)",
    )
    lstm_size: int = option(768, help="with --features: units of the BiLSTM in each direction")
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
    split: str = option(
        "dev", help="which file of the folder: train, dev, test; mnli also has dev-mismatched"
    )
    text: str | None = option(None, help="column of the text (default: text, or the task's own)")
    pair: str | None = option(None, help="column of the second text of a pair (default: none)")
    label: str | None = option(None, help="column of the label (default: label, or the task's own)")
    output: str | None = option(None, help="write the predictions there, as JSONL", short="o")
    report: str | None = option(
        None, help="write a page of confusions and the worst errors there, as HTML"
    )
    submission: str | None = option(
        None, help="folder for the predictions as the data set's makers want them (GLUE's TSV)"
    )
    sequence_length: int | None = option(
        None, help="tokens of the longest sequence (default: as in fine-tuning)"
    )
    long: Long = option(
        "cut",
        help="a text longer than a sequence is cut at its end, as in fine-tuning, or read in "
        "overlapping windows",
    )
    window_mean: WindowMean = option(
        "probabilities", help="what of the windows' answers is averaged"
    )
    batch_tokens: int = option(2048, help="tokens computed at once")
    precision: Precision = option("auto", help="arithmetic of the matrix products")
    quiet: bool = option(False, help="print no progress")
