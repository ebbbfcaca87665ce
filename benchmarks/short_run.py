"""A short pre-training that leaves nothing behind, for benchmarks that read its log."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from bertkit.pretraining.config import PretrainConfig
from bertkit.pretraining.run import pretrain
from bertkit.report.log import read_records


def train_records(corpus: str, **options: Any) -> list[dict[str, Any]]:
    """The records of kind "train" in the log of a run of one phase; `options` of PretrainConfig."""
    with tempfile.TemporaryDirectory() as scratch:
        run = Path(scratch, "run")
        pretrain(
            PretrainConfig(
                corpus=corpus,
                output=str(run),
                phases=["none"],
                verify=False,
                quiet=True,
                **options,
            )
        )
        return [one for one in read_records(run) if one["kind"] == "train"]
