"""A release small enough for a test: data in four files, a ledger, and a config whose answers are exact counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from jobs.ledger import SqlLedger

# So much that the discrete Laplace noise is 0 but for a chance below 1e-40.
EPSILON = 100.0
COLOURS = {"red": 1500, "green": 900, "blue": 600}
EXACT = [*COLOURS.values(), 0, 0]  # The last two: unknown values and nulls.


def write_release(folder: Path, *, clustered: bool) -> Path:
    """The config, beside all that it names; two rows a person, of which one is kept."""
    people = sum(COLOURS.values())
    colours = np.repeat(list(COLOURS), list(COLOURS.values()))
    rows = pa.table({"person": np.repeat(np.arange(people), 2), "colour": np.repeat(colours, 2)})
    order = np.arange(2 * people) if clustered else np.random.default_rng(2).permutation(2 * people)
    (folder / "data").mkdir()
    for number, part in enumerate(np.array_split(order, 4)):
        pq.write_table(rows.take(part), folder / "data" / f"{number}.parquet")
    attribute = {"name": "colour", "type": "categorical", "values": list(COLOURS)}
    (folder / "schema.yaml").write_text(yaml.safe_dump({"version": 1, "attributes": [attribute]}))
    ledger = f"sqlite:///{folder / 'ledger.db'}"
    SqlLedger(ledger).create_dataset("paint", EPSILON, 0.0)
    dataset = {"name": "paint", "snapshot": "first", "path": str(folder / "data"), "shape": "table"}
    layout = {"unit": "person", "schema": "schema.yaml", "clustered_by_unit": clustered}
    config = {
        "dataset": {**dataset, **layout},
        "privacy": {"epsilon": EPSILON, "delta": 0.0, "ledger": ledger},
        "workload": {"marginals": {"order": 1}},
        "mechanism": {"name": "laplace"},
        "output": {"path": str(folder / "out")},
    }
    path = folder / "paint.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


def answers(folder: Path) -> list[float]:
    """What was published for the config in ``folder``."""
    found: list[float] = pq.read_table(folder / "out" / "answers.parquet")["answer"].to_pylist()
    return found


def published(folder: Path) -> dict[str, bytes]:
    """Every file of the release, by its name."""
    out = folder / "out"
    return {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()}
