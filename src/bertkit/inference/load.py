"""`bertkit.load`: a directory in, the model with its tokenizer out, ready to answer.

model = bertkit.load("my-run")
model.predict(["a text"])                      # a classifier: labels with probabilities
model.predict([("a text", "another")])         # pairs
model.predict(["Jim Henson was a puppeteer"])  # a tagger: entities with character spans
model.predict([["Jim", "Henson"]])             # words that are cut already
model.predict([{"question": "Who?", "context": "Jim Henson was a puppeteer"}])  # its answer
model.predict([("a text", ["this", "that"])])  # multiple choice: which of the choices
model.fill(["The cat sat on the [MASK]."])     # a pre-trained one: candidates for each mask
model.embed(["a text", "another"])             # any: a vector for each text
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from bertkit.errors import UserError
from bertkit.formats.hub import checkpoint_path
from bertkit.formats.huggingface import load_checkpoint
from bertkit.formats.sentence import SentenceModules, read_sentence_modules
from bertkit.inference.arguments import check_choice, check_count
from bertkit.inference.config import Pooling, Words
from bertkit.inference.inputs import TextInput
from bertkit.inference.words import words_of
from bertkit.model.config import ModelConfig
from bertkit.model.encoder import set_compute_dtype
from bertkit.pretraining.config import pretrained_length
from bertkit.progress import say
from bertkit.tasks.answers import BATCH_TOKENS, Answers, answer, check_head, max_positions
from bertkit.tasks.choice import ChoiceInput, ChoicePrediction
from bertkit.tasks.classification import ClassPrediction
from bertkit.tasks.config import FinetuneConfig, Long, WindowMean
from bertkit.tasks.fit import check_fit
from bertkit.tasks.multilabel import LabelSetPrediction
from bertkit.tasks.options import task_options, tuned_with
from bertkit.tasks.readers import TextExample, WordsExample
from bertkit.tasks.registry import TASKS, family_of
from bertkit.tasks.regression import ScorePrediction
from bertkit.tasks.segmentation import SegmentedPrediction
from bertkit.tasks.spans import AnswerPrediction
from bertkit.tasks.tagging import TagPrediction
from bertkit.tasks.task import TaskOptions
from bertkit.text.tokenizer import Tokenizer
from bertkit.training.allocator import keep_memory
from bertkit.training.config import Precision
from bertkit.training.device import choose_device
from bertkit.training.precision import compute_dtype

if TYPE_CHECKING:
    from bertkit.inference.fill import FilledText

Prediction = (
    ClassPrediction
    | ScorePrediction
    | LabelSetPrediction
    | ChoicePrediction
    | TagPrediction
    | SegmentedPrediction
    | AnswerPrediction
)
PredictInput = str | tuple[str, ...] | list[str] | dict[str, str] | ChoiceInput


class LoadedModel(nn.Module):
    """A model and its tokenizer.

    Attributes:
        model: the encoder with the head that the checkpoint has.
        tokenizer: its tokenizer.
        path: the directory it came from.
        sequence_length: tokens of the longest sequence it was trained on, or its positions where
            that is not recorded; longer inputs are cut or read in windows.
        missing: weights, by their names in the file, that the checkpoint lacks.
        options: how inputs become sequences and outputs predictions, as in fine-tuning.
        tuned: how the run was fine-tuned, or None.
        sentence: the steps after the encoder of a sentence-transformers directory, or None.
    """

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Tokenizer,
        path: Path,
        sequence_length: int,
        missing: Sequence[str] = (),
        tuned: FinetuneConfig | None = None,
        sentence: SentenceModules | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.tokenizer = tokenizer
        self.path = path
        self.sequence_length = sequence_length
        self.missing = list(missing)
        self.options = task_options(tuned) if tuned else TaskOptions(sequence_length)
        self.tuned = tuned
        self.sentence = sentence

    def lacks(self, prefix: str) -> bool:
        """Whether weights under this name in the file are missing, so are untrained."""
        return any(name.startswith(prefix) for name in self.missing)

    @property
    def head(self) -> str:
        return str(self.model.head)

    @property
    def labels(self) -> list[str]:
        return list(self.model.labels)  # type: ignore[arg-type]

    @property
    def config(self) -> ModelConfig:
        config = self.model.config
        assert isinstance(config, ModelConfig)
        return config

    @property
    def encoder(self) -> nn.Module:
        encoder = self.model.encoder
        assert isinstance(encoder, nn.Module)
        return encoder

    def forward(self, *inputs: Any) -> Any:
        """What the model with this head computes: see `bertkit.model.bert`."""
        return self.model(*inputs)

    def predict(
        self,
        inputs: Iterable[PredictInput],
        batch_tokens: int = BATCH_TOKENS,
        long: Long = "windows",
        window_mean: WindowMean = "probabilities",
        words: Words = "tokenizer",
    ) -> list[Prediction]:
        """Labels texts.

        Args:
            inputs: texts, (text, text) pairs for a classifier, lists of words for a tagger,
                (text, choices) or (text, question, choices) for multiple choice,
                {"question": ..., "context": ...} for question answering.
            batch_tokens: tokens computed at once; changes nothing in the result.
            long: a text longer than `sequence_length` is read in windows, or cut at its end. A
                tagger reads windows in any case.
            window_mean: what of a text's windows is averaged.
            words: where a tagger's words end in a text.

        Returns:
            One prediction for each input, in order, of the family's class (`ClassPrediction`,
            `TagPrediction`, ...).

        Raises:
            UserError: the model has no head for a task, or an input is of the wrong kind.
        """
        check_choice("words", words, Words)
        examples = [self.example(one, words) for one in _texts(inputs, "predict")]
        answers = self.answer(examples, None, batch_tokens, long, window_mean)
        say_lengths(len(examples), len(answers.windows), answers.truncated, self.sequence_length)
        return answers.predictions

    def fill(self, texts: Iterable[str], top: int = 5) -> list[FilledText]:
        """The masked LM's `top` candidates for each [MASK] of the texts.

        Raises:
            UserError: the model has no masked-LM head; a text has no [MASK], or masks too far
                apart for one sequence.
        """
        from bertkit.inference.fill import fill_masks

        return fill_masks(self, _texts(texts, "fill"), top)

    def embed(
        self,
        texts: Iterable[TextInput],
        layers: str = "last",
        pooling: Pooling | None = None,
        *,
        weights: Sequence[float] | None = None,
        long: Long | None = None,
        batch_tokens: int = BATCH_TOKENS,
        normalize: bool | None = None,
    ) -> np.ndarray:
        """A vector for each text or pair: [texts, size], float32.

        The arguments are the options of `bertkit embed`. For words and tokens see
        `bertkit.inference.embed.embed_texts`.

        Raises:
            UserError: options that do not go together or that the model cannot follow.
        """
        from bertkit.inference.embed import embed_texts

        made = embed_texts(
            self,
            _texts(texts, "embed"),
            layers,
            pooling,
            weights=weights,
            long=long,
            batch_tokens=batch_tokens,
            normalize=normalize,
        )
        say_lengths(len(made.texts), made.windowed, made.truncated, self.sequence_length)
        none = np.zeros((0, made.size), np.float32)
        return np.concatenate([none, *(one.vectors for one in made.texts)])

    def length(self, given: int | None) -> int:
        """Tokens of the longest sequence: those given, or as in training."""
        return self.sequence_length if given is None else given

    def answer(
        self,
        examples: Sequence[Any],
        sequence_length: int | None = None,
        batch_tokens: int = BATCH_TOKENS,
        long: Long = "cut",
        window_mean: WindowMean = "probabilities",
    ) -> Answers:
        """Predictions for examples of the head's family, with counts of what was cut."""
        check_choice("long", long, Long)
        check_choice("window_mean", window_mean, WindowMean)
        check_count("batch_tokens", batch_tokens)
        return answer(
            self.model,
            self.task,
            examples,
            self.tokenizer,
            replace(
                self.options,
                sequence_length=self.length(sequence_length),
                long=long,
                window_mean=window_mean,
            ),
            batch_tokens,
        )

    @property
    def task(self) -> Any:
        """The head's family of tasks; UserError where the head answers nothing."""
        if self.head in ("pretraining", "masked-lm", "left-to-right"):
            raise UserError(
                f"{self.path} is pre-trained only and predicts no labels; tune it with bertkit "
                "finetune, or use bertkit fill or bertkit embed"
            )
        task = TASKS.get(str(self.tuned.task)) if self.tuned else None
        if task is None or self.head not in (task.head, task.feature_head):
            task = family_of(self.head)
        check_head(self.missing, self.path)
        return task

    def example(self, one: PredictInput, words: Words = "tokenizer") -> Any:
        """An input as an example of the head's family."""
        task = self.task
        if task.from_input is not None:
            return task.from_input(one, self.tokenizer)
        if isinstance(one, str):
            if task.head == "tagging":
                return words_of(one, self.tokenizer, words)
            return TextExample(one)
        if task.head == "tagging" and isinstance(one, list) and _are_texts(one):
            return WordsExample(list(one), [])
        if task.head != "tagging" and isinstance(one, tuple) and len(one) == 2 and _are_texts(one):
            return TextExample(str(one[0]), str(one[1]))
        wanted = "lists of words" if task.head == "tagging" else "pairs (text, text)"
        raise UserError(f"a {task.head} model takes texts or {wanted}, not {one!r:.60}")


def load(path: str | Path, precision: Precision = "fp32", device: str = "auto") -> LoadedModel:
    """Loads a checkpoint's model, with the head it has, and its tokenizer.

    From then on the process keeps the memory it frees (`bertkit.training.allocator`).

    Args:
        path: a Hugging Face directory, such as a finished run, a sentence-transformers directory,
            or the name of a model of the hub.
        precision: arithmetic of the matrix products.
        device: where it computes: "cpu", "cuda", "cuda:1", or "auto" for a GPU where there is one.

    Raises:
        UserError: there is no such checkpoint or device, or the checkpoint is not whole.
    """
    check_choice("precision", precision, Precision)
    keep_memory()
    place_of_work = choose_device(device)
    directory = checkpoint_path(str(path))
    sentence = read_sentence_modules(directory)
    place = sentence.transformer if sentence else directory
    checkpoint = load_checkpoint(place)
    model = checkpoint.model
    tokenizer = Tokenizer.load(place)
    check_fit(tokenizer, model, place)
    model.to(place_of_work)
    set_compute_dtype(model, compute_dtype(precision, place_of_work))
    positions = max_positions(model)
    tuned = tuned_with(directory)
    told = sentence.max_length if sentence else trained_length(directory, tuned)
    length = min(told or positions, positions)
    loaded = LoadedModel(
        model,
        tokenizer,
        directory,
        length,
        checkpoint.missing,
        tuned=tuned,
        sentence=sentence,
    )
    loaded.eval()
    return loaded


def trained_length(directory: Path, tuned: FinetuneConfig | None) -> int | None:
    """The sequence length a run was trained with: positions beyond it may never have learned."""
    return task_options(tuned).sequence_length if tuned else pretrained_length(directory)


def _are_texts(given: Iterable[Any]) -> bool:
    return all(isinstance(one, str) for one in given)


def _texts(given: Iterable[Any], call: str) -> list[Any]:
    """The inputs of a call; UserError for one text alone, which is no list of texts."""
    if isinstance(given, (str, dict)):
        raise UserError(f"{call} takes a list of inputs; put the one in brackets: [{given!r:.40}]")
    if not isinstance(given, Iterable):
        raise UserError(f"{call} takes a list of inputs, not {given!r:.40}")
    return list(given)


def say_lengths(
    inputs: int, windowed: int, truncated: int, sequence_length: int, quiet: bool = False
) -> None:
    """Tells what was done with texts that are too long."""
    if windowed:
        say(
            f"{windowed:,} of {inputs:,} texts are longer than {sequence_length} tokens and were "
            "read in windows",
            quiet,
        )
    if truncated:
        say(f"{truncated:,} of {inputs:,} texts were cut to {sequence_length} tokens", quiet)
