"""Configurations of the commands that see every room; imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bertkit.config import option


@dataclass
class InspectConfig:
    """Tells what a folder or file of bertkit's is, and whether it is whole."""

    path: str = option(
        help="a corpus, vocabulary, run or checkpoint, or a model size such as base or 2x256x4",
        positional=True,
    )
    document: int | None = option(
        None, help="show this document of a corpus in words, counted from 0 (default: none)"
    )
    example: int | None = option(
        None,
        help="show this example as pre-training sees it, a masked pair of sentences, counted from "
        "0 in the order of the run that is looked at, or of a run with default options on the "
        "corpus (default: none)",
    )
    epoch: int | None = option(
        None, help="count --example within this epoch's order (default: from the run's start)"
    )
    sequence_length: int | None = option(
        None,
        help="tokens of --example, special tokens included, which choose the phase of a run "
        "(default: 128, or the last phase)",
    )
    split: str = option(
        "train", help="the part of the corpus that --document and --example count in"
    )
    verify: bool = option(True, help="read all data and compare its checksums")
    vocab_size: int = option(30522, help="vocabulary entries that a model size is reckoned with")


@dataclass
class ConvertConfig:
    """Turns a checkpoint of one kind into another and proves that both compute the same."""

    source: str = option(
        help="a TensorFlow checkpoint, a Hugging Face or sentence-transformers directory, or a "
        "model of the hub, as bert-base-uncased; its kind is found out",
        positional=True,
    )
    output: str = option(help="folder of the result", positional=True)
    to: Literal["huggingface", "tensorflow", "onnx"] = option(
        "huggingface", help="kind of the result"
    )
    head: str | None = option(
        None, help="the head to keep, as encoder or masked-lm (default: the one that it has)"
    )
    activation: Literal["gelu", "gelu_tanh"] | None = option(
        None,
        help="form of GELU that the model was trained with, which Google's files do not tell "
        "(default: as stored, gelu where nothing is)",
    )
    vocab: str | None = option(
        None, help="vocab.txt or tokenizer's folder (default: beside the source)"
    )
    casing: Literal["auto", "cased", "uncased"] = option(
        "auto", help="auto: as stored, else by whether the vocabulary has capitals"
    )
    optimizer: bool = option(
        False, help="take the optimizer's variables along, from TensorFlow to TensorFlow"
    )
    pooling: Literal["mean", "cls", "max", "mean-sqrt", "weighted-mean", "last"] | None = option(
        None,
        help="make the result a sentence-transformers directory that pools like this (default: "
        "as the source where it is one)",
    )
    normalize: bool = option(False, help="with --pooling: give every vector the length 1")
    quantize: Literal["none", "dynamic", "static"] = option(
        "none",
        help="with --to onnx: write model_int8.onnx too. dynamic measures activations while it "
        "computes, static beforehand on --calibration",
    )
    calibration: str | None = option(
        None, help="texts for --quantize static, as for bertkit predict (256 are read)"
    )
    data: str | None = option(
        None, help="with --quantize: a file or folder of labelled examples to score both models on"
    )
    task: str | None = option(
        None, help="the task of --data (default: the one the model was tuned for)"
    )
    max_examples: int = option(1000, help="examples of --data to score, from its beginning")
    quiet: bool = option(False, help="print no progress")


@dataclass
class QuickstartConfig:
    """The whole journey on real text that an installed package carries: text to answers."""

    output: str = option(
        "bertkit-quickstart", help="folder of everything; the same command continues", short="o"
    )
    language: Literal["zh", "en"] = option("zh", help="zh: Chinese, or en: English")
    minutes: float = option(
        13.0, help="how long it may take; what the tasks do not need goes into pre-training"
    )
    few: int = option(200, help="labelled examples of the task with few labels")
    many: int = option(600, help="labelled examples of the task with many labels")
    test: int = option(3000, help="labelled examples to test on")
    seeds: int = option(
        3, help="fine-tunings of each start, with other labels and other heads; few reviews: twice"
    )
    workers: int = option(2, help="fine-tunings at the same time, each on one processor core")
    seed: int = option(0, help="of the splits, the weights and the order of the text")
    quiet: bool = option(False, help="print no progress")
