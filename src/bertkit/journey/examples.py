"""Documents and examples of a corpus in words, for `bertkit inspect`.

An example is shown as pre-training sees it: what is to be predicted of the masked tokens stands in
braces behind what the model sees.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertkit.errors import UserError
from bertkit.journey.config import InspectConfig

if TYPE_CHECKING:
    from bertkit.corpus.format import Corpus, CorpusSplit
    from bertkit.pretraining.batches import PretrainingSource
    from bertkit.pretraining.config import PretrainConfig
    from bertkit.text.tokenizer import Tokenizer

MOST_EPOCHS = 1000
"""Each has to be planned to find an example beyond it."""
DEFAULT_LENGTH = 128
"""Tokens of an example where neither the command nor a run says."""


def split_of(corpus: Corpus, name: str, place: str | Path) -> CorpusSplit:
    """A split of the corpus in `place`; UserError where it has none of that name."""
    if name not in corpus.splits:
        raise UserError(f"{place} has no split '{name}'; choose one of {', '.join(corpus.splits)}")
    return corpus.splits[name]


def document_in_words(number: int, split: CorpusSplit) -> tuple[dict[str, Any], str]:
    """A document in words, a sentence a line; spaces between words where the corpus knows them."""
    if not 0 <= number < split.documents:
        raise UserError(
            f"{split.path} has documents 0 to {split.documents - 1} in {split.name}, not {number}"
        )
    first, stop = split.document_bounds[number : number + 2].tolist()
    sentences = split.decode(first, stop - first, words=split.has_words)
    identity = split.document_id(number)
    text = "\n".join([f"document {number} of {split.name}: {identity}", *sentences])
    return {"id": identity, "sentences": sentences}, text


def example_in_words(
    config: InspectConfig, options: PretrainConfig, split: CorpusSplit, tokenizer: Tokenizer
) -> tuple[dict[str, Any], str]:
    """An example as a run with these options sees it."""
    from bertkit.pretraining.plan import ONE_TEXT

    source, epoch, place = _find(config, options, split, tokenizer)
    examples = source.build(epoch, source.ordered(epoch, place, 1))
    tokens = [tokenizer.vocabulary[token] for token in examples.token_ids.tolist()]
    masked = {
        index: tokenizer.vocabulary[examples.original_ids[index]]
        for index in examples.masked.tolist()
    }
    pairs, unlike = source.options.pairs, bool(examples.next_sentence[0])
    facts = {
        "tokens": tokens,
        "segment_ids": examples.segment_ids.tolist(),
        "masked": masked,
        "random_next": unlike and pairs != "sop",
        "swapped": unlike and pairs == "sop",
        "epoch": epoch,
        "place": place,
    }
    predicted = f"{len(masked)} to predict" + ("" if examples.ahead else " ({...})")
    head = f"example {place} of {split.name} in epoch {epoch}: {len(tokens)} tokens, {predicted}"
    if pairs not in ONE_TEXT:
        other = "what comes before it" if pairs == "sop" else "a random text"
        head += f"; the second text is {other if unlike else 'what follows'}"
    if examples.ahead:  # every token is predicted from those before
        return facts, f"{head}\n{' '.join(tokens)}"
    shown = [f"{t}{{{masked[k]}}}" if k in masked else t for k, t in enumerate(tokens)]
    return facts, f"{head}\n{' '.join(shown)}"


def example_of_run(config: InspectConfig, path: Path) -> tuple[dict[str, Any], str]:
    """An example as the run saw it, from the corpus that it names."""
    from bertkit import config as configurations
    from bertkit.corpus.format import Corpus
    from bertkit.pretraining.config import PretrainConfig

    if not (path / "pretrain.yaml").is_file():
        raise UserError(f"{path} is no pre-training run; --example shows those of pretrain")
    options = configurations.load(PretrainConfig, path / "pretrain.yaml")
    corpus = Corpus.open(options.corpus)
    split = split_of(corpus, config.split, options.corpus)
    return example_in_words(config, options, split, corpus.tokenizer())


def _find(
    config: InspectConfig, options: PretrainConfig, split: CorpusSplit, tokenizer: Tokenizer
) -> tuple[PretrainingSource, int, int]:
    """What makes the example that is asked for, its epoch, and its place in that epoch's order."""
    from bertkit.pretraining.phases import read_phases
    from bertkit.pretraining.sources import training_source

    number, length = config.example or 0, config.sequence_length or options.sequence_length
    if number < 0:
        raise UserError(f"--example is {number}; count from 0")
    if length < 8:
        raise UserError(f"a sequence length of {length} is too short for a sentence pair")
    lengths = [one.sequence_length for one in read_phases(options.phases, options.sequence_length)]
    if length not in lengths:
        raise UserError(
            f"{config.path} has no phase with sequences of {length} tokens; give "
            f"--sequence-length {' or '.join(map(str, lengths))}"
        )
    source = training_source(options, split, tokenizer, length)
    if config.epoch is None and number >= MOST_EPOCHS * len(source.plan(0)):
        raise UserError(
            f"--example {number} lies beyond {MOST_EPOCHS} epochs of about {len(source.plan(0)):,} "
            "examples; give the --epoch, and --example as its place in that"
        )
    if config.epoch is None:
        epoch, place = source.locate(number)
    else:
        epoch, place = config.epoch, number
    if epoch < 0 or place >= len(source.plan(epoch)):
        raise UserError(
            f"epochs count from 0, and epoch {max(0, epoch)} has the examples 0 to "
            f"{len(source.plan(max(0, epoch))) - 1:,}, not --epoch {epoch} --example {number}"
        )
    return source, epoch, place
