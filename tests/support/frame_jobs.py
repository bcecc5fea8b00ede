"""A program that compares the Spark engine with the local one: ``python -m tests.support.frame_jobs FOLDER [REMOTE]``.

With REMOTE, a Spark Connect server, the code of tasks is sent even if the server's workers have it.

It runs in a process of its own, because a process has one session, and may run with another version of Spark. It prints
one JSON object: the version and kind of the session, and for each comparison whether all bits agree.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyspark
from pyspark.sql import SparkSession

from pipelines.engines import spark_session
from pipelines.engines.local import LocalEngine
from pipelines.engines.spark import SparkEngine
from pipelines.engines.spark_session import context_of, open_session
from pipelines.engines.statistics import Engine, EngineStatistics
from pipelines.layout import Layout, TableLayout
from pipelines.row_filter import Condition, RowFilter
from pipelines.schema import Schema
from pipelines.source import AnySource, open_frame, open_source
from tests.support import engine_cases
from tests.support.engine_cases import SALT, Case
from tests.support.engines import SPARK_SETTINGS
from tests.support.incremental import incremental


def compared(session: SparkSession, folder: Path) -> dict[str, bool]:
    """Every case by files, clustered files, and frame; and clustered files with a store, empty and then full."""
    engine, found = SparkEngine(session), {}
    for case in (engine_cases.messy_table(), engine_cases.messy_baskets()):
        place = folder / case.layout.unit
        engine_cases.write(case.rows, place / "files", 3)
        engine_cases.write_clustered(case.rows, case.layout.unit, place / "clustered", 3)
        clustered = open_source(str(place / "clustered"), case.clustered(), SALT)
        broken = open_source(str(place / "files"), case.clustered(), SALT)
        sources: dict[str, tuple[AnySource, AnySource, Case]] = {
            "files": (both := open_source(str(place / "files"), case.layout, SALT), both, case),
            "clustered files": (clustered, clustered, case),
            "files that break the claim": (broken, broken, case),
            "frame": _frame(session, case, place / "files"),
        }
        for name, (source, wanted, asked) in sources.items():
            found[f"{case.name}: {name}"] = all(_equal(engine, source, wanted, asked))
        for name in ("clustered files", "files that break the claim"):
            source, wanted, asked = sources[name]
            for turn in ("empty", "full"):
                kept = incremental(place, engine)
                found[f"{case.name}: {name}, {turn} store"] = all(_equal(kept, source, wanted, asked))
    return found


def _frame(session: SparkSession, case: Case, folder: Path) -> tuple[AnySource, AnySource, Case]:
    """The rows as a frame, filtered, without the column of unsigned integers, which Spark has no type for."""
    layout: Layout = replace(case.layout, where=RowFilter((Condition(case.layout.unit, low=-80),)))
    if isinstance(layout, TableLayout):
        kept = tuple(attribute for attribute in layout.schema.attributes if attribute.name != "big")
        layout = replace(layout, schema=Schema(kept))
        case = replace(case, requests=engine_cases.table_requests(layout, np.random.default_rng(0)))
    frame = session.read.parquet(str(folder))
    return open_frame(frame, layout, SALT), open_source(str(folder), layout, SALT), case


def _equal(engine: Engine, source: AnySource, wanted: AnySource, case: Case) -> list[bool]:
    local = LocalEngine(1)
    return [
        EngineStatistics(engine, source).aggregate(request).tolist()
        == EngineStatistics(local, wanted).aggregate(request).tolist()
        for request in case.requests
    ]


def main(folder: str, remote: str = "") -> None:
    spark_session._have_this_code = lambda _: False  # type: ignore[assignment]
    session = open_session({"spark.remote": remote} if remote else SPARK_SETTINGS)
    kind = "connect" if context_of(session) is None else "classic"
    sys.stdout.write(
        json.dumps({"version": pyspark.__version__, "kind": kind, "equal": compared(session, Path(folder))})
    )
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
