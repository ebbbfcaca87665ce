"""The report of a run shows what its log holds."""

from __future__ import annotations

import json
from pathlib import Path

from bertkit.report.pretraining import write_pretraining_report


def write_log(run: Path, *keys: str) -> None:
    with (run / "log.jsonl").open("w", encoding="utf-8") as file:
        for step in range(10, 110, 10):
            record = {"kind": "train", "step": step, "seconds": step / 2, "tokens": step * 512}
            file.write(json.dumps({**record, **{key: 1 / step for key in keys}}) + "\n")
            if step % 50 == 0:
                dev = {key: 0.25 for key in keys if key.startswith(("loss", "mlm", "nsp"))}
                file.write(json.dumps({**record, "kind": "dev", **dev}) + "\n")
        file.write('{"kind": "note", "step": 60, "message": "went on <here>"}\n{"kind": "tr')


def test_a_report_has_curves_numbers_notes_and_the_configuration(tmp_path: Path) -> None:
    write_log(tmp_path, "loss", "mlm_loss", "mlm_accuracy", "nsp_loss", "nsp_accuracy")
    (tmp_path / "pretrain.yaml").write_text("model: <tiny>\n", encoding="utf-8")
    path = write_pretraining_report(tmp_path)
    assert path == tmp_path / "report.html"
    page = path.read_text(encoding="utf-8")
    assert page.count("<figure>") == 5
    for text in (
        "51\u2009200",  # tokens
        "50 s",
        "held-out 25.0 %",
        "0.250 (held-out)",
        "Next sentence answered right",
        "went on &lt;here&gt;",
        "model: &lt;tiny&gt;",
    ):
        assert text in page


def test_a_run_without_next_sentences_shows_no_empty_chart(tmp_path: Path) -> None:
    write_log(tmp_path, "loss", "mlm_loss", "learning_rate", "tokens_per_second")
    page = write_pretraining_report(tmp_path).read_text(encoding="utf-8")
    assert page.count("<figure>") == 3  # the sum of one loss is that loss
    assert "Next sentence" not in page
    assert "Configuration" not in page


def test_a_run_that_has_just_begun_still_gives_a_page(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text("", encoding="utf-8")
    page = write_pretraining_report(tmp_path).read_text(encoding="utf-8")
    assert "Pre-training: " in page and "<figure>" not in page
