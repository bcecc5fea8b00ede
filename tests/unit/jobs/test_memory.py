"""Freed arrays go back to the system, in a process of their own."""

from __future__ import annotations

import platform
import subprocess
import sys

import pyarrow as pa
import pytest

from jobs.memory import arrow_gives_back

_PROGRAM = """
import sys
import numpy as np
from jobs.memory import give_back_large_arrays

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 >> 20

if sys.argv[1] == "asked":
    assert give_back_large_arrays()
np.ones(3 << 20)  # 24 MB: from now on glibc would keep as much.
arrays, pins = [], []
for _ in range(12):
    arrays.append(np.ones(1 << 20))
    pins.append(np.ones(1 << 14))  # What lies between is not given back from the end.
full = resident()
arrays.clear()
print(full - resident())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the setting is glibc's")
def test_freed_arrays_go_back_where_that_is_asked_for() -> None:
    freed = {
        asked: int(subprocess.run([sys.executable, "-c", _PROGRAM, asked], check=True, capture_output=True).stdout)
        for asked in ("asked", "not")
    }
    assert freed["asked"] >= 90
    assert freed["not"] < freed["asked"] - 30


def test_arrow_uses_the_allocator_of_the_process_for_a_while() -> None:
    before = pa.default_memory_pool().backend_name
    with arrow_gives_back():
        assert pa.default_memory_pool().backend_name == "system"
    assert pa.default_memory_pool().backend_name == before != "system"
