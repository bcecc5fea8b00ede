"""Rows of one strategy, measured one after another: their sensitivity together, by brute force, and what is refused."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import pytest

from dpcore.domain import Domain
from dpcore.errors import BudgetExceededError
from dpcore.exact_statistics import Contribution, Shape
from dpcore.kernel.budget import Budget
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.sensitivity import Neighbours, PrivacyUnit, l1_sensitivity, squared_l2_sensitivity
from dpcore.kernel.series import series_rows
from dpcore.queries import Product, Products
from dpcore.testing.doubles import private_statistics
from dpcore.testing.memory import MemoryJournal
from dpcore.testing.tiny_statistics import TinyTable

DOMAIN = Domain.of({"cell": 2, "day": 3})
LOWER = np.array([[3, 0, 0], [-1, 2, 0], [1, 1, 2]])
STRATEGY = Products(DOMAIN, (Product(("cell", "day"), (np.eye(2, dtype=np.int64), LOWER)),), 2)
TABLE = TinyTable(DOMAIN, np.array([[0, 0], [1, 0], [0, 1], [0, 2], [1, 2]]))


def moves(rows: tuple[tuple[int, int], ...]) -> np.ndarray:
    """What rows (cell, day) of a unit add to the answers of all steps, one step after another."""
    table = np.zeros(DOMAIN.sizes, dtype=np.int64)
    for cell, day in rows:
        table[cell, day] += 1
    # At each step, only the rows up to that day exist.
    return np.concatenate([LOWER[step, : step + 1] @ table.T[: step + 1] for step in range(3)])


@pytest.mark.parametrize("bound", [1, 2, 3])
def test_no_unit_moves_all_steps_together_by_more_than_the_sensitivity(bound: int) -> None:
    cells = list(product(range(2), range(3)))
    placements = [rows for count in range(bound + 1) for rows in combinations_with_replacement(cells, count)]
    added = [moves(rows) for rows in placements]
    unit = PrivacyUnit(Neighbours.ADD_REMOVE_UNIT, Contribution(Shape.TABLE, bound))
    assert max(int(abs(move).sum()) for move in added) <= l1_sensitivity(STRATEGY, unit)
    assert max(int(move @ move) for move in added) == squared_l2_sensitivity(STRATEGY, unit)
    replaced = PrivacyUnit(Neighbours.REPLACE_ONE_UNIT, Contribution(Shape.TABLE, bound), 10)
    exchanged = [left - right for left in added for right in added]
    assert max(int(abs(move).sum()) for move in exchanged) <= l1_sensitivity(STRATEGY, replaced)
    assert max(int(move @ move) for move in exchanged) <= squared_l2_sensitivity(STRATEGY, replaced)


def test_a_kept_row_that_moves_when_later_days_arrive_would_break_the_bound() -> None:
    """Condition 3 of ``series_rows`` is needed: a unit whose only kept row changes with the day adds more.

    On each day it keeps its newest row, so the releases read parts of different tables.
    """
    matrix = np.array([[2, 0, 0], [1, 2, 0], [0, 1, 2]])
    strategy = Products(DOMAIN, (Product(("day",), (matrix,)),))
    unit = PrivacyUnit(Neighbours.ADD_REMOVE_UNIT, Contribution(Shape.TABLE, 1))
    newest = matrix.diagonal()  # The release of each day reads the row of that day, and no other row of the unit.
    assert newest @ newest > squared_l2_sensitivity(strategy, unit)


@pytest.mark.parametrize("budget", [Budget.pure(1), Budget.zcdp(1), Budget.gdp(1)], ids=str)
def test_each_step_has_the_noise_of_the_whole_strategy_and_its_charge(budget: Budget) -> None:
    whole = private_statistics(TABLE, budget).measure(STRATEGY, Fraction(1))
    for step in range(3):
        private = private_statistics(TABLE, budget)
        measured = private.measure_rows(STRATEGY, "day", step, range(step, step + 1), Fraction(1))
        assert (measured.noise, measured.scale) == (whole.noise, whole.scale)
        assert measured.queries.digest() == series_rows(STRATEGY, "day", step, range(step, step + 1)).digest()
        (charge,) = private.charges
        assert charge.amount == budget.amount
        assert charge.basis == PrivacyTerms(private.terms.unit, budget).measure_basis(STRATEGY, Fraction(1))
        with pytest.raises(BudgetExceededError):
            private.measure_rows(STRATEGY, "day", step, range(step, step + 1), Fraction(1))


def test_a_step_is_replayed_from_its_journal() -> None:
    journal, arguments = MemoryJournal(), (STRATEGY, "day", 1, range(1, 2), Fraction(1))
    first = private_statistics(TABLE, Budget.zcdp(1), journal=journal).measure_rows(*arguments)
    again = private_statistics(TABLE, Budget.zcdp(1), journal=journal).measure_rows(*arguments)
    assert first.values.tolist() == again.values.tolist()


@pytest.mark.parametrize(
    ("strategy", "attribute", "step", "rows", "message"),
    [
        (STRATEGY, "month", 0, range(1), "without attribute 'month'"),
        (STRATEGY, "day", 0, range(2), "rows 0 to 1 read values after 0"),
        (STRATEGY, "day", 2, range(2, 4), "want a range"),
        (STRATEGY, "day", 2, range(1, 1), "want a range"),
        (STRATEGY, "day", 2, range(0, 3, 2), "want a range"),
        (Products(DOMAIN, STRATEGY.terms * 2), "day", 0, range(1), "2 terms"),
    ],
)
def test_what_is_no_part_of_a_series_is_refused(
    strategy: Products, attribute: str, step: int, rows: range, message: str
) -> None:
    private: Any = private_statistics(TABLE, Budget.zcdp(1))
    with pytest.raises(ValueError, match=message):
        private.measure_rows(strategy, attribute, step, rows, Fraction(1))
    assert not private.charges
