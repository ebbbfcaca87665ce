"""What a run starts from: fresh weights, or those of a checkpoint (continued pre-training).

With `--from-checkpoint`
    sizes        are the checkpoint's; dropout and the objective are the run's
    heads        are the checkpoint's where it has them; the others start fresh, which is said
    vocabulary   is the corpus': the checkpoint's, or one that `bertkit vocab --extend` made of it
    positions    beyond those that the checkpoint has, or has learned, are copies of its own

Positions are copied in order, as often as needed, and without position 0: only [CLS] has ever
been there. What fits the learned positions gives the same numbers as before.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bertkit.errors import UserError
from bertkit.formats.assembly import LoadedCheckpoint
from bertkit.formats.hub import checkpoint_path
from bertkit.formats.source import load_source
from bertkit.model.config import ModelConfig, dropout_rates, model_config
from bertkit.pretraining.config import PretrainConfig, pretrained_length
from bertkit.pretraining.objectives import make_model, model_class, pairs_of
from bertkit.progress import say
from bertkit.text.extension import unused_ids
from bertkit.text.tokenizer import Tokenizer
from bertkit.training.seeds import seed_initial_weights

_HEADS = {
    "pooler": ("pooler", "encoder.pooler."),
    "predictions": ("masked-LM head", "masked_lm."),
    "seq_relationship": ("next-sentence head", "next_sentence."),
}
"""By a part of their names in files of any format: what a person calls it, and its own names."""

_TWO_SEGMENTS = ("nsp", "nsp-sentence", "sop")
_FRESH_ONLY = ("position_init", "initializer_range")
"""Options that say how fresh weights start."""


@dataclass
class Start:
    """The model before its first step.

    Attributes:
        checkpoint: for run.json, what it was made from: its path, the SHA-256 of its weights, the
            weights that it lacked; None where all are fresh.
    """

    model: nn.Module
    checkpoint: dict[str, Any] | None = None


def make_start(config: PretrainConfig, tokenizer: Tokenizer) -> Start:
    """The model that `config` starts with; the same weights each time, by its seed.

    Args:
        tokenizer: the corpus'.

    Raises:
        UserError: options contradict each other or the checkpoint; its vocabulary or casing is
            another one than the corpus'; or any of what `load_source` raises.
    """
    if config.from_checkpoint is not None:
        return _continued(config, checkpoint_path(config.from_checkpoint), tokenizer)
    if config.learned_positions is not None:
        raise UserError("--learned-positions is for --from-checkpoint; leave it out")
    sizes = model_config(
        config.model or "base",
        len(tokenizer),
        **dropout_rates(config.dropout),
        position_init=config.position_init,
        initializer_range=config.initializer_range,
        max_positions=config.max_positions or max(512, config.sequence_length),
        pad_id=tokenizer.pad_id,
        causal=config.objective == "ltr",
    )
    seed_initial_weights(config.seed)
    return Start(make_model(config.objective, sizes))


def _continued(config: PretrainConfig, place: Path, tokenizer: Tokenizer) -> Start:
    _check_options(config)

    family: Any = model_class(config.objective)
    changes: dict[str, Any] = {
        **dropout_rates(config.dropout),
        "pad_id": tokenizer.pad_id,
        "causal": config.objective == "ltr",
    }
    seed_initial_weights(config.seed)

    loaded = load_source(place, head=family.head, **changes)
    sizes: ModelConfig = loaded.model.config  # type: ignore[assignment]
    old = _tokenizer_of(place, tokenizer.lower_case)
    check_vocabulary(old, tokenizer, str(place), config.corpus)
    _check_sizes(config, place, sizes)
    digest = weights_digest(loaded)
    appended = len(tokenizer) - sizes.vocab_size
    if appended > 0:
        del loaded
        seed_initial_weights(config.seed)
        loaded = load_source(place, head=family.head, vocab_size=len(tokenizer), **changes)
    say(
        f"starting from {place}: {sizes.layers} layers of {sizes.hidden_size}, {sizes.heads} "
        f"heads, {sizes.vocab_size:,} tokens, {sizes.max_positions} positions",
        config.quiet,
    )
    _tell_of_heads(loaded, config.quiet)
    _tell_of_tokens(old, tokenizer, max(0, appended), config.quiet)
    _set_positions(config, place, loaded.model)
    facts = {"path": str(place), "sha256": digest, "missing": loaded.missing}
    return Start(loaded.model, facts)


def check_vocabulary(old: Tokenizer, new: Tokenizer, checkpoint: str, corpus: str) -> None:
    """Holds a corpus' vocabulary to a checkpoint's: the same ids, [unused] entries filled or not,
    and any more behind them.

    Raises UserError naming the first difference.
    """
    if old.lower_case != new.lower_case:
        first, second = ("cased" if not it.lower_case else "lower-cased" for it in (new, old))
        raise UserError(
            f"the corpus {corpus} is {first}, but the checkpoint {checkpoint} is {second}; "
            f"prepare it with the checkpoint's vocabulary: --vocab {checkpoint}"
        )
    unused = set(unused_ids(old.vocabulary))
    for number, (before, after) in enumerate(zip_longest(old.vocabulary, new.vocabulary)):
        if before is None:
            return
        if before != after and not (number in unused and after is not None):
            told = "missing" if after is None else repr(after)
            raise UserError(
                f"the vocabulary of the corpus {corpus} does not begin with that of the "
                f"checkpoint {checkpoint}: entry {number} is {told}, not {before!r}; prepare it "
                f"with --vocab {checkpoint}, or with what bertkit vocab --extend made of that"
            )


def longer_positions(table: Tensor, positions: int, learned: int) -> Tensor:
    """Position embeddings [positions, hidden]: the first `learned` rows of `table`, then these
    again and again in order, without row 0."""
    rows = torch.arange(positions, device=table.device)
    copies = 1 + (rows - learned) % max(1, learned - 1)
    return table[torch.where(rows < learned, rows, copies)].clone()


def weights_digest(loaded: LoadedCheckpoint) -> str:
    """SHA-256 of the weights that came from the file and of how they are computed with.

    The same for the same weights in another format, and whatever is fresh beside them.
    """
    sizes: ModelConfig = loaded.model.config  # type: ignore[assignment]
    fresh = tuple(_HEADS[part][1] for part in _HEADS if _of(part, loaded.missing))
    arithmetic = [sizes.heads, sizes.activation, sizes.layer_norm_eps]
    digest = hashlib.sha256(json.dumps(arithmetic).encode())
    for name, value in sorted(loaded.model.state_dict().items()):
        if not name.startswith(fresh):
            digest.update(f"{name} {list(value.shape)}".encode())
            digest.update(value.detach().cpu().contiguous().numpy())
    return digest.hexdigest()


def _check_options(config: PretrainConfig) -> None:
    defaults = PretrainConfig(corpus="", output="")
    for option in _FRESH_ONLY:
        if getattr(config, option) != getattr(defaults, option):
            raise UserError(
                f"--{option.replace('_', '-')} says how fresh weights start, but "
                "--from-checkpoint takes those of a checkpoint; leave one of them out"
            )


def _check_sizes(config: PretrainConfig, place: Path, sizes: ModelConfig) -> None:
    if config.model is not None:
        wanted = model_config(config.model, sizes.vocab_size)
        told = [
            f"{one.layers}x{one.hidden_size}x{one.heads} with {one.intermediate_size} inside"
            for one in (wanted, sizes)
        ]
        if told[0] != told[1]:
            raise UserError(
                f"--model {config.model} is {told[0]}, but the checkpoint {place} is {told[1]}; "
                f"leave it out, or give --model {sizes.layers}x{sizes.hidden_size}x{sizes.heads}"
            )
    pairs = pairs_of(config)
    if pairs in _TWO_SEGMENTS and sizes.segment_types < 2:
        raise UserError(
            f"--pairs {pairs} has two segments, but the checkpoint {place} knows one only; "
            "give --objective mlm --pairs full-sentences"
        )
    if config.max_positions is not None and config.max_positions < sizes.max_positions:
        raise UserError(
            f"--max-positions {config.max_positions} is fewer than the {sizes.max_positions} of "
            f"the checkpoint {place}; leave it out, shorter sequences need no fewer positions"
        )
    learned = config.learned_positions
    if learned is not None and not 2 <= learned <= sizes.max_positions:
        raise UserError(
            f"--learned-positions is {learned}; give how many of the {sizes.max_positions} "
            f"positions of the checkpoint {place} have learned, at least 2"
        )


def _tokenizer_of(place: Path, lower_case: bool) -> Tokenizer:
    """The checkpoint's; where its casing is not stored it is taken to be the corpus'."""
    folder = place if place.is_dir() else place.parent
    try:
        return Tokenizer.load(folder)
    except UserError:
        return Tokenizer.load(folder, lower_case=lower_case)


def _set_positions(config: PretrainConfig, place: Path, model: nn.Module) -> None:
    """Gives the model the positions that the run wants, in place."""
    sizes: ModelConfig = model.config  # type: ignore[assignment]
    have = sizes.max_positions
    learned = config.learned_positions or have
    wanted = config.max_positions or max(have, config.sequence_length)
    if learned < max(have, wanted):
        embeddings: Any = model.encoder.embeddings  # type: ignore[union-attr]
        table = longer_positions(embeddings.position.detach(), wanted, learned)
        embeddings.position = nn.Parameter(table)
        sizes.max_positions = wanted
        say(
            f"positions {learned} to {wanted - 1} start as copies of 1 to {learned - 1}, in order",
            config.quiet,
        )
    trained = pretrained_length(place)
    if config.learned_positions is None and trained and trained < config.sequence_length <= have:
        say(
            f"{place} was trained on sequences of {trained} tokens; unless a run before it has, "
            f"its later positions have learned nothing, and --learned-positions {trained} starts "
            "them as copies",
            config.quiet,
        )


def _of(part: str, names: Sequence[str]) -> list[str]:
    return [name for name in names if part in name]


def _tell_of_heads(loaded: LoadedCheckpoint, quiet: bool) -> None:
    for part, (title, _) in _HEADS.items():
        missing = _of(part, loaded.missing)
        if missing:
            say(f"it has no {title}, which starts fresh: {', '.join(missing)}", quiet)
    if loaded.unexpected:
        say(f"not needed for the objective: {', '.join(loaded.unexpected)}", quiet)


def _tell_of_tokens(old: Tokenizer, new: Tokenizer, drawn: int, quiet: bool) -> None:
    filled = sum(
        before != after for before, after in zip(old.vocabulary, new.vocabulary, strict=False)
    )
    added = len(new) - len(old)
    if added:
        say(
            f"{added:,} tokens behind the checkpoint's vocabulary; {drawn:,} embeddings are drawn "
            "as fresh ones are, with an output bias of 0",
            quiet,
        )
    if filled:
        say(f"{filled:,} tokens take over the embeddings of [unused] entries", quiet)
