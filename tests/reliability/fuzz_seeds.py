"""A small release with all that a run reads and writes, as the valid inputs from which fuzzing starts."""

from __future__ import annotations

import copy
import sqlite3
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import yaml

from jobs.ledger import SqlLedger
from jobs.planning.job import Job, load_job
from jobs.release.run import release
from tests.support.releases import BASKETS, SCHEMA, TABLE, people

CONSUMER = "team"
_TRIGGERS = "SELECT name FROM sqlite_master WHERE type = 'trigger'"

OTHER_CONFIG = """\
# A config with what the small release has not.
version: 1
dataset: {name: "a b", snapshot: 3, path: s3://bucket/data, shape: table, unit: person, schema: people.schema.yaml,
  max_rows_per_unit: 3, clustered_by_unit: true}
privacy: {epsilon: 1e-1, delta: 1.0e-9, accounting: gdp, neighbours: replace_one_unit, units: 300, ledger: sqlite:///m.db}
workload: {products: [{attributes: {age: prefix, work: each}, weight: 2}]}
mechanism: {name: hdmm}
engine: {name: local, options: {threads: 2}}
output: {path: out, synthetic_rows: 0}
"""
OTHER_SCHEMA = """\
version: 1
attributes:
  - {name: workclass, type: categorical, values: [Private, State-gov, 'no'], other: Private, 'null': true}
  - {name: income, type: float, bins: {low: 1, high: 100000, count: 10, scale: log}}
  - &day {name: day, type: date, edges: [2026-01-01, 2026-02-01, 2026-03-01]}
  - {name: insured, type: boolean, column: is_insured}
"""


@dataclass(frozen=True)
class World:
    """A folder with a published release of a graphical model.

    folder: Holds the data, the config, the schema and the ledger.
    job: The release.
    journal: File of its journal.
    """

    folder: Path
    job: Job
    journal: Path

    @property
    def ledger(self) -> Path:
        return self.folder / "marquee.db"

    @property
    def output(self) -> Path:
        return Path(self.job.config.output.path)


def make_world(folder: Path) -> World:
    """Runs the release. Its ledger lets rows of every table be changed."""
    (folder / "data").mkdir(parents=True)
    generator = np.random.default_rng(1)
    for index in range(2):
        pq.write_table(people(index * 20, 20, generator), folder / "data" / f"part-{index}.parquet", row_group_size=12)
    (folder / "people.schema.yaml").write_text(yaml.safe_dump(SCHEMA, sort_keys=False))
    config = copy.deepcopy(TABLE)
    config["mechanism"] = {"name": "mst"}
    config["privacy"] |= {"epsilon": 5.0, "ledger": f"sqlite:///{folder / 'marquee.db'}", "consumer": CONSUMER}
    (folder / "release.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    (folder / "shop.yaml").write_text(yaml.safe_dump(BASKETS, sort_keys=False))
    job = load_job(folder / "release.yaml")
    ledger = SqlLedger(job.config.privacy.ledger)
    ledger.create_dataset("people", 10.0, 1e-6)
    ledger.create_dataset("shop", 3.0, 0.0)
    ledger.grant_consumer("people", CONSUMER, 8.0, 1e-6)
    release(job)
    _allow_changes(folder / "marquee.db")
    (journal,) = folder.rglob("journal.jsonl")
    return World(folder, job, journal)


def _allow_changes(ledger: Path) -> None:
    """Drops the triggers that keep rows as they are: fuzzing stands for a disk or a hand that does not ask them."""
    with sqlite3.connect(ledger) as connection:
        for (name,) in connection.execute(_TRIGGERS).fetchall():
            connection.execute(f"DROP TRIGGER {name}")
    connection.close()
