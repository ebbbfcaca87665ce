"""A finished run explains itself: a page, a card, and the same page for an evaluation."""

from __future__ import annotations

import pytest

from bertkit.tasks.config import EvaluateConfig, FinetuneConfig
from bertkit.tasks.evaluate import evaluate
from bertkit.tasks.finetune import finetune


@pytest.mark.parametrize("task", ["classification", "tagging"])
def test_a_run_has_a_page_and_a_card(checkpoint, data, tmp_path, task):
    run = tmp_path / "run"
    result = finetune(
        FinetuneConfig(
            str(checkpoint),
            task=task,
            output=str(run),
            data=str(data),
            sequence_length=32,
            quiet=True,
        )
    )
    assert f"report: {run}/report.html" in str(result)
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "Confusion" in page and "are not as labelled" in page
    card = (run / "README.md").read_text(encoding="utf-8")
    assert "fine-tuned from `my-bert`" in card and "| learning rate | `5e-05` |" in card
    assert str(tmp_path) not in card


def test_an_evaluation_writes_its_page_where_it_is_told(checkpoint, data, tmp_path):
    run = tmp_path / "run"
    finetune(
        FinetuneConfig(
            str(checkpoint),
            task="tagging",
            output=str(run),
            data=str(data),
            epochs=0.5,
            sequence_length=32,
            quiet=True,
        )
    )
    report = tmp_path / "pages" / "dev.html"
    result = evaluate(EvaluateConfig(str(run), str(data), report=str(report), quiet=True))
    assert f"report: {report}" in str(result)
    page = report.read_text(encoding="utf-8")
    assert "Evaluation: run" in page and "Confusion of words" in page and "dev.txt" in page
