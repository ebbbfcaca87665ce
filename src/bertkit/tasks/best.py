"""The best weights of a fine-tuning, and when to give up waiting for better ones.

Which evaluation was the best, and how long ago, follows from the run's log alone, which is cut
back to the restart point when a run continues. So nothing else has to be kept to stop and to end
as an uninterrupted run does.
"""

from __future__ import annotations

import math
import shutil
from pathlib import Path

from torch import nn

from bertkit.files import writing
from bertkit.formats.huggingface import load_checkpoint, save_checkpoint
from bertkit.training.log import read_log

FOLDER = "best"


class BestOnDev:
    """Keeps the weights with the best score on dev in `run/best`; the first of equals.

    Args:
        main: the metric in the log's records that tells which evaluation is better.
        patience: evaluations without a better score after which the run is over; 0: never.
    """

    def __init__(self, run: Path, main: str, patience: int) -> None:
        self._run, self._main, self._patience = run, main, patience
        self._folder = run / FOLDER

    def look(self, model: nn.Module, score: float) -> None:
        """Keeps the weights if none before scored as well. Call it before the score is logged."""
        if all(_number(score) > before for _, before in self._scores()):
            with writing(self._folder) as partial:
                partial.mkdir()
                save_checkpoint(model, partial)

    def is_over(self) -> bool:
        """Whether the last `patience` evaluations in the log were no better than the best."""
        scores = [score for _, score in self._scores()]
        if not self._patience or not scores:
            return False
        return len(scores) - 1 - scores.index(max(scores)) >= self._patience

    def restore(self, model: nn.Module) -> int:
        """Puts the best weights into the model; returns the step that they are from."""
        folder = self._folder if self._folder.is_dir() else self._run  # of a finished run
        model.load_state_dict(load_checkpoint(folder).model.state_dict())
        step, _ = max(self._scores(), key=lambda scored: scored[1])
        return step

    def remove(self) -> None:
        """Clears the folder away, once the weights are where the run's result is."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _scores(self) -> list[tuple[int, float]]:
        """(step, score) of each evaluation so far."""
        return [
            (record["step"], _number(record[self._main]))
            for record in read_log(self._run)
            if record["kind"] == "dev"
        ]


def _number(score: float) -> float:
    """A score that compares: a correlation that does not exist (NaN) is the worst."""
    return -math.inf if math.isnan(score) else score
