"""Small releases of both shapes with their data and ledgers, to be killed and harmed."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from jobs.ledger import SqlLedger
from tests.support.engines import SPARK_SETTINGS
from tests.support.releases import BASKETS, SCHEMA, TABLE, people

SQLITE, POSTGRES = "SQLite", "PostgreSQL"
_OPTIONS: dict[str, dict[str, Any]] = {
    "local": {"threads": 1},
    "spark": {"partitions": 2, "settings": SPARK_SETTINGS},
}


def _table(folder: Path, engine: str) -> Path:
    generator = np.random.default_rng(1)
    return _written(folder, engine, TABLE, {}, [people(100 * part, 100, generator) for part in range(3)])


def _baskets(folder: Path, engine: str) -> Path:
    """200 users in three files; queries chosen by noisy popularity, answered by DualQuery."""
    generator = np.random.default_rng(2)
    users = np.repeat(np.arange(200), 6)
    items = np.minimum(generator.geometric(0.1, len(users)) - 1, 39)
    pairs = pa.table({"user": users, "item": items})
    mechanism = {"name": "dual_query", "rounds": 5, "samples": 6}
    return _written(folder, engine, BASKETS, mechanism, [pairs.slice(400 * part, 400) for part in range(3)])


SHAPES: dict[str, Callable[[Path, str], Path]] = {"table": _table, "baskets": _baskets}


def _written(
    folder: Path, engine: str, document: dict[str, Any], mechanism: dict[str, Any], parts: list[pa.Table]
) -> Path:
    """A release's config, beside its data and a ledger with a budget for it alone; nothing depends on the folder."""
    (folder / "data").mkdir(parents=True)
    for number, part in enumerate(parts):
        pq.write_table(part, folder / "data" / f"part-{number}.parquet")
    (folder / "people.schema.yaml").write_text(yaml.safe_dump(SCHEMA, sort_keys=False))
    config = copy.deepcopy(document)
    config["dataset"]["path"] = str(folder / "data")
    config["output"]["path"] = str(folder / "out" / "release")
    config["mechanism"] = mechanism or config["mechanism"]
    config["engine"] = {"name": engine, "options": _OPTIONS[engine]}
    path = folder / "release.yaml"
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    use_ledger(path, f"sqlite:///{folder / 'ledger.db'}")
    return path


def use_ledger(config: Path, url: str) -> None:
    """Makes a release use this ledger, in which it creates a budget for this release alone."""
    document = yaml.safe_load(config.read_text())
    privacy = document["privacy"]
    privacy["ledger"] = url
    SqlLedger(url).create_dataset(document["dataset"]["name"], privacy["epsilon"], privacy["delta"])
    config.write_text(yaml.safe_dump(document, sort_keys=False))
