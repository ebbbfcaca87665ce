"""Configurations of `bertkit finetune`, `search` and `evaluate`; imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bertkit.config import option
from bertkit.training.config import Compile, OptimizerName, Precision, Schedule

Long = Literal["windows", "cut"]
WindowMean = Literal["probabilities", "logits"]
Initialise = Literal["checkpoint", "random"]


@dataclass
class TuningOptions:
    """What one fine-tuning and a search over many have in common.

    Defaults are the reference release's: 10 % warm-up, 128 tokens, linear decay, but for Adam's
    bias correction, which it lacks.
    """

    checkpoint: str = option(
        help="a checkpoint or a finished pre-training run (Hugging Face directory), or the name of "
        "a released one, as bert-base-chinese",
        positional=True,
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
    text: str | None = option(None, help="column of the text (default: found by its name)")
    pair: str | None = option(
        None, help="column of the second text of a pair (default: found by its name, or none)"
    )
    label: str | None = option(None, help="column of the label (default: found by its name)")
    label_delimiter: str | None = option(
        None, help="what divides several labels in one cell; means multi-label classification"
    )
    choices: list[str] = option(
        [], help="columns of the choices, or one that holds lists; means multiple choice"
    )
    document_context: bool = option(
        False, help="tagging: fill each sentence's sequence with the text around it"
    )
    batch_tokens: int | None = option(
        None, help="tokens a step, instead of --batch-size: steps are equally large (default: none)"
    )
    micro_batch_size: int | None = option(
        None,
        help="sequences computed at once; smaller needs less memory (default: the batch size; "
        "for question answering on a CPU 4,096 tokens at base size, of smaller models more)",
    )
    micro_batch_tokens: int | None = option(
        None, help="tokens computed at once, instead of --micro-batch-size (default: none)"
    )
    warmup: float = option(0.1, help="share of the steps in which the learning rate rises")
    schedule: Schedule = option(
        "linear", help="the rate after the warm-up; wsd: stable, then decay (see --decay)"
    )
    decay: float = option(0.1, help="share of the steps, the last ones, in which wsd falls")
    reference_warmup: bool = option(
        False, help="the reference's warm-up, whose rate jumps down at its end"
    )
    optimizer: OptimizerName = option(
        "adamw", help="adam-paper: the reference's, without bias correction; lamb: very large steps"
    )
    weight_decay: float = option(0.01, help="decoupled weight decay")
    layer_decay: float = option(
        1.0, help="learning rate of each layer as a share of that of the layer above"
    )
    reinitialise_layers: int = option(
        0, help="top layers that start fresh, and the pooler with them (0: none)"
    )
    freeze_layers: int = option(
        0, help="bottom layers that stay as they are, and the embeddings with them (0: none)"
    )
    freeze_embeddings: bool = option(False, help="the embeddings stay as they are")
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
    split_seed: int | None = option(
        None, help="seed of the dev split, where it is to be another (default: the seed)"
    )
    precision: Precision = option("auto", help="arithmetic of the matrix products")
    device: str = option(
        "auto", help="cpu, cuda, cuda:1 for the second GPU, or auto: a GPU where there is one"
    )
    compile: Compile = option(
        "auto",
        help="on: torch.compile, faster after a slow start; auto: in long runs on a GPU; or off",
    )
    evaluate_steps: int = option(0, help="steps between evaluations on dev (0: only at the end)")
    keep_best: bool = option(
        False,
        help="end with the weights that scored best on dev, which is asked after each epoch or as "
        "--evaluate-steps says, not with the last ones",
    )
    patience: int = option(
        0,
        help="stop after so many evaluations in a row that were no better than the best, and keep "
        "that one, as --keep-best does (0: go on to the end)",
    )
    checkpoint_steps: int = option(0, help="steps between restart points (0: none)")
    quiet: bool = option(False, help="print no progress")


@dataclass
class FinetuneConfig(TuningOptions):
    """Trains a task's head and the encoder on labelled examples."""

    epochs: float = option(3.0, help="passes over the training examples")
    batch_size: int = option(32, help="sequences a step")
    learning_rate: float | None = option(
        None, help="peak learning rate (default: 5e-5, with --features 1e-3)"
    )


@dataclass
class SearchConfig(TuningOptions):
    """Fine-tunes with every point of a grid, then with more seeds at the best; keeps the best.

    The default grid is the paper's (appendix A.3).
    """

    epochs: list[float] = option([2.0, 3.0, 4.0], help="passes over the training examples")
    batch_size: list[int] = option([16, 32], help="sequences a step")
    learning_rate: list[float] = option(
        [], help="peak learning rates (default: 5e-5 3e-5 2e-5, with --features 1e-3)"
    )
    seeds: int = option(
        1, help="fine-tunings at the best point of the grid, from --seed on (see --grid-seeds)"
    )
    grid_seeds: int = option(
        1, help="fine-tunings at every point; the best mean on dev decides between the points"
    )
    workers: int | None = option(
        None,
        help="fine-tunings at the same time, each in a process with its share of the processors "
        "(default: 1; with ray one for each processor of the cluster)",
    )
    engine: Literal["processes", "ray"] = option(
        "processes",
        help="where they run: on this machine, or on a Ray cluster that shares its folders",
    )


@dataclass
class EvaluateConfig:
    """Scores a tuned model on labelled examples."""

    checkpoint: str = option(help="a tuned model", positional=True)
    data: str = option(help="a file, or a folder with the task's files (see --split)", short="d")
    task: str | None = option(
        None, help="the task's name (default: the one the model was tuned for)", short="t"
    )
    split: str = option(
        "dev",
        help="which file of the folder: train, dev, test; mnli also has dev-mismatched; a test "
        "file, also where --data names it, needs no labels",
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
    device: str = option(
        "auto", help="cpu, cuda, cuda:1 for the second GPU, or auto: a GPU where there is one"
    )
    quiet: bool = option(False, help="print no progress")
