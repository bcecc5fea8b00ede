"""Supports and rules computed again from the counts of a release, with a private and a public number of units."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from dpcore.estimation.itemsets.rules import Counts, measures_of
from jobs.verification.rules import rule_problem, support_problem, units_of

UNITS = (200.0, 190.0, 205.0)
COUNTS = {
    ("a",): (90.0, 80.0, 100.0), ("b",): (50.0, 45.0, 60.0), ("c",): (10.0, 0.0, 20.0),
    ("a", "b"): (40.0, 30.0, 45.0), ("a", "c"): (12.0, 0.0, 15.0), ("a", "d"): (5.0, 1.0, 6.0),
}  # fmt: skip
D = (9.0, 4.0, 11.0)  # Measured, and not listed.


def itemsets(units: tuple[float, float, float] = UNITS) -> pa.Table:
    value, lower, upper = units
    rows = [
        {
            "items": list(items), "count": count, "lower": least, "upper": most,
            "support": min(count / value, 1), "support_lower": least / upper, "support_upper": min(most / lower, 1),
        }
        for items, (count, least, most) in COUNTS.items()
    ]  # fmt: skip
    return pa.Table.from_pylist(rows)


def rules(units: tuple[float, float, float] = UNITS) -> pa.Table:
    """The rules of all pairs, each by the definition."""
    known, rows = COUNTS | {("d",): D}, []
    for items in (items for items in COUNTS if len(items) == 2):
        for x, y in (items, items[::-1]):
            both, left, right = (np.array(known[part])[:, None] for part in (items, (x,), (y,)))
            for side in (left, right):
                side[0] = max(side[0], both[0], 1.0)
            measures = measures_of(Counts(both), Counts(left), Counts(right), Counts(np.array(units)[:, None]))
            row = {"antecedent": [x], "consequent": y}
            for name, ratios in zip(("support", "confidence", "lift"), measures, strict=True):
                upper = float(ratios.upper[0])
                row |= {name: float(ratios.values[0]), f"{name}_lower": float(ratios.lower[0])}
                row |= {f"{name}_upper": None if math.isinf(upper) else upper}
            rows.append(row)
    return pa.Table.from_pylist(sorted(rows, key=lambda row: -row["lift_lower"]))


def changed(table: pa.Table, column: str, row: int, value: object) -> pa.Table:
    content = table.to_pylist()
    content[row][column] = value
    return pa.Table.from_pylist(content, schema=table.schema)


@pytest.mark.smoke
def test_what_a_release_says_is_found_again() -> None:
    units = units_of(itemsets(), None)
    assert units.tolist() == pytest.approx(UNITS)
    assert support_problem(itemsets(), units) is None
    assert rule_problem(itemsets(), rules(), units) is None
    public = (200.0, 200.0, 200.0)
    assert rule_problem(itemsets(public), rules(public), units_of(itemsets(public), 200)) is None


@pytest.mark.parametrize("row", range(len(COUNTS)))
@pytest.mark.parametrize("column", ["support", "support_lower", "support_upper"])
def test_another_support_is_noticed(column: str, row: int) -> None:
    value = itemsets()[column][row].as_py()
    other = changed(itemsets(), column, row, value * 1.001 if value else 0.001)
    assert support_problem(other, units_of(other, None))


def test_another_number_of_units_than_the_public_one_is_noticed() -> None:
    table = itemsets((200.0, 200.0, 200.0))
    assert support_problem(table, units_of(table, 200)) is None
    assert support_problem(table, units_of(table, 201))


@pytest.mark.parametrize("name", ["confidence", "lift"])
@pytest.mark.parametrize("end", ["", "_lower", "_upper"])
def test_another_measure_of_a_rule_of_listed_items_is_noticed(name: str, end: str) -> None:
    units, (column, made) = units_of(itemsets(), None), (f"{name}{end}", rules())
    listed = [
        row
        for row, x in enumerate(made["antecedent"].to_pylist())
        if x != ["d"] and made["consequent"][row].as_py() != "d"
    ]
    for row in listed:
        value = made[column][row].as_py()
        assert rule_problem(itemsets(), changed(made, column, row, 1e-3 if not value else value * 1.001), units)


def test_an_item_that_is_not_listed_leaves_its_measures_open() -> None:
    made, units = rules(), units_of(itemsets(), None)
    row = made["antecedent"].to_pylist().index(["d"])
    assert rule_problem(itemsets(), changed(made, "confidence", row, 0.6), units) is None
    assert rule_problem(itemsets(), changed(made, "support", row, 0.6), units)


def test_ends_that_no_row_tells_are_not_compared() -> None:
    """One item that may be held by nobody or by all: it says nothing about the number of units but the estimate."""
    table = pa.table({
        "items": [["a"]], "count": [50.0], "lower": [0.0], "upper": [300.0],
        "support": [0.25], "support_lower": [0.0], "support_upper": [1.0],
    })  # fmt: skip
    units = units_of(table, None)
    assert units[0] == 200
    assert np.isnan(units[1:]).all()
    assert support_problem(table, units) is None
    assert rule_problem(table, rules().slice(0, 0), units) is None
