"""The tokenizer: text in, WordPiece ids with their places out, fast; loads from and saves to files.

Comes in: a vocabulary (one entry a line; an entry's id is its line number) and whether to
lower-case. Goes out: ids, tokens, character offsets into the untouched text, and the model's input
`[CLS] A [SEP] B [SEP]` (paper, section 3.2, and figure 2). The rules are those of `wordpiece.py`.

Choices worth knowing:
- A dictionary from chunk (text between white space, one CJK character) to ids stands in front of
  the rules. It changes nothing in the result, since chunks are tokenized independently.
- Two rules differ between the releases and the systems after them, and are options with the
  release's choice as default: `word_limit` (200; 100 before 2018-11-23 and in later libraries) and
  `special_tokens` (off: "[MASK]" in raw text is three words; on: it is the token). Both are stored
  beside the vocabulary, so that a corpus and the models made of it tokenize alike.
- Casing is stored beside the vocabulary (`tokenizer_config.json`) and is enforced: a vocabulary
  used with the wrong casing gives no error, only bad results.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from bertkit.errors import UserError
from bertkit.text.characters import without_splitting_controls
from bertkit.text.tokenizer_files import (
    SPECIAL_TOKENS,
    StoredTokenizer,
    check_vocabulary,
    load_vocabulary,
    read_directory,
    write_directory,
)
from bertkit.text.wordpiece import (
    CHUNK,
    WORD_LIMIT,
    WordPieces,
    aligned_words,
    chunks,
    unchanged_words,
    words,
)

CACHE_ENTRIES = 1 << 18
"""Chunks that are remembered; when there are more, all are forgotten and remembered anew."""

CACHED_CHARACTERS = 64
"""Longer chunks are not remembered, which bounds the memory that the cache can take."""

_SPECIAL = re.compile("|".join(re.escape(token) for token in SPECIAL_TOKENS))


@dataclass(frozen=True, slots=True)
class Pieces:
    """WordPieces of a text: ids, and for each its first character and one past its last."""

    ids: list[int]
    starts: list[int]
    ends: list[int]


@dataclass(frozen=True, slots=True)
class Encoding:
    """A text, or a pair of texts, as the model reads it.

    Attributes:
        ids: token ids, with [CLS] first and [SEP] after each text.
        tokens: the same as vocabulary entries.
        segment_ids: 0 for [CLS] A [SEP], 1 for B [SEP].
        offsets: (start, end) in characters of the untouched text that the token is from (A where
            the segment is 0, B where it is 1); None for [CLS] and [SEP].
    """

    ids: list[int]
    tokens: list[str]
    segment_ids: list[int]
    offsets: list[tuple[int, int] | None]


class _IdCache(dict[str, tuple[int, ...]]):
    """Chunk to ids, filled by the exact rules."""

    def __init__(self, pieces: WordPieces, lower_case: bool) -> None:
        super().__init__()
        self.pieces, self.lower_case = pieces, lower_case

    def __missing__(self, chunk: str) -> tuple[int, ...]:
        if not chunk.isascii():
            parts = chunks(chunk)
            if len(parts) > 1:  # has CJK characters: its parts are worth remembering, it is not
                return tuple(chain.from_iterable(map(self.__getitem__, parts)))
        split = self.pieces.ids
        ids = tuple([number for word in words(chunk, self.lower_case) for number in split(word)])
        if len(chunk) <= CACHED_CHARACTERS:
            if len(self) >= CACHE_ENTRIES:
                self.clear()
            self[chunk] = ids
        return ids


class _OffsetCache(dict[str, tuple[tuple[int, ...], ...]]):
    """Chunk to (ids, starts, ends), with places relative to the chunk."""

    def __init__(self, pieces: WordPieces, lower_case: bool) -> None:
        super().__init__()
        self.pieces, self.lower_case = pieces, lower_case

    def __missing__(self, chunk: str) -> tuple[tuple[int, ...], ...]:
        ids: list[int] = []
        starts: list[int] = []
        ends: list[int] = []
        plain, place = unchanged_words(chunk, self.lower_case), 0
        for text in plain or ():
            for number, first, last in self.pieces.split(text):
                ids.append(number)
                starts.append(place + first)
                ends.append(place + last)
            place += len(text)
        for word in [] if plain is not None else aligned_words(chunk, self.lower_case):
            for number, first, last in self.pieces.split(word.text):
                ids.append(number)
                # Not starts[first] and ends[last - 1]: canonical order can swap marks.
                starts.append(min(word.starts[first:last]))
                ends.append(max(word.ends[first:last]))
        entry = (tuple(ids), tuple(starts), tuple(ends))
        if len(chunk) <= CACHED_CHARACTERS:
            if len(self) >= CACHE_ENTRIES:
                self.clear()
            self[chunk] = entry
        return entry


class Tokenizer:
    """BERT's tokenizer over one vocabulary.

    Args:
        vocabulary: the entries; an entry's id is its place. The five special tokens are among them.
        lower_case: lower-case and strip accents ("uncased").
        word_limit: longest word, in characters, that is cut into pieces and not [UNK] at once.
        special_tokens: take "[MASK]", "[SEP]" and the like in raw text for the tokens; methods
            that have an argument of this name do so by default.

    Raises:
        UserError: an entry occurs twice, a special token is missing, or the word limit is below 1.
    """

    def __init__(
        self,
        vocabulary: Sequence[str],
        lower_case: bool,
        word_limit: int = WORD_LIMIT,
        special_tokens: bool = False,
    ) -> None:
        self.vocabulary = list(vocabulary)
        check_vocabulary(self.vocabulary, "the vocabulary")
        if word_limit < 1:
            raise UserError(
                f"the word limit is {word_limit}; give the longest word to cut into pieces, "
                f"{WORD_LIMIT} characters in the release"
            )
        self.lower_case, self.word_limit = lower_case, word_limit
        self.special_tokens = special_tokens
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = map(
            self.vocabulary.index, SPECIAL_TOKENS
        )
        self.special_ids = frozenset(
            (self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id)
        )
        pieces = WordPieces(self.vocabulary, word_limit)
        self._ids = _IdCache(pieces, lower_case)
        self._offsets = _OffsetCache(pieces, lower_case)

    def __len__(self) -> int:
        """How many entries the vocabulary has."""
        return len(self.vocabulary)

    def __reduce__(self) -> tuple[Any, ...]:
        # Worker processes start with an empty cache instead of a copy of this one.
        return Tokenizer, (
            self.vocabulary,
            self.lower_case,
            self.word_limit,
            self.special_tokens,
        )

    def tokenize(self, text: str, special_tokens: bool | None = None) -> list[str]:
        """The WordPieces of a text as vocabulary entries, without [CLS] and [SEP].

        Args:
            text: any text.
            special_tokens: keep "[MASK]", "[SEP]" and the like in the text whole; None: as this
                tokenizer was made.
        """
        return [self.vocabulary[number] for number in self.token_ids(text, special_tokens)]

    def token_ids(self, text: str, special_tokens: bool | None = None) -> list[int]:
        """The ids of `tokenize`, by the fastest way."""
        if special_tokens is None:
            special_tokens = self.special_tokens
        if special_tokens and "[" in text:
            return self.pieces(text, special_tokens=True).ids
        runs = without_splitting_controls(text).split()
        return list(chain.from_iterable(map(self._ids.__getitem__, runs)))

    def pieces(self, text: str, special_tokens: bool | None = None) -> Pieces:
        """The ids of `token_ids` with the place of each in the untouched text.

        A piece's place covers every character that it stands for, accents that lower-casing
        removed included; the place of [UNK] is its whole word. Pieces made of one character (the
        parts of a Hangul syllable) share its place.
        """
        pieces = Pieces([], [], [])
        done = 0
        if self.special_tokens if special_tokens is None else special_tokens:
            special = {self.vocabulary[number]: number for number in self.special_ids}
            for match in _SPECIAL.finditer(text):
                self._append_pieces(text, done, match.start(), pieces)
                pieces.ids.append(special[match.group()])
                pieces.starts.append(match.start())
                pieces.ends.append(match.end())
                done = match.end()
        self._append_pieces(text, done, len(text), pieces)
        return pieces

    def _append_pieces(self, text: str, first: int, last: int, pieces: Pieces) -> None:
        offsets, all_ids, all_starts, all_ends = (
            self._offsets,
            pieces.ids,
            pieces.starts,
            pieces.ends,
        )
        for match in CHUNK.finditer(text, first, last):
            place = match.start()
            ids, starts, ends = offsets[match.group()]
            if len(ids) == 1:
                all_ids.append(ids[0])
                all_starts.append(place + starts[0])
                all_ends.append(place + ends[0])
            else:
                all_ids += ids
                all_starts += [place + start for start in starts]
                all_ends += [place + end for end in ends]

    def encode(
        self,
        text: str,
        pair: str | None = None,
        max_length: int | None = 512,
        special_tokens: bool | None = None,
    ) -> Encoding:
        """[CLS] text [SEP], or [CLS] text [SEP] pair [SEP].

        Args:
            text: the first, or only, text.
            pair: the second text.
            max_length: most tokens in the result, or None for no limit. What is too long loses
                tokens from its end, the longer text first (run_classifier's `_truncate_seq_pair`).
            special_tokens: keep special tokens in the texts whole.

        Raises:
            UserError: `max_length` leaves no room for a token of each text.
        """
        first = self.pieces(text, special_tokens)
        second = self.pieces(pair, special_tokens) if pair is not None else Pieces([], [], [])
        keep_first, keep_second = len(first.ids), len(second.ids)
        if max_length is not None:
            specials, texts = (2, 1) if pair is None else (3, 2)
            if max_length < specials + texts:
                raise UserError(
                    f"max_length {max_length} leaves no room beside the {specials} special tokens; "
                    f"give at least {specials + texts}"
                )
            keep_first, keep_second = truncated_lengths(
                keep_first, keep_second, max_length - specials
            )
        ids = [self.cls_id, *first.ids[:keep_first], self.sep_id]
        offsets: list[tuple[int, int] | None] = [None, *_spans(first, keep_first), None]
        segment_ids = [0] * len(ids)
        if pair is not None:
            ids += [*second.ids[:keep_second], self.sep_id]
            offsets += [*_spans(second, keep_second), None]
            segment_ids += [1] * (keep_second + 1)
        return Encoding(ids, [self.vocabulary[number] for number in ids], segment_ids, offsets)

    @classmethod
    def load(
        cls,
        path: str | Path,
        lower_case: bool | None = None,
        word_limit: int | None = None,
        special_tokens: bool | None = None,
    ) -> Tokenizer:
        """Reads a tokenizer.

        Args:
            path: a directory with vocab.txt or tokenizer.json (see `tokenizer_files`), or a
                vocab.txt alone.
            lower_case: needed where casing is not stored; elsewhere it must agree.
            word_limit: instead of the stored one (the release's 200 where none is).
            special_tokens: instead of what is stored (off where nothing is).

        Raises:
            UserError: a file is missing or broken, casing is unknown or contradicts what is
                stored, or the vocabulary cannot be one of BERT's.
        """
        place = Path(path)
        if not place.exists():
            raise UserError(f"no tokenizer at {place}; give a directory with vocab.txt, or a file")
        if not place.is_dir():
            if lower_case is None:
                raise UserError(
                    f"{place} does not tell whether it is lower-cased; pass lower_case=True "
                    "(uncased) or False (cased), or give a directory with tokenizer_config.json"
                )
            return cls(
                load_vocabulary(place),
                lower_case,
                WORD_LIMIT if word_limit is None else word_limit,
                bool(special_tokens),
            )
        stored = read_directory(place)
        if stored.lower_case is None and lower_case is None:
            raise UserError(
                f"{place} does not tell whether its vocabulary is lower-cased; pass "
                "lower_case=True (uncased) or False (cased)"
            )
        if None not in (stored.lower_case, lower_case) and stored.lower_case != lower_case:
            raise UserError(
                f"{place} is stored as {'lower-cased' if stored.lower_case else 'cased'}, but "
                f"lower_case={lower_case} was given; leave it out"
            )
        return cls(
            stored.vocabulary,
            bool(lower_case if stored.lower_case is None else stored.lower_case),
            stored.word_limit if word_limit is None else word_limit,
            stored.special_tokens if special_tokens is None else special_tokens,
        )

    def save(self, directory: str | Path, max_length: int = 512) -> None:
        """Writes vocab.txt and the files that make it a Hugging Face tokenizer.

        Args:
            directory: an existing directory; other files in it stay.
            max_length: most tokens the model takes, stored for other software.
        """
        stored = StoredTokenizer(
            self.vocabulary, self.lower_case, self.word_limit, self.special_tokens
        )
        write_directory(Path(directory), stored, max_length)


def truncated_lengths(first: int, second: int, budget: int) -> tuple[int, int]:
    """Lengths after taking single tokens from the longer text until both fit in `budget`.

    Of two equally long ones the second loses a token (run_classifier's `_truncate_seq_pair`).
    """
    kept = min(first, max(budget - second, budget - budget // 2))
    return kept, min(second, budget - kept)


def _spans(pieces: Pieces, count: int) -> Iterable[tuple[int, int]]:
    return zip(pieces.starts[:count], pieces.ends[:count], strict=True)
