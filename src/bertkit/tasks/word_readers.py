"""Readers of sentences as words with tags.

    CoNLL columns   a word a line, its tag in the last column, a blank line after each sentence;
                    columns divided by blanks or tabs
    CoNLL-U         Universal Dependencies: the form and its universal part of speech
    pairs           a paragraph a line, each word with its tag (迈向/v 充满/v 希望/n)
    lists           .jsonl, .json, .parquet or the hub: a column with the words, one with the tags

Tags come out as IOB2 whichever scheme a file uses; bare tags stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from bertkit.errors import UserError
from bertkit.progress import say
from bertkit.tasks.metrics import OUTSIDE
from bertkit.tasks.readers import Mistakes, WordsExample, as_list
from bertkit.tasks.records import RECORD_SUFFIXES, has_records, is_hub, read_records
from bertkit.tasks.rows import no_column, plain_text, read_lines
from bertkit.tasks.schemes import iob2_of_sentences
from bertkit.tasks.task import Columns

DOCUMENT_START = "-DOCSTART-"
"""CoNLL-2003 marks a new document with a sentence of this one word."""

TAGGED = (".conll", ".conllu", ".bio", ".iob")
"""Endings of files of words with tags."""
LIST_SUFFIXES = tuple(suffix for suffix in RECORD_SUFFIXES if suffix != ".tsv")
"""Endings of files that hold lists; of .tsv only where the column of the words is named."""
WORD_LISTS = ("tokens", "words")
TAG_LISTS = ("ner_tags", "tags", "labels", "label", "pos_tags", "upos")
"""Columns that hold lists, where the user names none."""


def read_tagged(path: Path, columns: Columns) -> list[WordsExample]:
    """Reads tagged sentences of any of the kinds above, told apart by the file's ending.

    Raises:
        UserError: broken UTF-8, a word without a tag, no sentences.
    """
    suffix = path.suffix.lower()
    if is_hub(path) or suffix in LIST_SUFFIXES or (suffix == ".tsv" and columns.text):
        return read_lists(path, columns)
    if suffix == ".conllu":
        return read_pos(path, columns)
    return read_columns(path, columns)


def read_columns(path: Path, columns: Columns) -> list[WordsExample]:
    """Reads tagged sentences; tags come out as IOB2 whichever scheme the file uses.

    Where tags need not be known, a file of bare words is read too.

    Raises:
        UserError: broken UTF-8, a line without a tag, no sentences.
    """
    sentences: list[tuple[list[str], list[str], int | None]] = []
    places: list[int] = []
    words: list[str] = []
    tags: list[str] = []
    document: int | None = None
    width: int | None = None
    mistakes = Mistakes()
    uneven = Mistakes()

    def finish() -> None:
        if words:
            sentences.append((list(words), list(tags), document))
            places.append(number - len(words))
        words.clear()
        tags.clear()

    number = 0
    for number, line in read_lines(path):
        if not line.strip(" \t"):
            finish()
        elif line.startswith(DOCUMENT_START):
            finish()
            document = 0 if document is None else document + 1
        else:
            fields = _fields(line)
            width = width or len(fields)
            bare = columns.unlabeled and width == 1
            if len(fields) < 2 and not bare:
                mistakes.add(f"{path}, line {number}", "a word without a tag")
            elif len(fields) != width:
                uneven.add(
                    f"{path}, line {number}", f"{len(fields)} columns where the first has {width}"
                )
            words.append(fields[0])
            if not bare:
                tags.append(fields[-1])
    number += 1
    finish()
    mistakes.refuse("give a word and its tag on each line and a blank line after each sentence")
    if uneven.count:
        say(f"{uneven.count:,} lines have other columns; first is the word, last the tag: {uneven}")
    if not sentences:
        raise UserError(f"{path} has no sentences; give a word and its tag on each line")
    return tagged_examples(path, sentences, lambda n: f"line {places[n]}")


def tagged_examples(
    path: Path,
    sentences: Sequence[tuple[list[str], list[str], int | None]],
    place: Callable[[int], str],
) -> list[WordsExample]:
    """Examples of (words, tags, document) with their tags in IOB2; says how many break a scheme.

    Args:
        place: number of a sentence -> where it begins, for the message.
    """
    tags, found = iob2_of_sentences([one for _, one, _ in sentences])
    broken = Mistakes()
    for sentence, word, why in found:
        broken.add(f"{place(sentence)}, word {word + 1}", why)
    if broken.count:
        say(
            f"{path}: {broken.count:,} tags break their scheme and are read as conlleval does: "
            f"{broken}"
        )
    return [
        WordsExample(words, new, document=document)
        for (words, _, document), new in zip(sentences, tags, strict=True)
    ]


def read_lists(path: Path, columns: Columns) -> list[WordsExample]:
    """Reads records with a list of words and a list of as many tags."""
    word_names = (columns.text,) if columns.text else WORD_LISTS
    tag_names = (columns.label,) if columns.label else TAG_LISTS
    sentences: list[tuple[list[str], list[str], int | None]] = []
    places: list[str] = []
    mistakes = Mistakes()
    empty = Mistakes()
    for row in read_records(path):
        words = next((row[name] for name in word_names if name in row), None)
        if words is None:
            raise no_column(row, row.where, word_names[0], "--text")
        tags = next((row[name] for name in tag_names if name in row), None)
        if tags is None and columns.unlabeled:
            tags = []
        if tags is None:
            raise no_column(row, row.where, tag_names[0], "--label")
        words, tags = as_list(words), as_list(tags)
        if words is None or tags is None:
            mistakes.add(row.where, "the words and the tags must be lists")
        elif len(words) != len(tags) and not (columns.unlabeled and not tags):
            mistakes.add(row.where, f"{len(words)} words, but {len(tags)} tags")
        elif None in words:
            mistakes.add(row.where, f"word {words.index(None) + 1} is null")
        elif None in tags:
            mistakes.add(row.where, f"tag {tags.index(None) + 1} is null")
        elif not words and not columns.unlabeled:
            empty.add(row.where, "no words")
        else:
            sentences.append(([plain_text(w) for w in words], [plain_text(t) for t in tags], None))
            places.append(row.where)
    mistakes.refuse("give each sentence a list of words and a list of as many tags")
    if empty.count:
        say(f"sentences without words are passed over: {empty}")
    if not sentences:
        raise UserError(f"{path} has no sentences; give records with a list of words and of tags")
    return tagged_examples(path, sentences, lambda number: places[number])


def read_pos(path: Path, columns: Columns) -> list[WordsExample]:
    """Reads words with their parts of speech: CoNLL-U (the universal ones), pairs, or columns."""
    if is_hub(path) or path.suffix.lower() in LIST_SUFFIXES:
        return read_lists(path, columns)
    if path.suffix.lower() != ".conllu" and not has_pairs(path):
        return read_columns(path, columns)
    rows = _conllu(path) if path.suffix.lower() == ".conllu" else read_pairs(path)
    examples = [
        WordsExample(words, [] if columns.unlabeled and set(tags) == {"_"} else tags)
        for words, tags in rows
        if words
    ]
    if not examples:
        raise UserError(f"{path} has no sentences; give CoNLL-U, or words with their tags")
    return examples


def read_segmented(path: Path, columns: Columns) -> list[list[str]]:
    """The words of each sentence of a segmented text: CoNLL-U, pairs, words divided by blanks (as
    in the SIGHAN bakeoffs), or one character and its B, M, E or S a line.

    A blank inside a word, as CoNLL-U may have, is left out.
    """
    if has_records(path):
        raise UserError(
            f"{path} is a table, and words are learned from text: give words divided by blanks, "
            "word/tag pairs, CoNLL-U or BMES"
        )
    if path.suffix.lower() == ".conllu":
        sentences = [words for words, _ in _conllu(path)]
    elif has_pairs(path):
        sentences = [words for words, _ in read_pairs(path)]
    elif _has_bmes(path):
        sentences = [
            words_of_bmes(zip(e.words, e.tags, strict=True)) for e in read_columns(path, columns)
        ]
    else:
        sentences = [line.split() for _, line in read_lines(path)]
    joined = (["".join(word.split()) for word in words] for words in sentences)
    sentences = [kept for words in joined if (kept := [word for word in words if word])]
    if not sentences:
        raise UserError(f"{path} has no sentences; give one a line, words divided by blanks")
    return sentences


def words_of_bmes(tagged: Iterable[tuple[str, str]]) -> list[str]:
    """The words that tagged characters make; a tag that breaks the scheme begins a word.

    >>> words_of_bmes([("希", "B"), ("望", "E"), ("的", "S")])
    ['希望', '的']
    """
    words: list[str] = []
    previous = "S"
    for character, tag in tagged:
        if tag in ("B", "S") or previous in ("E", "S"):
            words.append(character)
        else:
            words[-1] += character
        previous = tag
    return words


def read_pairs(path: Path) -> Iterator[tuple[list[str], list[str]]]:
    """Yields (words, tags) of each line of word/tag pairs."""
    mistakes = Mistakes()
    for number, line in read_lines(path):
        words, tags = [], []
        for pair in line.split():
            word, slash, tag = pair.rpartition("/")
            if not slash or not word or not tag:
                mistakes.add(f"{path}, line {number}", f"'{pair}' is no word/tag")
            words.append(word)
            tags.append(tag)
        yield words, tags
    mistakes.refuse("mend these lines")


def _conllu(path: Path) -> Iterator[tuple[list[str], list[str]]]:
    """Yields (forms, universal parts of speech); words inside a contraction count, not its form."""
    words: list[str] = []
    tags: list[str] = []
    for number, line in read_lines(path):
        if not line.strip():
            yield words, tags
            words, tags = [], []
        elif not line.startswith("#"):
            fields = line.split("\t")
            if len(fields) != 10:
                raise UserError(
                    f"{path}, line {number}: {len(fields)} columns where CoNLL-U has 10; "
                    "copy the file again"
                )
            if fields[0].isdigit():  # "1-2" is a contraction, "1.1" an empty node
                words.append(fields[1])
                tags.append(fields[3])
    yield words, tags


def _fields(line: str) -> list[str]:
    """The columns of a line; only blanks and tabs divide: U+3000 and its kind may be a word."""
    return line.replace("\t", " ").rstrip(" ").split(" ")


def _first_fields(path: Path, count: int) -> list[list[str]]:
    """The columns of the first lines that are not blank, however many blanks divide them."""
    lines = ([one for one in _fields(line) if one] for _, line in read_lines(path))
    return list(islice(filter(None, lines), count))


def is_columns(path: Path, types: Collection[str] | None = None) -> bool:
    """Whether the first lines of a file are words with tags.

    Args:
        types: what the tags without their B-, I- and so on must be, beside O.
    """
    lines = _first_fields(path, 50)
    counts = {len(fields) for fields in lines}
    if not counts or min(counts) < 2 or max(counts) > 12 or len(counts) > 2:
        return False
    if types is None:
        return True
    tags = {fields[-1] for fields in lines if fields[0] != DOCUMENT_START}
    known = {one.lower() for one in (OUTSIDE, *types)}
    return all((tag[2:] if tag[1:2] == "-" else tag).lower() in known for tag in tags)


def has_pairs(path: Path) -> bool:
    """Whether the first lines of a file are word/tag pairs."""
    lines = _first_fields(path, 5)
    pairs = [pair for fields in lines for one in fields for pair in one.split()]
    return bool(pairs) and all("/" in pair[1:-1] for pair in pairs)


def _has_bmes(path: Path) -> bool:
    lines = _first_fields(path, 5)
    return bool(lines) and all(
        len(fields) == 2 and fields[1] in ("B", "M", "E", "S") for fields in lines
    )
