"""Runs a benchmark case in fresh processes and combines its result: times, error, baselines, peer and targets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.benchmarks import process_tree
from tests.benchmarks.case import Case, Figures, Inputs, Run, load_case
from tests.benchmarks.measured import JUDGEMENT, PEER, STARTED, TIMES, WORK
from tests.benchmarks.provenance import commit, digest, machine

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).resolve().parent
_WATCH_SECONDS = 0.02


def run_case(name: str, module: str, data: Path) -> dict[str, Any]:
    """The result of a case, as stored. Inputs are made first, below ``data``, and are no part of what is measured.

    The first process starts with an empty compile cache and gives the cold seconds; the others find it filled. A case
    that is not run cold apart has those of its first seed.
    """
    case = load_case(module)
    inputs = case.inputs(data)
    with tempfile.TemporaryDirectory() as scratch:
        processes = Processes(module, inputs, Path(scratch))
        cold = processes.run(WORK, case.seeds[0])[0] if case.cold else None
        runs = [_run(seed, *processes.run(WORK, seed)) for seed in case.seeds]
        peer = _peer(case, processes)
    return _result(name, case, inputs, cold, runs, peer)


def store(result: Mapping[str, Any], folder: Path) -> Path:
    """Writes ``folder``/CASE.json."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{result['case']}.json"
    path.write_text(json.dumps(result, indent=2) + "\n")
    return path


class Processes:
    """Starts measured processes that share one compile cache."""

    def __init__(self, module: str, inputs: Inputs, scratch: Path) -> None:
        self._module = module
        self._scratch = scratch
        self._inputs = scratch / "inputs.json"
        self._inputs.write_text(json.dumps({name: str(path) for name, path in inputs.items()}))
        self._count = 0

    def run(self, role: str, seed: int) -> tuple[dict[str, float], dict[str, Any]]:
        """Times and judgement of one fresh process. Raises CalledProcessError when it fails."""
        self._count += 1
        folder = self._scratch / f"run{self._count}"
        folder.mkdir()
        command = [sys.executable, "-m", "tests.benchmarks.measured", self._module, role, str(seed)]
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(self._scratch / "compiled")}
        process = subprocess.Popen([*command, str(self._inputs), str(folder)], cwd=ROOT, env=environment)
        peak = _watch(process, folder)
        if process.returncode != 0:
            raise subprocess.CalledProcessError(process.returncode, command)
        times = json.loads((folder / TIMES).read_text())
        times["peak_rss_mb"] = max(peak, times.pop("own_peak_rss_mb"))
        return times, json.loads((folder / JUDGEMENT).read_text())


def _watch(process: subprocess.Popen[bytes], folder: Path) -> float:
    """Waits for the process; returns the peak of its tree's memory until the end of the work, in MB."""
    peak = 0.0
    while process.poll() is None:
        # Before its first line a child still shows its parent's memory.
        if (folder / STARTED).exists() and not (folder / TIMES).exists():
            peak = max(peak, process_tree.resident_mb(process.pid))
        time.sleep(_WATCH_SECONDS)
    return peak


def _run(seed: int, times: Mapping[str, Any], judgement: Mapping[str, Any]) -> Run:
    return Run(seed=seed, **times, **judgement)


def _peer(case: Case[Any, Any], processes: Processes) -> dict[str, Any]:
    if case.peer is None:
        return {}
    if reason := case.peer.missing():
        return {"name": case.peer.name, "missing": reason}
    runs = [processes.run(PEER, seed) for seed in case.peer.seeds or case.seeds]
    return {"name": case.peer.name, **_means({**times, **figures} for times, figures in runs)}


def _result(
    name: str,
    case: Case[Any, Any],
    inputs: Inputs,
    cold: Mapping[str, float] | None,
    runs: list[Run],
    peer: dict[str, Any],
) -> dict[str, Any]:
    # Targets see what the file holds and nothing else.
    stored = json.loads(json.dumps([vars(run) for run in runs]))
    read = [Run(**run) for run in stored]
    targets = []
    for target in case.targets:
        got = target.got(read)
        targets.append({"name": target.name, "wanted": target.wanted, "got": got, "met": target.met(got)})
    timed = ("cpu_seconds", "wall_seconds", "process_cpu_seconds")
    return {
        "case": name,
        "commit": commit(ROOT),
        "machine": machine(),
        "params": {
            **case.params,
            "seeds": list(case.seeds),
            "inputs": {key: digest(path) for key, path in inputs.items()},
        },
        **_means({key: getattr(run, key) for key in timed} for run in read),
        "cold_cpu_seconds": runs[0].cpu_seconds if cold is None else cold["cpu_seconds"],
        "peak_rss_mb": max(run.peak_rss_mb for run in read),
        "error": _means(run.error for run in read),
        "baselines": {
            name: _means(run.baselines[name] for run in read if name in run.baselines)
            for name in _keys(run.baselines for run in read)
        },
        "facts": _means(run.facts for run in read),
        "peer": peer,
        "targets": targets,
        "runs": stored,
    }


def _means(rows: Iterable[Figures]) -> dict[str, float]:
    """Each over the rows that have it: what was cut off in one run may end in another."""
    rows = list(rows)
    found = {key: [row[key] for row in rows if key in row] for key in _keys(rows)}
    return {key: sum(values) / len(values) for key, values in found.items()}


def _keys(rows: Iterable[Mapping[str, object]]) -> list[str]:
    """Of all rows, in the order of their first sight."""
    return list(dict.fromkeys(key for row in rows for key in row))
