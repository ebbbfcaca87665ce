"""The C allocator's settings, seen from outside: what a process holds."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import resource, torch
from bertkit.training.allocator import keep_memory, release_memory

def held():
    pages = int(open("/proc/self/statm").read().split()[1])
    return pages * resource.getpagesize() / 2**20

kept = keep_memory()
before = held()
values = [torch.ones(2**20) for _ in range(200)]  # 4 MiB each
del values
print(kept, held() - before)
release_memory()
print(held() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="sets the allocator of Linux only")
def test_freed_memory_is_kept_until_it_is_released() -> None:
    output = subprocess.run(
        [sys.executable, "-c", SCRIPT], check=True, capture_output=True, text=True
    ).stdout.split()
    if output[0] == "False":
        pytest.skip("the C library is not glibc")
    assert float(output[1]) > 700
    assert float(output[2]) < 100
