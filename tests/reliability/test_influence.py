"""The search at the fast size, its strength, and a planted bound per file: the search finds it for every aggregate."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcore.errors import InputError
from pipelines.engines import accumulation
from pipelines.engines.local import LocalEngine
from pipelines.layout import Layout
from pipelines.source import open_source
from tests.audit.section import Size
from tests.reliability import influence, influence_data
from tests.reliability.influence import ADD, Found, bounded_per_file, cases, search
from tests.support.engine_cases import SALT

CASES = list(cases())
NAMES = [f"{layout}, {aggregate.name}, {relation.value}" for layout, _, aggregate, relation in CASES]
TIGHT = ("marginals", "number of units", "counts of values or items")
"""Aggregates whose declared bound a unit reaches."""
BOUNDED = [
    pytest.param(index, id=NAMES[index]) for index, (_, _, aggregate, _) in enumerate(CASES) if aggregate.name in TIGHT
]


def test_no_unit_moves_an_aggregate_by_more_than_is_charged() -> None:
    rows = influence.run(Size.FAST)
    assert len(rows) == len(CASES)
    assert [row.cells for row in rows if not row.passed] == []
    # The search is no use if it finds only units that hardly matter.
    assert max(row.cells["largest L1 ratio"] for row in rows) == 1
    # With so few pairs, a unit may by chance be replaced by one that counts the same.
    assert all(row.cells["largest L1 ratio"] > 0 for row in rows if row.cells["neighbours"] == "add/remove")


def found_with_bound_per_file(index: int, steps: int) -> Found:
    """What the search has found when it first exceeds what is charged, or after all steps."""
    _, layout, aggregate, relation = CASES[index]
    found = Found()
    with bounded_per_file():
        search(layout, aggregate, relation, steps, LocalEngine(threads=1), found, until_exceeded=True)
    return found


@pytest.mark.parametrize("name", ["marginals", "number of units"])
def test_a_bound_that_counts_per_file_is_found(name: str) -> None:
    (index,) = [
        index for index, (layout, _, aggregate, relation) in enumerate(CASES)
        if (layout, aggregate.name, relation) == ("table, 1 row", name, ADD)
    ]  # fmt: skip
    found = found_with_bound_per_file(index, 12)
    assert found.exceeded > 0
    assert not influence.row_of("local", "", CASES[index][2], ADD, found).passed


@pytest.mark.parametrize("name", ["table, 2 rows, units in one partition", "baskets, 3 items, units in two partitions"])
def test_a_unit_that_counts_in_all_of_its_partitions_is_found(name: str) -> None:
    """A planted fault: the pipelines forget the bound on the partitions of a unit."""
    ((layout, aggregate),) = [
        (layout, aggregate)
        for case, layout, aggregate, _ in CASES
        if (case, aggregate.name) == (name, "number of units")
    ]
    found = Found()

    def all_partitions(batches: Iterable[pa.RecordBatch], layout: Layout) -> Iterable[pa.RecordBatch]:
        return [batch.select(list(layout.columns)) for batch in batches if batch.num_columns > len(layout.columns)]

    with mock.patch.object(accumulation, "counted_rows", all_partitions):
        search(layout, aggregate, ADD, 60, LocalEngine(threads=1), found)
    assert found.exceeded > 0


@pytest.mark.full
@pytest.mark.parametrize("index", BOUNDED)
def test_a_bound_that_counts_per_file_is_found_wherever_the_declared_bound_is_tight(index: int) -> None:
    assert found_with_bound_per_file(index, 110).exceeded > 0


def test_composed_and_decomposed_letters_are_two_units_and_two_widths_of_integers_are_refused(tmp_path: Path) -> None:
    layout = influence_data.basket_layout(1, False)
    texts = pa.table({"person": ["\u00e9", "e\u0301"], "film": pa.array([1, 1], pa.int64())})
    pq.write_table(texts, tmp_path / "texts.parquet")
    (counts,) = [one for _, _, one, relation in CASES if one.name == "number of units" and relation is ADD][-1:]
    assert influence.answers(LocalEngine(threads=1), tmp_path, layout, counts).tolist() == [2]
    for number, kind in enumerate((pa.int32(), pa.int64())):
        table = pa.table({"person": pa.array([7], kind), "film": pa.array([number], pa.int64())})
        pq.write_table(table, tmp_path / f"{number}.parquet")
    (tmp_path / "texts.parquet").unlink()
    with pytest.raises(InputError, match="want one type"):
        open_source(str(tmp_path), layout, SALT)


@pytest.mark.full
@pytest.mark.parametrize("name", ["beam", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_distributed_engine_measures_the_same_influence(name: str) -> None:
    engine = influence.beam_engine() if name == "beam" else influence.spark_engine()
    for _, layout, aggregate, relation in CASES[::9]:
        found = Found()
        search(layout, aggregate, relation, 12, LocalEngine(threads=1), found)
        assert found.worst is not None
        again = influence.measured(found.worst, aggregate, relation, engine)
        assert again == influence.measured(found.worst, aggregate, relation, LocalEngine(threads=1))
        assert again.within


def test_a_search_is_a_function_of_its_seed() -> None:
    _, layout, aggregate, relation = CASES[0]
    first, second = Found(), Found()
    for found in (first, second):
        search(layout, aggregate, relation, 3, LocalEngine(threads=1), found)
    assert (first.l1, first.squared_l2) == (second.l1, second.squared_l2)
    assert np.isfinite(first.l1)
