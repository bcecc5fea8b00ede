"""Charges name the scale of the noise that they paid for, from public terms alone."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpcore.domain import BinaryView, Domain
from dpcore.kernel.budget import Budget
from dpcore.kernel.scores import L1Error
from dpcore.queries import Conjunctions, Marginals, Product, Products, Queries, UnitCount
from dpcore.testing.doubles import private_statistics
from dpcore.testing.memory import MemoryJournal
from dpcore.testing.tiny_statistics import TinyTable
from tests.support.tilts import flat

DOMAIN = Domain.of({"a": 2, "b": 3})
ONE = TinyTable(DOMAIN, np.array([[0, 0]]))
MANY = TinyTable(DOMAIN, np.array([[0, 1], [1, 2], [1, 2], [0, 2], [1, 0], [1, 1]]))
MARGINALS = Marginals(DOMAIN, (("a",), ("b",)))
COLUMNS = Conjunctions.single_columns(BinaryView.one_hot(DOMAIN))
EIGHTHS = Products(DOMAIN, (Product(("a",), (np.array([[3, -1]]),)), Product((), (), 4)), denominator=8)
SCORE = L1Error(np.zeros(5), np.ones(2), np.zeros(2))
SHARE = Fraction(1, 5)

every_currency = pytest.mark.parametrize(
    "budget", [Budget.pure(3), Budget.zcdp(3), Budget.gdp(3)], ids=lambda b: b.currency.name
)


@every_currency
@pytest.mark.parametrize("queries", [MARGINALS, COLUMNS, EIGHTHS, UnitCount()], ids=lambda q: type(q).__name__)
def test_a_measurement_is_charged_with_its_own_scale(budget: Budget, queries: Queries | UnitCount) -> None:
    private = private_statistics(ONE, budget)
    measured = private.measure(queries, SHARE)
    (charge,) = private.charges
    assert charge.scale == measured.scale
    unit = 8 if isinstance(queries, Products) else 1
    assert charge.scale == private.terms.measure_scale(queries, SHARE) / unit > 0


@every_currency
def test_a_selection_has_the_scale_of_its_scores_and_draws_have_none(budget: Budget) -> None:
    private = private_statistics(ONE, budget)
    private.select(MARGINALS, SCORE, SHARE)
    private.sample(COLUMNS, Fraction(1, 10), flat(5), 5, 6)
    private.retain(COLUMNS, np.array([0, 9]), Fraction(1, 10), flat(5, -2.0), 5)
    scale = private.terms.select_scale(MARGINALS, SCORE, SHARE)
    assert [charge.scale for charge in private.charges] == [scale, None, None]


@every_currency
def test_charges_are_the_same_for_other_data_and_for_a_replay(budget: Budget) -> None:
    journal = MemoryJournal()
    runs = [
        private_statistics(data, budget, journal=kept)
        for data, kept in ((ONE, journal), (ONE, journal), (MANY, MemoryJournal()))
    ]
    for private in runs:
        private.measure(MARGINALS, SHARE)
        private.select(MARGINALS, SCORE, SHARE)
    assert runs[0].charges == runs[1].charges == runs[2].charges
