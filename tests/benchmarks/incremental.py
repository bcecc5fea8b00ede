"""Daily releases of 64 partitions with a store of exact statistics: what is read when one is new, changed or deleted.

Bytes are those that the process reads in all, as the system counts them: data, footers, store, ledger and all else.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from dpcore.exact_statistics import QueryAnswers
from dpcore.queries import Marginals
from jobs.ledger import SqlLedger
from jobs.planning.job import Job, load_job
from jobs.planning.statistics_store import KEY_VARIABLE
from jobs.release.run import open_statistics, release
from pipelines.engines.local import LocalEngine
from tests.benchmarks import process_tree
from tests.benchmarks.case import Case, Inputs, Judgement, Run, Target
from tests.benchmarks.generated import kept
from tests.support.incremental import KEY_TEXT

PARTITIONS: Final = 64
ROWS: Final = 1_500_000  # Of one partition.
ATTRIBUTES, VALUES, ORDER = 10, 8, 3
STEPS: Final = ("new", "changed", "deleted", "late")
_QUIET: Final = 2.5  # Statistics of a younger file are not kept.


@dataclass
class State:
    """A folder with data, config, ledger and store, in which the first release was made.

    spare: Partitions that are added later.
    read, cpu: Bytes read and CPU seconds of each release, by its name.
    wrong: Number of answers of all releases that differ from those of a full run.
    """

    folder: Path
    spare: Path
    temporary: tempfile.TemporaryDirectory[str] = field(repr=False)
    read: dict[str, float] = field(default_factory=dict)
    cpu: dict[str, float] = field(default_factory=dict)
    wrong: int = 0

    @property
    def data_bytes(self) -> int:
        return sum(path.stat().st_size for path in (self.folder / "data").rglob("*.parquet"))


def inputs(cache: Path) -> Inputs:
    """The partitions, and three more: a new one, another in place of the tenth, and a late file of the thirtieth."""

    def make(folder: Path) -> None:
        for number in range(PARTITIONS + 3):
            day = {PARTITIONS + 1: 10, PARTITIONS + 2: 30}.get(number, number)
            path = folder / f"day={day:02}" / f"part-{number:02}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            draw = np.random.default_rng(number)
            columns = {f"a{axis}": draw.integers(0, VALUES, ROWS).astype(np.int16) for axis in range(ATTRIBUTES)}
            # Units of a day follow those of the day before, and leave room for a late file.
            first = 2 * day * ROWS + (ROWS if number == PARTITIONS + 2 else 0)
            pq.write_table(pa.table({"visit": np.arange(first, first + ROWS), **columns}), path)

    return {"partitions": kept(cache, f"days-{PARTITIONS}x{ROWS}", make)}


def prepare(paths: Inputs, seed: int) -> State:
    """Copies the partitions, and makes the release of the first day, which reads all of them."""
    os.environ[KEY_VARIABLE] = KEY_TEXT
    temporary = tempfile.TemporaryDirectory()
    state = State(Path(temporary.name), paths["partitions"], temporary)
    for number in range(PARTITIONS):
        _add(state, f"day={number:02}/part-{number:02}.parquet")
    attributes = [{"name": f"a{axis}", "type": "categorical", "values": list(range(VALUES)), "other": False,
                   "null": False} for axis in range(ATTRIBUTES)]  # fmt: skip
    config = {
        "dataset": {"name": "visits", "snapshot": "first", "shape": "table", "path": "data", "unit": "visit",
                    "schema": "visits.schema.yaml", "clustered_by_unit": True},
        "privacy": {"epsilon": 0.1, "delta": 1e-9, "ledger": "sqlite:///ledger.db"},
        "workload": {"marginals": {"order": ORDER}},
        "mechanism": {"name": "gaussian"},
        "engine": {"incremental": {"path": "kept"}},
        "output": {"path": "out/{dataset.snapshot}", "synthetic_rows": 0},
    }  # fmt: skip
    (state.folder / "visits.schema.yaml").write_text(yaml.safe_dump({"version": 1, "attributes": attributes}))
    (state.folder / "release.yaml").write_text(yaml.safe_dump(config))
    SqlLedger(f"sqlite:///{state.folder / 'ledger.db'}").create_dataset("visits", 5.0, 1e-6)
    _released(state, "warm-up", None)  # Without a store: what it reads, and all modules and compiled code.
    _released(state, "full")
    _add(state, f"day={PARTITIONS:02}/part-{PARTITIONS:02}.parquet")
    time.sleep(_QUIET)
    return state


def work(state: State) -> None:
    _released(state, "new")


def judge(state: State, _: None) -> Judgement:
    """Makes the other releases, and compares the statistics of each with those of a run that reads everything."""
    late = f"day=30/part-{PARTITIONS + 2:02}.parquet"
    changes: dict[str, Callable[[], object]] = {
        "new": lambda: None,
        "changed": lambda: _change(state),
        "deleted": lambda: (state.folder / "data/day=20/part-20.parquet").unlink(),
        "late": lambda: _add(state, late),
    }
    shares, data = {}, {}
    for name, change in changes.items():
        change()
        if name != "new":
            time.sleep(_QUIET)
            _released(state, name)
        data[name] = state.data_bytes
        shares[f"share_read_{name}"] = state.read[name] / data[name]
        state.wrong += _differences(_job(state, name))
    facts = {
        "data_mb": data["new"] / 1e6,
        "store_mb": sum(path.stat().st_size for path in (state.folder / "kept").rglob("*.entry")) / 1e6,
        **{f"{kind}_mb_read": count / 1e6 for kind, count in state.read.items()},
        **{f"{kind}_cpu_seconds": seconds for kind, seconds in state.cpu.items()},
        **shares,
    }
    state.temporary.cleanup()
    return Judgement(error={"different_answers": float(state.wrong)}, facts=facts)


def _add(state: State, name: str) -> None:
    path = state.folder / "data" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(state.spare / name, path)


def _change(state: State) -> None:
    """Other rows of the same units take the place of the tenth partition's."""
    name = f"day=10/part-{PARTITIONS + 1:02}.parquet"
    shutil.copyfile(state.spare / name, state.folder / "data/day=10/part-10.parquet")


def _job(state: State, snapshot: str, *settings: str) -> Job:
    return load_job(state.folder / "release.yaml", [f"dataset.snapshot={snapshot}", *settings])


def _released(state: State, name: str, store: str | None = "kept") -> None:
    job = _job(state, name, *([] if store else ["engine.incremental=null"]))
    read, cpu = _bytes_read(), process_tree.cpu_seconds()
    release(job)
    state.read[name], state.cpu[name] = _bytes_read() - read, process_tree.cpu_seconds() - cpu


def _differences(job: Job) -> int:
    queries = job.stand_in.queries
    assert isinstance(queries, Marginals)
    kept_sums, sums = (
        open_statistics(job, engine).aggregate(QueryAnswers(queries)) for engine in (None, LocalEngine())
    )
    return int((kept_sums != sums).sum())


def _bytes_read() -> int:
    """Bytes that this process has read from files by any call of the system, cached or not."""
    counters = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counters["rchar"])


def _largest_share(name: str) -> Callable[[Sequence[Run]], float]:
    return lambda runs: max(run.facts[f"share_read_{name}"] for run in runs)


CASE = Case(
    params={
        "partitions": PARTITIONS,
        "rows": PARTITIONS * ROWS,
        "attributes": ATTRIBUTES,
        "values": VALUES,
        "order": ORDER,
    },
    seeds=(1,),
    inputs=inputs,
    prepare=prepare,
    work=work,
    judge=judge,
    targets=(
        *(Target(f"share of the bytes, one {name}", "<", 0.03, _largest_share(name)) for name in STEPS),
        Target("different answers", "==", 0.0, lambda runs: max(run.error["different_answers"] for run in runs)),
    ),
    cold=False,
)
