"""A program that releases tables of Spark's catalog: ``python -m tests.support.catalog_jobs FOLDER [REMOTE]``.

It runs in a process of its own, because a process has one session, and may run with another version of Spark. It prints
one JSON object: the version and kind of the session, and for each check whether it held.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import yaml
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from dpcore.errors import ConfigError, InputError, IntegrityError, MarqueeError
from jobs.planning.job import load_job
from jobs.release.evaluation import evaluate
from jobs.release.inspection import inspected
from jobs.release.run import release
from pipelines.engines.local import LocalEngine
from pipelines.engines.spark import SparkEngine
from pipelines.engines.spark_catalog import open_table
from pipelines.engines.spark_session import context_of, open_session
from pipelines.engines.statistics import EngineStatistics
from pipelines.layout import Layout, TableLayout
from pipelines.row_filter import Condition, RowFilter
from pipelines.schema import Schema
from pipelines.source import open_frame, open_source
from pipelines.source.catalog import catalog_table
from tests.support import engine_cases
from tests.support.engine_cases import SALT
from tests.support.engines import SPARK_SETTINGS
from tests.support.small_release import EXACT, answers, published, write_release

FILTERS = (
    Condition("person", low=-80, high=200),
    Condition("colour", ("red", "pink")),
    Condition("level", (1, 2)),
    Condition("age", low=0, high=70),
    Condition("amount_eur", low=-1),
    Condition("day", low=0, dates=True),
    Condition("member", (True,)),
)


def tables(session: SparkSession, folder: Path) -> dict[str, bool]:
    """Plain and partitioned tables, views, another format, filters: the bits of the local engine on the files."""
    case = engine_cases.messy_table()
    assert isinstance(case.layout, TableLayout)
    kept = tuple(attribute for attribute in case.layout.schema.attributes if attribute.name != "big")
    layout = replace(case.layout, schema=Schema(kept))
    engine_cases.write(case.rows.drop(["big"]), folder / "messy", 3)
    rows = session.read.parquet(str(folder / "messy"))
    rows.write.saveAsTable("sales.messy")
    rows.write.partitionBy("level", "member").saveAsTable("sales.messy_by_level")
    rows.write.format("orc").saveAsTable("sales.messy_orc")
    session.sql("CREATE VIEW sales.messy_view AS SELECT * FROM sales.messy")
    held = {}
    several = RowFilter(FILTERS[:3])
    every = (RowFilter(), several, *(RowFilter((condition,)) for condition in FILTERS))
    # ORC reads the last microsecond before 1970 as one of the first second after, so not every filter fits it.
    two = (RowFilter(), several)
    chosen = {"messy": every, "messy_by_level": every, "messy_orc": two, "messy_view": two}
    for name, filters in chosen.items():
        for where in filters:
            held[f"{name} where {where.columns}"] = _equal(
                session, f"sales.{name}", replace(layout, where=where), folder
            )
    return held


def _equal(session: SparkSession, name: str, layout: Layout, folder: Path) -> bool:
    assert isinstance(layout, TableLayout)
    table = open_table(session, catalog_table(name))
    found = EngineStatistics(SparkEngine(session), open_frame(table.frame, layout, SALT))
    wanted = EngineStatistics(LocalEngine(1), open_source(str(folder / "messy"), layout, SALT))
    requests = engine_cases.table_requests(layout, np.random.default_rng(0))[:1]
    return all(found.aggregate(request).tolist() == wanted.aggregate(request).tolist() for request in requests)


class Paint:
    """The small release, whose data are a table of the catalog."""

    def __init__(self, session: SparkSession, folder: Path) -> None:
        folder.mkdir()
        self.session, self.folder = session, folder
        self._path = write_release(folder, clustered=False)
        self._written = yaml.safe_load(self._path.read_text())
        del self._written["dataset"]["path"], self._written["dataset"]["clustered_by_unit"]
        self._written["engine"] = {"name": "spark"}

    def write(self, out: str = "out", **dataset: Any) -> Path:
        config = json.loads(json.dumps(self._written))
        config["dataset"] |= dataset
        config["output"]["path"] = str(self.folder / out)
        self._path.write_text(yaml.safe_dump(config))
        return self._path

    def run(self, given: Any = None, **keys: Any) -> bool:
        """Makes a release, and says whether it had been published before."""
        return release(load_job(self.write(**keys)), frame=given).already

    def refused(self, kind: type[MarqueeError], words: str, given: Any = None, **keys: Any) -> bool:
        try:
            self.run(given, **keys)
        except MarqueeError as error:
            sys.stderr.write(f"{error}\n")
            return type(error) is kind and words in str(error)
        return False


def releases(session: SparkSession, folder: Path) -> dict[str, bool]:
    """A release of a table, and what becomes of it and of others when names and rows change."""
    paint = Paint(session, folder / "paint")
    session.read.parquet(str(paint.folder / "data")).write.saveAsTable("sales.paint")
    held = {"published": not paint.run(catalog="sales.paint")}
    held["exact"] = answers(paint.folder) == EXACT
    before = published(paint.folder)
    held["again"] = paint.run(catalog="spark_catalog.sales.paint") and published(paint.folder) == before
    named = json.loads(before["certificate.json"])["dataset"]
    held["certificate"] = named["table"] == "spark_catalog.sales.paint in Spark's catalog"
    held["evaluate"] = evaluate(load_job(paint.write(catalog="sales.paint"))).truncated.error["mean"] == 0
    held["validate"] = inspected(load_job(paint.write(catalog="sales.paint"))).units == sum(EXACT)
    other: dict[str, Any] = {"out": "out2", "snapshot": "second"}
    absent, versions = "Spark's catalogs have no such table", "cannot read by its version"
    held["no table"] = paint.refused(InputError, absent, catalog="sales.nothing", **other)
    held["no database"] = paint.refused(InputError, absent, catalog="nowhere.paint", **other)
    held["no catalog"] = paint.refused(InputError, absent, catalog="nowhere.sales.paint", **other)
    held["no version"] = paint.refused(InputError, versions, catalog={"table": "sales.paint", "version": 1}, **other)
    session.sql("CREATE VIEW sales.alias AS SELECT * FROM sales.paint")
    new = {**other, "name": "varnish"}
    _budget(paint, "varnish")
    held["alias"] = paint.refused(ConfigError, "dataset 'paint' in this ledger", catalog="sales.alias", **new)
    held["files of the table"] = _files_refused(paint, folder)
    session.sql("INSERT INTO sales.paint VALUES (999999, 'red')")
    held["changed"] = paint.refused(IntegrityError, "was planned with other rows", catalog="sales.paint")
    held["new label"] = not paint.run(catalog="sales.paint", **other)
    return held


def _files_refused(paint: Paint, folder: Path) -> bool:
    """The folder of the table as the path of another dataset, and a copy of its files elsewhere."""
    location = next((folder / "warehouse").rglob("paint"), None)
    if location is None:  # A server has its own warehouse.
        return True
    keys: dict[str, Any] = {"out": "out2", "snapshot": "second", "name": "varnish"}
    where_it_is = paint.refused(ConfigError, "belongs to dataset 'paint'", path=str(location), **keys)
    copies = paint.folder / "copies"
    copies.mkdir()
    for file in location.glob("*.parquet"):
        pq.write_table(pq.read_table(file), copies / file.name)  # Other row groups, sizes and footers.
    for file in location.glob("*.parquet"):
        (copies / file.name).write_bytes(file.read_bytes())
    return where_it_is and paint.refused(ConfigError, "dataset 'paint' in this ledger", path=str(copies), **keys)


def frames(session: SparkSession, folder: Path) -> dict[str, bool]:
    """Releases of DataFrames: the same rows are the same release, and rows that are never the same are refused."""
    paint = Paint(session, folder / "frames")
    rows = session.read.parquet(str(paint.folder / "data"))
    held = {"frame published": not paint.run(rows, frame="paint of the shop")}
    held["frame exact"] = answers(paint.folder) == EXACT
    held["frame again"] = paint.run(rows.repartition(3).orderBy("colour"), frame="paint of the shop")
    # Spark draws the seed of rand() once for each DataFrame, but takes the time anew in each job.
    timed = rows.withColumn("person", sql.col("person") + sql.unix_micros(sql.current_timestamp()))
    keys: dict[str, Any] = {"out": "out2", "snapshot": "second", "frame": "paint of the shop"}
    held["frame of now"] = paint.refused(IntegrityError, "gave other rows when it was read again", timed, **keys)
    local = pa.table({"person": [1], "colour": ["red"]})
    held["Arrow on Spark"] = paint.refused(ConfigError, "the frame is no Spark DataFrame", local, **keys)
    held["no column"] = paint.refused(InputError, "has no column 'colour'", rows.drop("colour"), **keys)
    return held


def _budget(paint: Paint, name: str) -> None:
    from jobs.ledger import SqlLedger

    SqlLedger(f"sqlite:///{paint.folder / 'ledger.db'}").create_dataset(name, 200.0, 0.0)
    SqlLedger(f"sqlite:///{paint.folder / 'ledger.db'}").raise_total("paint", 1000.0, 0.0, "for this test")


CHECKS: tuple[Callable[[SparkSession, Path], dict[str, bool]], ...] = (tables, releases, frames)


def main(folder: str, remote: str = "") -> None:
    warehouse = {"spark.sql.warehouse.dir": f"{folder}/warehouse"}
    session = open_session({"spark.remote": remote} if remote else {**SPARK_SETTINGS, **warehouse})
    kind = "connect" if context_of(session) is None else "classic"
    if kind == "classic":
        session.sparkContext.setLogLevel("OFF")
    session.sql("CREATE DATABASE sales")
    held = {name: value for check in CHECKS for name, value in check(session, Path(folder)).items()}
    sys.stdout.write(json.dumps({"version": pyspark.__version__, "kind": kind, "held": held}))
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
