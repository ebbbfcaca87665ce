"""`bertkit bench`: every side takes its turns, and the numbers fit together."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial

import pytest

from bertkit.errors import UserError
from bertkit.speed import bench as module
from bertkit.speed import peer, steps
from bertkit.speed.bench import bench, in_turns
from bertkit.speed.config import BenchConfig
from bertkit.speed.roofline import measure_roofline

SMALL = BenchConfig(
    size=["1x32x2"],
    sequence_length=24,
    batch_size=4,
    seconds=0.01,
    rounds=2,
    precision="fp32",
    device="cpu",
    quiet=True,
)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small vocabulary, and a machine that is measured in no time."""
    monkeypatch.setattr(steps, "VOCABULARY", 300)
    quick = partial(measure_roofline, hidden=(64,), array_bytes=1 << 16)
    monkeypatch.setattr(module, "measure_roofline", quick)
    monkeypatch.setattr(module, "ROOFLINE_SECONDS", 0.001)
    monkeypatch.setattr(module, "ANSWERED", 6)


@pytest.mark.usefixtures("small")
def test_bertkit_and_transformers_take_turns_at_four_kinds_of_work() -> None:
    pytest.importorskip("transformers")
    result = bench(SMALL)
    assert [line.work for line in result.lines] == [
        *("pre-training step", "fine-tuning step", "answers", "one text of 24 tokens")
    ]
    for line in result.lines:
        assert line.rate > 0 and line.seconds > 0 and line.share > 0
        assert line.peer_rate is not None and line.peer_share is not None
        assert line.ratio is not None and line.ratio_range is not None
        assert line.ratio_range[0] <= line.ratio <= line.ratio_range[1]
        assert line.share / line.peer_share == pytest.approx(line.rate / line.peer_rate)
    assert set(result.peaks) == {"float32", "bfloat16"}
    assert json.loads(json.dumps(asdict(result)))["precision"] == "float32"
    shown = str(result)
    for word in ("GFLOP/s", "transformers", "ratio", "tokens/s", "texts/s", "ms", "1x32x2"):
        assert word in shown


@pytest.mark.usefixtures("small")
def test_without_the_peer_bertkit_is_measured_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer, "installed", lambda: False)
    result = bench(SMALL)
    assert result.peer is None
    assert all(line.peer_rate is None and line.ratio is None for line in result.lines)
    assert "transformers" not in str(result)
    monkeypatch.setattr(peer, "installed", lambda: pytest.fail("nobody asked for it"))
    assert bench(replace(SMALL, peer=False, device="auto")).peer is None


def test_sides_take_turns_after_one_go_each() -> None:
    called: list[str] = []

    def side(name: str) -> Callable[[], None]:
        return lambda: called.append(name)

    times = in_turns({"a": side("a"), "b": side("b")}, rounds=3, seconds=1e-9)
    assert called == ["a", "b"] * 4
    assert {name: len(found) for name, found in times.items()} == {"a": 3, "b": 3}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": ["giant"]}, "no model size 'giant'"),
        ({"size": []}, "names no model size"),
        ({"sequence_length": 2}, "--sequence-length is 2; give at least 4"),
        ({"sequence_length": 513}, "have 512 positions"),
        ({"batch_size": 0}, "--batch-size is 0"),
        ({"rounds": 0}, "--rounds is 0"),
        ({"threads": 0}, "--threads is 0"),
        ({"seconds": 0.0}, "--seconds is 0; give more than 0"),
    ],
)
def test_what_cannot_be_measured_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        bench(replace(SMALL, **changes))  # type: ignore[arg-type]
