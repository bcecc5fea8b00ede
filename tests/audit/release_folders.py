"""Two whole releases, of neighbours, with the same draws: every public byte of theirs must be the same."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import yaml
from structlog.testing import capture_logs

from dpcore.kernel.budget import Currency
from dpcore.kernel.sensitivity import Neighbours
from dpcore.mechanisms.api import Progress
from dpcore.testing.doubles import REPLACE
from jobs.config import parse_config
from jobs.ledger import SqlLedger
from jobs.ledger.records import Accounting
from jobs.planning.job import Job, job_of
from jobs.release import run
from jobs.release.run import release
from pipelines.engines.local import LocalEngine
from tests.audit.mechanism_table import AuditRow, Kind
from tests.support.engine_cases import write_parts
from tests.support.recorder import Draw, Reported, Samplers
from tests.support.releases import BASKETS, SCHEMA, TABLE, people

EPSILON = 2.0
_NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
_UNITS = 40
_BITS = [{"name": "sex", "type": "categorical", "values": ["female", "male"], "other": "male", "null": False},
         {"name": "work", "type": "categorical", "values": ["private"], "other": True, "null": False},
         {"name": "age", "type": "integer", "edges": [0, 40, 100], "null": False},
         {"name": "home", "type": "boolean", "null": False}]  # fmt: skip
_CLIQUES = [{"attributes": ["sex", "work"]}, {"attributes": ["age"]}, {"attributes": ["home", "age"], "weight": 3.0}]


@dataclass(frozen=True, eq=False)
class Published:
    """What one release leaves behind for others. files: Of the output and the state folder, by name."""

    files: Mapping[str, bytes]
    said: Sequence[Any]
    draws: Sequence[Draw]


def differences(
    row: AuditRow, kind: Kind, relation: Neighbours, currency: Currency, seed: int, folder: Path
) -> list[str]:
    """What differs between the releases of two neighbours, by name; no draw is made for the second one.

    Each runs in the same folder, at the same time, from a copy of one new ledger, so that ids, paths, times and the
    secret salt are the same.
    """
    draw = np.random.default_rng([seed, list(Kind).index(kind)])
    first, neighbour = _neighbours(kind, relation, draw)
    config = _config(row, kind, relation, currency, folder / "world")
    schema = SCHEMA | {"attributes": _BITS} if kind is Kind.BITS else SCHEMA
    _prepare(folder / "new", config, schema, currency)
    one = _release(config, folder, first, None)
    other = _release(config, folder, neighbour, one.draws)
    found = [name for name in sorted({*one.files, *other.files}) if one.files.get(name) != other.files.get(name)]
    return found + (["log"] if one.said != other.said else [])


def _release(config: dict[str, Any], folder: Path, parts: list[pa.Table], kept: Sequence[Draw] | None) -> Published:
    world = folder / "world"
    shutil.rmtree(world, ignore_errors=True)
    shutil.copytree(folder / "new", world)
    write_parts(parts, world / "data")
    said: list[Any] = []
    job = _job(config, world)
    same_time = mock.patch.object(run, "SqlLedger", partial(SqlLedger, clock=lambda: _NOW))
    with same_time, Samplers(kept).watched() as samplers, capture_logs() as logs:
        release(job, engine=LocalEngine(threads=1), progress=_progress_to(said))
    files = {path.relative_to(world).as_posix(): path.read_bytes() for path in (world / "out").rglob("*")
             if path.is_file()}  # fmt: skip
    assert any(name.endswith("_SUCCESS") for name in files)
    return Published(files, [*said, *logs], samplers.draws)


def _progress_to(said: list[Any]) -> Any:
    @contextmanager
    def bar(label: str) -> Iterator[Progress]:
        said.append(label)
        yield Reported(said)

    return bar


def _job(config: dict[str, Any], world: Path) -> Job:
    return job_of(parse_config(config), world)


def _prepare(new: Path, config: dict[str, Any], schema: dict[str, Any], currency: Currency) -> None:
    """A folder with a schema and a ledger in which the dataset has a budget, its salt and its key, and no release."""
    new.mkdir(parents=True)
    (new / "people.schema.yaml").write_text(yaml.safe_dump(schema, sort_keys=False))
    accounting = {Currency.GDP: Accounting.GDP, Currency.ZCDP: Accounting.ZCDP}.get(currency, Accounting.AUTO)
    ledger = SqlLedger(f"sqlite:///{new / 'marquee.db'}")
    privacy = config["privacy"]
    ledger.create_dataset(config["dataset"]["name"], privacy["epsilon"], privacy["delta"], accounting=accounting)


def _config(row: AuditRow, kind: Kind, relation: Neighbours, currency: Currency, world: Path) -> dict[str, Any]:
    config = copy.deepcopy(BASKETS if kind in (Kind.BASKETS, Kind.ITEMSETS) else TABLE)
    config["dataset"]["path"] = str(world / "data")
    config["output"] = {"path": str(world / "out" / "release")}
    named = {"attribute": "age"} if "attribute" in row.release[kind] else {}  # An attribute of these data.
    config["mechanism"] = {"name": row.name, **row.release[kind], **named}
    accounting = {Currency.PURE: "auto", Currency.ZCDP: "zcdp", Currency.GDP: "gdp"}[currency]
    privacy = {"epsilon": EPSILON, "delta": 0.0 if currency is Currency.PURE else 1e-6, "accounting": accounting}
    config["privacy"] = privacy | {"ledger": f"sqlite:///{world / 'marquee.db'}", "neighbours": relation.value}
    if relation is REPLACE:
        config["privacy"]["units"] = _UNITS
    if kind in (Kind.MARGINALS, Kind.RANGES, Kind.BITS):
        config["workload"] = {"marginals": {"cliques": _CLIQUES} | ({"prefix": ["age"]} if kind is Kind.RANGES else {})}
        if not row.one_row:
            config["dataset"]["max_rows_per_unit"] = 2
    elif kind is Kind.CONJUNCTIONS:
        positive = row.positive and currency is Currency.ZCDP
        config["workload"] = {"conjunctions": {"count": 12, "order": 2, "negations": "none" if positive else "random"}}
    elif kind is Kind.ITEMSETS:
        config["workload"] = {"itemsets": {"order": 3, "top": 10}}
    return config


def _neighbours(kind: Kind, relation: Neighbours, draw: np.random.Generator) -> tuple[list[pa.Table], list[pa.Table]]:
    """Three files each, rows in another order; the last unit is new or another one, with what nobody listed."""
    number = _UNITS - 1
    if kind in (Kind.BASKETS, Kind.ITEMSETS):
        users, items = np.repeat(np.arange(number), 5), np.minimum(draw.geometric(0.1, 5 * number) - 1, 39)
        others = pa.table({"user": users, "item": items})
        last = [pa.table({"user": [number] * 12, "item": [*range(28, 38), -1, 2**40]}),
                pa.table({"user": [number] * 3, "item": [0, 0, 1]})]  # fmt: skip
    else:
        others = pa.concat_tables([people(0, number, draw), people(0, number // 2, draw)])
        last = [_strange(others.schema, number, 7), people(number, 1, draw)]
    with_one, with_other = (pa.concat_tables([others, unit.cast(others.schema)]) for unit in last)
    sides = (with_one, with_other) if relation is REPLACE else (others, with_one)
    return _three_files(sides[0], draw), _three_files(sides[1], draw)


def _strange(schema: pa.Schema, person: int, rows: int) -> pa.Table:
    """Many rows of one person: a category of its own, ages out of every bin, nulls."""
    columns = {"person": [person] * rows, "sex": [None, "other"] * (rows // 2) + ["male"] * (rows % 2),
               "work": ["a new one"] * rows, "age": [-(2**62), 2**62, None] * (rows // 3) + [0] * (rows % 3),
               "home": [None] * rows}  # fmt: skip
    return pa.table(columns, schema=schema)


def _three_files(rows: pa.Table, draw: np.random.Generator) -> list[pa.Table]:
    mixed = rows.take(pa.array(draw.permutation(rows.num_rows)))
    return [mixed.slice(start, rows.num_rows // 3 + 1) for start in range(0, rows.num_rows, rows.num_rows // 3 + 1)]
