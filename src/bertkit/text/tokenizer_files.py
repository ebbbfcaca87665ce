"""The files of a tokenizer, in and out: those of the release and of Hugging Face, slow and fast.

    vocab.txt                   an entry a line; an entry's id is its line number
    tokenizer_config.json       casing and other settings (the slow tokenizer)
    tokenizer.json              vocabulary and settings in one (the fast tokenizer)
    added_tokens.json           entries after the vocabulary's last
    special_tokens_map.json     written for other software, not read

A directory has vocab.txt or tokenizer.json, or both, which then must agree.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertkit.errors import UserError
from bertkit.files import read_json, writing
from bertkit.text.wordpiece import PREFIX, WORD_LIMIT

PAD, UNK, CLS, SEP, MASK = SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

VOCABULARY = "vocab.txt"
FAST = "tokenizer.json"
SETTINGS = "tokenizer_config.json"
ADDED = "added_tokens.json"
SPECIAL = "special_tokens_map.json"


@dataclass(frozen=True)
class StoredTokenizer:
    """What a directory tells of its tokenizer.

    Attributes:
        vocabulary: the entries, added ones at the end.
        lower_case: the casing, or None where it is not stored.
        word_limit: longest word that is cut into pieces.
        special_tokens: whether "[MASK]" and the like in raw text are the tokens.
    """

    vocabulary: list[str]
    lower_case: bool | None
    word_limit: int
    special_tokens: bool


def read_directory(directory: Path) -> StoredTokenizer:
    """The tokenizer of a directory.

    Raises UserError where there is none, a file is broken, two of them disagree, or BERT's rules
    are changed.
    """
    fast = _read(directory / FAST)
    settings = _read(directory / SETTINGS)
    if (directory / VOCABULARY).is_file():
        vocabulary = load_vocabulary(directory / VOCABULARY)
        if fast:
            _compare(vocabulary, _fast_vocabulary(fast, directory / FAST), directory)
    elif fast:
        vocabulary = _fast_vocabulary(fast, directory / FAST)
        check_vocabulary(vocabulary, str(directory / FAST))
    else:
        raise UserError(
            f"{directory} has no {VOCABULARY} and no {FAST}; give the directory of a BERT tokenizer"
        )
    vocabulary += _added(directory, settings, fast, vocabulary)
    casing, limit, special = _settings(directory, settings, fast)
    return StoredTokenizer(vocabulary, casing, limit, special)


def has_tokenizer(directory: Path) -> bool:
    """Whether a directory has the files of a tokenizer."""
    return (directory / VOCABULARY).is_file() or (directory / FAST).is_file()


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
    check_vocabulary(vocabulary, str(path))
    return vocabulary


def check_vocabulary(vocabulary: list[str], where: str) -> None:
    """Raises UserError for entries that cannot be BERT's."""
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


def has_capitals(vocabulary: list[str]) -> bool | None:
    """Whether entries beside those in brackets have upper-case letters: then it is a cased one.

    None for a vocabulary of scripts without case.
    """
    letters = "".join(entry for entry in vocabulary if not re.fullmatch(r"\[.*\]|<.*>", entry))
    if letters.lower() != letters:
        return True
    return False if letters.upper() != letters else None


def casing_warning(vocabulary: list[str], lower_case: bool) -> str | None:
    """What is wrong where a vocabulary and a casing do not go together, or None."""
    capitals = has_capitals(vocabulary)
    if capitals and lower_case:
        return "the vocabulary has capitals, which a lower-casing tokenizer never reaches"
    if capitals is False and not lower_case:
        return (
            "the vocabulary has no capitals, but the tokenizer keeps them: "
            "a word that has one becomes [UNK]"
        )
    return None


def _read(path: Path) -> dict[str, Any]:
    return read_json(path) if path.exists() else {}


def _fast_vocabulary(fast: dict[str, Any], path: Path) -> list[str]:
    """The entries of a tokenizer.json in the order of their ids."""
    model = fast.get("model")
    entries = model.get("vocab") if isinstance(model, dict) else None
    if not isinstance(model, dict) or not isinstance(entries, dict):
        raise UserError(f"{path} has no WordPiece vocabulary; give the tokenizer of a BERT")
    kind, prefix = model.get("type", "WordPiece"), model.get("continuing_subword_prefix", PREFIX)
    unknown = model.get("unk_token", UNK)
    if (kind, prefix, unknown) != ("WordPiece", PREFIX, UNK):
        raise UserError(
            f"{path} is a tokenizer of kind {kind!r} with the prefix {prefix!r} and the unknown "
            f"token {unknown!r}; BERT's is 'WordPiece', {PREFIX!r}, {UNK!r}"
        )
    vocabulary: list[str | None] = [None] * len(entries)
    for entry, number in entries.items():
        if type(number) is not int or not 0 <= number < len(entries) or vocabulary[number]:
            raise UserError(f"{path} does not number its entries from 0, each once; mend it")
        vocabulary[number] = entry
    return [str(entry) for entry in vocabulary]


def _compare(slow: list[str], fast: list[str], directory: Path) -> None:
    """Raises UserError where vocab.txt and tokenizer.json are of different vocabularies."""
    for number, (one, two) in enumerate(zip(slow, fast, strict=False)):
        if one != two.strip():
            raise UserError(
                f"id {number} is {one!r} in {directory / VOCABULARY} and {two!r} in {FAST}; "
                "remove the file that does not belong to this model"
            )


def _added(
    directory: Path, settings: dict[str, Any], fast: dict[str, Any], vocabulary: list[str]
) -> list[str]:
    """Entries that are stored beside the vocabulary and come after its last."""
    found: dict[int, str] = {}
    path = directory / ADDED
    listed: list[tuple[Any, Any]] = [(number, token) for token, number in _read(path).items()]
    decoder = settings.get("added_tokens_decoder")
    for number, entry in (decoder if isinstance(decoder, dict) else {}).items():
        listed.append((number, entry.get("content") if isinstance(entry, dict) else None))
    tokens = fast.get("added_tokens")
    for entry in tokens if isinstance(tokens, list) else []:
        if isinstance(entry, dict):
            listed.append((entry.get("id"), entry.get("content")))
    for number, token in listed:
        if not isinstance(token, str) or not str(number).isdecimal():
            raise UserError(f"{directory} has an added token without a number or name; mend it")
        if int(number) >= len(vocabulary):
            found[int(number)] = token
    numbers = sorted(found)
    if numbers != list(range(len(vocabulary), len(vocabulary) + len(numbers))):
        raise UserError(
            f"{directory} has the added token {found[numbers[-1]]!r} of id {numbers[-1]}, with a "
            f"gap after the {len(vocabulary):,} entries of its vocabulary; give each id an entry"
        )
    new = [found[number] for number in numbers]
    check_vocabulary([*vocabulary, *new], f"{directory} with its added tokens")
    return new


def _settings(
    directory: Path, settings: dict[str, Any], fast: dict[str, Any]
) -> tuple[bool | None, int, bool]:
    """Casing or None, word limit, special tokens in text."""
    normalizer = fast.get("normalizer") or {}
    if not isinstance(normalizer, dict) or normalizer.get("type") != "BertNormalizer":
        normalizer = {}
    casing, accents = settings.get("do_lower_case"), settings.get("strip_accents")
    if casing is None:
        casing = normalizer.get("lowercase")
    if accents is None:
        accents = normalizer.get("strip_accents")
    if casing is not None and accents is not None and bool(accents) != bool(casing):
        raise UserError(
            f"{directory} sets strip_accents={accents} with do_lower_case={casing}; BERT strips "
            "accents exactly when it lower-cases, and nothing else is supported"
        )
    stored = settings.get("tokenize_chinese_chars", normalizer.get("handle_chinese_chars", True))
    if stored is False:
        raise UserError(
            f"{directory} sets tokenize_chinese_chars=false; BERT always sets CJK characters apart"
        )
    limit = settings.get("max_input_chars_per_word", WORD_LIMIT)
    if not isinstance(limit, int):
        raise UserError(f"{directory} sets max_input_chars_per_word={limit!r}; give a whole number")
    special = bool(settings.get("special_tokens_in_text", False))
    return casing if casing is None else bool(casing), limit, special


def write_directory(place: Path, tokenizer: StoredTokenizer, max_length: int) -> None:
    """Writes vocab.txt and the files that make it a Hugging Face tokenizer, slow and fast."""
    config = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": tokenizer.lower_case,
        "strip_accents": None,
        "tokenize_chinese_chars": True,
        "max_input_chars_per_word": tokenizer.word_limit,
        "special_tokens_in_text": tokenizer.special_tokens,
        "model_max_length": max_length,
    }
    names = {
        "pad_token": PAD,
        "unk_token": UNK,
        "cls_token": CLS,
        "sep_token": SEP,
        "mask_token": MASK,
    }
    _write(place / VOCABULARY, "".join(f"{entry}\n" for entry in tokenizer.vocabulary))
    _write(place / SPECIAL, _json(names))
    _write(place / FAST, _hugging_face_json(tokenizer) + "\n")
    _write(place / SETTINGS, _json(config | names))


def _hugging_face_json(tokenizer: StoredTokenizer) -> str:
    """tokenizer.json: the `tokenizers` library's BERT, which agrees on natural text."""
    import tokenizers
    from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

    entries = {entry: number for number, entry in enumerate(tokenizer.vocabulary)}
    limit = tokenizer.word_limit
    model = models.WordPiece(entries, unk_token=UNK, max_input_chars_per_word=limit)
    twin = tokenizers.Tokenizer(model)
    twin.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=True,
        strip_accents=None,
        lowercase=bool(tokenizer.lower_case),
    )
    twin.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    twin.post_processor = processors.TemplateProcessing(
        single=f"{CLS}:0 $A:0 {SEP}:0",
        pair=f"{CLS}:0 $A:0 {SEP}:0 $B:1 {SEP}:1",
        special_tokens=[(CLS, entries[CLS]), (SEP, entries[SEP])],
    )
    twin.decoder = decoders.WordPiece(prefix=PREFIX)
    twin.add_special_tokens(list(SPECIAL_TOKENS))
    return twin.to_str(pretty=True)


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _write(path: Path, text: str) -> None:
    with writing(path) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")
