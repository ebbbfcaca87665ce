"""What the quickstart's two languages share: finding a package's files, keys, splits, writing.

Comes in: texts read from installed packages. Goes out: files in the forms that the other commands
read: documents as JSONL with a sentence a line (`prepare --sentences line`), reviews as
`text<TAB>label`, tagged sentences as CoNLL columns.

Choices worth knowing:
- A package's folder is found without importing it: the data is wanted, not the code.
- Two texts are the same when their letters and digits are (`key`): white space, punctuation and
  letter width don't tell two texts apart, so near copies can't sit on both sides of a split.
- `HeldOut` decides what may be in pre-training text; `check_held_out` reads the written files
  again and refuses them if a held-out text is there after all.
"""

from __future__ import annotations

import importlib.util
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import TypeVar

from bertkit.errors import UserError
from bertkit.files import writing

Item = TypeVar("Item")

_NEITHER = re.compile(r"[\W_]+")

QUOTE_LENGTH = 20
"""Letters and digits from which on a held-out text counts as found inside a longer one."""


@dataclass(frozen=True)
class Text:
    """A document for pre-training: its identity and its sentences in order."""

    id: str
    sentences: list[str]

    @property
    def characters(self) -> int:
        return sum(map(len, self.sentences))


@dataclass(frozen=True)
class Tagged:
    """A sentence with an IOB2 tag for each of its tokens."""

    tokens: list[str]
    tags: list[str]

    @property
    def text(self) -> str:
        return "".join(self.tokens)


def package_folder(package: str, install: str) -> Path:
    """The folder of an installed package, found without importing it.

    Raises UserError with the command `install` when it is not there.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise UserError(f"the package {package}, whose text this uses, is absent; run: {install}")
    return Path(next(iter(spec.submodule_search_locations)))


def package_lines(path: Path, install: str, encoding: str = "utf-8") -> list[str]:
    """The lines of a package's text file; UserError where this version lacks the file."""
    if not path.is_file():
        raise UserError(
            f"the installed package lacks {path.name}, in {path.parent}; run: {install}"
        )
    return path.read_text(encoding=encoding).split("\n")


@lru_cache(maxsize=1 << 17)
def key(text: str) -> str:
    """The letters and digits of a text, narrow and in lower case: what makes it that text."""
    return _NEITHER.sub("", unicodedata.normalize("NFKC", text).lower())


def blocks(items: Iterable[Item], size: int, weight: Callable[[Item], int]) -> list[list[Item]]:
    """Cuts a sequence into runs of neighbours that weigh at least `size` (the last may not)."""
    runs: list[list[Item]] = [[]]
    total = 0
    for item in items:
        if total >= size:
            runs.append([])
            total = 0
        runs[-1].append(item)
        total += weight(item)
    return runs


def draw_blocks(
    runs: Sequence[list[Item]],
    sizes: Sequence[int],
    weight: Callable[[Item], int],
    random: Random,
    pinned: Callable[[Item], bool] = lambda item: False,
) -> list[list[Item]]:
    """Deals whole runs at random: part k gets runs until it weighs `sizes[k]`, the last the rest.

    Runs with a pinned item go to the first part, whatever the draw. Neighbours so stay together:
    a test item's neighbours are not in the training part. Order inside the parts is the text's.
    """
    order = list(range(len(runs)))
    random.shuffle(order)
    order.sort(key=lambda number: not any(map(pinned, runs[number])))  # stable: pinned runs first
    parts: list[list[int]] = []
    for size in sizes:
        part: list[int] = []
        total = 0
        while order and total < size:
            part.append(order.pop(0))
            total += sum(map(weight, runs[part[-1]]))
        parts.append(part)
    parts.append(order)
    return [[item for number in sorted(part) for item in runs[number]] for part in parts]


class HeldOut:
    """The texts that pre-training must not see, found whole or quoted inside a longer text."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._whole = {key(text) for text in texts} - {""}
        self._starts: dict[str, list[str]] = {}
        for whole in self._whole:
            if len(whole) >= QUOTE_LENGTH:
                self._starts.setdefault(whole[:QUOTE_LENGTH], []).append(whole)

    def found_in(self, text: str) -> bool:
        """Whether `text` is a held-out text, or quotes one of at least QUOTE_LENGTH characters."""
        letters = key(text)
        if letters in self._whole:
            return True
        for start in range(len(letters) - QUOTE_LENGTH + 1):
            for whole in self._starts.get(letters[start : start + QUOTE_LENGTH], ()):
                if letters.startswith(whole, start):
                    return True
        return False


def check_held_out(text_folder: Path, held_out: Iterable[str]) -> None:
    """Reads the written pre-training documents again and looks for each held-out text.

    Raises RuntimeError (a fault of this program, not of the user) when a document, or a sentence
    of one, is exactly a held-out text.
    """
    forbidden = set(held_out)
    for path in sorted(text_folder.glob("*.jsonl")):
        for document in read_texts(path):
            whole = "".join(document.sentences)
            for text in (whole, " ".join(document.sentences), *document.sentences):
                if text in forbidden:
                    raise RuntimeError(
                        f"a dev or test text is in the pre-training text {path.name}, "
                        f"document {document.id}: {text[:40]}"
                    )


@dataclass(frozen=True)
class TextCounts:
    """How much pre-training text there is, by source."""

    documents: dict[str, int]
    sentences: dict[str, int]
    characters: dict[str, int]


def write_text_folder(
    folder: Path, texts: dict[str, list[Text]], held_out: Iterable[str]
) -> TextCounts:
    """Writes each source's documents as `folder`/SOURCE.jsonl; an older such folder is replaced.

    Raises RuntimeError, and leaves what was there, when a held-out text is among them; UserError
    when the folder holds something else.
    """
    with writing(folder) as partial:
        partial.mkdir()
        for source, documents in texts.items():
            write_texts(partial / f"{source}.jsonl", documents)
        check_held_out(partial, held_out)
    return TextCounts(
        documents={source: len(documents) for source, documents in texts.items()},
        sentences={
            source: sum(len(document.sentences) for document in documents)
            for source, documents in texts.items()
        },
        characters={
            source: sum(document.characters for document in documents)
            for source, documents in texts.items()
        },
    )


def write_texts(path: Path, documents: Iterable[Text]) -> None:
    """Writes documents as JSONL: {"id": ..., "text": the sentences, one a line}."""
    with writing(path) as partial, partial.open("w", encoding="utf-8", newline="\n") as file:
        for document in documents:
            record = {"id": document.id, "text": "\n".join(document.sentences)}
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


def read_texts(path: Path) -> Iterator[Text]:
    """Reads what `write_texts` wrote."""
    with path.open(encoding="utf-8", newline="\n") as file:
        for line in file:
            record = json.loads(line)
            yield Text(record["id"], record["text"].split("\n"))


def write_labelled(path: Path, rows: Iterable[tuple[str, str]]) -> None:
    """Writes (text, label) rows as TSV with the header `text<TAB>label`, nothing quoted."""
    with writing(path) as partial, partial.open("w", encoding="utf-8", newline="\n") as file:
        file.write("text\tlabel\n")
        file.writelines(f"{text}\t{label}\n" for text, label in rows)


def write_tagged(path: Path, sentences: Iterable[Tagged]) -> None:
    """Writes tagged sentences as CoNLL columns: `token tag`, a blank line after each sentence."""
    with writing(path) as partial, partial.open("w", encoding="utf-8", newline="\n") as file:
        for sentence in sentences:
            file.writelines(
                f"{token} {tag}\n"
                for token, tag in zip(sentence.tokens, sentence.tags, strict=True)
            )
            file.write("\n")
