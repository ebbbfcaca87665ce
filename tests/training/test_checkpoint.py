"""Restart points: whole, verified, and usable as checkpoints."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
import torch

from bertkit.errors import UserError
from bertkit.training import checkpoint
from bertkit.training.checkpoint import newest_restart_point, restore, save_restart_point
from bertkit.training.config import TrainOptions
from bertkit.training.optimizer import make_optimizer, moments
from tests.training.small import small_model


@pytest.fixture
def trained() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    model = small_model()
    optimizer = make_optimizer(model, TrainOptions(steps=1, learning_rate=1e-3))
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimizer.step()
    return model, optimizer


def save(run: Path, step: int, trained: tuple[torch.nn.Module, torch.optim.Optimizer]) -> Path:
    model = trained[0]
    return save_restart_point(
        run, step, model, moments(*trained), source={"epoch_sizes": [5]}, keep=2
    )


def test_a_restart_point_brings_everything_back(tmp_path: Path, trained) -> None:
    save(tmp_path, 7, trained)
    point = newest_restart_point(tmp_path)
    assert point is not None
    assert (point.step, point.source) == (7, {"epoch_sizes": [5]})
    model = small_model(seed=5)
    optimizer = make_optimizer(model, TrainOptions(steps=1, learning_rate=1e-3))
    restore(point, model, optimizer)
    for name, value in trained[0].state_dict().items():
        assert model.state_dict()[name].equal(value), name
    restored = moments(model, optimizer)
    for name, value in moments(*trained).items():
        assert restored[name].equal(value), name


def test_a_restart_point_with_its_labels_in_another_order_is_refused(
    tmp_path: Path, trained
) -> None:
    save(tmp_path, 7, trained)
    point = newest_restart_point(tmp_path)
    assert point is not None
    model = small_model(seed=5)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.labels.reverse()
    optimizer = make_optimizer(model, TrainOptions(steps=1, learning_rate=1e-3))
    with pytest.raises(UserError, match="in this order; start a run in another --output"):
        restore(point, model, optimizer)
    assert all(model.state_dict()[name].equal(value) for name, value in before.items())


def test_a_damaged_newest_point_falls_back_to_the_one_before(
    tmp_path: Path,
    trained,
    capsys: pytest.CaptureFixture[str],
) -> None:
    save(tmp_path, 1, trained)
    newest = save(tmp_path, 2, trained)
    weights = newest / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    point = newest_restart_point(tmp_path)
    assert point is not None
    assert point.step == 1
    assert "model.safetensors has another checksum" in capsys.readouterr().err


def test_when_all_are_damaged_the_user_is_told(tmp_path: Path, trained) -> None:
    (save(tmp_path, 1, trained) / "optimizer.safetensors").unlink()
    with pytest.raises(UserError, match=r"every restart point .* is damaged; remove that folder"):
        newest_restart_point(tmp_path)


def test_a_full_disk_leaves_the_older_point(
    tmp_path: Path,
    trained,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    save(tmp_path, 1, trained)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(tmp_path))

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(UserError, match="disk is full"):
        save(tmp_path, 2, trained)
    point = newest_restart_point(tmp_path)
    assert point is not None
    assert point.step == 1
    assert [p.name for p in (tmp_path / checkpoint.FOLDER).iterdir()] == ["step-00000001"]


def test_a_changed_environment_is_reported(
    tmp_path: Path,
    trained,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    save(tmp_path, 1, trained)
    point = newest_restart_point(tmp_path)
    assert point is not None
    monkeypatch.setattr(
        checkpoint, "environment", lambda count, device: {**point.environment, "threads": 99}
    )
    restore(point, *trained)
    told = capsys.readouterr().err
    assert "not bit for bit" in told
    assert "99 now" in told
