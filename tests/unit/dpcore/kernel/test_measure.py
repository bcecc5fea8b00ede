"""What a measurement holds in each currency: units, scale, and the progress of its noise."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpcore.domain import Domain
from dpcore.errors import CutOffError
from dpcore.kernel import blocks
from dpcore.kernel.budget import Budget, Currency
from dpcore.measurement import GRID_BITS, Noise
from dpcore.queries import Marginals, Product, Products
from dpcore.testing.doubles import private_statistics
from dpcore.testing.memory import MemoryJournal
from dpcore.testing.tiny_statistics import TinyTable
from dpcore.uncertainty import of_measurements

DOMAIN = Domain.of({"a": 2, "b": 1000})
TABLE = TinyTable(DOMAIN, np.array([[0, 3], [0, 5], [1, 2], [1, 2]]))
CELLS = Marginals(DOMAIN, (("b",),))
STRATEGY = Products(DOMAIN, (Product(("a",), (np.array([[3, -1]]),)), Product((), (), 4)), denominator=8)
EXACT = np.array([4 / 8, 16 / 8])
BUDGETS = [Budget.pure(1), Budget.zcdp(1), Budget.gdp(1)]
every_currency = pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: budget.currency.name)


def test_rounded_gaussian_answers_are_multiples_of_the_grid_and_fill_it() -> None:
    """Of 1,000 values that many are whole, or even, as the grid has them; all of them less than once in 10^300 runs."""
    measured = private_statistics(TABLE, Budget.gdp(1)).measure(CELLS, Fraction(1))
    steps = measured.values * 2**GRID_BITS
    assert (measured.noise, measured.scale) == (Noise.ROUNDED_GAUSSIAN, 1.0)
    assert np.array_equal(steps, np.rint(steps))
    assert (steps % 2 == 1).any()
    assert np.abs(measured.values).max() < 12


@pytest.mark.parametrize("budget", BUDGETS[:2], ids=lambda budget: budget.currency.name)
def test_discrete_answers_are_whole(budget: Budget) -> None:
    values = private_statistics(TABLE, budget).measure(CELLS, Fraction(1)).values
    assert values.dtype == np.float64
    assert np.array_equal(values, np.rint(values))


@every_currency
def test_products_are_answered_over_their_denominator(budget: Budget) -> None:
    """With so much budget the noise is a few millionths of a step at most."""
    rich = Budget(budget.currency, Fraction(10**13))
    measured = private_statistics(TABLE, rich).measure(STRATEGY, Fraction(1))
    assert measured.values == pytest.approx(EXACT, abs=1e-3)


@every_currency
def test_the_scale_of_products_is_that_of_their_values(budget: Budget) -> None:
    """One row moves the integers by (3, 4): L1 7, L2 5."""
    scale = {"epsilon": 7.0, "rho": 5 / math.sqrt(2), "mu^2": 5.0}[budget.currency.value]
    measured = private_statistics(TABLE, budget).measure(STRATEGY, Fraction(1))
    assert measured.scale == pytest.approx(scale / 8)
    wanted = {"epsilon": math.sqrt(2) * 7 / 8, "rho": 5 / math.sqrt(2) / 8, "mu^2": 5 / 8}[budget.currency.value]
    assert measured.stddev == pytest.approx(wanted, rel=2e-3)
    bars = of_measurements([measured])
    assert bars.stddev == pytest.approx(np.full(2, measured.stddev))
    assert 1.9 * measured.stddev < (bars.upper - bars.lower)[0] / 2 < 2.4 * measured.stddev


@every_currency
def test_noise_that_lasts_tells_how_far_it_is(budget: Budget, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 300)
    told: list[tuple[int, int]] = []
    journal = MemoryJournal()
    for _ in range(2):  # A stored answer tells nothing.
        private_statistics(TABLE, budget, journal=journal).measure(CELLS, Fraction(1), lambda *to: told.append(to))
    assert len(told) == 4
    assert told[-1] == (1000, 1000)
    assert sorted(told) == told


class Heavy(TinyTable):
    """A table that holds each of its rows 2^33 times."""

    def aggregate(self, request: Any) -> Any:
        return super().aggregate(request) << 33


@every_currency
@pytest.mark.parametrize(("entry", "bits"), [(2**29, 63), (2**26, 60), (2**16, 50)])
def test_answers_that_may_have_been_cut_off_are_refused(budget: Budget, entry: int, bits: int) -> None:
    """Half of the range is left for noise; the rounded Gaussian's steps take ten bits of it."""
    queries = Products(DOMAIN, (Product(("a",), (np.array([[entry, -entry], [1, 1]]),), 1), Product((), (), 2)))
    table = Heavy(DOMAIN, np.array([[1, 3], [1, 5]]))
    private = private_statistics(table, Budget(budget.currency, 10**9 * budget.amount))
    if bits + (GRID_BITS if budget.currency is Currency.GDP else 0) - 61 > 0:
        with pytest.raises(CutOffError, match="a noisy answer reached 2\\^61 steps"):
            private.measure(queries, Fraction(1, 2))
        assert private.remaining_share <= Fraction(1, 2), "what was drawn is charged"
    else:
        values = private.measure(queries, Fraction(1, 2)).values
        assert values == pytest.approx([-(2**34) * entry, 2**34, 2**35], rel=1e-3)
