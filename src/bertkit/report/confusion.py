"""What was taken for what: a matrix of labels and a cloud of scores, as inline SVG.

A row of the matrix is a right label, a column an answer; cells are shaded by their share of the
row, green on the diagonal and red beside it. Labels beyond `MOST_LABELS` stand together as
"others": the ones kept are those with the most errors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from bertkit.report.chart import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, ticks
from bertkit.report.page import Html, count, escape, join, tag

MOST_LABELS = 16
OTHERS = "others"
CELL = 40
MOST_CHARACTERS = 16
MOST_DOTS = 2000
"""Of more points a cloud shows so many, evenly chosen."""


def matrix_figure(counts: Counter[tuple[str, str]], labels: Sequence[str] = ()) -> Html:
    """A confusion matrix; nothing when there is nothing to count.

    Args:
        counts: (right label, answer) -> how often.
        labels: in the order wanted; those that are only in `counts` come after them.
    """
    there = {label for pair in counts for label in pair}
    order = [label for label in labels if label in there]
    order += sorted(there.difference(order))
    if not order:
        return Html("")
    counts, order = _gathered(counts, order)
    rows = {label: sum(counts[label, answer] for answer in order) for label in order}
    margin = 16 + max(_width(_short(label)) for label in order)
    size = margin + CELL * len(order) + 30  # the last name leans over the edge
    pieces: list[str] = []
    for number, label in enumerate(order):
        middle = margin + CELL * number + CELL / 2
        name = join(tag("title", label), _short(label))
        pieces += [
            f'<text x="{margin - 8}" y="{middle + 4:.0f}" text-anchor="end">{name}</text>',
            f'<text transform="translate({middle + 4:.0f} {margin - 8}) rotate(-45)">{name}</text>',
        ]
    for row, label in enumerate(order):
        for column, answer in enumerate(order):
            number = counts[label, answer]
            share = number / rows[label] if rows[label] else 0.0
            colour = "var(--good)" if row == column else "var(--bad)"
            x, y = margin + CELL * column, margin + CELL * row
            pieces.append(
                f'<rect x="{x}" y="{y}" width="{CELL - 2}" height="{CELL - 2}" rx="3" '
                f'fill="{colour}" fill-opacity="{0.04 + 0.5 * share:.2f}">'
                f"{tag('title', f'{label} as {answer}: {count(number)}')}</rect>"
            )
            if number:
                pieces.append(
                    f'<text x="{x + CELL / 2 - 1:.0f}" y="{y + CELL / 2 + 3:.0f}" '
                    f'text-anchor="middle">{_number(number)}</text>'
                )
    svg = Html(
        f'<svg viewBox="0 0 {size} {size}" style="max-width:{size * 1.25:.0f}px" role="img" '
        f'aria-label="confusion matrix" font-size="11" fill="currentColor">{"".join(pieces)}</svg>'
    )
    caption = join(tag("b", "Rows: the right label. Columns: the answer."), " Shade: share of row.")
    return tag("figure", join(svg, tag("figcaption", caption)))


def scatter_figure(points: Sequence[tuple[float, float]], title: str) -> Html:
    """Answers (upwards) over right scores (to the right), with the line where they agree."""
    if not points:
        return Html("")
    step = -(-len(points) // MOST_DOTS)
    marks = ticks(min(map(min, points)), max(map(max, points)))
    low, high = marks[0], marks[-1]

    def place(value: float) -> float:
        return (value - low) / (high - low)

    def x(value: float) -> float:
        return LEFT + place(value) * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - place(value) * (HEIGHT - TOP - BOTTOM)

    pieces = [
        f'<line x1="{x(low):.0f}" y1="{y(low):.0f}" x2="{x(high):.0f}" y2="{y(high):.0f}" '
        'stroke="var(--line)"/>'
    ]
    for mark in marks:
        pieces += [
            f'<text x="{LEFT - 6}" y="{y(mark) + 4:.0f}" text-anchor="end">{mark:g}</text>',
            f'<text x="{x(mark):.0f}" y="{HEIGHT - BOTTOM + 16}" '
            f'text-anchor="middle">{mark:g}</text>',
        ]
    pieces += [
        f'<circle cx="{x(right):.1f}" cy="{y(answer):.1f}" r="2" fill="var(--c0)" '
        'fill-opacity="0.5"/>'
        for right, answer in points[::step]
    ]
    svg = Html(
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}" '
        f'font-size="11" fill="currentColor">{"".join(pieces)}</svg>'
    )
    return tag("figure", join(svg, tag("figcaption", tag("b", title))))


def _gathered(
    counts: Counter[tuple[str, str]], order: list[str]
) -> tuple[Counter[tuple[str, str]], list[str]]:
    """The labels with the most errors by themselves, the rest as one."""
    if len(order) <= MOST_LABELS:
        return counts, order
    errors: Counter[str] = Counter()
    for (label, answer), number in counts.items():
        if label != answer:
            errors[label] += number
            errors[answer] += number
    kept = set(sorted(order, key=lambda label: -errors[label])[: MOST_LABELS - 1])
    gathered: Counter[tuple[str, str]] = Counter()
    for (label, answer), number in counts.items():
        pair = (label if label in kept else OTHERS, answer if answer in kept else OTHERS)
        gathered[pair] += number
    return gathered, [label for label in order if label in kept] + [OTHERS]


def _width(text: str) -> int:
    """About as wide as a text is in the picture's type; a Chinese character is a full square."""
    return sum(12 if character > "\u2e80" else 7 for character in text)


def _short(label: str) -> str:
    return label if len(label) <= MOST_CHARACTERS else label[: MOST_CHARACTERS - 1] + "…"


def _number(number: int) -> str:
    """A count that fits into a cell."""
    return str(number) if number < 10_000 else f"{number / 1000:.0f} k"
