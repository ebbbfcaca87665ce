"""What a configuration of `bertkit pretrain` says about its examples: plans, masks, batches."""

from __future__ import annotations

from bertkit.corpus.format import Corpus, CorpusSplit
from bertkit.errors import UserError
from bertkit.pretraining.batches import PretrainingSource, SpecialIds, to_batch
from bertkit.pretraining.config import PretrainConfig
from bertkit.pretraining.masking import MaskOptions, default_max_predictions, read_split
from bertkit.pretraining.objectives import pairs_of
from bertkit.pretraining.plan import PlanOptions
from bertkit.pretraining.token_batches import TokenBatchSource
from bertkit.pretraining.words import chinese_share, continuing
from bertkit.progress import say
from bertkit.text.tokenizer import Tokenizer
from bertkit.training.batch import Batch

DUPLICATES = 10
"""Epochs that differ with static masking (reference: dupe_factor)."""

CHINESE = 0.05
"""A share of Chinese characters from which on a missing segmentation is worth a word."""


def plan_options(config: PretrainConfig, sequence_length: int) -> PlanOptions:
    """What the configuration says about the plan of a phase."""
    return PlanOptions(
        sequence_length=sequence_length,
        short_probability=config.short_probability,
        seed=config.seed,
        pairs=pairs_of(config),
        duplicates=(config.duplicates or DUPLICATES) if config.masking == "static" else None,
    )


def mask_options(
    config: PretrainConfig, tokenizer: Tokenizer, sequence_length: int
) -> MaskOptions | None:
    """What the configuration says about masking in a phase; None where nothing is masked."""
    if config.objective == "ltr":
        return None
    mask_share, random_share = read_split(config.mask_split)
    return MaskOptions(
        mask_id=tokenizer.mask_id,
        vocab_size=len(tokenizer),
        rate=config.mask_rate,
        max_predictions=config.max_predictions
        or default_max_predictions(sequence_length, config.mask_rate),
        mask_share=mask_share,
        random_share=random_share,
        units=config.mask_units,
        continues=None if config.mask_units == "token" else continuing(tokenizer),
    )


def source_of(
    config: PretrainConfig, split: CorpusSplit, tokenizer: Tokenizer, sequence_length: int
) -> PretrainingSource:
    """The examples of a phase as the configuration wants them."""
    return PretrainingSource(
        split,
        plan_options(config, sequence_length),
        mask_options(config, tokenizer, sequence_length),
        SpecialIds(tokenizer.cls_id, tokenizer.sep_id),
        config.batch_size,
        min(config.micro_batch_size, config.batch_size),
    )


def training_source(
    config: PretrainConfig, split: CorpusSplit, tokenizer: Tokenizer, sequence_length: int
) -> PretrainingSource:
    """The batches of a phase, as sequences or as tokens."""
    source = source_of(config, split, tokenizer, sequence_length)
    if config.batch_tokens is None:
        return source
    return TokenBatchSource(
        split,
        source.options,
        source.masks,
        source.special,
        config.batch_tokens,
        config.micro_batch_size * sequence_length,
    )


def epochs_of(source: PretrainingSource, steps: int) -> float:
    """Passes over the corpus in so many steps."""
    if isinstance(source, TokenBatchSource):
        return steps * source.pieces_in_step / source.pieces_in_epoch(source.epoch_size(0))
    return steps * source.batch_size / len(source.plan(0))


def held_out_batches(config: PretrainConfig, corpus: Corpus, tokenizer: Tokenizer) -> list[Batch]:
    """The first examples of the dev part's permuted order; none when it has too few documents."""
    split = corpus.splits.get("dev")
    if split is None or not config.evaluate_examples:
        say("no held-out documents to evaluate on", config.quiet)
        return []
    source = source_of(config, split, tokenizer, config.sequence_length)
    try:
        count = min(config.evaluate_examples, len(source.plan(0)))
    except UserError:  # its documents are too few or too short for pairs
        say("too few held-out documents to evaluate on", config.quiet)
        return []
    return [
        to_batch(part)
        for first in range(0, count, source.micro_batch_size)
        for part in source.examples(first, min(source.micro_batch_size, count - first))
    ]


def tell_of_words(config: PretrainConfig, split: CorpusSplit, tokenizer: Tokenizer) -> None:
    """Says so where whole words are wanted of a Chinese corpus that does not know its words."""
    if config.mask_units == "token" or split.has_words:
        return
    share = chinese_share(split, tokenizer)
    if share > CHINESE:
        say(
            f"{share:.0%} of the tokens are Chinese characters and the corpus has no word starts, "
            "so each of them is masked as a word; prepare it with --words jieba for whole words",
            config.quiet,
        )
