"""`bertkit vocab`: text in, a WordPiece vocabulary and its tokenizer out (paper, section 3).

Comes in: documents. Goes out: a folder with vocab.txt and the tokenizer's other files, and how
well the vocabulary fits text that it was not learned from. The way: documents are held out
(holdout.py), words are counted (word_counts.py), the most frequent are listed and pieces merged
(learning.py), or tokens are added to an old vocabulary (extension.py).

The same documents give the same bytes, for any number of workers and in whatever order and files
they come: counts are exact sums, and every choice between equals goes by code point.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bertkit import config as configuration
from bertkit.errors import UserError
from bertkit.files import writing
from bertkit.progress import Progress, say
from bertkit.text.config import VocabConfig
from bertkit.text.documents import Document, check_output_apart, read_documents
from bertkit.text.extension import extended, learn_additions, unused_ids
from bertkit.text.holdout import FEW_DOCUMENTS, HoldoutStream
from bertkit.text.learning import (
    RELEASE_UNUSED,
    WordList,
    check_positive,
    check_size,
    learn_wordpieces,
    list_words,
)
from bertkit.text.tokenizer import Tokenizer
from bertkit.text.word_counts import count_words
from bertkit.text.wordpiece import PREFIX, WORD_LIMIT, WordPieces

SHOWN_ENTRIES = 20
"""How many of the longest and of the last entries a result has."""

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
class Coverage:
    """How well a vocabulary fits a text.

    Attributes:
        unknown_rate: share of the text's words that become [UNK].
        pieces_per_word: mean number of WordPieces of a word.
        whole_words: share of the text's words that are one entry.
        characters: share of the characters in its words that are entries.
    """

    unknown_rate: float = 0.0
    pieces_per_word: float = 0.0
    whole_words: float = 0.0
    characters: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.pieces_per_word:.3f} pieces a word, {self.whole_words:.2%} of the words whole, "
            f"{self.unknown_rate:.4%} unknown, {self.characters:.4%} of the characters covered"
        )


@dataclass
class Extension:
    """What was added to an old vocabulary.

    Attributes:
        old: where it is, and its number of entries `old_size`.
        requested: tokens that were asked for.
        into_unused: tokens in the places of [unused] entries.
        appended: tokens behind the old end. A model with the old vocabulary needs as many more
            rows of token embeddings.
        before: how well the old vocabulary fits the text that the result was measured on.
    """

    old: str
    old_size: int
    requested: int
    into_unused: int
    appended: int
    before: Coverage


@dataclass
class VocabResult:
    """What `learn_vocabulary` made.

    Attributes:
        output: the folder.
        size: entries, special tokens included.
        requested: the size that was asked for; the text may be too small to fill it.
        characters: distinct characters among the entries.
        lower_case: whether text is lower-cased.
        documents: documents that were learned from, with `words` words, of which
            `distinct_words` are different.
        cut_words: distinct words that took no part in merging for there were too many, and
            `cut_share`, their share of `words`.
        held_out_documents: documents it was measured on; 0: it was measured on those learned from.
        unknown_rate, pieces_per_word, whole_words, character_coverage: as in `Coverage`.
        longest: the longest entries (of an extension: of the new ones), longest first.
        last: the last entries, learned from the rarest pairs.
        seconds: time taken.
        extension: what was added to the vocabulary of --extend.
    """

    output: str
    size: int
    requested: int
    characters: int
    lower_case: bool
    documents: int
    words: int
    distinct_words: int
    cut_words: int
    cut_share: float
    held_out_documents: int
    unknown_rate: float
    pieces_per_word: float
    whole_words: float
    character_coverage: float
    seconds: float
    longest: list[str] = field(default_factory=list)
    last: list[str] = field(default_factory=list)
    extension: Extension | None = None

    def __str__(self) -> str:
        lines = [
            f"{self.output}: {self.size:,} entries, {self.characters:,} characters among them, "
            f"{'lower-cased' if self.lower_case else 'cased'}",
            f"learned from {self.words:,} words ({self.distinct_words:,} different) in "
            f"{self.documents:,} documents, {self.seconds:.1f} s",
        ]
        if self.cut_words:
            lines.append(
                f"the {self.cut_words:,} rarest words, {self.cut_share:.2%} of the text, took no "
                "part in merging (--max-words)"
            )
        now = Coverage(
            self.unknown_rate, self.pieces_per_word, self.whole_words, self.character_coverage
        )
        text = (
            f"on {self.held_out_documents:,} held-out documents"
            if self.held_out_documents
            else "on the text it was learned from"
        )
        added = self.extension
        if added is None:
            lines.append(f"{text}: {now}")
            if self.size < self.requested:
                lines.append(
                    f"the text is too small for {self.requested:,} entries: no further pair of "
                    "pieces is frequent enough"
                )
        else:
            lines.append(
                f"added to the {added.old_size:,} entries of {added.old}: {added.into_unused:,} "
                f"tokens in [unused] entries, {added.appended:,} appended"
            )
            lines += [f"{text}", f"  before: {added.before}", f"  after:  {now}"]
            if added.into_unused + added.appended < added.requested:
                lines.append(
                    f"the text is too small for {added.requested:,} more: nothing else that the "
                    "old vocabulary splits is frequent enough"
                )
            if added.appended:
                lines.append(
                    f"a model of the old vocabulary needs {added.appended:,} more token embeddings"
                )
        lines.append("longest: " + " ".join(self.longest[:10]))
        lines.append("last:    " + " ".join(self.last[-10:]))
        return "\n".join(lines)


def learn_vocabulary(config: VocabConfig) -> VocabResult:
    """Learns a vocabulary from files, or adds to one, and writes it as a tokenizer.

    Raises:
        UserError: the input cannot be read, an option is out of its range, the output folder
            holds files that this command did not write, or the disk is full.
    """
    began = time.monotonic()
    old = _check(config)
    lower_case = old.lower_case if old else config.lower_case is not False
    limit = old.word_limit if old else config.word_limit or WORD_LIMIT
    with writing(config.output) as partial:
        partial.mkdir()
        text = _read(config, lower_case, limit, partial / "counts")
        before = old.vocabulary if old else []
        if old is None:
            vocabulary = learn_wordpieces(
                text.learned,
                size=config.size,
                min_frequency=config.min_frequency,
                min_pair_frequency=config.min_pair_frequency,
                criterion=config.criterion,
                alphabet=config.alphabet,
                unused=_unused(config),
                quiet=config.quiet,
            )
            new, filled = vocabulary, 0
        else:
            new = learn_additions(
                old,
                text.learned,
                add=_additions(config, old),
                min_frequency=config.min_frequency,
                min_pair_frequency=config.min_pair_frequency,
                criterion=config.criterion,
                alphabet=config.alphabet,
                quiet=config.quiet,
            )
            vocabulary, filled = extended(before, new)
        vocabularies = [vocabulary, before] if old else [vocabulary]
        fits = coverage(vocabularies, text.measured(limit), limit)
        shutil.rmtree(partial / "counts", ignore_errors=True)
        special_tokens = old.special_tokens if old else False
        Tokenizer(vocabulary, lower_case, limit, special_tokens).save(partial)
        configuration.save(replace(config, lower_case=lower_case), partial / "vocab.yaml")
    extension = None
    if old is not None:
        extension = Extension(
            old=str(config.extend),
            old_size=len(old),
            requested=_additions(config, old),
            into_unused=filled,
            appended=len(new) - filled,
            before=fits[1],
        )
    return VocabResult(
        output=config.output,
        size=len(vocabulary),
        requested=config.size if old is None else len(vocabulary),
        characters=len(
            {bare for entry in vocabulary if len(bare := entry.removeprefix(PREFIX)) == 1}
        ),
        lower_case=lower_case,
        documents=text.documents,
        words=text.learned.running,
        distinct_words=text.learned.distinct,
        cut_words=text.learned.cut,
        cut_share=text.learned.cut_running / max(1, text.learned.running),
        held_out_documents=text.held_out_documents,
        unknown_rate=fits[0].unknown_rate,
        pieces_per_word=fits[0].pieces_per_word,
        whole_words=fits[0].whole_words,
        character_coverage=fits[0].characters,
        seconds=time.monotonic() - began,
        longest=sorted(
            (entry for entry in new if not entry.startswith("[unused")),
            key=lambda entry: (-len(entry.removeprefix(PREFIX)), entry),
        )[:SHOWN_ENTRIES],
        last=new[-SHOWN_ENTRIES:],
        extension=extension,
    )


def coverage(
    vocabularies: Sequence[list[str]],
    word_counts: Mapping[str, int] | Iterable[tuple[str, int]],
    word_limit: int = WORD_LIMIT,
) -> list[Coverage]:
    """How well each of some vocabularies fits a text, in one reading of its word counts."""
    cutters = [WordPieces(vocabulary, word_limit) for vocabulary in vocabularies]
    alphabets = [{entry for entry in one if len(entry) == 1} for one in vocabularies]
    unknown, pieces, whole, covered = ([0] * len(cutters) for _ in range(4))
    words = characters = 0
    for word, count in word_counts.items() if isinstance(word_counts, Mapping) else word_counts:
        words += count
        characters += count * len(word)
        for number, (cutter, alphabet) in enumerate(zip(cutters, alphabets, strict=True)):
            ids = cutter.ids(word)
            is_unknown = ids == [cutter.unknown]
            pieces[number] += count * len(ids)
            unknown[number] += count * is_unknown
            whole[number] += count * (len(ids) == 1 and not is_unknown)
            covered[number] += count * sum(map(alphabet.__contains__, word))
    return [
        Coverage(one / words, two / words, three / words, four / characters)
        if words
        else Coverage()
        for one, two, three, four in zip(unknown, pieces, whole, covered, strict=True)
    ]


# ---- reading -----------------------------------------------------------------------------------


@dataclass
class _Text:
    """What reading the documents gave."""

    learned: WordList
    documents: int
    held_out_documents: int
    held_out: Iterable[tuple[str, int]]

    def measured(self, word_limit: int) -> Iterator[tuple[str, int]]:
        """The word counts to measure on: those held out, else those learned from."""
        if self.held_out_documents:
            yield from self.held_out
            return
        yield from self.learned.words.items()
        kept = sum(self.learned.words.values())
        too_long = self.learned.running - self.learned.cut_running - kept
        if too_long:
            yield "a" * (word_limit + 1), too_long


def _read(config: VocabConfig, lower_case: bool, word_limit: int, folder: Path) -> _Text:
    holdout = HoldoutStream(config.held_out, config.seed)
    documents = read_documents(
        config.inputs, config.documents, config.text_field, config.errors, config.quiet
    )
    with Progress("counting words", unit="documents", quiet=config.quiet) as progress:

        def counted() -> Iterator[Document]:
            for document in documents:
                yield document
                progress.advance()

        learned, held_out = count_words(
            holdout.split(counted()), lower_case, folder, config.workers, word_limit
        )
    if not holdout.valid:
        if config.held_out:
            few = holdout.documents < FEW_DOCUMENTS
            reason = f"there are fewer than {FEW_DOCUMENTS}" if few else "they are all alike"
            say(
                f"no document is held out, for {reason}: the vocabulary is measured on the text "
                "it is learned from",
                config.quiet,
            )
        learned.add(held_out.items())
        holdout.held_out = 0
    return _Text(
        learned=list_words(learned.items(), config.max_words, word_limit),
        documents=holdout.documents - holdout.held_out,
        held_out_documents=holdout.held_out,
        held_out=held_out.items(),
    )


# ---- checks ------------------------------------------------------------------------------------


def _check(config: VocabConfig) -> Tokenizer | None:
    """Refuses options that cannot be met before anything is read; loads the old vocabulary."""
    if not 0 <= config.held_out < 1:
        raise UserError(f"held_out is {config.held_out}; give a share from 0 to below 1")
    counts = ("workers", "max_words", "min_frequency", "min_pair_frequency", "alphabet", "add")
    check_positive(**{name: getattr(config, name) for name in (*counts, "word_limit")})
    output = Path(config.output)
    _check_output(output)
    check_output_apart(config.output, config.inputs)
    if config.extend is None:
        if config.add is not None:
            raise UserError("--add is for --extend: name the old vocabulary, or use --size")
        check_size(config.size, _unused(config))
        return None
    if config.unused is not None or config.layout != "compact":
        raise UserError("--extend keeps the old layout; leave out --layout and --unused")
    if config.size != VocabConfig.size:
        raise UserError("--extend adds to an old vocabulary: say with --add how many, not --size")
    if output.resolve() in (Path(config.extend).resolve(), Path(config.extend).resolve().parent):
        raise UserError(
            f"the output {output} would replace the old vocabulary; choose another place with "
            "--output"
        )
    old = Tokenizer.load(config.extend, config.lower_case, config.word_limit)
    _additions(config, old)
    return old


def _unused(config: VocabConfig) -> int:
    if config.unused is not None:
        return config.unused
    return RELEASE_UNUSED if config.layout == "release" else 0


def _additions(config: VocabConfig, old: Tokenizer) -> int:
    add = len(unused_ids(old.vocabulary)) if config.add is None else config.add
    if not add:
        raise UserError(
            f"{config.extend} has no [unused] entries to fill; say with --add how many tokens to "
            "append"
        )
    return add


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
