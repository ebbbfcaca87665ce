"""Outputs are whole or absent, and what stood in their place survives every failure."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bertkit.errors import UserError
from bertkit.files import disk_errors, sha256, writing, writing_into


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def no_process() -> int:
    """The number of a process that has ended."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return ended.pid


def test_a_finished_file_is_in_place_and_nothing_else_is(tmp_path: Path) -> None:
    with writing(tmp_path / "deep" / "out.txt") as partial:
        partial.write_text("new")
        assert not (tmp_path / "deep" / "out.txt").exists()
    assert (tmp_path / "deep" / "out.txt").read_text() == "new"
    assert names(tmp_path / "deep") == ["out.txt"]


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_interrupted_write_leaves_the_old_file(
    tmp_path: Path, failure: type[BaseException]
) -> None:
    (tmp_path / "out.txt").write_text("old")
    with pytest.raises(failure), writing(tmp_path / "out.txt") as partial:
        partial.write_text("half")
        raise failure
    assert (tmp_path / "out.txt").read_text() == "old"
    assert names(tmp_path) == ["out.txt"]


def test_an_interrupted_folder_leaves_the_old_folder(tmp_path: Path) -> None:
    target = tmp_path / "run"
    target.mkdir()
    (target / "weights").write_text("old")
    with pytest.raises(RuntimeError), writing(target) as partial:
        partial.mkdir()
        (partial / "weights").write_text("half")
        raise RuntimeError
    assert (target / "weights").read_text() == "old"
    assert names(tmp_path) == ["run"]


def test_a_folder_of_earlier_results_is_replaced_whole(tmp_path: Path) -> None:
    target = tmp_path / "corpus"
    target.mkdir()
    for name in ("manifest.json", "shard-0.bin", "shard-1.bin"):
        (target / name).write_text("old")
    with writing(target) as partial:
        partial.mkdir()
        for name in ("manifest.json", "shard-0.bin"):
            (partial / name).write_text("new")
    assert names(target) == ["manifest.json", "shard-0.bin"]
    assert (target / "shard-0.bin").read_text() == "new"
    assert names(tmp_path) == ["corpus"]


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("kind", ["folder", "file"])
def test_what_a_link_points_to_is_written_and_the_link_stays(
    tmp_path: Path, kind: str, there: bool
) -> None:
    target, link = tmp_path / "disk" / "result", tmp_path / "link"
    target.parent.mkdir()
    if there and kind == "folder":
        target.mkdir()
        (target / "a.txt").write_text("old")
    elif there:
        target.write_text("old")
    link.symlink_to(target)
    with writing(link) as partial:
        assert partial.parent == target.parent  # on the same disk
        if kind == "folder":
            partial.mkdir()
        (partial / "a.txt" if kind == "folder" else partial).write_text("new")
    assert link.is_symlink()
    assert (target / "a.txt" if kind == "folder" else target).read_text() == "new"
    assert names(tmp_path / "disk") == ["result"]


def test_a_folder_with_the_users_own_files_is_not_replaced(tmp_path: Path) -> None:
    target = tmp_path / "home"
    target.mkdir()
    (target / "thesis.tex").write_text("ten years")
    with pytest.raises(UserError, match=r"thesis\.tex.*--output"), writing(target) as partial:
        partial.mkdir()
        (partial / "vocab.txt").write_text("[PAD]")
    assert names(target) == ["thesis.tex"]
    assert names(tmp_path) == ["home"]


def test_a_folder_does_not_take_the_place_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(UserError, match="is a file"), writing(tmp_path / "notes") as partial:
        partial.mkdir()
    assert (tmp_path / "notes").read_text() == "mine"


def test_a_file_does_not_take_the_place_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(UserError, match="is a directory"), writing(tmp_path / "out") as partial:
        partial.write_text("new")
    assert names(tmp_path) == ["out"]


def test_a_move_that_fails_puts_the_old_folder_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "run"
    target.mkdir()
    (target / "weights").write_text("old")
    rename = Path.rename

    def failing(path: Path, to: Path) -> Path:
        if "partial" in path.name:
            raise OSError(errno.EIO, "Input/output error")
        return rename(path, to)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(OSError, match="Input/output"), writing(target) as partial:
        partial.mkdir()
        (partial / "weights").write_text("new")
    assert (target / "weights").read_text() == "old"
    assert names(tmp_path) == ["run"]


def test_what_a_killed_process_left_is_cleared_and_put_back(tmp_path: Path) -> None:
    ended = no_process()
    (tmp_path / f".run.replaced-{ended}").mkdir()
    (tmp_path / f".run.replaced-{ended}" / "weights").write_text("old")
    (tmp_path / f".run.partial-{ended}").mkdir()
    (tmp_path / f".run.partial-{os.getppid()}").mkdir()  # a living process still writes this
    with pytest.raises(ValueError, match="stop"), writing(tmp_path / "run"):
        raise ValueError("stop")
    assert (tmp_path / "run" / "weights").read_text() == "old"
    assert names(tmp_path) == sorted([f".run.partial-{os.getppid()}", "run"])


def test_files_join_a_folder_together_and_leave_the_others(tmp_path: Path) -> None:
    (tmp_path / f".{tmp_path.name}.partial-{no_process()}").mkdir()  # left by a killed process
    (tmp_path / "log").write_text("log")
    (tmp_path / "weights").write_text("old")
    with writing_into(tmp_path) as partial:
        (partial / "config").write_text("new")
        (partial / "weights").write_text("new")
        assert (tmp_path / "weights").read_text() == "old"
    assert names(tmp_path) == ["config", "log", "weights"]
    assert (tmp_path / "weights").read_text() == "new"
    assert (tmp_path / "log").read_text() == "log"


def test_files_that_fail_to_be_written_join_no_folder(tmp_path: Path) -> None:
    (tmp_path / "weights").write_text("old")
    with pytest.raises(UserError, match="disk is full"), writing_into(tmp_path) as partial:
        (partial / "config").write_text("new")
        (partial / "weights").write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")
    assert names(tmp_path) == ["weights"]
    assert (tmp_path / "weights").read_text() == "old"


def test_the_working_directory_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    Path("texts").mkdir()
    with pytest.raises(UserError, match="texts"), writing(".") as partial:
        partial.mkdir()
    assert Path("texts").is_dir()


def test_a_pipe_is_written_and_stays_a_pipe(tmp_path: Path) -> None:
    """As /dev/null does, which is not put at risk here."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE, text=True) as reader:
        with writing(pipe) as partial:
            partial.write_text("through")
        assert reader.communicate(timeout=20)[0] == "through"
    assert pipe.is_fifo()


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (errno.ENOSPC, "the disk is full while writing"),
        (errno.EDQUOT, "the disk is full while writing"),
        (errno.EFBIG, "largest size"),
        (errno.EACCES, "no permission to write"),
        (errno.EROFS, "no permission to write"),
        (errno.ENOTDIR, "cannot write"),
    ],
)
def test_the_disks_errors_are_one_line_and_keep_the_old_file(
    tmp_path: Path, code: int, message: str
) -> None:
    target = tmp_path / "out.txt"
    target.write_text("old")
    with pytest.raises(UserError, match=message) as caught, writing(target) as partial:
        partial.write_text("half")
        raise OSError(code, os.strerror(code))
    assert str(target) in str(caught.value)
    assert target.read_text() == "old"
    assert names(tmp_path) == ["out.txt"]


LIMITED = """
import resource, sys
from bertkit.errors import UserError
from bertkit.files import writing

def plainly(path):
    path.write_bytes(bytes(100_000))

def in_rust(path):
    import numpy
    from safetensors.numpy import save_file
    save_file({"weights": numpy.zeros(100_000)}, path)

resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
try:
    with writing(sys.argv[1]) as partial:
        globals()[sys.argv[2]](partial)
except UserError as error:
    print(error)
"""


@pytest.mark.parametrize("how", ["plainly", "in_rust"])
def test_a_file_that_outgrows_the_limit_leaves_the_old_one(tmp_path: Path, how: str) -> None:
    """A real failure of the operating system in the middle of a write, not a simulated one."""
    target = tmp_path / "out.bin"
    target.write_text("old")
    command = [sys.executable, "-c", LIMITED, str(target), how]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "largest size" in done.stdout
    assert target.read_text() == "old"
    assert names(tmp_path) == ["out.bin"]


@pytest.mark.parametrize(
    "text",
    [
        "I/O error: No space left on device (os error 28)",
        "No space left on device",
        "384000 requested and 8160 written",
    ],
)
def test_a_full_disk_met_by_a_library_is_told_alike(tmp_path: Path, text: str) -> None:
    with pytest.raises(UserError, match="disk is full"), disk_errors(tmp_path / "model"):
        raise RuntimeError(text)


@pytest.mark.parametrize("inside", [writing, writing_into])
def test_the_place_told_is_where_the_file_was_meant_to_be(tmp_path: Path, inside: Any) -> None:
    meant = re.escape(str(tmp_path / "run" / "vocab.txt"))
    with pytest.raises(UserError, match=f"while writing {meant};"), inside(tmp_path / "run") as run:
        run.mkdir(exist_ok=True)
        with writing(run / "vocab.txt"):
            raise OSError(errno.ENOSPC, "No space left on device")


def test_an_error_about_an_input_is_not_told_as_one_about_the_output(tmp_path: Path) -> None:
    with pytest.raises(PermissionError), writing(tmp_path / "out.txt"):
        raise PermissionError(errno.EACCES, "Permission denied", str(tmp_path / "secret.txt"))
    with pytest.raises(FileNotFoundError), writing(tmp_path / "out.txt"):
        Path(tmp_path / "absent").read_text()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_named(tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    with (
        pytest.raises(UserError, match="no permission"),
        writing(tmp_path / "locked" / "out.txt") as partial,
    ):
        partial.write_text("new")


def test_a_place_below_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write"), writing(tmp_path / "file" / "out.txt"):
        pass


def test_sha256_is_that_of_the_bytes(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(bytes(range(256)) * 5000)
    expected = hashlib.sha256(bytes(range(256)) * 5000).hexdigest()
    assert sha256(tmp_path / "data") == expected
