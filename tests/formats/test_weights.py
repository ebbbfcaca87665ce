"""Weight files read tensor by tensor: as the library reads them, and damaged ones refused."""

from __future__ import annotations

import json
import random
import time
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from bertkit.errors import UserError
from bertkit.formats.huggingface import load_checkpoint, save_checkpoint
from bertkit.formats.safetensors import open_safetensors
from bertkit.formats.weights import open_weights
from bertkit.model.bert import PretrainingModel
from bertkit.model.config import ModelConfig

CONFIG = ModelConfig(20, 8, 1, 2, 16, max_positions=8)
WEIGHTS = "model.safetensors"
MUTATIONS = 2500


@pytest.fixture
def small(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    save_checkpoint(PretrainingModel(CONFIG), tmp_path)
    return tmp_path


def refused(directory: Path, says: str) -> None:
    with pytest.raises(UserError, match=says) as error:
        load_checkpoint(directory)
    assert "\n" not in str(error.value) and str(directory) in str(error.value)


def test_tensors_are_those_that_the_library_reads(tmp_path: Path) -> None:
    kinds = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32]
    kinds += [torch.int16, torch.int8, torch.uint8, torch.bool]
    tensors = {str(kind): (torch.randn(3, 5) * 9).to(kind) for kind in kinds}
    tensors |= {"scalar": torch.tensor(4.0), "empty": torch.zeros(0, 3)}
    save_file(tensors, tmp_path / WEIGHTS)
    found = open_safetensors(tmp_path / WEIGHTS)
    expected = load_file(tmp_path / WEIGHTS)
    assert found.keys() == expected.keys()
    for name, tensor in found.items():
        read = tensor.read()
        assert tensor.shape == tuple(read.shape) and read.dtype == expected[name].dtype
        assert torch.equal(read, expected[name])


def test_a_type_that_no_weight_has_is_refused_by_name(tmp_path: Path) -> None:
    save_file({"odd": torch.zeros(2, dtype=torch.complex64)}, tmp_path / WEIGHTS)
    with pytest.raises(UserError, match=r"odd in .* is of type C64, which cannot be read"):
        open_safetensors(tmp_path / WEIGHTS)["odd"].read()


def test_a_file_that_shrinks_while_it_is_read_is_an_error(small: Path) -> None:
    found = open_safetensors(small / WEIGHTS)
    (small / WEIGHTS).write_bytes((small / WEIGHTS).read_bytes()[:2000])
    with pytest.raises(UserError, match="broken or truncated"):
        for tensor in found.values():
            tensor.read()


def test_a_tensor_in_two_shards_is_refused(small: Path) -> None:
    tensors = load_file(small / WEIGHTS)
    (small / WEIGHTS).unlink()
    names = sorted(tensors)
    for number, some in enumerate((names, names[:1]), 1):
        save_file({n: tensors[n] for n in some}, small / f"model-{number}.safetensors")
    index = {"weight_map": {n: f"model-{1 + (n == names[0])}.safetensors" for n in names}}
    (small / f"{WEIGHTS}.index.json").write_text(json.dumps(index))
    refused(small, rf"holds {names[0]}, and so does another shard")


def test_a_name_under_its_old_form_too_is_refused(small: Path) -> None:
    tensors = load_file(small / WEIGHTS)
    tensors["bert.embeddings.LayerNorm.gamma"] = torch.ones(8)
    save_file(tensors, small / WEIGHTS)
    refused(small, "holds bert.embeddings.LayerNorm.weight twice")


def test_a_key_that_stands_twice_in_a_configuration_is_refused(small: Path) -> None:
    text = (small / "config.json").read_text()
    (small / "config.json").write_text(text.replace("{", '{"vocab_size": 20,', 1))
    refused(small, "'vocab_size' stands twice")


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "1" * 10_000, '"\\ud800"', ""])
def test_a_configuration_that_would_unfold_is_refused(text: str, small: Path) -> None:
    (small / "config.json").write_text(text)
    refused(small, r"config\.json is n(ot|ested)")


def test_a_huge_configuration_is_not_read(small: Path) -> None:
    with (small / "config.json").open("wb") as file:
        file.truncate(1 << 40)  # holes: no bytes on the disk
    refused(small, "has more than 67,108,864 bytes")


def test_links_of_the_user_s_own_directory_are_followed(small: Path, tmp_path: Path) -> None:
    blobs, cache = tmp_path / "blobs", tmp_path / "snapshot"
    blobs.mkdir()
    cache.mkdir()
    for number, name in enumerate(("config.json", WEIGHTS)):
        (small / name).rename(blobs / str(number))
        (cache / name).symlink_to(blobs / str(number))
    assert load_checkpoint(cache).missing == []


@pytest.mark.parametrize("name", ["../other.safetensors", "/etc/passwd", "a/b.safetensors", "a\nb"])
def test_names_that_lead_out_of_the_directory_are_refused(name: str, small: Path) -> None:
    (small / WEIGHTS).rename(small / "other.safetensors")
    (small / f"{WEIGHTS}.index.json").write_text(json.dumps({"weight_map": {"a": name}}))
    refused(small, "a file outside its directory")


def test_a_packed_pickle_is_not_unpacked(small: Path) -> None:
    tensors = load_file(small / WEIGHTS)
    (small / WEIGHTS).unlink()
    torch.save(tensors, small / "plain.bin")
    with (
        zipfile.ZipFile(small / "plain.bin") as plain,
        zipfile.ZipFile(small / "pytorch_model.bin", "w", zipfile.ZIP_DEFLATED) as packed,
    ):
        for record in plain.infolist():
            packed.writestr(record.filename, plain.read(record))
    refused(small, "has packed records")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite_are_refused_by_name(value: float, small: Path) -> None:
    tensors = load_file(small / WEIGHTS)
    tensors["bert.encoder.layer.0.output.dense.weight"][3, 4] = value
    save_file(tensors, small / WEIGHTS)
    refused(small, r"layer\.0\.output\.dense\.weight \[8, 16\] in .* holds 1 numbers that are not")


def test_large_numbers_whose_sum_is_infinite_are_finite(small: Path) -> None:
    tensors = load_file(small / WEIGHTS)
    tensors["bert.pooler.dense.weight"].fill_(3e38)
    save_file(tensors, small / WEIGHTS)
    assert load_checkpoint(small).missing == []


def mutate(data: bytes, draw: random.Random) -> bytes:
    body = bytearray(data)
    what = draw.randrange(5)
    if what == 0:
        return bytes(body[: draw.randrange(len(body))])
    if what == 1:
        place = draw.randrange(len(body))
        return bytes(body[:place] + draw.randbytes(draw.randint(1, 40)) + body[place:])
    if what == 2:  # digits of sizes, offsets and ids
        digits = [place for place, byte in enumerate(body[:4000]) if 48 <= byte <= 57]
        for _ in range(draw.randint(1, 3)):
            body[draw.choice(digits)] = 48 + draw.randrange(10)
        return bytes(body)
    near = len(body) if draw.random() < 0.5 else min(len(body), 600)
    for _ in range(draw.randint(1, 8)):
        body[draw.randrange(near)] = draw.randrange(256)
    return bytes(body)


@pytest.mark.slow
def test_damaged_files_are_read_or_refused_in_one_line(small: Path) -> None:
    torch.save(load_file(small / WEIGHTS), small / "pytorch_model.bin")
    names = (WEIGHTS, WEIGHTS, "config.json", "pytorch_model.bin")
    files = {name: (small / name).read_bytes() for name in set(names)}
    draw, refusals, slowest = random.Random(0), 0, 0.0
    tracemalloc.start()
    try:
        for number in range(MUTATIONS):
            name = draw.choice(names)
            (small / name).write_bytes(mutate(files[name], draw))
            hidden = small / ("hidden" if name == "pytorch_model.bin" else "nothing")
            if hidden.name == "hidden":
                (small / WEIGHTS).rename(hidden)
            started = time.process_time()
            try:
                load_checkpoint(small)
            except UserError as error:
                refusals += 1
                assert "\n" not in str(error) and len(str(error)) < 2000, number
            slowest = max(slowest, time.process_time() - started)
            if hidden.name == "hidden":
                hidden.rename(small / WEIGHTS)
            (small / name).write_bytes(files[name])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    print(
        f"{MUTATIONS} mutations, {refusals} refused, slowest {slowest:.2f} s, peak {peak:,} bytes"
    )
    assert slowest < 5 and peak < 1 << 26
    assert MUTATIONS / 4 < refusals < MUTATIONS


def test_reading_takes_one_tensor_at_a_time(small: Path) -> None:
    """Nothing is in memory before it is asked for."""
    _, tensors = open_weights(small)
    one: Any = tensors["bert.pooler.dense.bias"]
    assert one.read().data_ptr() != one.read().data_ptr()
