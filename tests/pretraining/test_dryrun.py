"""What a dry run foretells is what the run takes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bertkit.text.tokenizer import Tokenizer
from tests.pretraining.small_run import WORDS, configuration, flags, small_corpus

STATUS = Path("/proc/self/status")
CHILD = """
import re, sys
from bertkit.cli import main
code = main(["pretrain", *sys.argv[1:]])
peak = re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())
print("peak", 1024 * int(peak[1]), file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.slow
@pytest.mark.skipif(not STATUS.exists(), reason="the kernel does not tell a process's peak")
def test_the_memory_that_is_predicted_is_within_15_percent_of_the_runs_peak(tmp_path: Path) -> None:
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    corpus = small_corpus(tmp_path, Tokenizer([*special, *WORDS, "."], lower_case=True))
    config = configuration(
        corpus,
        tmp_path / "run",
        model="4x256x4",
        phases=["none"],
        batch_size=128,
        micro_batch_size=128,
        precision="fp32",
        steps=8,
        evaluate_steps=0,
    )

    def run(*more: str) -> tuple[str, int]:
        command = [sys.executable, "-c", CHILD, *flags(config), *more]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout, int(done.stderr.rpartition("peak ")[2])

    parts = json.loads(run("--dry-run", "--json")[0])["memory"]
    _, peak = run()
    assert parts["activations"] > peak / 4, "the run is too small to tell"
    assert sum(parts.values()) == pytest.approx(peak, rel=0.15)
