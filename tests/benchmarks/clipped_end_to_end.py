"""The command ``marquee run`` on 500,000 popular triples of generated Netflix, stage by stage, and ``plan``.

Each command is a process of its own with warm kernels. Its CPU seconds are user and system time from its first line to
its last; its memory is the largest that it had.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow.parquet as pq
import yaml

from dpcore.evaluation import baselines, errors, exact_answers
from dpcore.queries import Conjunctions
from pipelines.engines.local import LocalEngine
from pipelines.engines.statistics import EngineStatistics
from pipelines.generate.baskets import ITEM, UNIT
from pipelines.source import open_source
from tests.benchmarks import netflix
from tests.benchmarks.case import Case, Inputs, Judgement, Run, Target

EPSILON, DELTA, ORDER, QUERIES = 1.0, 1e-6, 3, 500_000
MANY_ITEMS = 10_000_000  # Of the plan; no data are read.
_ROOT = Path(__file__).resolve().parents[2]
_CONFIG = "release.yaml"


@dataclass(frozen=True)
class State:
    """folder: Of the config, the ledger and the release. data: The pairs."""

    folder: Path
    data: Path


@dataclass(frozen=True)
class Measured:
    """One command: user and system seconds, largest memory, and the lines of its log."""

    cpu_seconds: float
    peak_mb: float
    events: list[dict[str, Any]]


def prepare(paths: Inputs, seed: int) -> State:
    folder = Path(tempfile.mkdtemp())
    dataset = {"name": "netflix", "snapshot": str(seed), "path": str(paths["baskets"] / "*.parquet"), "unit": UNIT}
    config = {
        "dataset": {**dataset, "shape": "baskets", "item": ITEM, "items": netflix.FILMS, "clustered_by_unit": True},
        "privacy": {"epsilon": EPSILON, "delta": DELTA, "ledger": f"sqlite:///{folder / 'ledger.db'}"},
        "workload": {"conjunctions": {"count": QUERIES, "order": ORDER, "weights": "noisy_popularity", "seed": seed}},
        "mechanism": {"name": "clipped_gaussian"},
        "output": {"path": "out"},
    }
    (folder / _CONFIG).write_text(yaml.safe_dump(config))
    return State(folder, paths["baskets"])


def work(state: State) -> dict[str, Measured]:
    ledger = ["--ledger", f"sqlite:///{state.folder / 'ledger.db'}", "--dataset", "netflix"]
    commands = {
        "create": ["budget", "create", *ledger, "--epsilon", str(EPSILON), "--delta", str(DELTA)],
        "plan": ["plan", _CONFIG],
        "plan of many items": ["plan", _CONFIG, "--set", f"dataset.items={MANY_ITEMS}"],
        "run": ["run", _CONFIG],
        "verify": ["verify", "out"],
    }
    return {name: command(arguments, state.folder) for name, arguments in commands.items()}


def command(arguments: Sequence[str], folder: Path) -> Measured:
    """Runs one command of marquee. Raises CalledProcessError when it fails."""
    log = folder / "log.jsonl"
    environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
    started = [sys.executable, "-m", "jobs", "--log-format", "json", *arguments]
    with open(log, "wb") as stderr:
        process = psutil.Popen(started, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=stderr)
        peak = 0.0
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            peak = max(peak, _peak_mb(process.pid))
            time.sleep(0.02)
        _, code, usage = os.wait4(process.pid, 0)
    if code:
        raise subprocess.CalledProcessError(code, started, stderr=log.read_bytes())
    lines = log.read_text().splitlines()
    return Measured(usage.ru_utime + usage.ru_stime, peak, [json.loads(line) for line in lines])


def _peak_mb(pid: int) -> float:
    """Largest memory since the program started; 0 before it has, or after it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) / 2**10 for line in status.splitlines() if line.startswith("VmHWM:"))


def stages(run: Measured) -> dict[str, float]:
    """CPU seconds of each stage. Aggregations have their numbers, and are no part of what the mechanism computes."""
    seconds: dict[str, float] = {}
    names: Counter[str] = Counter()
    for event in run.events:
        if event["event"] == "stage":
            name = str(event["stage"])
            names[name] += 1
            seconds[f"{name} {names[name]}" if name == "aggregate" else name] = float(event["cpu_seconds"])
    seconds["answer"] -= sum(value for name, value in seconds.items() if name.startswith("aggregate"))
    seconds["start and workload"] = run.cpu_seconds - sum(seconds.values())
    return seconds


def judge(state: State, measured: Mapping[str, Measured]) -> Judgement:
    """CPU seconds and MB of each command and of the stages of ``run``; errors as fractions of the users."""
    table = pq.read_table(state.folder / "out" / "answers.parquet", columns=["answer", "items"])
    columns = table["items"].combine_chunks().flatten().to_numpy().reshape(-1, ORDER)
    queries = Conjunctions(netflix.LAYOUT.view, columns, np.zeros(columns.shape, dtype=np.bool_))
    statistics = EngineStatistics(LocalEngine(), open_source(str(state.data), netflix.LAYOUT, salt=bytes(16)))
    exact = exact_answers(statistics, queries)
    off = errors(queries, table["answer"].to_numpy(), exact, netflix.USERS)
    trivial = {}
    for name, guess in baselines(queries, statistics, netflix.USERS).items():
        guessed = errors(queries, guess, exact, netflix.USERS)
        trivial[name] = {"max": guessed.max, "mean": guessed.mean}
    facts = {f"{name}: CPU s": value.cpu_seconds for name, value in measured.items()}
    facts |= {f"{name}: MB": value.peak_mb for name, value in measured.items()}
    facts |= {f"run, {name}: CPU s": seconds for name, seconds in stages(measured["run"]).items()}
    return Judgement({"max": off.max, "mean": off.mean}, trivial, facts)


def mean_of(fact: str) -> Callable[[Sequence[Run]], float]:
    return lambda runs: sum(run.facts[fact] for run in runs) / len(runs)


def _over_the_best_baseline(runs: Sequence[Run]) -> float:
    return max(run.error["max"] / min(figures["max"] for figures in run.baselines.values()) for run in runs)


CASE = Case(
    params=netflix.PARAMS
    | {"queries": QUERIES, "order": ORDER, "weights": "noisy_popularity", "epsilon": EPSILON, "delta": DELTA}
    | {"neighbours": "add or remove one unit, n private", "engine": "local", "fractions_of": "units"},
    seeds=(1, 2, 3),
    inputs=netflix.inputs,
    prepare=prepare,
    work=work,
    judge=judge,
    targets=(
        Target("CPU seconds of marquee run", "<=", 25.0, mean_of("run: CPU s")),
        Target("peak memory of marquee run, MB", "<=", 500.0, lambda runs: max(run.facts["run: MB"] for run in runs)),
        Target("CPU seconds of marquee plan, ten million items", "<", 2.0, mean_of("plan of many items: CPU s")),
        Target("largest error, worst run", "<=", 0.011, lambda runs: max(run.error["max"] for run in runs)),
        Target("largest error over that of the best trivial answers", "<=", 0.1, _over_the_best_baseline),
    ),
)
