"""An old vocabulary and words of new text in, more tokens out, for continued pre-training.

No id of the old vocabulary changes. New tokens take its [unused] entries first, whose embeddings
exist already though nothing has trained them, and are appended when these run out.

Choices worth knowing:
- Merging (merges.py) starts from the words as the old vocabulary spells them, so what is learned
  is what it splits.
- A piece that larger ones have absorbed, so that it occurs less than `min_frequency` times by
  itself, is left out: its place is worth more to another. A vocabulary learned from nothing keeps
  such pieces, as everybody's does.
- Characters that the old vocabulary lacks come first, as without them whole words are [UNK]; at
  most half of the new tokens are such.
- Tokenizing stays greedy, so a new token may also change how other words are split. The summary's
  pieces a word, before and after, are measured by tokenizing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from bertkit.progress import Progress
from bertkit.text.characters import category
from bertkit.text.learning import WordList, check_positive
from bertkit.text.merges import Criterion, Merger
from bertkit.text.tokenizer import Tokenizer
from bertkit.text.wordpiece import PREFIX, WordPieces

_UNUSED = re.compile(r"\[unused\d+\]")


def unused_ids(vocabulary: list[str]) -> list[int]:
    """The ids of [unused] entries."""
    return [number for number, entry in enumerate(vocabulary) if _UNUSED.fullmatch(entry)]


def learn_additions(
    old: Tokenizer,
    listed: WordList,
    add: int,
    min_frequency: int = 2,
    criterion: Criterion = "frequency",
    alphabet: int | None = None,
    quiet: bool = True,
    min_pair_frequency: int | None = None,
) -> list[str]:
    """Learns tokens that shorten words of new text.

    Args:
        old: the tokenizer to extend.
        listed: the words of the new text, made with the old tokenizer's casing and word limit.
        add: most tokens to learn.
        min_frequency: how often a new token must occur.
        criterion: which pair is merged next (merges.py).
        alphabet: most new characters; None: half of `add`.
        quiet: show no progress.
        min_pair_frequency: how often a pair to merge must occur; None: `min_frequency`.

    Returns:
        New tokens in the order of learning, characters first; fewer than `add` if nothing else is
        frequent enough.

    Raises:
        UserError: a number is below 1.
    """
    check_positive(
        add=add,
        min_frequency=min_frequency,
        alphabet=alphabet,
        min_pair_frequency=min_pair_frequency,
    )
    known = set(old.vocabulary)
    characters = _new_characters(old, listed, add, min_frequency, alphabet)
    learned: dict[str, None] = {}
    frequent: set[str] = set()  # those of `learned` that occur often enough by themselves
    wanted = add - len(characters)
    least = min_pair_frequency or min_frequency
    with Progress("merging pieces", total=wanted, unit="pieces", quiet=quiet) as progress:
        merger = Merger(_spell(old, characters, listed), least, criterion)
        for merge in merger if wanted else ():
            if merge.piece not in known:
                learned.setdefault(merge.piece)
            before = len(frequent)
            for piece in (merge.piece, merge.left, merge.right):
                if piece in learned and merger.piece_counts[piece] >= least:
                    frequent.add(piece)
                else:
                    frequent.discard(piece)
            progress.advance(min(len(frequent), wanted) - min(before, wanted))
            # Not as soon as there are enough: the last ones may yet be absorbed.
            if len(frequent) >= wanted + wanted // 8 + 16:
                break
    return characters + [piece for piece in learned if piece in frequent][:wanted]


def extended(vocabulary: list[str], tokens: list[str]) -> tuple[list[str], int]:
    """The vocabulary with tokens in the places of its [unused] entries and behind its end.

    Returns:
        The new vocabulary, and how many tokens took an [unused] entry.
    """
    places = unused_ids(vocabulary)[: len(tokens)]
    longer = list(vocabulary)
    for number, token in zip(places, tokens, strict=False):
        longer[number] = token
    return longer + tokens[len(places) :], len(places)


def _new_characters(
    old: Tokenizer, listed: WordList, add: int, min_frequency: int, limit: int | None
) -> list[str]:
    """The characters, bare or with "##", for want of which words are [UNK]."""
    pieces = WordPieces(old.vocabulary, old.word_limit)
    known = set(old.vocabulary)
    counts: Counter[str] = Counter()
    for word, count in listed.words.items():
        if pieces.ids(word) == [pieces.unknown]:
            for form in (word[0], *[PREFIX + character for character in word[1:]]):
                if form not in known:
                    counts[form] += count
    room = add // 2 if limit is None else add
    entries: list[str] = []
    characters: set[str] = set()
    for form in sorted(counts, key=lambda form: (-counts[form], form)):
        if counts[form] < min_frequency or len(entries) >= room:
            break
        character = form.removeprefix(PREFIX)
        if category(character) == "Cs" or (
            limit is not None and len(characters) >= limit and character not in characters
        ):
            continue
        characters.add(character)
        entries.append(form)
    return entries


def _spell(
    old: Tokenizer, characters: list[str], listed: WordList
) -> Iterator[tuple[list[str], int]]:
    entries = [*old.vocabulary, *characters]
    pieces = WordPieces(entries, old.word_limit)
    for word, count in listed.words.items():
        ids = pieces.ids(word)
        if ids != [pieces.unknown]:
            yield [entries[number] for number in ids], count
