"""`benchmarks/gpu.py` from end to end, as a toy on the CPU."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def gpu(root: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    script = root / "benchmarks" / "gpu.py"
    if not script.exists():
        pytest.skip("needs the folder benchmarks of a checkout")
    spec = importlib.util.spec_from_file_location("gpu_benchmark", script)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "gpu_benchmark", module)
    spec.loader.exec_module(module)
    return module


def test_both_sides_are_measured_on_every_input(
    gpu: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("transformers")
    assert gpu.main(["--device", "cpu", "--tiny", "--peers", "sdpa"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [(row["side"], row["input"]) for row in told["rows"]] == [
        (side, shape)
        for side in ("bertkit", "sdpa")
        for shape in ("4 x 32", "2 x 64", "4 x 16..32")
    ]
    assert all(row["tokens_per_second"] > 0 and row["share_of_peak"] > 0 for row in told["rows"])
    assert set(told["equality"]) == {"float32", "bf16"}
    assert told["equality"]["float32"] < 1e-4
    assert not told["left_out"] and not told["wrong"]


def test_a_part_that_fails_is_named_and_the_others_go_on(
    gpu: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: object) -> None:
        raise RuntimeError("out of memory\nand more")

    monkeypatch.setattr(gpu, "peer_model", broken)
    monkeypatch.setattr(gpu, "check_equality", broken)
    assert gpu.main(["--device", "cpu", "--tiny", "--peers", "sdpa"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [row["side"] for row in told["rows"]] == ["bertkit"] * 3
    assert told["left_out"] == [
        "equality: RuntimeError: out of memory",
        "tiny 4 x 32 sdpa: RuntimeError: out of memory",
    ]


def test_no_part_begins_after_its_time(gpu: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu.main(["--device", "cpu", "--tiny", "--peers", "sdpa", "--seconds", "-1"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert not told["rows"] and "peak: no time left" in told["left_out"]


def test_numbers_that_differ_end_in_an_error(
    gpu: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = gpu.gradients_of, []

    def wrong(*arguments: object) -> list[object]:
        calls.append(None)
        return [one * (1 + 0.1 * (len(calls) == 2)) for one in real(*arguments)]

    monkeypatch.setattr(gpu, "gradients_of", wrong)
    monkeypatch.setattr(gpu, "measure_side", lambda *arguments: None)
    assert gpu.main(["--device", "cpu", "--tiny", "--peers", "sdpa"]) == 1
    assert "float32 differs from float32 on a CPU by 0.1" in capsys.readouterr().out
