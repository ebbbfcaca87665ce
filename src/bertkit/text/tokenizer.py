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

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from bertkit.errors import UserError
from bertkit.files import writing
from bertkit.text.characters import without_splitting_controls
from bertkit.text.wordpiece import (
    CHUNK,
    WORD_LIMIT,
    WordPieces,
    aligned_words,
    chunks,
    unchanged_words,
    words,
)

PAD, UNK, CLS, SEP, MASK = SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

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
        _check_vocabulary(self.vocabulary, "the vocabulary")
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
            path: a directory with vocab.txt and tokenizer_config.json (or tokenizer.json), or a
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
        if not (place / "vocab.txt").is_file():
            raise UserError(f"{place} has no vocab.txt; give the directory of a BERT tokenizer")
        stored, stored_limit, stored_special = _stored_settings(place)
        if stored is None and lower_case is None:
            raise UserError(
                f"{place} does not tell whether its vocabulary is lower-cased; pass "
                "lower_case=True (uncased) or False (cased)"
            )
        if None not in (stored, lower_case) and stored != lower_case:
            raise UserError(
                f"{place} is stored as {'lower-cased' if stored else 'cased'}, but "
                f"lower_case={lower_case} was given; leave it out"
            )
        casing = lower_case if stored is None else stored
        return cls(
            load_vocabulary(place / "vocab.txt"),
            bool(casing),
            stored_limit if word_limit is None else word_limit,
            stored_special if special_tokens is None else special_tokens,
        )

    def save(self, directory: str | Path, max_length: int = 512) -> None:
        """Writes vocab.txt and the files that make it a Hugging Face tokenizer.

        Args:
            directory: an existing directory; other files in it stay.
            max_length: most tokens the model takes, stored for other software.
        """
        place = Path(directory)
        config = {
            "tokenizer_class": "BertTokenizer",
            "do_lower_case": self.lower_case,
            "strip_accents": None,
            "tokenize_chinese_chars": True,
            "max_input_chars_per_word": self.word_limit,
            "special_tokens_in_text": self.special_tokens,
            "model_max_length": max_length,
        }
        names = {
            "pad_token": PAD,
            "unk_token": UNK,
            "cls_token": CLS,
            "sep_token": SEP,
            "mask_token": MASK,
        }
        _write(place / "vocab.txt", "".join(f"{entry}\n" for entry in self.vocabulary))
        _write(place / "special_tokens_map.json", _json(names))
        _write(place / "tokenizer.json", self._hugging_face_json() + "\n")
        _write(place / "tokenizer_config.json", _json(config | names))

    def _hugging_face_json(self) -> str:
        """tokenizer.json: the `tokenizers` library's BERT, which agrees on natural text."""
        import tokenizers
        from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

        entries = {entry: number for number, entry in enumerate(self.vocabulary)}
        model = models.WordPiece(entries, unk_token=UNK, max_input_chars_per_word=self.word_limit)
        twin = tokenizers.Tokenizer(model)
        twin.normalizer = normalizers.BertNormalizer(
            clean_text=True,
            handle_chinese_chars=True,
            strip_accents=None,
            lowercase=self.lower_case,
        )
        twin.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        twin.post_processor = processors.TemplateProcessing(
            single=f"{CLS}:0 $A:0 {SEP}:0",
            pair=f"{CLS}:0 $A:0 {SEP}:0 $B:1 {SEP}:1",
            special_tokens=[(CLS, self.cls_id), (SEP, self.sep_id)],
        )
        twin.decoder = decoders.WordPiece(prefix="##")
        twin.add_special_tokens(list(SPECIAL_TOKENS))
        return twin.to_str(pretty=True)


def truncated_lengths(first: int, second: int, budget: int) -> tuple[int, int]:
    """Lengths after taking single tokens from the longer text until both fit in `budget`.

    Of two equally long ones the second loses a token (run_classifier's `_truncate_seq_pair`).
    """
    if first + second <= budget:
        return first, second
    if second <= budget // 2:
        return budget - second, second
    if first <= budget - budget // 2:
        return first, budget - first
    return budget - budget // 2, budget // 2


def load_vocabulary(path: str | Path) -> list[str]:
    """Reads a vocab.txt: UTF-8, one entry a line, its id the line's number from 0.

    White space around an entry is stripped, as the reference release does.

    Raises:
        UserError: the file cannot be read, is not UTF-8, has an entry twice, or lacks one of the
            five special tokens.
    """
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}; check the path") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 at byte {error.start}; convert it") from error
    # Only "\n" ends a line: an entry may be another of the line ends that `splitlines` knows.
    lines = text.removesuffix("\n").split("\n") if text else []
    vocabulary = [line.strip() for line in lines]
    _check_vocabulary(vocabulary, str(path))
    return vocabulary


def _check_vocabulary(vocabulary: list[str], where: str) -> None:
    known = set(vocabulary)
    missing = [token for token in SPECIAL_TOKENS if token not in known]
    if missing:
        raise UserError(
            f"{where} has no {', '.join(missing)}; a BERT vocabulary needs all of "
            f"{' '.join(SPECIAL_TOKENS)}"
        )
    if len(known) < len(vocabulary):
        entry, count = Counter(vocabulary).most_common(1)[0]
        ids = [str(number) for number, other in enumerate(vocabulary) if other == entry][:5]
        name = repr(entry) if entry else "an empty line"
        raise UserError(
            f"{where} has {name} {count} times (ids {', '.join(ids)}); leave each entry once"
        )


def _stored_settings(directory: Path) -> tuple[bool | None, int, bool]:
    """What a tokenizer's directory tells: casing or None, word limit, special tokens in text."""
    config = _read_json(directory / "tokenizer_config.json")
    normalizer = _read_json(directory / "tokenizer.json").get("normalizer") or {}
    if normalizer.get("type") != "BertNormalizer":
        normalizer = {}
    casing, accents = config.get("do_lower_case"), config.get("strip_accents")
    if casing is None:
        casing = normalizer.get("lowercase")
    if accents is None:
        accents = normalizer.get("strip_accents")
    if casing is not None and accents is not None and bool(accents) != bool(casing):
        raise UserError(
            f"{directory} sets strip_accents={accents} with do_lower_case={casing}; BERT strips "
            "accents exactly when it lower-cases, and nothing else is supported"
        )
    if config.get("tokenize_chinese_chars", True) is False:
        raise UserError(
            f"{directory} sets tokenize_chinese_chars=false; BERT always sets CJK characters apart"
        )
    limit = config.get("max_input_chars_per_word", WORD_LIMIT)
    if not isinstance(limit, int):
        raise UserError(f"{directory} sets max_input_chars_per_word={limit!r}; give a whole number")
    special = bool(config.get("special_tokens_in_text", False))
    return casing if casing is None else bool(casing), limit, special


def _read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file; empty where there is no such file."""
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}; check the file") from error
    except ValueError as error:
        raise UserError(f"{path} is not JSON: {error}; write it again or remove it") from error
    if not isinstance(value, dict):
        raise UserError(f"{path} is not a JSON object; write it again or remove it")
    return value


def _spans(pieces: Pieces, count: int) -> Iterable[tuple[int, int]]:
    return zip(pieces.starts[:count], pieces.ends[:count], strict=True)


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _write(path: Path, text: str) -> None:
    with writing(path) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")
