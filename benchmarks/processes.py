"""The memory of a process and its workers, as Linux tells it."""

from __future__ import annotations

from pathlib import Path


def family(process: int) -> list[int]:
    """A process and all that descend from it."""
    found = [process]
    for one in found:
        try:
            for task in Path(f"/proc/{one}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
        except OSError:
            continue
    return found


def pss(process: int) -> int:
    """Bytes of a process, what it shares counted in shares."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
