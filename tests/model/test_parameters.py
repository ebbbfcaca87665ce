"""Parameters counted on paper are those of the modules."""

from __future__ import annotations

from typing import Any

import pytest

from bertkit.model.bert import LABELLED, MODELS
from bertkit.model.config import ModelConfig, model_config
from bertkit.model.parameters import parameter_table


def test_base_and_large_are_the_papers_110_and_340_million() -> None:
    assert parameter_table(model_config("base", 30522)).encoder_total == 109_482_240
    assert parameter_table(model_config("large", 30522)).encoder_total == 335_141_888


@pytest.mark.parametrize("name", ["tiny", "mini", "3x48x4"])
@pytest.mark.parametrize("head", MODELS)
def test_the_table_counts_what_the_modules_hold(name: str, head: str) -> None:
    config = model_config(name, 777, max_positions=100, segment_types=3)
    labels = ["a", "b", "c"] if head in LABELLED else []
    options: dict[str, Any] = {}
    if head == "bilstm-tagging":
        options = {"features": "weighted-all" if name == "tiny" else "0,-1", "lstm_size": 24}
    model = MODELS[head](config, labels, **options) if labels else MODELS[head](config)
    table = parameter_table(config, head, len(labels), options)
    held = sum(parameter.numel() for parameter in model.parameters())
    encoder = sum(parameter.numel() for parameter in model.encoder.parameters())  # type: ignore
    assert (table.total, table.encoder_total) == (held, encoder)


def test_every_row_says_how_its_count_comes_about() -> None:
    config = ModelConfig(
        vocab_size=1000, hidden_size=24, layers=3, heads=2, intermediate_size=80, max_positions=64
    )
    options = {"features": "weighted-all", "lstm_size": 6}
    table = parameter_table(config, "classification", 5)
    heads = [*table.heads, *parameter_table(config, "bilstm-tagging", 5, options).heads]
    for row in [*table.encoder, *heads]:
        worked = row.arithmetic.replace("×", "*").replace("·", "*").replace("²", "**2")
        assert eval(worked) == row.count, row


def test_the_text_of_the_table_shows_rows_and_totals() -> None:
    text = str(parameter_table(model_config("base", 30522)))
    assert "12 × (4·768² + 4·768)" in text
    assert "109,482,240" in text and "110,106,428" in text
