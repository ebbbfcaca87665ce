"""A log is read as far as it is whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertkit.errors import UserError
from bertkit.report.log import curve, last, read_records

LOG = (
    '{"kind": "train", "step": 10, "tokens": 100, "loss": 6.5}\n'
    '{"kind": "note", "step": 10, "message": "继续"}\n'
    "[1, 2]\n"
    '{"kind": "train", "step": 20, "tokens": 200, "loss": NaN}\n'
    '{"kind": "dev", "step": 20, "tokens": 200, "loss": 6.1}\n'
    '{"kind": "train", "step": 30, "tokens": 300, "loss": 5.5}\n'
    '{"kind": "train", "step": 30, "tokens": 300, "loss": 5.0}\n'
    '{"kind": "train", "step": 40, "tokens": 400, "lo'
)


def test_a_half_written_last_line_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text(LOG, encoding="utf-8")
    records = read_records(tmp_path)
    assert [record["step"] for record in records] == [10, 10, 20, 20, 30, 30]
    assert records == read_records(tmp_path / "log.jsonl")


def test_curves_leave_out_what_is_not_finite_and_keep_the_last_of_a_step(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text(LOG, encoding="utf-8")
    records = read_records(tmp_path)
    assert curve(records, "train", "loss") == [(10, 6.5), (30, 5.0)]
    assert curve(records, "train", "loss", over="tokens") == [(100, 6.5), (300, 5.0)]
    assert curve(records, "dev", "mlm_loss") == []
    assert last(records, "dev", "loss") == 6.1
    assert last(records, "dev", "accuracy") is None


def test_a_half_written_character_is_passed_over_too(tmp_path: Path) -> None:
    whole = '{"kind": "note", "step": 1, "message": "好"}\n'.encode()
    (tmp_path / "log.jsonl").write_bytes(whole + whole[:-6])
    assert len(read_records(tmp_path)) == 1


def test_a_run_without_a_log_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no training log"):
        read_records(tmp_path)
