"""A benchmark case that burns known amounts of CPU: in itself, in a child process, and in a pretended compilation."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from tests.benchmarks.case import Case, Inputs, Judgement, Peer, Target
from tests.benchmarks.generated import kept

OWN, CHILD, COMPILING, PREPARING, JUDGING = 0.1, 0.2, 0.4, 1.0, 1.0
MEGABYTES = 200


def burn(seconds: float) -> None:
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


def inputs(data: Path) -> Inputs:
    def make(folder: Path) -> None:
        folder.mkdir()
        (folder / "one").write_text("1")

    return {"numbers": kept(data, "numbers", make)}


def prepare(paths: Inputs, seed: int) -> int:
    burn(PREPARING)
    return seed + int((paths["numbers"] / "one").read_text())


def work(state: int) -> int:
    compiled = Path(os.environ["NUMBA_CACHE_DIR"])
    if not compiled.exists():
        burn(COMPILING)
        compiled.mkdir()
    burn(OWN)
    program = f"""
import time
filled = b"x" * ({MEGABYTES} << 20)
while time.process_time() < {CHILD}:
    pass
time.sleep(0.1)
"""
    subprocess.run([sys.executable, "-S", "-c", program], check=True)
    return 10 * state


def judge(state: int, result: int) -> Judgement:
    burn(JUDGING)
    return Judgement(error={"max": result}, baselines={"zeros": {"max": result + 1}}, facts={"state": state})


CASE = Case(
    params={"colour": "red"},
    seeds=(1, 3),
    inputs=inputs,
    prepare=prepare,
    work=work,
    judge=judge,
    targets=(
        Target("largest error", "<=", 40, lambda runs: max(run.error["max"] for run in runs)),
        Target("seeds with an error under 30", ">=", 2, lambda runs: sum(run.error["max"] < 30 for run in runs)),
    ),
    peer=Peer("idle", lambda state: state),
)
