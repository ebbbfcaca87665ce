"""The choice of a device, and a user's mistakes in it."""

from __future__ import annotations

import pytest
import torch

from bertkit.errors import UserError
from bertkit.training.device import choose_device
from bertkit.training.processes import alone, joined


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def test_auto_takes_a_gpu_where_there_is_one(two_gpus: None) -> None:
    assert choose_device() == torch.device("cuda")
    assert choose_device("cpu") == torch.device("cpu")
    assert choose_device("cuda:1") == torch.device("cuda", 1)
    assert alone("cuda:1").device == torch.device("cuda", 1)


def test_without_a_gpu_auto_takes_the_processor_and_cuda_is_refused(no_gpu: None) -> None:
    assert choose_device() == torch.device("cpu")
    with joined("cpu") as processes:
        assert processes.device == torch.device("cpu")
    with pytest.raises(UserError, match="--device cuda, but"):
        choose_device("cuda")


@pytest.mark.parametrize("name", ["gpu", "cpu:0", "auto:1", "", "cuda0"])
def test_an_unknown_device_is_refused(name: str) -> None:
    with pytest.raises(UserError, match=f"no device '{name}'; give auto, cpu, cuda, or cuda:1"):
        choose_device(name)


@pytest.mark.parametrize("name", ["cuda:2", "cuda:x", "cuda:-1"])
def test_a_gpu_that_is_not_there_is_refused(two_gpus: None, name: str) -> None:
    with pytest.raises(UserError, match="the GPUs here are cuda:0 to cuda:1"):
        choose_device(name)


def test_of_many_processes_each_has_its_own_gpu(
    two_gpus: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert choose_device() == choose_device("cuda") == torch.device("cuda", 1)
    assert choose_device("cpu") == torch.device("cpu")
    with pytest.raises(UserError, match="would put every process on one GPU"):
        choose_device("cuda:0")
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(UserError, match=r"process 2 of this machine has no GPU .* there are 2"):
        choose_device()
