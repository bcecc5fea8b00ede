"""Small datasets with a config each, and the command line run within the test process."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from jobs.cli import main
from jobs.ledger import SqlLedger
from jobs.ledger.records import State
from jobs.planning.job import Job, load_job

LEDGER = "sqlite:///marquee.db"
SCHEMA: dict[str, Any] = {
    "version": 1,
    "attributes": [
        {"name": "sex", "type": "categorical", "values": ["female", "male"], "other": False, "null": False},
        {"name": "work", "type": "categorical", "values": ["private", "public", "none"], "other": True, "null": True},
        {"name": "age", "type": "integer", "edges": [0, 18, 40, 65, 100], "null": False},
        {"name": "home", "type": "boolean", "null": True},
    ],
}
TABLE: dict[str, Any] = {
    "dataset": {
        "name": "people", "snapshot": "2026-11", "path": "data/*.parquet", "shape": "table", "unit": "person",
        "schema": "people.schema.yaml",
    },
    "privacy": {"epsilon": 1.0, "delta": 1e-6, "ledger": LEDGER},
    "workload": {"marginals": {"order": 2}},
    "mechanism": {"name": "mwem", "rounds": 3},
    "output": {"path": "out/people"},
}  # fmt: skip
BASKETS: dict[str, Any] = {
    "dataset": {
        "name": "shop", "snapshot": "2026-11", "path": "data", "shape": "baskets", "unit": "user", "item": "item",
        "items": 40, "max_items_per_unit": 10,
    },
    "privacy": {"epsilon": 20.0, "delta": 1e-6, "ledger": LEDGER},
    "workload": {"conjunctions": {"count": 30, "order": 2, "weights": "noisy_popularity", "popularity_share": 0.1}},
    "mechanism": {"name": "gaussian"},
    "output": {"path": "out/shop"},
}  # fmt: skip


@dataclass
class World:
    """A folder that is the working folder, with data, a config and, once created, a budget.

    config: What ``save`` writes to release.yaml.
    """

    folder: Path
    config: dict[str, Any]
    capture: pytest.CaptureFixture[str] = field(repr=False)

    def set(self, place: str, value: object) -> None:
        """Sets one key of the config, and saves."""
        *outer, last = place.split(".")
        section = self.config
        for key in outer:
            section = section.setdefault(key, {})
        section[last] = value
        self.save()

    def save(self) -> None:
        (self.folder / "release.yaml").write_text(yaml.safe_dump(self.config, sort_keys=False))

    def budget(self, epsilon: float = 1.0, delta: float = 1e-6, name: str | None = None) -> None:
        SqlLedger(LEDGER).create_dataset(name or self.config["dataset"]["name"], epsilon, delta)

    def marquee(self, *arguments: str) -> tuple[int, str, str]:
        """Exit code, stdout and stderr of one command."""
        self.capture.readouterr()
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        out, err = self.capture.readouterr()
        assert isinstance(stop.value.code, int)
        return stop.value.code, out, err

    def run(self) -> tuple[int, str, str]:
        return self.marquee("run", "release.yaml")

    def run_as(self, name: str, path: str) -> tuple[int, str, str]:
        """As ``run``, for a dataset of another name and path; afterwards, the config is what it was."""
        before = copy.deepcopy(self.config)
        self.config["dataset"] |= {"name": name, "path": path}
        self.set("output.path", f"out/{name}")
        outcome = self.run()
        self.config = before
        self.save()
        return outcome

    def job(self) -> Job:
        return load_job("release.yaml")

    def charges(self) -> int:
        return len(SqlLedger(LEDGER).history(self.config["dataset"]["name"]))

    def state(self) -> State:
        """How far the ledger knows the release."""
        record = SqlLedger(LEDGER).release(self.job().release_id)
        assert record is not None
        return record.state

    def files(self, under: str = ".") -> dict[str, bytes]:
        """Every file by its path, with its bytes."""
        found = sorted(path for path in (self.folder / under).rglob("*") if path.is_file())
        return {path.relative_to(self.folder).as_posix(): path.read_bytes() for path in found}


def table_world(folder: Path, capture: pytest.CaptureFixture[str]) -> World:
    """300 people in three files."""
    (folder / "data").mkdir()
    generator = np.random.default_rng(1)
    for index in range(3):
        pq.write_table(people(index * 100, 100, generator), folder / "data" / f"part-{index}.parquet")
    (folder / "people.schema.yaml").write_text(yaml.safe_dump(SCHEMA, sort_keys=False))
    world = World(folder, copy.deepcopy(TABLE), capture)
    world.save()
    return world


def baskets_world(folder: Path, capture: pytest.CaptureFixture[str]) -> World:
    """200 users of 40 items, the low ones popular."""
    (folder / "data").mkdir()
    generator = np.random.default_rng(2)
    users = np.repeat(np.arange(200), 6)
    items = np.minimum(generator.geometric(0.1, len(users)) - 1, 39)
    pq.write_table(pa.table({"user": users, "item": items}), folder / "data" / "part-0.parquet")
    world = World(folder, copy.deepcopy(BASKETS), capture)
    world.save()
    return world


def people(start: int, count: int, generator: np.random.Generator) -> pa.Table:
    """Rows of the schema above, some of them null or unknown."""
    words = np.array(["private", "public", "none", "astronaut", None], dtype=object)
    sex = np.array(["female", "male"], dtype=object)[generator.integers(0, 2, count)]
    work = words[generator.choice(5, count, p=[0.4, 0.3, 0.2, 0.05, 0.05])]
    home = np.array([True, False, None], dtype=object)[generator.choice(3, count, p=[0.5, 0.4, 0.1])]
    columns = {
        "person": pa.array(np.arange(start, start + count)),
        "sex": pa.array(sex),
        "work": pa.array(work),
        "age": pa.array(generator.integers(0, 100, count)),
        "home": pa.array(home, pa.bool_()),
    }
    return pa.table(columns)
