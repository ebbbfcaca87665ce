"""An answer that is interrupted leaves no half file, and nothing that the next one minds."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bertkit.inference.batching import WINDOW_TEXTS
from bertkit.inference.config import EmbedConfig, PredictConfig
from bertkit.inference.embed import embed
from bertkit.inference.predict import predict
from tests.tasks.tiny import save_tiny


@pytest.fixture(scope="module")
def classifier(tmp_path_factory, tiny_tokenizer) -> Path:
    folder = tmp_path_factory.mktemp("models") / "classifier"
    return save_tiny(folder, tiny_tokenizer, "classification", ["glad", "sad"], layers=1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("command", "name"), [("predict", "answers.jsonl"), ("embed", "vectors.npy")]
)
def test_what_was_there_stays_and_the_next_answer_is_whole(
    classifier: Path, tmp_path: Path, command: str, name: str, number: signal.Signals
) -> None:
    """Interrupted while it waits for more, with one window of texts answered and written."""
    output = tmp_path / name
    output.write_text("earlier")
    line = [sys.executable, "-m", "bertkit", command, str(classifier), "-", "-o", str(output)]
    process = subprocess.Popen(
        [*line, "--quiet"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # a background job of a shell starts with Ctrl-C ignored
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL) and None,
    )
    partial = tmp_path / f".{name}.partial-{process.pid}"
    assert process.stdin is not None and process.stderr is not None
    process.stdin.write("the\n" * WINDOW_TEXTS)
    process.stdin.flush()
    while not partial.exists() or not partial.stat().st_size:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)
    process.send_signal(number)
    _, told = process.communicate(timeout=300)
    assert process.returncode == 128 + number
    assert told == "bertkit: stopped\n"
    assert output.read_text() == "earlier"
    assert list(tmp_path.iterdir()) == [output]

    texts = tmp_path / "texts.txt"
    texts.write_text("the\na\n")
    if command == "predict":
        assert (
            predict(PredictConfig(str(classifier), str(texts), str(output), quiet=True)).inputs == 2
        )
    else:
        assert embed(EmbedConfig(str(classifier), str(texts), str(output), quiet=True)).texts == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "texts.txt"])
