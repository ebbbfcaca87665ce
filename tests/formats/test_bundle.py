"""Bundles of tensors: every type and shape there and back, several shards, wrong ones refused."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from bertkit.errors import UserError
from bertkit.formats.bundle import DTYPES, Bundle, write_bundle
from bertkit.formats.crc32c import masked_crc32c
from bertkit.formats.kinds import find_index
from bertkit.formats.table import read_table, write_table
from bertkit.formats.wire import bytes_field, fixed32_field, number_field, read_fields

DATA = "model.ckpt.data-00000-of-00001"


def tensors() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    made = {
        f"of/{str(dtype).removeprefix('torch.')}": (
            torch.randn(3, 5, generator=generator).mul(100).to(dtype)
        )
        for dtype in DTYPES.values()
    }
    return made | {
        "global_step": torch.tensor(7),
        "empty": torch.zeros(0, 4),
        "transposed": torch.randn(4, 6, generator=generator).T,
        "large": torch.randn(300, 301, generator=generator),
        "名前": torch.ones(1, 1, 1, 2),
    }


@pytest.fixture
def written(tmp_path: Path) -> Path:
    write_bundle(tmp_path / "model.ckpt", tensors())
    return tmp_path / "model.ckpt.index"


def test_every_type_and_shape_comes_back_bit_for_bit(written: Path) -> None:
    bundle, expected = Bundle(written), tensors()
    assert list(bundle.entries) == sorted(expected, key=str.encode)
    for name, tensor in expected.items():
        read = bundle.read(name)
        assert read.dtype == tensor.dtype and read.shape == tensor.shape
        assert torch.equal(read, tensor)


def test_what_is_read_can_be_changed(written: Path) -> None:
    bundle = Bundle(written)
    bundle.read("large").zero_()
    assert torch.equal(bundle.read("large"), tensors()["large"])


@pytest.mark.parametrize("folder", ["bert-tiny-random-tf", "bleurt-tiny-tf"])
def test_tensorflows_own_files_come_out_as_they_went_in(
    folder: str, shared_data: Path, tmp_path: Path
) -> None:
    """Byte for byte, but for TensorFlow's packing of the index in the newer of the two."""
    index = find_index(shared_data / "ckpt" / folder)
    bundle = Bundle(index)
    write_bundle(tmp_path / "model.ckpt", {name: bundle.read(name) for name in bundle.entries})
    assert (tmp_path / DATA).read_bytes() == bundle.data_file(0).read_bytes()
    mine = (tmp_path / "model.ckpt.index").read_bytes()
    if folder == "bert-tiny-random-tf":
        assert mine == index.read_bytes()
    assert read_table(mine) == read_table(index.read_bytes())


def rewrite(index: Path, change: Any) -> None:
    """Changes an index's entries: a function from the dictionary to another."""
    table = change(read_table(index.read_bytes()))
    index.write_bytes(write_table(sorted(table.items())))


def entry_proto(**changes: Any) -> bytes:
    """BundleEntryProto of a float32 tensor [2], or one that is changed."""
    values = {"dtype": 1, "shape": [2], "shard": 0, "offset": 0, "size": 8, "crc": 0} | changes
    dimensions = b"".join(
        bytes_field(2, number_field(1, size % (1 << 64))) for size in values["shape"]
    )
    return (
        number_field(1, values["dtype"])
        + bytes_field(2, dimensions)
        + number_field(3, values["shard"])
        + number_field(4, values["offset"] % (1 << 64))
        + number_field(5, values["size"] % (1 << 64))
        + fixed32_field(6, values["crc"])
        + values.get("more", b"")
    )


HEADER = number_field(1, 1) + bytes_field(3, number_field(1, 1))


def make_index(folder: Path, entries: dict[str, bytes], header: bytes | None = HEADER) -> Path:
    """An index of any entries beside eight bytes of data."""
    table = {name.encode("utf-8", "surrogateescape"): value for name, value in entries.items()}
    if header is not None:
        table[b""] = header
    (folder / "model.ckpt.index").write_bytes(write_table(sorted(table.items())))
    (folder / DATA).write_bytes(struct.pack("<2f", 1, 2))
    return folder / "model.ckpt.index"


def refused(index: Path, says: str) -> None:
    with pytest.raises(UserError, match=says) as error:
        Bundle(index)
    assert "\n" not in str(error.value)
    assert str(index.parent) in str(error.value)


def test_several_shards_are_read(tmp_path: Path) -> None:
    data = [struct.pack("<2f", 1, 2), struct.pack("<2f", 3, 4)]
    sums = [masked_crc32c(one) for one in data]
    entries = {
        "a": entry_proto(shard=1, crc=sums[1]),
        "b": entry_proto(shard=0, crc=sums[0]),
    }
    index = make_index(tmp_path, entries, number_field(1, 2))
    for shard, one in enumerate(data):
        (tmp_path / f"model.ckpt.data-{shard:05d}-of-00002").write_bytes(one)
    bundle = Bundle(index)
    assert bundle.read("a").tolist() == [3, 4] and bundle.read("b").tolist() == [1, 2]
    (tmp_path / "model.ckpt.data-00001-of-00002").unlink()
    refused(index, r"needs model\.ckpt\.data-00001-of-00002, which is not beside it")


def test_other_types_and_slices_are_named_and_only_refused_when_read(tmp_path: Path) -> None:
    entries = {
        "a/graph": entry_proto(dtype=7, shape=[], offset=0, size=4),
        "b/flag": entry_proto(dtype=10, shape=[4], offset=4, size=4),
        "c/part": entry_proto(shape=[4], size=0, more=bytes_field(7, b"")),
        "\0slice": b"\xff",
    }
    bundle = Bundle(make_index(tmp_path, entries))
    assert list(bundle.entries) == ["a/graph", "b/flag", "c/part"]
    assert [entry.type_name for entry in bundle.entries.values()] == ["string", "bool", "float32"]
    assert not any(entry.readable for entry in bundle.entries.values())
    for name, says in (("a/graph", "of type string"), ("c/part", "cut into slices")):
        with pytest.raises(UserError, match=f"{name} in .* is {says}"):
            bundle.read(name)


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        ({"a": entry_proto(size=4)}, r"a of shape \[2\] cannot have 4 bytes"),
        ({"a": entry_proto(shape=[3])}, r"a of shape \[3\] cannot have 8 bytes"),
        ({"a": entry_proto(shape=[-2, -1])}, "a has an impossible shape"),
        ({"a": entry_proto(offset=-1)}, "a has an impossible shape or place"),
        ({"a": entry_proto(size=-8)}, "a has an impossible shape or place"),
        ({"a": entry_proto(shard=1)}, "a has an impossible shape or place"),
        ({"a": entry_proto(shape=[1] * 40 + [2])}, "a has an impossible shape"),
        ({"a": entry_proto(shape=[1 << 40, 1 << 40])}, "cannot have 8 bytes"),
        ({"a": entry_proto(shape=[1 << 40], size=1 << 42)}, "has 8 bytes and its index needs 4,"),
        ({"a": entry_proto(offset=4)}, "has 8 bytes and its index needs 12"),
        ({"a": entry_proto(), "b": entry_proto()}, "b shares its bytes with another tensor"),
        ({"a": entry_proto(), "b": entry_proto(shape=[1], size=4)}, "shares its bytes"),
        ({"a": b"\x08"}, "a number ends too early"),
        ({"a\nb": entry_proto()}, r"impossible name 'a\\nb'"),
    ],
)
def test_an_index_that_contradicts_itself_is_refused(
    entries: dict[str, bytes], says: str, tmp_path: Path
) -> None:
    refused(make_index(tmp_path, entries), says)


@pytest.mark.parametrize(
    ("header", "says"),
    [
        (None, "has no header"),
        (b"", "tells of 0 data files"),
        (number_field(1, 1 << 30), "tells of 1073741824 data files"),
        (number_field(1, 1) + number_field(2, 1), "highest byte first"),
        (b"\xff", "ends too early"),
    ],
)
def test_a_wrong_header_is_refused(header: bytes | None, says: str, tmp_path: Path) -> None:
    refused(make_index(tmp_path, {"a": entry_proto()}, header), says)


def test_a_changed_tensor_is_noticed(written: Path) -> None:
    file = written.with_name(DATA)
    data = bytearray(file.read_bytes())
    entry = Bundle(written).entries["large"]
    data[entry.offset + 1000] ^= 1
    file.write_bytes(data)
    bundle = Bundle(written)
    with pytest.raises(UserError, match=f"large in .*{DATA} does not agree with its checksum"):
        bundle.read("large")
    assert torch.equal(bundle.read("transposed"), tensors()["transposed"])


def test_a_data_file_that_is_cut_off_is_refused(written: Path) -> None:
    file = written.with_name(DATA)
    file.write_bytes(file.read_bytes()[:-1])
    refused(written, "is cut off or belongs to another index")
    file.unlink()
    refused(written, f"needs {DATA}, which is not beside it")


@pytest.mark.parametrize("share", [0.0, 0.5, 0.999])
def test_an_index_that_is_cut_off_is_refused(written: Path, share: float) -> None:
    whole = written.read_bytes()
    written.write_bytes(whole[: int(len(whole) * share)])
    refused(written, "is not a whole TensorFlow index: it does not end as a table does")


def test_a_data_file_that_shrinks_while_it_is_open_is_noticed(written: Path) -> None:
    bundle = Bundle(written)
    written.with_name(DATA).write_bytes(b"")
    with pytest.raises(UserError, match="does not agree with its checksum"):
        bundle.read("large")


def test_types_without_a_number_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"'flag' of type torch\.bool cannot be written"):
        write_bundle(tmp_path / "model.ckpt", {"flag": torch.ones(2, dtype=torch.bool)})


def test_the_entries_are_those_of_the_format(written: Path) -> None:
    table = read_table(written.read_bytes())
    assert table[b""] == HEADER
    data = np.asarray(tensors()["global_step"]).tobytes()
    fields = dict(read_fields(table[b"global_step"]))
    assert fields[1] == 9 and fields[2] == b"" and fields[5] == 8
    assert fields[6] == masked_crc32c(data)


def test_what_a_path_means(written: Path, tmp_path: Path) -> None:
    for path in (tmp_path, written, tmp_path / "model.ckpt", tmp_path / DATA):
        assert find_index(path) == written
    saved = tmp_path / "saved"
    (saved / "variables").mkdir(parents=True)
    write_bundle(saved / "variables" / "variables", tensors())
    assert find_index(saved) == saved / "variables" / "variables.index"
    assert find_index(saved / "variables") == saved / "variables" / "variables.index"
    write_bundle(tmp_path / "model.ckpt-9", tensors())
    with pytest.raises(UserError, match=r"several checkpoints, as model\.ckpt-9\.index and "):
        find_index(tmp_path)
    assert find_index(tmp_path / "model.ckpt-9") == tmp_path / "model.ckpt-9.index"


@pytest.mark.parametrize(
    "named", ["model.ckpt-9", "/gone/machine/model.ckpt-9", "..\\\\x\\\\model.ckpt-9"]
)
def test_the_newest_checkpoint_is_named_in_a_file(
    named: str, written: Path, tmp_path: Path
) -> None:
    write_bundle(tmp_path / "model.ckpt-9", tensors())
    text = f'model_checkpoint_path: "{named}"\nall_model_checkpoint_paths: "model.ckpt"\n'
    (tmp_path / "checkpoint").write_text(text)
    assert find_index(tmp_path) == tmp_path / "model.ckpt-9.index"


@pytest.mark.parametrize("named", ["../outside/model.ckpt", "", '"', "..", "x\0y", "\x1b[31m"])
def test_no_name_leads_out_of_the_directory(named: str, tmp_path: Path) -> None:
    for folder in ("outside", "inside"):
        (tmp_path / folder).mkdir()
    write_bundle(tmp_path / "outside" / "model.ckpt", tensors())
    (tmp_path / "inside" / "checkpoint").write_text(f'model_checkpoint_path: "{named}"\n')
    with pytest.raises(UserError, match=r"no \.index file in"):
        find_index(tmp_path / "inside")


@pytest.mark.parametrize("path", ["nowhere", "nowhere/model.ckpt", "nowhere/model.ckpt.index"])
def test_a_path_that_is_not_there_is_refused(path: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"no checkpoint at .*{path}"):
        find_index(tmp_path / path)
    with pytest.raises(UserError, match="no file"):
        Bundle(tmp_path / path)
