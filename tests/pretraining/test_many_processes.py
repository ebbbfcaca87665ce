"""Many processes with torchrun: the same run, whatever their number, and no hang when one dies."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from bertkit.pretraining.config import PretrainConfig
from bertkit.pretraining.run import pretrain
from bertkit.text.tokenizer import Tokenizer
from bertkit.training.checkpoint import FOLDER
from bertkit.training.log import read_log
from tests.pretraining.small_run import configuration, flags, small_corpus


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Tokenizer) -> Path:
    return small_corpus(tmp_path_factory.mktemp("corpus"), tiny_tokenizer)


def torchrun(count: int, config: PretrainConfig, *more: str) -> subprocess.Popen[str]:
    """The command of a run in `count` processes, started."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(count)]
    return subprocess.Popen(
        [*launcher, "-m", "bertkit", "pretrain", *flags(config), *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "MASTER_PORT": "0"},
    )


def finished(process: subprocess.Popen[str]) -> tuple[str, str]:
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out, err


def furthest(run: Path, other: Path, steps: int) -> float:
    """The largest difference of the training losses of two runs."""
    curves = [
        [record["loss"] for record in read_log(one) if record["kind"] == "train"]
        for one in (run, other)
    ]
    assert len(curves[0]) == steps
    return max(abs(a - b) for a, b in zip(*curves, strict=True))


def weights(run: Path) -> dict[str, torch.Tensor]:
    return load_file(run / "model.safetensors")


def test_two_processes_make_the_run_of_one(corpus: Path, tmp_path: Path) -> None:
    options = {"steps": 20, "log_steps": 1, "evaluate_steps": 10, "batch_size": 12}
    one = configuration(corpus, tmp_path / "one", precision="fp32", **options)
    two = configuration(corpus, tmp_path / "two", precision="fp32", **options)
    pretrain(one)
    out, _ = finished(torchrun(2, two, "--shard-optimizer"))
    assert out.count("parameters") == 1, "the first process alone speaks"
    assert furthest(tmp_path / "one", tmp_path / "two", steps=20) < 1e-4
    for kind in ("train", "dev"):
        records = [
            [record for record in read_log(tmp_path / name) if record["kind"] == kind]
            for name in ("one", "two")
        ]
        for ours, theirs in zip(*records, strict=True):
            assert ours["mlm_accuracy"] == pytest.approx(theirs["mlm_accuracy"], abs=0.02)
            assert ours.get("tokens") == theirs.get("tokens")
    theirs = weights(tmp_path / "two")
    for name, value in weights(tmp_path / "one").items():
        torch.testing.assert_close(theirs[name], value, rtol=0, atol=1e-4)
    before = (tmp_path / "two" / "model.safetensors").read_bytes()
    newest = max((tmp_path / "two" / FOLDER).iterdir())
    assert newest.name == "step-00000020"
    shutil.rmtree(newest)
    (tmp_path / "two" / "model.safetensors").unlink()
    _, err = finished(torchrun(2, replace(two, quiet=False), "--shard-optimizer"))
    assert "continuing from step 10 of 20" in err
    assert (tmp_path / "two" / "model.safetensors").read_bytes() == before


def test_more_processes_than_micro_batches_are_refused_with_the_arithmetic(
    corpus: Path, tmp_path: Path
) -> None:
    config = configuration(corpus, tmp_path / "run", batch_size=4, micro_batch_size=4)
    process = torchrun(2, config)
    _, err = process.communicate(timeout=300)
    assert process.returncode != 0
    told = [line for line in err.splitlines() if line.startswith("bertkit: ")]
    assert told == [
        "bertkit: 2 processes share the micro-batches of a step and it has 1: 4 sequences make 1 "
        "of 4; start fewer processes, lower --micro-batch-size or raise the batch"
    ]
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_run_of_two_processes_goes_on_in_one_after_one_was_killed(
    corpus: Path, tmp_path: Path
) -> None:
    options = {"steps": 400, "log_steps": 1, "evaluate_steps": 400, "precision": "fp32"}
    whole = configuration(corpus, tmp_path / "whole", **options)
    pretrain(whole)
    cut = configuration(corpus, tmp_path / "cut", **options)
    process = torchrun(2, cut)
    point = tmp_path / "cut" / FOLDER / "step-00000050"
    deadline = time.monotonic() + 200
    while not point.exists():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    workers = subprocess.run(
        ["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=True
    ).stdout.split()
    os.kill(int(workers[1]), signal.SIGKILL)
    began = time.monotonic()
    _, err = process.communicate(timeout=120)
    assert time.monotonic() - began < 60
    told = [line for line in err.splitlines() if line.startswith("bertkit: ")]
    assert len(told) == 1 and "of 2 (pid " in told[0] and "ended" in told[0]
    result = pretrain(cut)
    assert result.resumed_from >= 50
    assert furthest(tmp_path / "whole", tmp_path / "cut", steps=400) < 1e-3


@pytest.mark.slow
def test_the_loss_of_200_steps_is_the_same_in_one_two_and_three_processes(
    corpus: Path, tmp_path: Path
) -> None:
    """With dropout on, in float32, at a rate at which the order of sums does not grow: at 3e-3 one
    and two threads of one process part as well."""
    options = {"model": "tiny", "steps": 200, "log_steps": 1, "batch_size": 12}
    options |= {"precision": "fp32", "learning_rate": 1e-3}
    for count in (1, 2, 3):
        run = tmp_path / str(count)
        finished(torchrun(count, configuration(corpus, run, **options)))
        assert furthest(tmp_path / "1", run, steps=200) < 1e-4
