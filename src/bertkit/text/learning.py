"""Word counts in, the entries of a WordPiece vocabulary out (paper, section 3).

The paper's learner was never released. This one starts from characters and merges (merges.py).

Choices worth knowing:
- Words are those of the exact basic tokenization, so each CJK character is a word of its own and
  no piece ever has two of them.
- Order of entries: the special tokens and [unused] places (`first_entries`), then the characters
  by code point, then the pieces as they were merged (by frequency, so the frequent ones first).
- Characters are counted over all words. Merging needs memory for each distinct word, so only the
  most frequent `max_words` take part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bertkit.errors import UserError
from bertkit.progress import Progress
from bertkit.text.characters import category
from bertkit.text.merges import Criterion, Merger
from bertkit.text.tokenizer_files import PAD, SPECIAL_TOKENS
from bertkit.text.wordpiece import PREFIX, WORD_LIMIT

UNUSED_AFTER_PAD = 99
"""As in all released vocabularies, so that [UNK] [CLS] [SEP] [MASK] are 100 to 103."""

RELEASE_UNUSED = 994
"""[unused] entries of the released uncased vocabulary: ids 1 to 99 and 104 to 998."""


@dataclass
class WordList:
    """What is to be learned from: the most frequent words, and the characters of all.

    Attributes:
        words: the most frequent words within the word limit with their counts, most frequent
            first, equals by code point.
        firsts, others: how often each character starts a word, and how often it continues one.
        running, distinct: words of the text, and how many are different.
        cut, cut_running: the same of those left out of `words` by its bound.
    """

    words: dict[str, int] = field(default_factory=dict)
    firsts: Counter[str] = field(default_factory=Counter)
    others: Counter[str] = field(default_factory=Counter)
    running: int = 0
    distinct: int = 0
    cut: int = 0
    cut_running: int = 0


def list_words(
    counts: Iterable[tuple[str, int]], max_words: int | None = None, word_limit: int = WORD_LIMIT
) -> WordList:
    """Reads each word's count once, in any order, and keeps the `max_words` most frequent words.

    Words longer than `word_limit` are always [UNK] and teach nothing; they are only counted.
    """
    listed = WordList()
    kept: list[tuple[int, str]] = []  # minus the count, word: sorts as it should

    def cut() -> None:
        kept.sort()
        if max_words is not None and len(kept) > max_words:
            listed.cut += len(kept) - max_words
            listed.cut_running -= sum(negative for negative, _ in kept[max_words:])
            del kept[max_words:]

    for word, count in counts:
        listed.running += count
        listed.distinct += 1
        if not word or len(word) > word_limit:
            continue
        listed.firsts[word[0]] += count
        for character in word[1:]:
            listed.others[character] += count
        kept.append((-count, word))
        if max_words is not None and len(kept) >= 2 * max_words:
            cut()
    cut()
    listed.words = {word: -negative for negative, word in kept}
    return listed


def learn_wordpieces(
    word_counts: Mapping[str, int] | WordList,
    size: int = 30522,
    min_frequency: int = 2,
    word_limit: int = WORD_LIMIT,
    quiet: bool = True,
    criterion: Criterion = "frequency",
    alphabet: int | None = None,
    unused: int = 0,
    min_pair_frequency: int | None = None,
) -> list[str]:
    """Learns a WordPiece vocabulary from word counts.

    Every character that occurs `min_frequency` times is an entry, and with "##" too if it occurs
    inside words; the most frequent ones if `size` has no room for all.

    Args:
        word_counts: how often each word of basic tokenization occurs; or what `list_words` made
            of that.
        size: most entries, special tokens and [unused] entries included.
        min_frequency: how often a character, or a pair of pieces to merge, must occur.
        word_limit: longer words teach nothing, for they are always [UNK].
        quiet: show no progress.
        criterion: "frequency" merges the most frequent pair next, "likelihood" the one of the
            largest count(ab) / (count(a) * count(b)); merges.py defines both.
        alphabet: most distinct characters; None for no limit. A word with another is [UNK].
        unused: how many [unused] entries to have (`first_entries`).
        min_pair_frequency: how often a pair to merge must occur; None: `min_frequency`.

    Returns:
        The entries in order of their ids; fewer than `size` if no pair is frequent enough.

    Raises:
        UserError: an option is out of its range, or there is no word.
    """
    check_size(size, unused)
    check_positive(
        min_frequency=min_frequency, alphabet=alphabet, min_pair_frequency=min_pair_frequency
    )
    if isinstance(word_counts, Mapping):
        word_counts = list_words(word_counts.items(), word_limit=word_limit)
    first = first_entries(unused)
    characters = character_entries(
        word_counts.firsts, word_counts.others, size - len(first), min_frequency, alphabet
    )
    if not characters:
        raise UserError(
            f"no character occurs {min_frequency} times in the text; give more text, or a smaller "
            "min_frequency"
        )
    vocabulary = dict.fromkeys((*first, *characters))
    wanted = size - len(vocabulary)
    if wanted > 0:
        with Progress("merging pieces", total=wanted, unit="pieces", quiet=quiet) as progress:
            spelled = spell(word_counts.words, set(characters))
            for merge in Merger(spelled, min_pair_frequency or min_frequency, criterion):
                if merge.piece not in vocabulary:  # two ways to make one piece
                    vocabulary[merge.piece] = None
                    progress.advance()
                    if len(vocabulary) >= size:
                        break
    return list(vocabulary)


def check_size(size: int, unused: int = 0) -> None:
    """Raises UserError for a size without room for anything but special and [unused] tokens."""
    if unused < 0:
        raise UserError(f"unused is {unused}; give 0 or more")
    if size <= len(SPECIAL_TOKENS) + unused:
        beside = f"the {len(SPECIAL_TOKENS)} special tokens"
        if unused:
            beside += f" and {unused} [unused] entries"
        raise UserError(
            f"a vocabulary of {size} entries has no room beside {beside}; give a larger size"
        )


def check_positive(**values: int | None) -> None:
    """Raises UserError for a value below 1; None is no value."""
    for name, value in values.items():
        if value is not None and value < 1:
            raise UserError(f"{name} is {value}; give 1 or more")


def first_entries(unused: int) -> list[str]:
    """The special tokens and [unused] entries, in the order of the released uncased vocabulary.

    [PAD] is 0. Up to 99 [unused] entries follow it, then [UNK] [CLS] [SEP] [MASK], then the rest:
    with 99 or more of them the special tokens have the ids of the released vocabularies.
    """
    names = [f"[unused{number}]" for number in range(unused)]
    after_pad = min(unused, UNUSED_AFTER_PAD)
    specials = [token for token in SPECIAL_TOKENS if token != PAD]
    return [PAD, *names[:after_pad], *specials, *names[after_pad:]]


def character_entries(
    firsts: Mapping[str, int],
    others: Mapping[str, int],
    room: int,
    min_frequency: int,
    limit: int | None = None,
) -> list[str]:
    """The single characters, bare ones first, then those with "##", each by code point.

    A character that occurs often enough is in bare even if it only continues words here: other
    text may start a word with it. Halves of surrogate pairs cannot be written and are left out.

    Args:
        firsts, others: how often each character starts a word, and how often it continues one.
        room: most entries; the most frequent ones then.
        min_frequency: how often a character must occur.
        limit: most distinct characters; the most frequent ones then, equals by code point.
    """
    totals = {
        character: total
        for character in firsts.keys() | others.keys()
        if (total := firsts.get(character, 0) + others.get(character, 0)) >= min_frequency
        and category(character) != "Cs"
    }
    chosen = sorted(totals, key=lambda character: (-totals[character], character))[:limit]
    forms: list[tuple[int, bool, str]] = []  # count, with "##" or not, character
    for character in chosen:
        forms.append((firsts.get(character, 0), False, character))
        if other := others.get(character, 0):
            forms.append((other, True, character))
    if len(forms) > room:
        forms.sort(key=lambda form: (-form[0], form[1:]))
        del forms[room:]
    forms.sort(key=lambda form: form[1:])
    return [PREFIX + character if inside else character for _, inside, character in forms]


def spell(words: Mapping[str, int], alphabet: set[str]) -> Iterable[tuple[list[str], int]]:
    """Words as lists of characters with "##", each with its count.

    A word with a character outside the alphabet is [UNK] whatever its other pieces are; it is
    left out.
    """
    inside = {entry.removeprefix(PREFIX): entry for entry in alphabet if len(entry) > 1}
    for word, count in words.items():
        if word[0] in alphabet:
            pieces = [word[0], *[inside.get(character, "") for character in word[1:]]]
            if "" not in pieces:
                yield pieces, count
