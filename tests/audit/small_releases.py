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
from tests.support.postgres import Server
from tests.support.releases import BASKETS, SCHEMA, TABLE, people

SQLITE, POSTGRES = "SQLite", "PostgreSQL"
_OPTIONS: dict[str, dict[str, Any]] = {
    "local": {"threads": 1},
    "spark": {"partitions": 2, "settings": SPARK_SETTINGS},
}


def _table(folder: Path, engine: str, ledger: str | None = None) -> Path:
    generator = np.random.default_rng(1)
    return _written(folder, engine, ledger, TABLE, {}, [people(100 * part, 100, generator) for part in range(3)])


def _baskets(folder: Path, engine: str, ledger: str | None = None) -> Path:
    """200 users in three files; queries chosen by noisy popularity, answered by DualQuery."""
    generator = np.random.default_rng(2)
    users = np.repeat(np.arange(200), 6)
    items = np.minimum(generator.geometric(0.1, len(users)) - 1, 39)
    pairs = pa.table({"user": users, "item": items})
    mechanism = {"name": "dual_query", "rounds": 5, "samples": 6}
    return _written(folder, engine, ledger, BASKETS, mechanism, [pairs.slice(400 * part, 400) for part in range(3)])


def _discovered(folder: Path, engine: str, ledger: str | None = None) -> Path:
    """As ``_baskets``, with names in place of numbers, which are discovered first."""
    path = _baskets(folder, engine, ledger)
    for file in (folder / "data").iterdir():
        table = pq.read_table(file)
        names = pa.array([f"item {item}" for item in table["item"].to_pylist()])
        pq.write_table(table.set_column(1, "item", names), file)
    config = yaml.safe_load(path.read_text())
    config["dataset"]["items"] = {"discover": {"share": 0.2, "at_most": 40}}
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return path


def _itemsets(folder: Path, engine: str, ledger: str | None = None) -> Path:
    """The most frequent items, pairs and triples of the same baskets: a pass for each size, which later ones need."""
    return _with(_baskets(folder, engine, ledger), {"itemsets": {"order": 3, "top": 5}}, {"name": "frequent_itemsets"})


def _mixture(folder: Path, engine: str, ledger: str | None = None) -> Path:
    """Synthetic baskets of the same ones, from a model of sizes, items and pairs."""
    path = _with(
        _baskets(folder, engine, ledger), {"conjunctions": {"count": 30, "order": 2}}, {"name": "basket_mixture"}
    )
    config = yaml.safe_load(path.read_text())
    config["output"]["synthetic_rows"] = 50
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return path


def _with(path: Path, workload: dict[str, Any], mechanism: dict[str, Any]) -> Path:
    config = yaml.safe_load(path.read_text()) | {"workload": workload, "mechanism": mechanism}
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return path


SHAPES: dict[str, Callable[[Path, str, str | None], Path]] = {
    "table": _table,
    "baskets": _baskets,
    "discovered": _discovered,
    "itemsets": _itemsets,
    "mixture": _mixture,
}
"""By shape, what writes a release into a folder for an engine. The third argument is the URL of an empty database for
the ledger; with None the ledger is a file beside the data.
"""


def _written(
    folder: Path,
    engine: str,
    ledger: str | None,
    document: dict[str, Any],
    mechanism: dict[str, Any],
    parts: list[pa.Table],
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
    privacy = config["privacy"]
    privacy["ledger"] = ledger or f"sqlite:///{folder / 'ledger.db'}"
    SqlLedger(privacy["ledger"]).create_dataset(config["dataset"]["name"], privacy["epsilon"], privacy["delta"])
    path = folder / "release.yaml"
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return path


def ledger_of(database: str, postgres: Server | None) -> str | None:
    """The URL of an empty database of this kind; None for SQLite, whose file is beside the data."""
    if database == SQLITE:
        return None
    assert postgres is not None
    return postgres.emptied()
