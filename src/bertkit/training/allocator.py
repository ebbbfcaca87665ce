"""Memory that a step frees is kept for the next one.

glibc gives large blocks back to the system at each free; a training step frees and takes the
same gigabytes again and again, and page faults then eat a fifth to two fifths of its time.
"""

from __future__ import annotations

import ctypes
import platform

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4
"""Parameters of glibc's mallopt(3)."""


def keep_freed_memory() -> bool:
    """Tells glibc's allocator to keep what is freed; True where there is a glibc that obeys."""
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    settings = (
        (_M_MMAP_MAX, 0),
        (_M_TRIM_THRESHOLD, 2**31 - 1),
        (_M_TOP_PAD, 64 * 2**20),
    )
    return all([mallopt(name, value) == 1 for name, value in settings])
