"""What a release of partitions counts is the same on every engine, and is what the slow reference counts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dpcore.errors import InputError
from pipelines.engines.local import LocalEngine
from pipelines.engines.statistics import Engine, EngineStatistics
from pipelines.layout import Layout
from pipelines.partition import Partition, UnitsIn, Values
from pipelines.row_filter import Condition, RowFilter
from pipelines.source import open_frame, open_source
from tests.support import engine_cases, reference
from tests.support.engine_cases import SALT, Case
from tests.support.engines import DISTRIBUTED, spark_engine
from tests.support.partition_cases import COLUMN, counted, partitioned, rules, write_folders

CASES = {
    "table of dates": partitioned(engine_cases.messy_table(), Values.DATE),
    "table of texts": partitioned(engine_cases.messy_table(bound=1, seed=8), Values.TEXT),
    "text units": partitioned(engine_cases.text_units(), Values.INTEGER),
    "baskets": partitioned(engine_cases.messy_baskets(), Values.TEXT),
}
KINDS = dict(zip(CASES, (Values.DATE, Values.TEXT, Values.INTEGER, Values.TEXT), strict=True))
ALL = [
    pytest.param(CASES[name], partition, id=f"{name}, {partition.units_in}, {partition.max_per_unit}, {number}")
    for name in CASES
    for number, partition in enumerate(rules(KINDS[name]))
]


def wanted(files: list[list[dict[str, object]]], case: Case, partition: Partition) -> list[list[int]]:
    rows = counted(files, case.layout.unit, partition)
    return [reference.answers(rows, case.layout, SALT, request) for request in case.requests[:2]]


def found(engine: Engine, folder: Path, layout: Layout, case: Case) -> list[list[int]]:
    statistics = EngineStatistics(engine, open_source(str(folder), layout, SALT))
    return [statistics.aggregate(request).tolist() for request in case.requests[:2]]


@pytest.mark.parametrize(("case", "partition"), ALL)
def test_the_local_engine_counts_what_the_slow_reference_counts(
    case: Case, partition: Partition, tmp_path: Path
) -> None:
    layout = replace(case.layout, partition=partition)
    stored = engine_cases.write(case.rows, tmp_path / "stored", 3)
    folders = write_folders(case.rows, tmp_path / "folders")
    answers = wanted(stored, case, partition)
    assert answers == wanted(folders, case, partition)
    assert sum(answers[0]) > 0
    for engine in (LocalEngine(threads=2), LocalEngine(threads=1, rows_in_memory=60)):
        for folder in ("stored", "folders"):
            assert found(engine, tmp_path / folder, layout, case) == answers


@pytest.mark.parametrize("make", DISTRIBUTED)
@pytest.mark.parametrize("name", CASES)
def test_distributed_engines_count_the_same(make: object, name: str, tmp_path: Path) -> None:
    case, (one, many) = CASES[name], (rules(KINDS[name])[1], rules(KINDS[name])[5])
    stored = engine_cases.write(case.rows, tmp_path / "stored", 3)
    write_folders(case.rows, tmp_path / "folders")
    for partition, folder in ((one, "folders"), (many, "folders"), (many, "stored")):
        layout = replace(case.layout, partition=partition)
        assert found(make(), tmp_path / folder, layout, case) == wanted(stored, case, partition)  # type: ignore[operator]


@pytest.mark.parametrize("make", [pytest.param(lambda: LocalEngine(threads=2), id="local"), *DISTRIBUTED])
def test_a_claim_of_clustered_files_changes_nothing(make: object, tmp_path: Path) -> None:
    """Files that break the claim would drop units; a bound on partitions brings the rows of each unit together."""
    case, partition = CASES["table of dates"], rules(Values.DATE)[5]
    stored = engine_cases.write(case.rows, tmp_path, 3)
    layout = replace(case.clustered(), partition=partition)
    assert found(make(), tmp_path, layout, case) == wanted(stored, case, partition)  # type: ignore[operator]


@pytest.mark.parametrize("make", [pytest.param(lambda: LocalEngine(threads=2), id="local"), *DISTRIBUTED])
def test_a_partition_that_is_not_there_counts_nothing(make: object, tmp_path: Path) -> None:
    case = CASES["baskets"]
    write_folders(case.rows, tmp_path)
    for partition in (
        Partition(COLUMN, Values.TEXT, ("west",)),
        Partition(COLUMN, Values.TEXT, ("!",), UnitsIn.MANY, 1),
    ):
        layout = replace(case.layout, partition=partition)
        assert not np.any(found(make(), tmp_path, layout, case)[0])  # type: ignore[operator]


def test_frames_count_the_same() -> None:
    case = CASES["table of dates"]
    rows = [case.rows.to_pylist()]
    for partition in rules(Values.DATE):
        source = open_frame(case.rows, replace(case.layout, partition=partition), SALT)
        statistics = EngineStatistics(LocalEngine(threads=1), source)
        assert [statistics.aggregate(request).tolist() for request in case.requests[:2]] == wanted(
            rows, case, partition
        )


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_unit_moves_only_the_releases_of_partitions_in_which_it_counts(case: Case, tmp_path: Path) -> None:
    """One unit less: no more partitions change than a unit may count in, whatever releases there are."""
    kind = KINDS[next(name for name, other in CASES.items() if other is case)]
    unit = case.layout.unit
    names = [name for name in case.rows.column(unit).unique().to_pylist() if name is not None][:6]
    singles = sorted({value for rule in rules(kind) for value in rule.chosen}, key=str)
    for number, name in enumerate(names):
        rest = case.rows.filter(pa.array([value != name for value in case.rows.column(unit).to_pylist()]))
        write_folders(case.rows, tmp_path / f"with-{number}")
        write_folders(rest, tmp_path / f"without-{number}")
        for units_in, bound in ((UnitsIn.ONE, None), (UnitsIn.MANY, 1), (UnitsIn.MANY, 2)):
            changed = 0
            for value in singles:
                layout = replace(case.layout, partition=Partition(COLUMN, kind, (value,), units_in, bound))
                changed += found(LocalEngine(threads=1), tmp_path / f"with-{number}", layout, case) != found(
                    LocalEngine(threads=1), tmp_path / f"without-{number}", layout, case
                )
            assert changed <= (bound or 1)


def test_a_filter_of_rows_does_not_decide_where_a_unit_counts(tmp_path: Path) -> None:
    """Two releases with different filters agree on the units that count, or one unit would move both."""
    case = CASES["baskets"]
    write_folders(case.rows, tmp_path)
    where = RowFilter((Condition(case.layout.item, low=0, high=3),))
    files = [case.rows.to_pylist()]
    for partition in rules(Values.TEXT):
        rows = counted(files, case.layout.unit, partition)
        passing = [[row for row in rows[0] if row["film"] is not None and 0 <= row["film"] <= 3]]
        layout = replace(case.layout, partition=partition, where=where)
        wanted_answers = [reference.answers(passing, case.layout, SALT, request) for request in case.requests[:2]]
        assert found(LocalEngine(threads=1), tmp_path, layout, case) == wanted_answers


@pytest.mark.spark
def test_a_filter_of_a_dataframe_does_not_decide_either(tmp_path: Path) -> None:
    """Spark could drop rows that do not pass before it is known in which partitions their units are."""
    case = CASES["baskets"]
    files = engine_cases.write(case.rows, tmp_path, 1)
    where = RowFilter((Condition(case.layout.item, low=0, high=3),))
    spark: Any = spark_engine()
    for partition in (rules(Values.TEXT)[0], rules(Values.TEXT)[4]):
        rows = counted(files, case.layout.unit, partition)
        passing = [[row for row in rows[0] if row["film"] is not None and 0 <= row["film"] <= 3]]
        layout = replace(case.layout, partition=partition, where=where)
        frame = open_frame(spark.session.read.parquet(str(tmp_path)), layout, SALT)
        for request in case.requests[:2]:
            wanted_answers = reference.answers(passing, case.layout, SALT, request)
            assert EngineStatistics(spark, frame).aggregate(request).tolist() == wanted_answers


def test_the_column_of_a_partition_is_checked(tmp_path: Path) -> None:
    case = CASES["table of dates"]
    engine_cases.write(case.rows, tmp_path, 2)
    layout = replace(case.layout, partition=Partition(COLUMN, Values.TEXT, ("north",)))
    with pytest.raises(InputError, match="want a string, as its partitions are texts"):
        open_source(str(tmp_path), layout, SALT)
