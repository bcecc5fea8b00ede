"""The daemon of Spark's workers: it has all code of the tasks, and no thread that a fork would lose."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import os, sys
from pipelines.engines.spark_daemon import load
load()
from dpcore.compiled import COUNTS
print(len(os.listdir("/proc/self/task")), "pipelines.engines.worker_tasks" in sys.modules, sum(COUNTS.values()) > 0)
"""


def test_the_daemon_has_all_code_and_one_thread() -> None:
    unset = ("OPENBLAS_NUM_THREADS", "JE_ARROW_MALLOC_CONF")
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    program = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(program, env=environment, check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["1", "True", "True"]
