"""The process of one run: ``python -m tests.benchmarks.measured MODULE ROLE SEED INPUTS FOLDER``.

The process prepares the run, does the work under the clock, stores the times, and only then judges the result.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from jobs.memory import give_back_large_arrays
from tests.benchmarks import process_tree
from tests.benchmarks.case import load_case

S = TypeVar("S")
R = TypeVar("R")

STARTED, TIMES, JUDGEMENT = "started", "times.json", "judgement.json"
WORK, PEER = "work", "peer"


def main(module: str, role: str, seed: int, inputs: Path, folder: Path) -> None:
    """Writes STARTED, TIMES and JUDGEMENT into ``folder``; that of a peer holds its figures.

    inputs: JSON file of paths by name.
    """
    (folder / STARTED).touch()
    give_back_large_arrays()  # As the command line does.
    case = load_case(module)
    state = case.prepare({name: Path(path) for name, path in json.loads(inputs.read_text()).items()}, seed)
    if role == PEER:
        assert case.peer is not None
        made = _timed(case.peer.work, state, folder)
        _write(folder / JUDGEMENT, _plain(case.peer.figures(made) if case.peer.figures else {}))
        return
    result = _timed(case.work, state, folder)
    judgement = dataclasses.asdict(case.judge(state, result))
    _write(folder / JUDGEMENT, {name: _plain(value) for name, value in judgement.items()})


def _timed(work: Callable[[S], R], state: S, folder: Path) -> R:
    cpu, wall = process_tree.cpu_seconds(), time.perf_counter()
    result = work(state)
    wall, total = time.perf_counter() - wall, process_tree.cpu_seconds()
    times = {
        "cpu_seconds": total - cpu,
        "wall_seconds": wall,
        "process_cpu_seconds": total,
        "own_peak_rss_mb": process_tree.own_peak_mb(),
    }
    _write(folder / TIMES, times)
    return result


def _plain(value: object) -> object:
    """Numbers of any library as Python's own."""
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    return float(value)  # type: ignore[arg-type]


def _write(path: Path, content: object) -> None:
    """In one step, because the parent watches for the file."""
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(content))
    partial.rename(path)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]), Path(sys.argv[5]))
