"""Frames of every library and the file on disk: the same rules for release ids, and statistics equal to the bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import marquee
from dpcore.evaluation import exact_answers
from jobs.release.run import open_statistics
from marquee.configuration import request_of
from tests.support import engines
from tests.support.recorded_randomness import recorded
from tests.support.releases import SCHEMA, people

WORKLOAD = {"marginals": {"up_to_order": 3}}
OPTIONS: dict[str, Any] = {"name": "people", "schema": SCHEMA, "mechanism": "gaussian"}


def spark(rows: pa.Table) -> Any:
    """A DataFrame of Spark."""
    from pipelines.engines.spark import open_session

    engines.spark_engine()
    frame = rows.to_pandas(types_mapper={pa.bool_(): pd.BooleanDtype()}.get)
    return open_session().createDataFrame(frame.astype(object).where(frame.notna(), None), _spark_schema(rows.schema))


def _spark_schema(schema: pa.Schema) -> str:
    names = {pa.int64(): "long", pa.string(): "string", pa.bool_(): "boolean"}
    return ", ".join(f"{field.name} {names[field.type]}" for field in schema)


KINDS: dict[str, Callable[[pa.Table], Any]] = {
    "pyarrow": lambda rows: rows,
    "pandas": lambda rows: rows.to_pandas(),
    "polars": pl.from_arrow,
    "duckdb": lambda rows: duckdb.from_arrow(rows),
    "spark": spark,
}
FRAMES = [pytest.param(kind, id=name, marks=[pytest.mark.spark] * (name == "spark")) for name, kind in KINDS.items()]


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pa.Table:
    """Rows in a file and in memory. Every twentieth person has two rows, of which one is dropped."""
    monkeypatch.chdir(tmp_path)
    table = people(0, 400, np.random.default_rng(7))
    table = pa.concat_tables([table, table.slice(0, 20).set_column(1, "sex", pa.array(["male"] * 20))])
    pq.write_table(table, "people.parquet")
    return table


def facts(data: Any, ledger: str) -> tuple[str, Any]:
    """The release id, and exact answers about the truncated rows."""
    marquee.Ledger(ledger)
    request = request_of(data, "person", WORKLOAD, 1.0, 1e-6, {**OPTIONS, "ledger": ledger})  # type: ignore[typeddict-item]
    statistics = open_statistics(request.job, frame=request.frame)
    return request.job.release_id, exact_answers(statistics, request.job.stand_in.queries)


@pytest.mark.parametrize("kind", FRAMES)
def test_a_frame_has_the_statistics_of_its_file(rows: pa.Table, kind: Callable[[pa.Table], Any]) -> None:
    """One ledger, hence one salt: the same rows of a unit are kept."""
    marquee.Ledger("marquee.db").create("people", 9.0, 1e-6)
    of_file, of_frame, of_table = (
        facts("people.parquet", "marquee.db"),
        facts(kind(rows), "marquee.db"),
        facts(rows, "marquee.db"),
    )
    np.testing.assert_array_equal(of_frame[1], of_file[1])
    assert of_frame[1].max() == 400  # The number of people.
    assert of_frame[0] == of_table[0] != of_file[0]


@pytest.mark.parametrize("kind", FRAMES)
def test_a_release_of_a_frame_is_that_of_its_file_to_the_bit(rows: pa.Table, kind: Callable[[pa.Table], Any]) -> None:
    """With equal draws of the kernel. Each dataset has a ledger of its own, so one row per unit is kept beforehand."""
    rows = rows.slice(0, 400)
    pq.write_table(rows, "people.parquet")
    answers = []
    for ledger, data in (("file.db", "people.parquet"), ("frame.db", kind(rows))):
        marquee.Ledger(ledger).create("people", 9.0, 1e-6)
        with recorded("door"):
            release = marquee.release(
                data,
                unit="person",
                workload=WORKLOAD,
                epsilon=1.0,
                delta=1e-6,
                ledger=ledger,
                progress=False,
                **OPTIONS,
            )
        assert not release.already
        answers.append((Path(str(release.folder)) / "answers.parquet").read_bytes())
        assert release.verify().failures == ()
    assert answers[0] == answers[1]
    # The rows in another kind of frame and another order are the same release.
    again = marquee.release(
        rows.take(list(range(399, -1, -1))), unit="person", workload=WORKLOAD, epsilon=1.0, delta=1e-6,
        ledger="frame.db", progress=False, **OPTIONS,
    )  # fmt: skip
    assert again.already
    assert len(marquee.Ledger("frame.db").dataset("people").history) == 1
