"""The C allocator of Linux, told to keep the memory that a training step uses again and again.

glibc maps large blocks afresh and gives them back at each free, so a step pays for page faults on
the same gigabytes over and over: 20 to 40 % of its time on a CPU. Kept memory costs nothing but
that the process stays as large as its largest step.
"""

from __future__ import annotations

import ctypes
import sys

# Parameters of mallopt(3), from malloc.h.
M_TRIM_THRESHOLD = -1
M_TOP_PAD = -2
M_MMAP_MAX = -4

TOP_PAD_BYTES = 200_000_000
"""The heap grows by this much at a time."""


def keep_memory() -> bool:
    """Tells glibc to keep freed memory. Returns False where the C library is another.

    Call it before the first large tensors: it changes what happens from then on.
    """
    if not sys.platform.startswith("linux"):
        return False
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):  # musl has a mallopt that does nothing
        return False
    settings = ((M_MMAP_MAX, 0), (M_TRIM_THRESHOLD, -1), (M_TOP_PAD, TOP_PAD_BYTES))
    return all([library.mallopt(parameter, value) == 1 for parameter, value in settings])


def release_memory() -> None:
    """Gives what `keep_memory` kept back to the system, at the end of a training."""
    if sys.platform.startswith("linux"):
        library = ctypes.CDLL(None)
        if hasattr(library, "malloc_trim"):
            library.malloc_trim(0)
