"""Vocabulary learning: text in, a WordPiece vocabulary and its tokenizer out (paper, section 3).

Comes in: documents, or how often each word occurs. Goes out: a folder with vocab.txt and the
tokenizer's other files. The paper's learner was never released. This one merges, again and again,
the pair of neighbouring pieces that occurs most often (byte-pair encoding over words, written with
"##"), which is what everybody's substitute does.

Choices worth knowing:
- Words are those of the exact basic tokenization, so each CJK character is a word of its own and
  no piece ever has two of them.
- The same text gives the same bytes, in whatever order its files come: counts do not depend on
  order, and between equally frequent pairs the smaller one by code point wins.
- Order of entries: [PAD] has id 0, then [UNK] [CLS] [SEP] [MASK], then the characters, then the
  pieces as they were merged (so, roughly, by frequency). The released vocabularies keep 99 or more
  [unused] entries after [PAD]; those were room for tokens added by hand to a vocabulary nobody
  could learn again, and here they would be parameters that are never trained.
"""

from __future__ import annotations

import heapq
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from bertkit import config as configuration
from bertkit.errors import UserError
from bertkit.files import writing
from bertkit.progress import Progress
from bertkit.text.characters import SPLITTING_CONTROLS, category
from bertkit.text.config import VocabConfig
from bertkit.text.documents import read_documents
from bertkit.text.tokenizer import SPECIAL_TOKENS, Tokenizer
from bertkit.text.wordpiece import PREFIX, WORD_LIMIT, WordPieces, chunks, words

FOLD_ENTRIES = 1 << 20
"""Distinct chunks that are counted before they are turned into words, to bound memory."""

WRITTEN_FILES = frozenset(
    {
        "vocab.txt",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "tokenizer.json",
        "vocab.yaml",
    }
)


@dataclass
class VocabResult:
    """What `learn_vocabulary` made.

    Attributes:
        output: the folder.
        size: entries, special tokens included.
        requested: the size that was asked for; the text may be too small to fill it.
        characters: distinct characters among the entries.
        documents: documents read.
        words: words in the text, and `distinct_words` of them.
        unknown_rate: share of the text's words that become [UNK].
        pieces_per_word: mean number of WordPieces of a word.
        seconds: time taken.
    """

    output: str
    size: int
    requested: int
    characters: int
    documents: int
    words: int
    distinct_words: int
    unknown_rate: float
    pieces_per_word: float
    seconds: float

    def __str__(self) -> str:
        lines = [
            f"{self.output}: {self.size:,} entries, {self.characters:,} characters among them",
            f"learned from {self.words:,} words ({self.distinct_words:,} different) in "
            f"{self.documents:,} documents, {self.seconds:.1f} s",
            f"on this text {self.pieces_per_word:.3f} pieces a word, {self.unknown_rate:.4%} of "
            "the words unknown",
        ]
        if self.size < self.requested:
            lines.append(
                f"the text is too small for {self.requested:,} entries: no further pair of pieces "
                "is frequent enough"
            )
        return "\n".join(lines)


def learn_vocabulary(config: VocabConfig) -> VocabResult:
    """Learns a vocabulary from files and writes it as a tokenizer.

    Raises:
        UserError: the input cannot be read, the size is too small, or the output folder holds
            files that this command did not write.
    """
    began = time.monotonic()
    check_size(config.size)
    output = Path(config.output)
    _check_output(output)
    documents = read_documents(
        config.inputs, config.documents, config.text_field, config.errors, config.quiet
    )
    counter = WordCounter(config.lower_case)
    with Progress("counting words", unit="documents", quiet=config.quiet) as progress:
        for document in documents:
            counter.add(document.text)
            progress.advance()
        count = progress.done
    word_counts = counter.counts()
    vocabulary = learn_wordpieces(
        word_counts, config.size, config.min_frequency, quiet=config.quiet
    )
    unknown_rate, pieces_per_word = coverage(vocabulary, word_counts)
    with writing(output) as partial:
        partial.mkdir()
        Tokenizer(vocabulary, config.lower_case).save(partial)
        configuration.save(config, partial / "vocab.yaml")
    characters = {entry.removeprefix(PREFIX) for entry in vocabulary}
    return VocabResult(
        output=str(output),
        size=len(vocabulary),
        requested=config.size,
        characters=sum(len(character) == 1 for character in characters),
        documents=count,
        words=sum(word_counts.values()),
        distinct_words=len(word_counts),
        unknown_rate=unknown_rate,
        pieces_per_word=pieces_per_word,
        seconds=time.monotonic() - began,
    )


class WordCounter:
    """Counts the words of basic tokenization, by way of the far fewer distinct chunks."""

    def __init__(self, lower_case: bool) -> None:
        self.lower_case = lower_case
        self._chunks: Counter[str] = Counter()
        self._words: Counter[str] = Counter()

    def add(self, text: str) -> None:
        """Counts the words of a text."""
        if text.isascii() and not any(control in text for control in SPLITTING_CONTROLS):
            self._chunks.update(text.split())  # the same chunks, found faster
        else:
            self._chunks.update(chunks(text))
        if len(self._chunks) > FOLD_ENTRIES:
            self._fold()

    def counts(self) -> dict[str, int]:
        """How often each word occurred in the texts so far."""
        self._fold()
        return dict(self._words)

    def _fold(self) -> None:
        total = self._words
        for chunk, count in self._chunks.items():
            for word in words(chunk, self.lower_case):
                total[word] += count
        self._chunks.clear()


def learn_wordpieces(
    word_counts: Mapping[str, int],
    size: int = 30522,
    min_frequency: int = 2,
    word_limit: int = WORD_LIMIT,
    quiet: bool = True,
) -> list[str]:
    """Learns a WordPiece vocabulary from word counts.

    Every character that occurs `min_frequency` times is an entry, and with "##" too if it occurs
    so inside words; the most frequent ones if `size` has no room for all.

    Args:
        word_counts: how often each word of basic tokenization occurs.
        size: most entries, special tokens included.
        min_frequency: how often a character, or a pair of pieces to merge, must occur.
        word_limit: longer words teach nothing, for they are always [UNK].
        quiet: show no progress.

    Returns:
        The entries in order of their ids; fewer than `size` if no pair is frequent enough.

    Raises:
        UserError: `size` or `min_frequency` is too small, or there is no word.
    """
    check_size(size)
    if min_frequency < 1:
        raise UserError(f"min_frequency is {min_frequency}; give 1 or more")
    known = {word: count for word, count in word_counts.items() if word and len(word) <= word_limit}
    alphabet = _alphabet(known, size - len(SPECIAL_TOKENS), min_frequency)
    if not alphabet:
        raise UserError(
            f"no character occurs {min_frequency} times in the text; give more text, or a smaller "
            "min_frequency"
        )
    vocabulary = dict.fromkeys((*SPECIAL_TOKENS, *alphabet))
    wanted = size - len(vocabulary)
    if wanted > 0:
        with Progress("merging pieces", total=wanted, unit="pieces", quiet=quiet) as progress:
            for piece in _merges(known, set(alphabet), min_frequency):
                if piece not in vocabulary:  # two ways to make one piece
                    vocabulary[piece] = None
                    progress.advance()
                    if len(vocabulary) >= size:
                        break
    return list(vocabulary)


def coverage(vocabulary: list[str], word_counts: Mapping[str, int]) -> tuple[float, float]:
    """The share of words that are [UNK], and the mean number of pieces a word, over a text."""
    pieces = WordPieces(vocabulary)
    total = unknown = number = 0
    for word, count in word_counts.items():
        ids = pieces.ids(word)
        total += count
        number += count * len(ids)
        unknown += count * (ids[0] == pieces.unknown)
    return (unknown / total, number / total) if total else (0.0, 0.0)


def check_size(size: int) -> None:
    """Raises UserError for a size without room for anything but the special tokens."""
    if size <= len(SPECIAL_TOKENS):
        raise UserError(
            f"a vocabulary of {size} entries has no room beside the {len(SPECIAL_TOKENS)} special "
            "tokens; give a larger size"
        )


def _symbols(word: str) -> list[str]:
    return [word[0], *[PREFIX + character for character in word[1:]]]


def _alphabet(word_counts: Mapping[str, int], room: int, min_frequency: int) -> list[str]:
    """The single characters, bare ones first, then those with "##", each by code point.

    A character that occurs often enough is in bare even if it only continues words here: other
    text may start a word with it. Halves of surrogate pairs cannot be written and are left out.
    """
    firsts: Counter[str] = Counter()
    others: Counter[str] = Counter()
    for word, count in word_counts.items():
        firsts[word[0]] += count
        for character in word[1:]:
            others[character] += count
    forms: list[tuple[int, bool, str]] = []  # count, with "##" or not, character
    for character in firsts.keys() | others.keys():
        first, other = firsts[character], others[character]
        if first + other >= min_frequency and category(character) != "Cs":
            forms.append((first, False, character))
            if other:
                forms.append((other, True, character))
    if len(forms) > room:
        forms.sort(key=lambda form: (-form[0], form[1:]))
        del forms[room:]
    forms.sort(key=lambda form: form[1:])
    return [PREFIX + character if inside else character for _, inside, character in forms]


def _merges(
    word_counts: Mapping[str, int], alphabet: set[str], min_frequency: int
) -> Iterable[str]:
    """Yields the piece made by each merge: the most frequent pair first, to the end.

    The counts of pairs are kept up to date: a merge visits only the words that hold the pair. The
    heap may hold outdated counts; an entry counts only if it still agrees with the table.
    """
    # A word with a character outside the alphabet is [UNK] whatever its other pieces are.
    spelled = [
        (symbols, count)
        for word, count in sorted(word_counts.items())
        if len(word) > 1 and alphabet.issuperset(symbols := _symbols(word))
    ]
    pair_counts: defaultdict[tuple[str, str], int] = defaultdict(int)
    places: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    for number, (symbols, count) in enumerate(spelled):
        for pair in pairwise(symbols):
            pair_counts[pair] += count
            places[pair].add(number)
    heap = [(-count, pair) for pair, count in pair_counts.items() if count >= min_frequency]
    heapq.heapify(heap)
    while heap:
        negative, pair = heapq.heappop(heap)
        count = pair_counts[pair]
        if count != -negative:
            if min_frequency <= count < -negative:
                heapq.heappush(heap, (-count, pair))
            continue
        left, right = pair
        piece = left + right.removeprefix(PREFIX)
        grown: set[tuple[str, str]] = set()
        for number in places.pop(pair):
            symbols, count = spelled[number]
            merged: list[str] = []
            at = 0
            last = len(symbols) - 1
            while at <= last:
                if at < last and symbols[at] == left and symbols[at + 1] == right:
                    merged.append(piece)
                    at += 2
                else:
                    merged.append(symbols[at])
                    at += 1
            for old in pairwise(symbols):
                pair_counts[old] -= count
            for new in pairwise(merged):
                pair_counts[new] += count
                if piece in new:
                    places[new].add(number)
                    grown.add(new)
            spelled[number] = (merged, count)
        del pair_counts[pair]
        for new in grown:
            if pair_counts[new] >= min_frequency:
                heapq.heappush(heap, (-pair_counts[new], new))
        yield piece


def _check_output(output: Path) -> None:
    """Refuses to replace a folder that holds anything but an earlier vocabulary."""
    if output.exists() and not output.is_dir():
        raise UserError(f"{output} is a file; give the name of a folder with --output")
    if output.is_dir():
        others = sorted({path.name for path in output.iterdir()} - WRITTEN_FILES)
        if others:
            raise UserError(
                f"{output} holds other files ({', '.join(others[:3])}); choose another folder "
                "with --output"
            )
