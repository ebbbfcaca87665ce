"""A stopped preparation goes on where it was; parts of several machines join to the same bytes."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bertkit import config as configuration
from bertkit.corpus import parts as module
from bertkit.corpus.config import PrepareConfig
from bertkit.corpus.format import Corpus
from bertkit.corpus.parts import Parts
from bertkit.corpus.prepare import prepare
from bertkit.errors import Interrupted, UserError

from .test_prepare import content


@pytest.fixture
def whole(config: PrepareConfig, tmp_path: Path) -> dict[str, bytes]:
    """The files of the corpus that one run makes without a stop."""
    other = replace(config, output=str(tmp_path / "whole"))
    prepare(other)
    return content(other.output)


def unfinished(config: PrepareConfig) -> Path:
    output = Path(config.output)
    return output.with_name(f".{output.name}.unfinished")


def stop_after(monkeypatch: pytest.MonkeyPatch, shards: int, error: BaseException) -> None:
    """Lets a run finish so many shards and fail while it writes the next."""
    from bertkit.corpus import write

    made: list[int] = []
    add, write_file = Parts.add, write._File.write

    def counted(self: Parts, number: int, entry: dict[str, Any], desk: Path) -> None:
        add(self, number, entry, desk)
        made.append(number)

    def fails(self: Any, content: bytes) -> None:
        if len(made) >= shards:
            raise error
        write_file(self, content)

    monkeypatch.setattr(Parts, "add", counted)
    monkeypatch.setattr(write._File, "write", fails)


def count_made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the shards that are made from now on."""
    made: list[int] = []
    add = Parts.add

    def counted(self: Parts, number: int, entry: dict[str, Any], desk: Path) -> None:
        made.append(number)
        add(self, number, entry, desk)

    monkeypatch.setattr(Parts, "add", counted)
    return made


def test_a_full_disk_keeps_finished_shards_and_the_earlier_corpus(
    config: PrepareConfig, whole: dict[str, bytes], texts: Path
) -> None:
    prepare(replace(config, seed=7))
    before = content(config.output)
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, 2, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        with pytest.raises(UserError, match=r"disk is full.*2 finished shards are kept"):
            prepare(config)
    assert content(config.output) == before
    with pytest.MonkeyPatch.context() as patch:
        made = count_made(patch)
        prepare(config)
    assert made and made[0] == 2
    assert content(config.output) == whole
    assert not unfinished(config).exists()


def test_an_interruption_says_what_is_kept(config: PrepareConfig) -> None:
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, 2, Interrupted("nothing was written", signal.SIGTERM))
        with pytest.raises(Interrupted, match="stopped; 2 finished shards are kept, and the same"):
            prepare(config)
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, 0, Interrupted("nothing was written", signal.SIGTERM))
        with pytest.raises(Interrupted, match="stopped; 2 finished shards are kept"):
            prepare(config)
        unfinished(config).rename(unfinished(config).with_name("elsewhere"))
        with pytest.raises(Interrupted, match="stopped; nothing was written"):
            prepare(config)
    assert not unfinished(config).exists()


def test_a_file_size_limit_is_told_and_the_run_goes_on_without_it(
    config: PrepareConfig, whole: dict[str, bytes], tmp_path: Path
) -> None:
    configuration.save(config, tmp_path / "config.yaml")
    limit = max(map(len, whole.values())) - 1  # that of the manifest or of a shard's tokens
    script = (
        "import resource, signal, sys; from bertkit.cli import main\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\n"
        "sys.exit(main(['prepare', '--config', sys.argv[1]]))"
    )
    command = [sys.executable, "-B", "-c", script, str(tmp_path / "config.yaml")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert "grew over the largest size" in done.stderr and done.stderr.count("\n") == 1
    assert not Path(config.output).exists()
    prepare(config)
    assert content(config.output) == whole


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 5}, "seed was 0, is 5"),
        ({"held_out": 0.2}, r"held_out was 0\.1, is 0\.2"),
        ({"shard_bytes": 999}, "shard_bytes was 1000, is 999"),
        ({"sentences": "line"}, "sentences was auto, is line"),
    ],
)
def test_another_configuration_does_not_take_up_the_shards(
    config: PrepareConfig, change: dict[str, Any], message: str
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, 2, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            prepare(config)
    with pytest.raises(UserError, match=rf"other options \({message}\)"):
        prepare(replace(config, **change))
    prepare(replace(config, workers=2, quiet=True))  # these change no byte


def test_another_vocabulary_does_not_take_up_the_shards(config: PrepareConfig, vocab: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, 1, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            prepare(config)
    with (vocab / "vocab.txt").open("a") as file:
        file.write("##z##\n")
    with pytest.raises(UserError, match="another vocabulary or casing"):
        prepare(config)


@pytest.mark.parametrize(
    "change",
    [
        lambda texts: (texts / "00.txt").write_text("The cat ran. The dog saw the dog.\n"),
        lambda texts: (texts / "39.txt").unlink(),
        lambda texts: (texts / "zz.txt").write_text("One more."),
        lambda texts: (texts / "05.txt").rename(texts / "055.txt"),
    ],
)
def test_inputs_that_changed_since_the_stop_are_noticed(
    config: PrepareConfig, texts: Path, change: Callable[[Path], Any]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, 2, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            prepare(config)
    change(texts)
    with pytest.raises(UserError, match=r"inputs are not those.*remove that folder"):
        prepare(config)


def test_before_the_first_shard_another_configuration_may_begin(config: PrepareConfig) -> None:
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, 0, KeyboardInterrupt())
        patch.setattr(Parts, "remove", lambda self: None)  # as after kill -9
        with pytest.raises(KeyboardInterrupt):
            prepare(config)
    assert (unfinished(config) / module.CLAIM).exists()
    prepare(replace(config, seed=5))


def test_a_damaged_shard_is_found_when_the_corpus_is_put_together(config: PrepareConfig) -> None:
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, 2, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            prepare(config)
    path = unfinished(config) / "shards" / "00001.train.tokens"
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    with pytest.raises(UserError, match=r"00001\.train\.tokens is missing or damaged.*00001\.json"):
        prepare(config)
    path.with_name("00001.json").unlink()
    prepare(config)
    Corpus.open(config.output).verify()


def test_two_runs_do_not_make_one_output_at_once(config: PrepareConfig) -> None:
    with (
        Parts(unfinished(config)).desk("all"),
        pytest.raises(UserError, match="another bertkit prepare"),
    ):
        prepare(config)
    assert unfinished(config).exists()
    prepare(config)


@pytest.mark.parametrize("separate", [False, True])
def test_parts_made_apart_join_to_the_same_bytes(
    config: PrepareConfig, whole: dict[str, bytes], tmp_path: Path, separate: bool
) -> None:
    folders = [str(tmp_path / f"parts{number * separate}") for number in range(3)]
    made = 0
    for number in (2, 1, 3):
        part = prepare(replace(config, shard=f"{number}/3", output=folders[number - 1]))
        assert part.part == f"{number}/3"
        made += part.shards
        if number == 2:
            with pytest.raises(UserError, match=r"shards are missing \(0, 2"):
                prepare(replace(config, merge=folders[number - 1 : number]))
    assert (part.missing == 0) == (not separate)
    result = prepare(replace(config, merge=sorted(set(folders)), inputs=["not-read"]))
    assert content(config.output) == whole
    assert result.shards == made == len(Corpus.open(config.output).manifest["shards"])
    kept = configuration.load(PrepareConfig, Path(config.output, "prepare.yaml"))
    assert kept.shard is None and kept.merge == []


def test_a_part_goes_on_after_a_stop(
    config: PrepareConfig, whole: dict[str, bytes], tmp_path: Path
) -> None:
    half = replace(config, shard="1/2", output=str(tmp_path / "parts"))
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, 1, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            prepare(half)
    with pytest.MonkeyPatch.context() as patch:
        made = count_made(patch)
        prepare(half)
        assert made[0] == 2
    prepare(replace(half, shard="2/2"))
    prepare(replace(config, merge=[half.output]))
    assert content(config.output) == whole


@pytest.mark.parametrize("shard", ["0/2", "3/2", "2", "a/b", "-1/2", "1/0", ""])
def test_a_part_has_a_number_from_1_to_n(config: PrepareConfig, shard: str) -> None:
    with pytest.raises(UserError, match="give i/n"):
        prepare(replace(config, shard=shard))


def test_what_does_not_belong_together_is_not_joined(
    config: PrepareConfig, texts: Path, tmp_path: Path
) -> None:
    parts = [str(tmp_path / f"parts{number}") for number in range(2)]
    prepare(replace(config, shard="1/2", output=parts[0]))
    (texts / "zz.txt").write_text("One more.")
    prepare(replace(config, shard="2/2", output=parts[1]))
    with pytest.raises(UserError, match="from different inputs"):
        prepare(replace(config, merge=parts))
    with pytest.raises(UserError, match="seed was 0, is 1"):
        prepare(replace(config, merge=parts[:1], seed=1))
    with pytest.raises(UserError, match="holds no parts"):
        prepare(replace(config, merge=[str(texts)]))
    with pytest.raises(UserError, match="one of the two"):
        prepare(replace(config, merge=parts, shard="1/2"))
    with pytest.raises(UserError, match="inputs are not those"):
        prepare(replace(config, shard="2/2", output=parts[0]))
    prepare(config)
    with pytest.raises(UserError, match="is not empty and holds no parts"):
        prepare(replace(config, shard="1/2"))
    assert not Path(parts[0], "making-2-of-2").exists()


@pytest.mark.slow
def test_kill_9_at_any_moment_changes_no_byte(
    config: PrepareConfig, texts: Path, tmp_path: Path
) -> None:
    for number in range(300):
        words = f"unaffable and wantwant dog number {number} ran, good. " * 400
        (texts / f"long{number}.txt").write_text(words)
    config = replace(config, workers=2, shard_bytes=200_000)
    prepare(replace(config, output=str(tmp_path / "whole")))
    configuration.save(config, tmp_path / "config.yaml")
    command = [
        sys.executable,
        "-m",
        "bertkit",
        "prepare",
        "--config",
        str(tmp_path / "config.yaml"),
    ]
    kills = 0
    for wanted in (1, 4, 9, 15):
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        while process.poll() is None:
            if len(list(unfinished(config).glob("shards/*.json"))) >= wanted:
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
                kills += 1
            time.sleep(0.001)
    assert kills >= 2
    assert not Path(config.output).exists()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "shards are there already" in done.stderr or config.quiet
    assert content(config.output) == content(tmp_path / "whole")
    assert json.loads(Path(config.output, "manifest.json").read_text())["splits"]["train"]


@pytest.mark.slow
def test_a_ray_cluster_of_two_workers_makes_the_same_bytes(
    config: PrepareConfig, whole: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = pytest.importorskip("ray", reason="needs Ray: pip install ray")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setattr("bertkit.corpus.plan.CHUNK_BYTES", 300)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        prepare(replace(config, engine="ray", workers=2))
        assert ray.is_initialized()  # what the caller started stays
    finally:
        ray.shutdown()
    assert content(config.output) == whole


def test_without_ray_the_engine_says_what_to_install(
    config: PrepareConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match=r'pip install "bertkit\[ray\]"'):
        prepare(replace(config, engine="ray"))
