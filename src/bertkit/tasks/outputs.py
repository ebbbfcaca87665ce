"""Where answers may be written: over nothing that they are made from."""

from __future__ import annotations

from pathlib import Path

from bertkit.errors import UserError
from bertkit.text.documents import check_output_apart, check_output_is_file

ANSWERS = frozenset({".jsonl", ".html", ".tsv", ".npz", ".npy", ".parquet"})
"""Endings of what commands write about texts; in a model's folder such files may be replaced."""
OF_A_RUN = frozenset({"log.jsonl", "predictions.jsonl", "report.html"})
"""But for these, which training wrote."""


def check_answers_apart(
    output: str | None, checkpoint: Path, source: str, option: str = "--output"
) -> None:
    """Refuses an output that is a folder, or would replace its input or a file of its model.

    Args:
        output: a file, or None for standard output.
        checkpoint: the model's folder.
        source: what is answered: a file, "-", or a data set of the hub.
        option: what names the output on the command line.

    Raises:
        UserError: it would.
    """
    if output is None:
        return
    check_output_is_file(output, option)  # told now, and not when all is answered
    check_output_apart(output, [source], option)
    path = Path(output)
    inside = path.is_file() and path.resolve().parent == checkpoint.resolve()
    if inside and (path.suffix.lower() not in ANSWERS or path.name in OF_A_RUN):
        raise UserError(
            f"the output {output} is a file of the model, which would be lost; choose another "
            f"place with {option}"
        )
