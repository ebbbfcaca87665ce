"""A configuration comes to the reference release's steps, and to the rate of what is trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bertkit.tasks.config import FinetuneConfig
from bertkit.tasks.options import peak_rate, train_options, tuned_with


def config(**changes: Any) -> FinetuneConfig:
    return FinetuneConfig("x", task="tagging", output="y", **changes)


def test_steps_and_warm_up_are_the_reference_releases() -> None:
    options = train_options(config(epochs=3, batch_size=32), 67349)
    assert options.steps == int(67349 / 32 * 3)
    assert options.warmup_steps == int(options.steps * 0.1)
    assert train_options(config(epochs=1, batch_size=32), 5).steps == 1


def test_steps_by_tokens_are_as_many_as_the_tokens_fill() -> None:
    assert train_options(config(epochs=3, batch_tokens=1000), 100, 4567).steps == 13


def test_the_best_weights_are_looked_for_after_each_epoch_unless_told_otherwise() -> None:
    assert train_options(config(epochs=4, batch_size=10), 100).evaluate_steps == 0
    for changes in ({"keep_best": True}, {"patience": 2}):
        assert train_options(config(epochs=4, batch_size=10, **changes), 100).evaluate_steps == 10
    told = config(epochs=4, batch_size=10, keep_best=True, evaluate_steps=7)
    assert train_options(told, 100).evaluate_steps == 7


def test_the_learning_rate_is_that_of_what_is_trained() -> None:
    assert peak_rate(config()) == 5e-5
    assert peak_rate(config(features="last")) == 1e-3
    assert peak_rate(config(features="last", learning_rate=0.1)) == 0.1


def test_a_folder_without_a_fine_tunings_configuration_was_not_tuned(tmp_path: Path) -> None:
    assert tuned_with(tmp_path) is None
