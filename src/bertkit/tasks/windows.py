"""Long texts in windows: how many tokens in, what each sequence shows of them out.

A text that does not fit is read in windows that overlap by a quarter; the last one is moved back
so that it is full. Each token belongs to the window that shows most around it: the border lies in
the middle of the overlap.

    tokens      0 ........................ 21        room 12
    window 1    0 . . . . . . . . . . 11
    window 2                    9 . . . . . . . . . . 20
    window 3                      10 . . . . . . . . . . 21

Of a pair the shorter text stands whole in every window and the longer one moves past it. Only a
shorter text of more than half the room loses its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from bertkit.errors import UserError

OVERLAP = 4
"""Windows of a long text share this part of their length: one quarter."""


@dataclass(frozen=True)
class TextWindow:
    """What one sequence shows.

    Attributes:
        shown: for the text, and for the second text of a pair, the tokens in the sequence.
        own: for each, the tokens that belong to this window. Every token that is shown at all
            belongs to exactly one.
    """

    shown: tuple[range, ...]
    own: tuple[range, ...]


def moving_windows(count: int, room: int) -> list[tuple[range, range]]:
    """(tokens shown, tokens that belong to it) of each window over `count` tokens."""
    if count <= room:
        return [(range(count), range(count))]
    step = room - room // OVERLAP
    starts = [*range(0, count - room, step), count - room]
    borders = [0, *((a + room + b) // 2 for a, b in pairwise(starts)), count]
    return [
        (range(start, start + room), range(borders[k], borders[k + 1]))
        for k, start in enumerate(starts)
    ]


def text_windows(lengths: Sequence[int], room: int) -> tuple[list[TextWindow], bool]:
    """Cuts a text, or a pair of them, into sequences of at most `room` tokens.

    Args:
        lengths: tokens of the text, and of the second one of a pair.
        room: tokens of the longest sequence without its special ones.

    Returns:
        The windows, and whether the shorter text of a pair lost its end.

    Raises:
        UserError: there is no room for a token of each text.
    """
    if room < len(lengths):
        raise UserError(
            f"{max(room, 0)} tokens beside the special ones leave no room for "
            "each text; use a larger --sequence-length"
        )
    if len(lengths) == 1:
        return [TextWindow((shown,), (own,)) for shown, own in moving_windows(lengths[0], room)], (
            False
        )
    moving = 0 if lengths[0] > lengths[1] else 1
    standing = lengths[1 - moving]
    kept = standing if sum(lengths) <= room else min(standing, room // 2)
    windows = []
    for number, (shown, own) in enumerate(moving_windows(lengths[moving], room - kept)):
        beside = range(kept), range(kept if number == 0 else 0)
        parts = ((shown, own), beside) if moving == 0 else (beside, (shown, own))
        windows.append(TextWindow(tuple(p[0] for p in parts), tuple(p[1] for p in parts)))
    return windows, kept < standing
