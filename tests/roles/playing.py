"""Runs the steps of a role in a folder, with the programs of an environment."""

from __future__ import annotations

import os
import resource
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.roles.steps import Step


def played(steps: Sequence[Step], folder: Path, programs: Path) -> list[dict[str, Any]]:
    """What each step did: seconds, exit code and messages. The first step that fails is the last one.

    steps: The steps, in order.
    folder: The working folder.
    programs: Folder of the environment's programs.
    """
    record: list[dict[str, Any]] = []
    for number, step in enumerate(steps):
        if step.kind == "file":
            (folder / step.name).write_text(step.text, encoding="utf-8")
            record.append({"writes": step.name})
            continue
        if step.kind == "python" and any(later.kind == "python" for later in steps[number + 1 :]):
            continue  # The last step of Python holds the code of all steps before it.
        record.append(_run(step, folder, programs))
        if record[-1]["exit_code"]:
            break
    return record


def _run(step: Step, folder: Path, programs: Path) -> dict[str, Any]:
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    environment.pop("PYTHONPATH", None)
    command = [str(programs / "python"), "-c", step.text] if step.kind == "python" else ["bash", "-c", step.name]
    before, start = _cpu_seconds(), time.monotonic()
    done = subprocess.run(command, cwd=folder, env=environment, check=False, capture_output=True, text=True)
    return {
        "runs": step.name,
        "exit_code": done.returncode,
        "wall_seconds": round(time.monotonic() - start, 1),
        "cpu_seconds": round(_cpu_seconds() - before, 1),
        "lines": len(done.stdout.splitlines()),
        "messages": [line for line in done.stderr.splitlines() if line.strip()],
    }


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
