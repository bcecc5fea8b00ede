"""Mutated inputs of every reader of outside bytes: each must be read, or refused with the exception that is promised.

The inputs are a function of a recorded seed. They run in a process of its own, which dies of an input that takes more
than two CPU seconds or crashes the interpreter; the next process goes on behind that input.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from tests.audit.section import Row, Size
from tests.reliability.fuzz_worker import CPU_SECONDS, ROOT, STATE_BYTES, State

TITLE = "Fuzzing"
CLAIM = (
    "Every input of a reader is read, or refused with the exception that the reader promises: ConfigError for what "
    "people write, InputError for data and models, IntegrityError for what a release left behind, a finding of "
    "`marquee verify`. Inputs are mutations of valid ones, of their bytes and of their structure (YAML and JSON "
    "values, Parquet footers, pages, types and encodings, journals whose hashes are mended, rows of a ledger), guided "
    "by the lines of the product that they reach. A crash is any other exception or a death of the process; slow is "
    f"more than {CPU_SECONDS:g} CPU seconds for one input. Inputs may need 1 GiB more memory than the process "
    "has before them."
)
SEED = 20_261_124
_PATIENCE = 90.0  # Seconds without any use of the CPU after which a process is taken for hanging.
REGRESSIONS = Path(__file__).parent / "regressions"

# Inputs of each target at full size: one million in all, most of them where an input takes a fraction of a millisecond.
FULL = {
    "config": 130_000,
    "schema": 130_000,
    "queries .txt": 100_000,
    "queries .csv": 100_000,
    "queries of baskets .csv": 90_000,
    "weights .csv": 90_000,
    "queries .parquet": 30_000,
    "data of a table": 25_000,
    "data of baskets": 25_000,
    "data in csv": 25_000,
    "data in jsonl": 25_000,
    "data in orc": 10_000,
    "data in feather": 25_000,
    "manifest.json": 120_000,
    "certificate.json": 60_000,
    "model.npz": 60_000,
    "verify: manifest": 5_000,
    "verify: certificate": 5_000,
    "verify: answers": 4_000,
    "verify: synthetic rows": 4_000,
    "verify: model": 2_000,
    "journal": 121_500,
    "ledger rows": 1_500,
    "ledger file": 2_000,
}
_SLOW = ("ledger rows", "ledger file")
FAST = {name: 12 if name in _SLOW else 30 if name.startswith("verify") else 150 for name in FULL}


@dataclass
class Result:
    """Figures of one target. first: The smallest input of each kind of crash, by its signature."""

    inputs: int = 0
    refused: int = 0
    crashes: int = 0
    slow: int = 0
    peak: int = 0
    first: dict[str, bytes] = field(default_factory=dict)


def run(size: Size) -> list[Row]:
    """One row per target, and one for all together."""
    full = size is Size.FULL
    counts = FULL if full else FAST
    results: dict[str, Result] = {}
    for part in [{name: count} for name, count in counts.items()] if full else [counts]:
        results |= fuzzed(part, SEED)
    if full:
        _keep(results)
    rows = [row_of(name, result) for name, result in results.items()]
    together = Result()
    for result in results.values():
        together.inputs += result.inputs
        together.refused += result.refused
        together.crashes += result.crashes
        together.slow += result.slow
        together.peak = max(together.peak, result.peak)
        together.first |= result.first
    return [*rows, row_of("all", together)]


def row_of(name: str, result: Result) -> Row:
    """One line of the table."""
    cells: dict[str, str | int | float | bool] = {
        "reader": name,
        "inputs": result.inputs,
        "refused": result.refused,
        "crashes": result.crashes,
        "slow": result.slow,
        "peak MiB": result.peak >> 10,
        "kinds of crash": "; ".join(sorted(result.first)) or "none",
    }
    return Row(cells, passed=result.inputs > 0 and not result.crashes and not result.slow)


def fuzzed(counts: dict[str, int], seed: int, planted: Sequence[str] = ()) -> dict[str, Result]:
    """Runs inputs of some targets.

    counts: Number of inputs by the name of the target.
    seed: Seed of the inputs.
    planted: Names of planted faults, whose targets ``counts`` then names alone.
    """
    with TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as name:
        folder = Path(name)
        state, crashes = folder / "state", folder / "crashes"
        state.write_bytes(bytes(STATE_BYTES))
        crashes.touch()
        plan: dict[str, Any] = {"targets": list(counts.items()), "seed": seed, "planted": list(planted)}
        plan |= {"folder": name, "state": str(state), "crashes": str(crashes), "first": 0, "done": 0, "refused": 0}
        results = {target: Result() for target in counts}
        while (code := _process(folder / "plan", plan)) != 0:
            number, done, refused, data = State.read(state.read_bytes())
            if not done:
                raise RuntimeError(f"the process that fuzzes died with {code} before its first input")
            _count_death(results[plan["targets"][number][0]], code, data)
            plan |= {"first": number, "done": done, "refused": refused}
            state.write_bytes(bytes(STATE_BYTES))
        for line in map(json.loads, crashes.read_text().splitlines()):
            _count(results[line["target"]], line)
        return results


def _process(path: Path, plan: dict[str, Any]) -> int:
    """Runs one process until it ends, or waits for something that does not come."""
    path.write_text(json.dumps(plan))
    command = [sys.executable, "-m", "tests.reliability.fuzz_worker", str(path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0"}
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
    watched = psutil.Process(process.pid)
    last, since = 0.0, time.monotonic()
    while True:
        try:
            return process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            now = sum(watched.cpu_times()[:2])
            if now > last:
                last, since = now, time.monotonic()
            elif time.monotonic() - since > _PATIENCE:
                process.kill()
                return process.wait()


def _count_death(result: Result, code: int, data: bytes) -> None:
    if code in (-signal.SIGPROF, -signal.SIGKILL):
        result.slow += 1
        result.first.setdefault("slow" if code == -signal.SIGPROF else "waits for ever", data)
    else:
        result.crashes += 1
        result.first.setdefault(f"death with {code}", data)


def _count(result: Result, line: dict[str, Any]) -> None:
    """Counts what the process has written: one line per crash, and one per target at its end."""
    if "signature" not in line:
        result.inputs, result.refused, result.peak = line["inputs"], line["refused"], line["peak"]
        return
    result.crashes += 1
    if "input" in line:
        result.first[line["signature"]] = base64.b64decode(line["input"])


def _keep(results: dict[str, Result]) -> None:
    """Stores the first input of each kind of crash as a regression case, which the fast tests run from then on."""
    REGRESSIONS.mkdir(exist_ok=True)
    for name, result in results.items():
        for data in result.first.values():
            digest = hashlib.sha256(data).hexdigest()[:8]
            (REGRESSIONS / f"{file_name(name)}-{digest}").write_bytes(data)


def file_name(target: str) -> str:
    """How the regression cases of a target begin."""
    return target.replace(": ", "_").replace(" ", "_")
