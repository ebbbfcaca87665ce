"""What `finetuning.py` compares on: of each task the data, the metrics and the recipe.

Both sides work by it. Shared by all tasks: 5e-5, batch 32, linear decay after 10 % warm-up.
"""

from __future__ import annotations

from dataclasses import dataclass

BATCH = 32
RATE = 5e-5
WARMUP = 0.1

WINDOW_STEP = 128
"""Question answering: tokens from the start of a window to the start of the next."""
QUESTION_TOKENS = 64
ANSWER_TOKENS = 30
N_BEST = 20


@dataclass(frozen=True)
class Setup:
    """A task of the benchmark.

    Attributes:
        folder: of its files, within DATA.
        metrics: from 0 to 1, on dev.
        epochs: passes over the training examples.
        length: tokens of the longest sequence.
        rows: the first rows of the training file are trained on, for time's sake; None: all.
        articles: question answering: how many of the first articles of SQuAD's dev file are
            trained on, and of the last ones scored on, for its training file is not at hand.
        judge_seeds: whole runs of the judge where the user does not say; None: as many as ours.
    """

    folder: str
    metrics: tuple[str, ...]
    epochs: int = 3
    length: int = 128
    rows: int | None = None
    articles: tuple[int, int] | None = None
    judge_seeds: int | None = None


TASKS = {
    "mrpc": Setup("glue/MRPC", ("accuracy", "f1")),
    "rte": Setup("glue/RTE", ("accuracy",)),
    "cola": Setup("glue/CoLA", ("matthews",)),
    "sts-b": Setup("glue/STS-B", ("pearson", "spearman")),
    "sst-2": Setup("glue/SST-2", ("accuracy",), rows=8000),
    "conll-2003": Setup("conll2003", ("f1",)),
    "squad-1.1": Setup(
        "squad", ("exact", "f1"), epochs=2, length=384, articles=(38, 10), judge_seeds=1
    ),
}
SQUAD_FILE = "dev-v1.1.json"
