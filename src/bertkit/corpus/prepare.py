"""`bertkit prepare`: documents and a vocabulary in, a corpus on disk out (format.py).

The documents are read twice: once to plan (plan.py), once to hand them to workers (encode.py),
whose results are written shard by shard, in order (write.py). Workers are processes
(bertkit.workers) or actors of a Ray cluster (bertkit.cluster).

A shard is a fixed run of documents, by bytes of text in the order of paths, and a document's
tokens depend on nothing else. So the bytes are the same for any number of workers, for any
machine that makes a shard (--shard), and after a stop: finished shards wait in a folder (parts.py)
beside the output, the same command continues from them, and the last step only puts them together.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import bertkit
from bertkit import config as configuration
from bertkit.cluster import ray_map
from bertkit.corpus.config import PrepareConfig
from bertkit.corpus.encode import Encoded, Item, encode
from bertkit.corpus.format import FORMAT, MANIFEST, VERSION, token_type, vocabulary_facts
from bertkit.corpus.parts import CLAIM, Parts, claim, collect, place
from bertkit.corpus.plan import CHUNK_BYTES, Plan, chunks, scan
from bertkit.corpus.statistics import SplitStatistics, statistics
from bertkit.corpus.words import segmenter_name
from bertkit.corpus.write import ShardWriter
from bertkit.errors import Interrupted, UserError
from bertkit.files import disk_errors, explain, sha256, writing
from bertkit.interrupts import interrupting
from bertkit.progress import Progress, say
from bertkit.report.columns import text_table
from bertkit.report.corpus import write_corpus_report
from bertkit.text.documents import check_output_apart
from bertkit.text.tokenizer import Tokenizer
from bertkit.workers import parallel_map, processors

FILES = {
    MANIFEST,
    "prepare.yaml",
    "report.html",
    "shards",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
}
"""What a corpus' folder holds."""

LARGEST_SHARD = 1 << 31
"""Bytes of text; a shard counts its tokens in 32 bits, and the last document may go beyond."""
MANY_UNKNOWN = 0.05
"""Share of [UNK] from which the vocabulary hardly fits the text."""


@dataclass
class PrepareResult:
    """What `prepare` made.

    Attributes:
        output: the corpus' folder, or with --shard that of the parts.
        splits: statistics of "train" and, where documents were held out, "dev"; with --shard those
            of the shards of this part.
        vocabulary_size, lower_case: of the tokenizer.
        shards: how many there are, with --shard in this part.
        empty: documents without any token, left out.
        seconds: how long it took.
        part: "2/8" with --shard 2/8, else None.
        missing: shards that the folder of parts still lacks.
    """

    output: str
    splits: dict[str, SplitStatistics]
    vocabulary_size: int
    lower_case: bool
    shards: int
    empty: int
    seconds: float
    part: str | None = None
    missing: int = 0

    def __str__(self) -> str:
        casing = "lower-cased" if self.lower_case else "cased"
        part = f"part {self.part}, " if self.part else ""
        lines = [
            f"{self.output}: {part}{self.shards} {'shard' if self.shards == 1 else 'shards'}, "
            f"vocabulary of {self.vocabulary_size} ({casing}), {self.seconds:.1f} s"
        ]
        lines += table(self.splits)
        if self.missing:
            verb = "shard is" if self.missing == 1 else "shards are"
            lines.append(f"{self.missing} {verb} not in {self.output} yet")
        elif self.part:
            lines.append(
                f"all shards are there; to join them: the same command with --merge {self.output} "
                "and another --output in place of --shard"
            )
        return "\n".join(lines)


def table(splits: dict[str, SplitStatistics]) -> list[str]:
    """The statistics as lines: counts, and below them the distributions of lengths."""
    counts = [["", "documents", "sentences", "tokens", "unknown"]]
    lengths = [["", "mean", "median", "90 %", "99 %", "longest"]]
    for name, split in splits.items():
        numbers = [f"{n:,}" for n in (split.documents, split.sentences, split.tokens)]
        counts.append([name, *numbers, f"{100 * split.unknown / split.tokens:.2f} %"])
        for what, found in (
            ("tokens a sentence", split.sentence_tokens),
            ("tokens a document", split.document_tokens),
            ("sentences a document", split.document_sentences),
        ):
            cells = [found.median, found.percentiles["90"], found.percentiles["99"], found.longest]
            lengths.append([f"{name}, {what}", f"{found.mean:,.1f}", *(f"{n:,}" for n in cells)])
    return text_table(counts, names=1) + text_table(lengths, names=1)


def prepare(config: PrepareConfig) -> PrepareResult:
    """Makes a corpus from text. What stood at `config.output` is replaced at the end, as a whole.

    With `config.shard` only a part of its shards is made; `config.merge` joins such parts.

    Raises:
        UserError: see `read_documents` and `Tokenizer.load`; an option out of its range; names to
            hold out that no document has; no document with a token; the disk is full; the shards
            of an interrupted run were made with other options or inputs.
        Interrupted: Ctrl-C or SIGTERM came. Finished shards stay, and the same call continues;
            without any, nothing is left behind.
    """
    started = time.monotonic()
    part, of = _part(config)
    _check(config)
    tokenizer = Tokenizer.load(
        config.vocab, config.lower_case, config.word_limit, config.special_tokens
    )
    segmenter = segmenter_name() if config.words == "jieba" else None
    wanted = claim(config, tokenizer, segmenter)
    if config.merge:
        folders, entries = collect([Path(path) for path in config.merge], wanted)
        splits = _put_together(config, tokenizer, segmenter, folders, entries)
        return _result(config, tokenizer, entries, splits, started)
    output = Path(os.path.realpath(config.output))
    parts = Parts(output if config.shard else output.with_name(f".{output.name}.unfinished"))
    job = f"{part}-of-{of}" if config.shard else "all"
    with (
        disk_errors(parts.folder),
        interrupting(signal.SIGINT, signal.SIGTERM, message="nothing was written"),
        parts.desk(job) as desk,
        _leaving(parts, shared=config.shard is not None),
    ):
        if not config.shard:
            parts.forget_claim()
        parts.check(wanted)  # before hours of reading
        plan = scan(config)
        parts.claim(wanted, plan.shards, desk)
        mine = range(part - 1, len(plan.shards), of)
        _make_shards(config, tokenizer, plan, mine, parts, desk)
        found = parts.entries()
        entries = [found[number] for number in mine]
        if config.shard:
            splits = statistics(parts.folder, {number: found[number] for number in mine})
            missing = len(plan.shards) - len(found)
            return _result(config, tokenizer, entries, splits, started, missing)
        folders = [parts.folder] * len(entries)
        splits = _put_together(config, tokenizer, segmenter, folders, entries)
        parts.remove()
    return _result(config, tokenizer, entries, splits, started)


def _result(
    config: PrepareConfig,
    tokenizer: Tokenizer,
    entries: Sequence[dict[str, Any]],
    splits: dict[str, SplitStatistics],
    started: float,
    missing: int = 0,
) -> PrepareResult:
    for name, counts in splits.items():
        if counts.unknown > MANY_UNKNOWN * counts.tokens:
            share = 100 * counts.unknown / counts.tokens
            say(
                f"{share:.0f} % of the tokens of {name} are [UNK]; "
                "does the vocabulary fit the text?",
                config.quiet,
            )
    return PrepareResult(
        output=str(config.output),
        splits=splits,
        vocabulary_size=len(tokenizer),
        lower_case=tokenizer.lower_case,
        shards=len(entries),
        empty=sum(entry["empty"] for entry in entries),
        seconds=time.monotonic() - started,
        part=config.shard,
        missing=missing,
    )


def _part(config: PrepareConfig) -> tuple[int, int]:
    """Which part of how many; 1 of 1 without --shard."""
    if config.shard is None:
        return 1, 1
    match = re.fullmatch(r"(\d+)/(\d+)", config.shard)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise UserError(f"--shard is '{config.shard}'; give i/n, from 1/n to n/n")
    if config.merge:
        raise UserError("--shard makes parts and --merge joins them; give one of the two")
    return int(match[1]), int(match[2])


def _check(config: PrepareConfig) -> None:
    if not 0 <= config.held_out < 1:
        raise UserError(f"held_out is {config.held_out}; give a share from 0 to below 1")
    if config.workers is not None and config.workers < 1:
        raise UserError(f"workers is {config.workers}; give 1 or more")
    if not 1 <= config.shard_bytes <= LARGEST_SHARD:
        raise UserError(f"shard_bytes is {config.shard_bytes}; give 1 to {LARGEST_SHARD}")
    check_output_apart(config.output, config.inputs)
    output = Path(config.output).resolve()
    # `writing` refuses too to replace what is not its own, but only when all work is done
    if output.exists() and not output.is_dir():
        raise UserError(f"{config.output} is a file; choose another place with --output")
    here = {child.name for child in output.iterdir()} if output.exists() else set()
    if config.shard:
        if here and CLAIM not in here and any(not name.startswith("making-") for name in here):
            raise UserError(
                f"{config.output} is not empty and holds no parts; choose another place for them "
                "with --output"
            )
        return
    others = sorted(here - FILES)
    if others:
        raise UserError(
            f"{config.output} also holds '{others[0]}', which would be lost; choose another place "
            "with --output, or remove it"
        )


def _make_shards(
    config: PrepareConfig,
    tokenizer: Tokenizer,
    plan: Plan,
    mine: Sequence[int],
    parts: Parts,
    desk: Path,
) -> None:
    """Makes those of the shards `mine` that are not there yet."""
    finished = parts.entries().keys() & set(mine)
    missing = set(mine) - finished
    if not missing:
        return
    if finished:
        say(f"{len(finished)} of {len(mine)} shards are there already", config.quiet)
    words = config.words != "none"
    work = partial(encode, tokenizer=tokenizer, sentences=config.sentences, words=words)
    pending: deque[tuple[int, int, bool]] = deque()  # with the workers, oldest first

    def texts() -> Iterator[list[Item]]:
        for chunk in chunks(config, plan, missing):
            pending.append((chunk.shard, chunk.documents, chunk.last))
            yield chunk.items

    total = sum(plan.shards[number].documents for number in mine)
    done = sum(plan.shards[number].documents for number in finished)
    size = sum(plan.shards[number].bytes for number in missing)
    shard: ShardWriter | None = None
    with (
        Progress("tokenizing", total, "documents", config.quiet, done) as progress,
        closing(_results(config, work, texts(), size)) as results,
    ):
        try:
            for encoded in results:
                number, documents, last = pending.popleft()
                if shard is None:
                    shard = ShardWriter(desk, number, words)
                shard.write(encoded)
                if last:
                    parts.add(number, shard.close(), desk)
                    shard = None
                progress.advance(documents)
        finally:
            if shard is not None:
                shard.abandon()


def _results(
    config: PrepareConfig,
    work: partial[dict[str, Encoded]],
    items: Iterator[list[Item]],
    size: int,
) -> Generator[dict[str, Encoded], None, None]:
    if config.engine == "ray":
        return ray_map(work, items, config.workers)
    return parallel_map(work, items, min(config.workers or processors(), -(-size // CHUNK_BYTES)))


# ---- the corpus ------------------------------------------------------------------------------


def _put_together(
    config: PrepareConfig,
    tokenizer: Tokenizer,
    segmenter: str | None,
    folders: Sequence[Path],
    entries: Sequence[dict[str, Any]],
) -> dict[str, SplitStatistics]:
    """Makes the corpus of finished shards, `entries`, which lie in `folders`."""
    names = {name for entry in entries for name in entry["splits"]}
    if "train" not in names:
        raise UserError(
            "no document left to train on has any token; check the inputs"
            + (" and --held-out" if names else "")
        )
    with writing(config.output) as folder:
        (folder / "shards").mkdir(parents=True)
        for source, entry in zip(folders, entries, strict=True):
            place(source, entry, folder)
        splits = statistics(folder, dict(enumerate(entries)))
        tokenizer.save(folder)
        configuration.save(replace(config, shard=None, merge=[]), folder / "prepare.yaml")
        _write_manifest(config, tokenizer, segmenter, splits, entries, folder)
        write_corpus_report(folder)
    return splits


def _write_manifest(
    config: PrepareConfig,
    tokenizer: Tokenizer,
    segmenter: str | None,
    splits: dict[str, SplitStatistics],
    entries: Sequence[dict[str, Any]],
    folder: Path,
) -> None:
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "bertkit": bertkit.__version__,
        "vocabulary": vocabulary_facts(tokenizer),
        "token_type": token_type(len(tokenizer)).str,
        "sentences": config.sentences,
        **({"words": segmenter} if segmenter else {}),
        "held_out": {
            "share": 0 if config.held_out_documents else config.held_out,
            "seed": config.seed,
            "named": len(config.held_out_documents),
        },
        "splits": {name: asdict(split) for name, split in splits.items()},
        "files": {
            name: {"bytes": (folder / name).stat().st_size, "sha256": sha256(folder / name)}
            for name in ("vocab.txt", "tokenizer_config.json")
        },
        "shards": entries,
    }
    (folder / MANIFEST).write_text(
        json.dumps(manifest, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )


# ---- stops -----------------------------------------------------------------------------------


@contextmanager
def _leaving(parts: Parts, shared: bool) -> Iterator[None]:
    """On a stop or a full disk: says what is kept, or removes a folder without a finished shard.

    `shared`: other runs may be working in the folder.
    """
    try:
        yield
    except BaseException as error:
        kept = len(parts.entries())
        if not kept and not shared:
            parts.remove()
        shards = "shard is" if kept == 1 else "shards are"
        note = f"{kept} finished {shards} kept, and the same command continues"
        if isinstance(error, Interrupted):
            raise Interrupted(f"stopped; {note if kept else error}", error.signal) from None
        message = explain(error, parts.folder) if isinstance(error, Exception) else None
        if message is None or isinstance(error, UserError):
            raise
        raise UserError(f"{message}; {note}" if kept else message) from error
