"""Symmetric queries in the kernel: every bound against the dense matrix, and what is refused before a charge."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dpcore.domain import BinaryView, Domain
from dpcore.errors import ConfigError
from dpcore.exact_statistics import Contribution, Shape
from dpcore.kernel import symmetric_sensitivity
from dpcore.kernel.arguments import check_queries
from dpcore.kernel.budget import Budget
from dpcore.kernel.exact_answers import ExactAnswers
from dpcore.kernel.sensitivity import PrivacyUnit, l1_sensitivity, squared_l2_sensitivity
from dpcore.queries import BlockQueries, Marginals, SymmetricQueries
from dpcore.testing.doubles import ADD_REMOVE, REPLACE, WatchedStatistics, private_statistics
from dpcore.testing.memory import MemoryJournal
from dpcore.testing.tiny_statistics import TinyBaskets, TinyTable
from tests.support.symmetric_cases import dense, random_symmetric

DOMAIN = Domain.of({"a": 3, "b": 4, "c": 5})
CLASSES = (np.array([0, 1, 1]), np.array([0, 0, 0, 0]))
BLOCKS = (BlockQueries((None, None), np.array([[3, -1]])), BlockQueries((1, 0), np.array([[2]])))
QUERIES = SymmetricQueries(DOMAIN, ("a", "b"), CLASSES, BLOCKS)
TABLE = TinyTable(DOMAIN, np.random.default_rng(0).integers(0, DOMAIN.sizes, (40, 3)))


@pytest.mark.parametrize("bound", [1, 3])
@pytest.mark.parametrize("seed", range(80))
def test_sensitivity_is_that_of_all_columns_and_pairs_of_columns(seed: int, bound: int) -> None:
    """Exactly, also where entries are so large that squares pass 64 bits."""
    queries = random_symmetric(DOMAIN, np.random.default_rng(seed), largest=[3, 1 << 25][seed % 2])
    matrix = dense(queries)
    added = PrivacyUnit(ADD_REMOVE, Contribution(Shape.TABLE, bound))
    replaced = PrivacyUnit(REPLACE, Contribution(Shape.TABLE, bound), 10)
    l1 = np.abs(matrix).sum(axis=0).max()
    gram = matrix.T @ matrix
    squares = gram.diagonal()
    distances = squares[:, None] + squares - 2 * gram
    assert l1_sensitivity(queries, added) == bound * l1
    assert l1_sensitivity(queries, replaced) == 2 * bound * l1
    assert squared_l2_sensitivity(queries, added) == bound**2 * squares.max()
    assert squared_l2_sensitivity(queries, replaced) == bound**2 * max(squares.max(), distances.max())


def test_sensitivity_of_many_pairs_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symmetric_sensitivity, "_LARGEST_PAIRS", 1)
    most = symmetric_sensitivity.largest_squared_l2(QUERIES)
    assert symmetric_sensitivity.largest_squared_exchange(QUERIES) == 4 * most


def test_the_marginal_is_asked_for_once() -> None:
    watched = WatchedStatistics(TABLE)
    exact = ExactAnswers(watched)
    table = np.zeros((3, 4), dtype=np.int64)
    for a, b, _ in TABLE.codes:
        table[a, b] += 1
    wanted = (dense(QUERIES) @ table.ravel().astype(object)).tolist()
    assert exact.of(QUERIES).tolist() == wanted
    assert exact.of(QUERIES).tolist() == wanted
    assert [request.queries for request in watched.requests] == [Marginals(DOMAIN, (("a", "b"),))]  # type: ignore[union-attr]


@pytest.mark.parametrize("budget", [Budget.pure(1), Budget.zcdp(1), Budget.gdp(1)], ids=lambda one: one.currency.name)
def test_they_are_measured_for_what_they_are_charged(budget: Budget) -> None:
    journal = MemoryJournal()
    rich = Budget(budget.currency, Fraction(10**13))
    private = private_statistics(TABLE, rich, journal=journal)
    measured = private.measure(QUERIES, Fraction(1))
    assert measured.values == pytest.approx(ExactAnswers(TABLE).of(QUERIES), abs=1e-2)
    assert measured.scale == private.terms.measure_scale(QUERIES, Fraction(1))
    assert measured.denominator == 1
    assert [charge.amount for charge in private.charges] == [rich.amount]
    assert len(journal.answers) == 1
    again = private_statistics(TABLE, rich, journal=journal).measure(replace(QUERIES), Fraction(1))
    assert np.array_equal(again.values, measured.values)


def test_scales_are_those_of_the_columns() -> None:
    """The largest column is (-1, 2 (1, 1, 1)), as in ``residual_matrix`` of 2 and of 4 values."""
    private = private_statistics(TABLE, Budget.gdp(1))
    assert private.terms.measure_scale(QUERIES, Fraction(1)) == pytest.approx(np.sqrt(1 + 12))
    private = private_statistics(TABLE, Budget.pure(1))
    assert private.terms.measure_scale(QUERIES, Fraction(1)) == pytest.approx(1 + 6)


class Other(SymmetricQueries):  # type: ignore[misc]
    def digest(self) -> str:
        return "of other queries"


class OtherBlock(BlockQueries):  # type: ignore[misc]
    pass


class OtherDomain(Domain):
    pass


def test_what_is_not_plain_is_refused_before_a_charge() -> None:
    check_queries(QUERIES)
    others = [
        Other(DOMAIN, ("a", "b"), CLASSES, BLOCKS),
        replace(QUERIES, domain=OtherDomain(DOMAIN.names, DOMAIN.sizes)),
    ]
    for queries in others:
        private = private_statistics(TABLE, Budget.pure(1))
        with pytest.raises(TypeError, match="want"):
            private.measure(queries, Fraction(1))
        with pytest.raises(TypeError, match="want"):
            private.expect(queries)  # type: ignore[arg-type]
        assert private.charges == ()
    with pytest.raises(ValueError, match="not BlockQueries; want"):
        replace(QUERIES, blocks=(OtherBlock((None, None), BLOCKS[0].matrix),))


def test_baskets_have_no_marginal() -> None:
    baskets = TinyBaskets(BinaryView(3), np.eye(3, dtype=bool), 3)
    with pytest.raises(ConfigError, match="asked of baskets"):
        private_statistics(baskets, Budget.pure(1)).measure(QUERIES, Fraction(1))


def test_they_are_measured_alone() -> None:
    """Nothing is selected or drawn by them."""
    private = private_statistics(TABLE, Budget.pure(1))
    with pytest.raises(TypeError, match="want queries that count units"):
        private.sample(QUERIES, Fraction(0), None, 1, 1)  # type: ignore[arg-type]
    assert private.charges == ()
