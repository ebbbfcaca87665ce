"""Finished shards before they are a corpus: a folder that runs may leave and take up again.

    PARTS/parts.json           the options, the vocabulary and the shards' plan: the claim
    PARTS/shards/00003.json    the entry of a finished shard; beside it the shard's files
    PARTS/making-2-of-8/       what one run has in its hands now

A shard is made in `making-...` and moved into its place whole, its entry last; so what has an entry
is finished, whatever stopped the run. Several runs may fill one folder, on several machines: what
they make of a shard is the same. Without --shard such a folder lies beside the output, hidden.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import bertkit
from bertkit.corpus.config import PrepareConfig
from bertkit.corpus.format import vocabulary_facts
from bertkit.corpus.plan import ShardPlan
from bertkit.errors import UserError
from bertkit.files import sha256
from bertkit.text.tokenizer import Tokenizer

CLAIM = "parts.json"
FORMAT = "bertkit parts"

CLAIMED = (
    "documents",
    "sentences",
    "text_field",
    "errors",
    "held_out",
    "held_out_documents",
    "seed",
    "shard_bytes",
)
"""Options that change what a shard holds; of inputs and vocabulary the content is compared."""


def claim(config: PrepareConfig, tokenizer: Tokenizer, words: str | None) -> dict[str, Any]:
    """What the parts of one corpus must agree in, but for the shards' plan.

    `words` is the segmenter with its version.
    """
    return {
        "format": FORMAT,
        "bertkit": bertkit.__version__,
        "options": {name: getattr(config, name) for name in CLAIMED} | {"words": words},
        "vocabulary": vocabulary_facts(tokenizer),
    }


class Parts:
    """A folder of finished shards, which need not exist yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def check(self, wanted: dict[str, Any]) -> list[ShardPlan] | None:
        """The plan of the shards here, None where nothing has been begun.

        Raises:
            UserError: they are parts of another corpus.
        """
        found = self._read(self.folder / CLAIM)
        if found is None:
            return None
        changes = [
            f"{name} was {found['options'].get(name)}, is {value}"
            for name, value in wanted["options"].items()
            if found["options"].get(name) != value
        ]
        if found["vocabulary"] != wanted["vocabulary"]:
            changes.append("another vocabulary or casing")
        if found["bertkit"] != wanted["bertkit"]:
            changes.append(f"bertkit was {found['bertkit']}, is {wanted['bertkit']}")
        if changes:
            raise UserError(
                f"{self.folder} holds shards made with other options ({'; '.join(changes)}); "
                "give the same options to continue, or remove that folder to start anew"
            )
        return self.plan()

    def claim(self, wanted: dict[str, Any], plan: Sequence[ShardPlan], desk: Path) -> None:
        """Writes the claim, or compares it with the one that is there.

        Raises:
            UserError: the shards here are of another corpus, or of other inputs.
        """
        target = self.folder / CLAIM
        if not target.exists():
            mine = desk / CLAIM
            mine.write_text(
                json.dumps(wanted | {"shards": [asdict(shard) for shard in plan]}, indent=1),
                encoding="utf-8",
            )
            try:
                os.link(mine, target)  # never over that of another run, begun at the same time
            except FileExistsError:
                pass
            except OSError:  # a file system without links
                mine.replace(target)
        if self.check(wanted) != list(plan):
            raise UserError(
                f"the inputs are not those that the shards in {self.folder} were made from; put "
                "them back to continue, or remove that folder to start anew"
            )

    def plan(self) -> list[ShardPlan]:
        """The shards that there will be; none where nothing has been begun."""
        found = self._read(self.folder / CLAIM)
        return [] if found is None else [ShardPlan(**shard) for shard in found["shards"]]

    def entries(self) -> dict[int, dict[str, Any]]:
        """The manifest's entry of each finished shard, by its number."""
        found = {
            int(path.stem): self._read(path)
            for path in sorted(self.folder.glob("shards/*.json"))
            if path.stem.isdecimal()
        }
        return {number: entry for number, entry in found.items() if entry is not None}

    def add(self, number: int, entry: dict[str, Any], desk: Path) -> None:
        """Moves a finished shard from the desk into its place."""
        (self.folder / "shards").mkdir(exist_ok=True)
        for name in files(entry):
            (desk / name).replace(self.folder / name)
        record = desk / "shards" / f"{number:05d}.json"
        with open(record, "w", encoding="utf-8") as file:
            json.dump(entry, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        record.replace(self.folder / "shards" / record.name)

    @contextmanager
    def desk(self, job: str) -> Iterator[Path]:
        """Yields an empty folder to make shards in, for one run at a time.

        Raises:
            UserError: another run of the same job is at work.
        """
        place = self.folder / f"making-{job}"
        place.mkdir(parents=True, exist_ok=True)
        with open(place / "lock", "wb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(
                    f"another bertkit prepare is making this in {self.folder}; wait for it, or "
                    "choose another --output"
                ) from None
            except OSError:
                pass  # a file system without locks
            shutil.rmtree(place / "shards", ignore_errors=True)
            (place / "shards").mkdir()
            try:
                yield place
            finally:
                shutil.rmtree(place, ignore_errors=True)

    def forget_claim(self) -> None:
        """Lets other options begin here, when no shard is finished yet."""
        if not self.entries():
            (self.folder / CLAIM).unlink(missing_ok=True)

    def remove(self) -> None:
        """Removes the folder, the entries first: without its files a shard is not finished."""
        for path in self.folder.glob("shards/*.json"):
            path.unlink()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _read(self, path: Path) -> dict[str, Any] | None:
        """A JSON object of this folder; None where there is none."""
        try:
            content = json.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise UserError(f"{path} is damaged ({error}); remove {self.folder}") from error
        if not isinstance(content, dict):
            raise UserError(f"{path} is damaged; remove {self.folder} to start anew")
        return content


def files(entry: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The files of a shard's entry, with their bytes and checksums."""
    return {
        file["file"]: file for split in entry["splits"].values() for file in split["files"].values()
    }


def collect(
    folders: Sequence[Path], wanted: dict[str, Any]
) -> tuple[list[Path], list[dict[str, Any]]]:
    """Where each shard of a corpus lies, and its entry, from folders that together have them all.

    Raises:
        UserError: a folder holds no parts, or of another corpus; a shard is in none.
    """
    found: dict[int, tuple[Path, dict[str, Any]]] = {}
    plans: list[list[ShardPlan]] = []
    for folder in folders:
        parts = Parts(folder)
        plan = parts.check(wanted)
        if plan is None:
            raise UserError(f"{folder} holds no parts of a corpus; make them with --shard")
        plans.append(plan)
        if plan != plans[0]:
            raise UserError(f"{folders[0]} and {folder} were made from different inputs")
        for number, entry in parts.entries().items():
            found.setdefault(number, (folder, entry))
    missing = [number for number in range(len(plans[0])) if number not in found]
    if missing:
        shown = ", ".join(map(str, missing[:5])) + (", ..." if len(missing) > 5 else "")
        raise UserError(
            f"{len(missing)} of {len(plans[0])} shards are missing ({shown}); make them with "
            "--shard, or name the folder where they are"
        )
    ordered = [found[number] for number in range(len(plans[0]))]
    return [folder for folder, _ in ordered], [entry for _, entry in ordered]


def place(folder: Path, entry: dict[str, Any], corpus: Path) -> None:
    """Puts a shard's files into a corpus, as further names of the same files where that goes.

    Raises:
        UserError: a file is missing or damaged.
    """
    for name, facts in files(entry).items():
        source = folder / name
        if not source.is_file() or sha256(source) != facts["sha256"]:
            raise UserError(
                f"{source} is missing or damaged; remove {folder / name.split('.')[0]}.json "
                "to make that shard anew"
            )
        try:
            os.link(source, corpus / name)
        except OSError:
            shutil.copyfile(source, corpus / name)
