"""Laws that every engine keeps, with the slow reference of tests/support/reference.py as the oracle."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from dpcore.errors import InputError, IntegrityError
from dpcore.exact_statistics import QueryAnswers, Request
from dpcore.queries import Marginals, UnitCount
from pipelines.aggregators import aggregator_for
from pipelines.engines.local import LocalEngine
from pipelines.engines.statistics import Engine, EngineStatistics
from pipelines.layout import BasketLayout, Layout
from pipelines.source import open_source
from tests.support import engine_cases, reference
from tests.support.engine_cases import SALT, Case
from tests.support.engines import ENGINES

CASES = [pytest.param(case, id=case.name) for case in engine_cases.cases()]
# A table and baskets, both with a bound that bites: for laws whose every check costs a job on a distributed engine.
MAIN_CASES = [pytest.param(case, id=case.name) for case in (engine_cases.messy_table(), engine_cases.messy_baskets())]
FILES = (1, 3, 16)


def local_engine_in_passes() -> Engine:
    """Holds so few rows at once that the smallest case takes several passes."""
    return LocalEngine(threads=2, rows_in_memory=60)


@pytest.fixture(scope="module", params=[*ENGINES, pytest.param(local_engine_in_passes, id="local in passes")])
def engine(request: pytest.FixtureRequest) -> Engine:
    return request.param()


def answers(engine: Engine, folder: Path, layout: Layout, request: Request) -> list[int]:
    counted = EngineStatistics(engine, open_source(str(folder), layout, SALT)).aggregate(request)
    assert counted.dtype == np.int64
    assert counted.shape == (request.queries.size if isinstance(request, QueryAnswers) else request.size,)
    return counted.tolist()


@pytest.mark.smoke(6)
@pytest.mark.parametrize("case", CASES)
def test_equals_the_slow_reference_on_messy_rows(engine: Engine, case: Case, tmp_path: Path) -> None:
    files = engine_cases.write(case.rows, tmp_path, 3)
    for request in case.requests:
        wanted = reference.answers(files, case.layout, SALT, request)
        assert sum(wanted) > 0
        assert answers(engine, tmp_path, case.layout, request) == wanted


@pytest.mark.smoke(4)
@pytest.mark.parametrize("case", MAIN_CASES)
def test_is_the_same_bits_however_the_rows_lie_in_files(engine: Engine, case: Case, tmp_path: Path) -> None:
    found = {}
    for count in FILES:
        shuffled, clustered = tmp_path / f"shuffled-{count}", tmp_path / f"clustered-{count}"
        engine_cases.write(case.rows, shuffled, count)
        engine_cases.write_clustered(case.rows, case.layout.unit, clustered, count)
        found[shuffled] = answers(engine, shuffled, case.layout, case.requests[0])
        found[clustered] = answers(engine, clustered, case.clustered(), case.requests[0])
    first, *others = found.values()
    assert all(other == first for other in others)


@pytest.mark.smoke(4)
@pytest.mark.parametrize("case", MAIN_CASES)
def test_drops_a_unit_that_breaks_the_clustered_claim_by_its_own_rows_alone(
    engine: Engine, case: Case, tmp_path: Path
) -> None:
    broken, without = tmp_path / "broken", tmp_path / "without"
    unit, request = case.layout.unit, case.requests[0]
    chosen = pc.value_counts(case.rows.column(unit).drop_null()).sort(order="descending", by="counts")[0]["values"]
    rest = case.rows.filter(pc.invert(pc.equal(case.rows.column(unit), chosen).fill_null(False)))
    whole = engine_cases.write_clustered(case.rows, unit, broken, 3)
    straying = case.rows.filter(pc.equal(case.rows.column(unit), chosen).fill_null(False)).slice(0, 1)
    pq.write_table(straying, broken / "part-stray.parquet")
    engine_cases.write_clustered(rest, unit, without, 3)
    found = answers(engine, broken, case.clustered(), request)
    assert found == reference.answers([*whole, straying.to_pylist()], case.clustered(), SALT, request)
    assert found == answers(engine, without, case.clustered(), request)
    assert found != reference.answers(whole, case.clustered(), SALT, request)


@pytest.mark.smoke(4)
@pytest.mark.parametrize("case", MAIN_CASES)
def test_one_more_unit_moves_answers_within_the_contribution(engine: Engine, case: Case, tmp_path: Path) -> None:
    heavy = newcomer(case)
    engine_cases.write(case.rows, tmp_path / "before", 2)
    engine_cases.write(pa.concat_tables([case.rows, heavy]), tmp_path / "after", 2)
    request = case.requests[0]
    before, after = (np.array(answers(engine, tmp_path / name, case.layout, request)) for name in ("before", "after"))
    moved = after - before
    assert moved.min() >= 0
    assert moved.sum() > 0
    assert moved.max() <= most_of_one_answer(case.layout)
    if isinstance(request, QueryAnswers) and isinstance(request.queries, Marginals):
        for table in request.queries.split(moved):
            assert table.sum() == case.layout.contribution.bound


@pytest.mark.smoke(4)
@pytest.mark.parametrize("clustered", [False, True])
def test_more_rows_than_a_unit_may_hold_are_an_integrity_error(engine: Engine, clustered: bool, tmp_path: Path) -> None:
    """Tasks that keep two rows a unit where one is declared: found by the task that counts, said by the driver."""
    case = engine_cases.messy_table(bound=2)
    layout = case.clustered() if clustered else case.layout
    engine_cases.write_clustered(case.rows, case.layout.unit, tmp_path, 2)
    declared = aggregator_for(case.requests[0], replace(layout, max_rows_per_unit=1))
    with pytest.raises(IntegrityError, match=r"want 1 \.\. 1 per unit$"):
        engine.reduce(open_source(str(tmp_path), layout, SALT), declared)


def newcomer(case: Case) -> pa.Table:
    """Forty rows of one unit that the case does not have, with the values of other rows."""
    rows = case.rows.filter(case.rows.column(case.layout.unit).is_valid()).slice(0, 40)
    place = rows.schema.get_field_index(case.layout.unit)
    field = rows.schema.field(place)
    return rows.set_column(place, field, pa.array([31_337] * rows.num_rows, field.type))


def most_of_one_answer(layout: Layout) -> int:
    return 1 if isinstance(layout, BasketLayout) else layout.contribution.bound


@pytest.mark.parametrize("clustered", [False, True])
def test_answers_data_without_rows_with_zeros(engine: Engine, clustered: bool, tmp_path: Path) -> None:
    case = engine_cases.messy_baskets() if clustered else engine_cases.messy_table()
    engine_cases.write_parts([case.rows.slice(0, 0), case.rows.slice(0, 0)], tmp_path)
    layout = case.clustered() if clustered else case.layout
    assert set(answers(engine, tmp_path, layout, case.requests[0])) == {0}


def test_names_a_file_that_vanished_after_it_was_checked(engine: Engine, tmp_path: Path) -> None:
    case = engine_cases.messy_baskets()
    engine_cases.write(case.rows, tmp_path, 2)
    source = open_source(str(tmp_path), replace(case.layout, clustered_by_unit=True), SALT)
    (tmp_path / "part-00001.parquet").unlink()
    with pytest.raises(InputError, match=r"part-00001\.parquet does not exist"):
        EngineStatistics(engine, source).aggregate(UnitCount())
