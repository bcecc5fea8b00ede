"""marquee verify on a published release of 100 MB: 1.2 million answers, 16 million synthetic rows and a model."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from jobs.ledger import SqlLedger
from jobs.planning.job import load_job
from jobs.release.run import release
from jobs.verification.release import Verification, verify_release
from tests.benchmarks.case import Case, Inputs, Judgement, Run, Target, mean_cpu_seconds

PEOPLE: Final = 20_000
ATTRIBUTES, SIZE, ORDER = 12, 17, 3
SYNTHETIC: Final = 16_000_000
_CONFIG = "release.yaml"


@dataclass(frozen=True)
class State:
    """A published folder and the URL of its ledger."""

    folder: Path
    ledger: str


def inputs(cache: Path) -> Inputs:
    """Makes the release once: a random chain of attributes, measured by mst."""
    folder = cache / "verified_release"
    if not (folder / "out" / "_SUCCESS").exists():
        _publish(folder)
    return {"release": folder}


def _publish(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(1)
    columns, codes = {"person": np.arange(PEOPLE)}, draw.integers(0, SIZE, PEOPLE)
    for number in range(ATTRIBUTES):
        codes = np.where(draw.random(PEOPLE) < 0.7, codes, draw.integers(0, SIZE, PEOPLE))
        columns[f"a{number:02}"] = codes
    pq.write_table(pa.table(columns), folder / "people.parquet")
    attributes = [{"name": f"a{number:02}", "type": "categorical", "values": list(range(SIZE)), "other": False,
                   "null": False} for number in range(ATTRIBUTES)]  # fmt: skip
    config = {
        "dataset": {"name": "people", "snapshot": "1", "shape": "table", "path": "people.parquet", "unit": "person",
                    "schema": "people.schema.yaml"},
        "privacy": {"epsilon": 1.0, "delta": 1e-9, "ledger": f"sqlite:///{folder / 'ledger.db'}"},
        "workload": {"marginals": {"order": ORDER}},
        "mechanism": {"name": "mst"},
        "output": {"path": "out", "synthetic_rows": SYNTHETIC},
    }  # fmt: skip
    (folder / "people.schema.yaml").write_text(yaml.safe_dump({"version": 1, "attributes": attributes}))
    (folder / _CONFIG).write_text(yaml.safe_dump(config))
    SqlLedger(f"sqlite:///{folder / 'ledger.db'}").create_dataset("people", 1.0, 1e-9)
    release(load_job(folder / _CONFIG))


def prepare(paths: Inputs, seed: int) -> State:
    return State(paths["release"] / "out", f"sqlite:///{paths['release'] / 'ledger.db'}")


def work(state: State) -> Verification:
    return verify_release(state.folder, SqlLedger(state.ledger))


def judge(state: State, verification: Verification) -> Judgement:
    """Failed checks of the release, which should be none."""
    size = sum(os.path.getsize(path) for path in state.folder.rglob("*") if path.is_file())
    facts = {"folder_mb": size / 1e6, "checks": float(len(verification.findings))}
    return Judgement(error={"failed_checks": float(len(verification.failures))}, facts=facts)


def slowest(runs: Sequence[Run]) -> float:
    return max(run.wall_seconds for run in runs)


CASE = Case(
    params={"people": PEOPLE, "attributes": ATTRIBUTES, "size": SIZE, "order": ORDER, "synthetic_rows": SYNTHETIC},
    seeds=(1, 2, 3),
    inputs=inputs,
    prepare=prepare,
    work=work,
    judge=judge,
    targets=(
        Target("CPU seconds", "<", 5.0, mean_cpu_seconds),
        Target("seconds of the slowest run", "<", 5.0, slowest),
        Target("MB of the folder", ">=", 100.0, lambda runs: min(run.facts["folder_mb"] for run in runs)),
        Target("failed checks", "==", 0.0, lambda runs: max(run.error["failed_checks"] for run in runs)),
    ),
)
