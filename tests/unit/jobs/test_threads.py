"""Linear algebra runs on one thread where the program starts, and on as many as the user says where he says so."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_LIMITS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "OMP_NUM_THREADS")
_PRODUCT = """
import os
import numpy as np
table = np.ones((1200, 1200))
table @ table
print(os.environ.get("OPENBLAS_NUM_THREADS", "unset"), len(os.listdir("/proc/self/task")))
"""


def _printed(first_lines: str, **variables: str) -> list[str]:
    """What a process prints that starts with these lines, then multiplies two matrices: the limit, and its threads."""
    environment = {name: value for name, value in os.environ.items() if name not in _LIMITS} | variables
    program = [sys.executable, "-c", first_lines + _PRODUCT]
    return subprocess.run(program, env=environment, check=True, capture_output=True, text=True).stdout.split()


@pytest.mark.parametrize("first_line", ["import jobs.cli", "import jobs.spark_release", "import marquee"])
def test_the_entries_limit_threads_before_numpy_starts_them(first_line: str) -> None:
    assert _printed(first_line)[0] == "1"


def test_a_limited_process_starts_no_thread_for_a_product() -> None:
    assert _printed("import jobs") == ["1", "1"]


def test_numbers_of_threads_that_a_user_sets_stay() -> None:
    assert _printed("import jobs", OPENBLAS_NUM_THREADS="2")[0] == "2"
    assert _printed("import jobs", OMP_NUM_THREADS="2")[0] == "unset"


def test_nothing_is_set_where_it_would_come_too_late() -> None:
    assert _printed("import numpy\nimport jobs")[0] == "unset"
