"""Tables of plain text, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence


def text_table(rows: Sequence[Sequence[str]], names: int = 0) -> list[str]:
    """Lines with the cells of each column under each other, to the right.

    Args:
        rows: the header is the first; all have as many cells.
        names: how many of the first columns are names, which begin at the left.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            f"{cell:{'<' if place < names else '>'}{width}}"
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
