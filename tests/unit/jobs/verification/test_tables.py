"""Synthetic rows of both shapes against their layout."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.verification.findings import Outcome
from jobs.verification.tables import _row_findings
from pipelines.attributes import Attribute, Kind
from pipelines.layout import BasketLayout, Layout, TableLayout
from pipelines.schema import Schema

BASKETS = BasketLayout("user", "item", 9)
AGE = Attribute("age", Kind.INTEGER, edges=(0, 10, 20), null=False)
SEX = Attribute("sex", Kind.CATEGORICAL, values=("f", "m"), other=True)
TABLE = TableLayout("person", Schema((AGE, SEX)))
OF_ITS_UNIT = TableLayout("age", Schema((AGE, SEX)))  # The column of an attribute is the unit's too.


def baskets(users: list[int | None], items: list[int | None]) -> pa.Table:
    return pa.table({"user": pa.array(users, pa.int64()), "item": pa.array(items, pa.int32())})


def table(ages: list[int | None], sexes: list[str | None], first: int = 0) -> pa.Table:
    persons = pa.array(np.arange(first, first + len(ages)))
    return pa.table({"person": persons, "age": pa.array(ages, pa.int64()), "sex": pa.array(sexes, pa.string())})


def found(folder: Path, layout: Layout, units: int | None, *parts: pa.Table) -> str:
    """What is said of some files of rows; empty when they pass."""
    if parts:
        (folder / "rows").mkdir()
    for number, part in enumerate(parts):
        pq.write_table(part, folder / "rows" / f"part-{number:05d}.parquet")
    (finding,) = _row_findings(folder / "rows", units, layout)
    return finding.text if finding.outcome is Outcome.FAILED else ""


def test_baskets_pass_with_empty_ones_between(tmp_path: Path) -> None:
    assert found(tmp_path, BASKETS, 7, baskets([0, 0, 2], [0, 8, 3]), baskets([], []), baskets([4, 4], [1, 2])) == ""


WRONG: dict[str, tuple[Callable[[], pa.Table], str]] = {
    "an item too large": (lambda: baskets([0], [9]), "outside the declared domain"),
    "a negative item": (lambda: baskets([0], [-1]), "outside the declared domain"),
    "no item": (lambda: baskets([0, 1], [1, None]), "outside the declared domain"),
    "no unit": (lambda: baskets([0, None], [1, 1]), "does not number its units"),
    "a unit too many": (lambda: baskets([0, 7], [1, 1]), "has number 7, but the certificate says 7 units"),
    "another order": (lambda: baskets([1, 0], [1, 1]), "does not number its units"),
    "another type": (lambda: pa.table({"user": [0], "item": [1]}), "other columns or types"),
    "another column": (lambda: pa.table({"user": [0]}), "other columns or types"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_baskets_are_named(tmp_path: Path, name: str) -> None:
    rows, text = WRONG[name]
    assert text in found(tmp_path, BASKETS, 7, rows())


def test_rows_of_a_table_pass(tmp_path: Path) -> None:
    parts = (table([5, 15], ["f", None]), table([5], ["__other__"], first=2))
    assert found(tmp_path, TABLE, 3, *parts) == ""


def test_a_part_of_the_attributes_passes(tmp_path: Path) -> None:
    assert found(tmp_path, TABLE, 1, table([5], ["f"]).drop_columns(["sex"])) == ""


def test_the_column_of_an_attribute_may_be_the_unit(tmp_path: Path) -> None:
    assert found(tmp_path, OF_ITS_UNIT, 2, table([15, 5], ["f", "m"]).drop_columns(["person"])) == ""


@pytest.mark.parametrize(("ages", "sexes"), [([4], ["f"]), ([None], ["f"]), ([5], ["x"])], ids=str)
def test_a_value_outside_the_domain_is_named(tmp_path: Path, ages: list[int | None], sexes: list[str | None]) -> None:
    assert "outside the declared domain" in found(tmp_path, TABLE, 1, table(ages, sexes))


def test_a_gap_between_two_files_is_named(tmp_path: Path) -> None:
    assert "does not number" in found(tmp_path, TABLE, 2, table([5], ["f"]), table([5], ["f"], first=2))


def test_no_files_and_files_too_many_are_named(tmp_path: Path) -> None:
    assert "lacks a part" in found(tmp_path, TABLE, 2)
    assert "no synthetic rows" in found(tmp_path, TABLE, None, table([5], ["f"]))
