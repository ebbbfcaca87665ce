"""How often each word of a text of any size occurs, exactly, in bounded memory.

Comes in: documents. Goes out: (word, count) pairs, the words being those of the exact basic
tokenization (wordpiece.py).

Choices worth knowing:
- Worker processes count chunks of documents; this process adds their tables up. Sums do not depend
  on order, so neither does anything made of them.
- A table that outgrows `TABLE_WORDS` words goes to disk, each word to the file that its hash
  chooses. In the end the files are added up one at a time, and one that is still too large is
  divided again. So memory is bounded by the table, disk by the distinct words times the number of
  times that the table filled up.
- A word longer than the word limit is [UNK] whatever it is, and is cut to one character more than
  the limit; so a line of 100 MB without a space does not fill the table.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path

from bertkit.text.characters import CJK_CLASS, SEPARATORS, without_splitting_controls
from bertkit.text.wordpiece import WORD_LIMIT, chunks, words
from bertkit.workers import parallel_map, processors

TABLE_WORDS = 1 << 20
"""Distinct words that a table holds in memory: about 150 MB."""

PARTITION_BITS = 6
"""A table is divided by so many bits of a word's hash at a time, into 64 files."""

BATCH_CHARACTERS = 1 << 21
"""Text that a worker gets at once. The more, the fewer times common words are added up."""

MEMO_ENTRIES = 1 << 17
MEMO_CHARACTERS = 32
"""Chunks whose words a worker remembers, and the longest of them."""

_CUT = re.compile(f"[{CJK_CLASS}{re.escape(SEPARATORS)}]")
"""Before such a character a text can be cut without changing its words."""


@dataclass
class Batch:
    """Texts for one worker, all held out or all not."""

    held_out: bool
    texts: list[str]


@dataclass
class WordCounter:
    """Counts the words of batches; what each worker process runs.

    By way of the far fewer distinct chunks, whose words it remembers from batch to batch.
    """

    lower_case: bool
    word_limit: int = WORD_LIMIT
    _memo: dict[str, tuple[str, ...]] = field(default_factory=dict, repr=False)

    def __call__(self, batch: Batch) -> tuple[bool, dict[str, int]]:
        """Whether the batch is held out, and how often each of its words occurs."""
        return batch.held_out, self.count(batch.texts)

    def count(self, texts: Iterable[str]) -> dict[str, int]:
        """How often each word occurs in texts."""
        runs: Counter[str] = Counter()
        for text in texts:
            runs.update(without_splitting_controls(text).split())
        mixed: Counter[str] = Counter()  # the chunks of runs with CJK characters
        table: dict[str, int] = {}
        for run, count in runs.items():
            if run in self._memo or run.isascii() or len(parts := chunks(run)) == 1:
                self._add(run, count, table)
            elif count == 1:
                mixed.update(parts)
            else:
                for part in parts:
                    mixed[part] += count
        for chunk, count in mixed.items():
            self._add(chunk, count, table)
        return table

    def _add(self, chunk: str, count: int, table: dict[str, int]) -> None:
        found = self._memo.get(chunk)
        if found is None:
            limit = self.word_limit
            found = tuple([word[: limit + 1] for word in words(chunk, self.lower_case)])
            if len(chunk) <= MEMO_CHARACTERS:
                if len(self._memo) >= MEMO_ENTRIES:
                    self._memo.clear()
                self._memo[chunk] = found
        for word in found:
            table[word] = table.get(word, 0) + count


class WordTable:
    """Counts by word, in memory up to a bound and on disk beyond it.

    Args:
        folder: for the files, made when it is needed and removed when `items` is through.
        bound: most distinct words in memory.
        level: how often these words have been divided already.
    """

    def __init__(self, folder: Path, bound: int | None = None, level: int = 0) -> None:
        self.folder, self.level = folder, level
        self.bound = TABLE_WORDS if bound is None else bound
        self._counts: dict[str, int] = {}
        self._divided = False

    def add(self, counts: Mapping[str, int] | Iterable[tuple[str, int]]) -> None:
        """Adds counts to those of the same words so far."""
        table = self._counts
        for word, count in counts.items() if isinstance(counts, Mapping) else counts:
            table[word] = table.get(word, 0) + count
        if len(table) > self.bound and self.level * PARTITION_BITS < 32:
            self._divide()

    def items(self) -> Iterator[tuple[str, int]]:
        """Each word once, with the sum of its counts, in no particular order.

        Once only: what was on disk is removed as it is read.
        """
        if not self._divided:
            yield from self._counts.items()
            return
        self._divide()
        for path in sorted(self.folder.iterdir()):
            part = WordTable(path.with_suffix(".parts"), self.bound, self.level + 1)
            with open(path, encoding="utf-8", errors="surrogatepass", newline="\n") as file:
                pairs = map(_parse, file)
                while some := list(islice(pairs, 1 << 14)):
                    part.add(some)
            path.unlink()
            yield from part.items()
        self.folder.rmdir()

    def _divide(self) -> None:
        """Writes all words to the files of their hashes and forgets them."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._divided = True
        shift, mask = self.level * PARTITION_BITS, (1 << PARTITION_BITS) - 1
        lines: list[list[str]] = [[] for _ in range(mask + 1)]
        with ExitStack() as stack:
            files = [
                stack.enter_context(
                    open(self.folder / f"{number:02}", "a", encoding="utf-8",
                         errors="surrogatepass", newline="\n")
                )
                for number in range(mask + 1)
            ]  # fmt: skip
            for word, count in self._counts.items():
                hashed = zlib.crc32(word.encode("utf-8", "surrogatepass"))
                number = (hashed >> shift) & mask
                lines[number].append(f"{count} {word}\n")
                if len(lines[number]) >= 1024:
                    files[number].writelines(lines[number])
                    lines[number].clear()
            for file, rest in zip(files, lines, strict=True):
                file.writelines(rest)
        self._counts.clear()


def count_words(
    texts: Iterable[tuple[bool, str]],
    lower_case: bool,
    folder: Path,
    workers: int | None = None,
    word_limit: int = WORD_LIMIT,
) -> tuple[WordTable, WordTable]:
    """Counts the words of texts, and apart from them those of held-out texts.

    Args:
        texts: pairs of whether the text is held out, and the text.
        lower_case: lower-case and strip accents.
        folder: for what does not fit in memory; need not exist.
        workers: processes that count; None: one for each processor.
        word_limit: longer words are cut to one character more.

    Returns:
        Counts of the texts that are not held out, and of those that are.
    """
    tables = WordTable(folder / "words"), WordTable(folder / "held-out")
    batches = _batches(texts)
    first = list(islice(batches, 2))
    if len(first) < 2:
        workers = 1  # starting processes would take longer than the work
    work = WordCounter(lower_case, word_limit)
    items = chain(first, batches)
    with closing(parallel_map(work, items, workers or processors())) as results:
        for held_out, counts in results:
            tables[held_out].add(counts)
    return tables


def _batches(texts: Iterable[tuple[bool, str]]) -> Iterator[Batch]:
    filling = {held_out: Batch(held_out, []) for held_out in (False, True)}
    room = dict.fromkeys(filling, BATCH_CHARACTERS)
    for held_out, text in texts:
        for part in _parts(text):
            filling[held_out].texts.append(part)
            room[held_out] -= len(part)
            if room[held_out] <= 0:
                yield filling[held_out]
                filling[held_out], room[held_out] = Batch(held_out, []), BATCH_CHARACTERS
    yield from (batch for batch in filling.values() if batch.texts)


def _parts(text: str) -> Iterator[str]:
    """A long text in parts, cut where that changes no word."""
    start = 0
    while len(text) - start > BATCH_CHARACTERS:
        place = _CUT.search(text, start + BATCH_CHARACTERS)
        if place is None:
            break
        yield text[start : place.start()]
        start = place.start()
    yield text[start:] if start else text


def _parse(line: str) -> tuple[str, int]:
    count, _, word = line.rstrip("\n").partition(" ")
    return word, int(count)
