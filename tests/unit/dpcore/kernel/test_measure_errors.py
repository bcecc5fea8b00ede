"""Noisy L1 errors: what they are, what they cost, and that tables come in batches without a trace in the answers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import BinaryView, Domain
from dpcore.errors import ConfigError
from dpcore.exact_statistics import Contribution, Shape
from dpcore.kernel import exact_answers
from dpcore.kernel import private_statistics as kernel
from dpcore.kernel.budget import Budget, Currency
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.kernel.scores import (
    Candidates,
    Generalised,
    L1Error,
    LinearL1Error,
    MutualInformation,
    RScore,
    Score,
)
from dpcore.kernel.sensitivity import Neighbours, PrivacyUnit
from dpcore.measurement import Noise
from dpcore.queries import Conjunctions, Marginals, Product, Products
from dpcore.testing.doubles import (
    ADD_REMOVE,
    REPLACE,
    NoStatistics,
    WatchedStatistics,
    private_statistics,
)
from dpcore.testing.memory import MemoryJournal
from dpcore.testing.tiny_statistics import TinyTable
from tests.support.laws import REJECT_BELOW, noise_p_value

DOMAIN = Domain.of({"a": 2, "b": 3, "c": 2})
ROWS = np.array([[0, 0, 0], [0, 1, 1], [1, 2, 1], [1, 2, 0], [0, 2, 1]])
TABLE = TinyTable(DOMAIN, ROWS)
QUERIES = Marginals(DOMAIN, (("a",), ("b",), ("a", "b"), ("b", "c")))
ESTIMATE = np.array([2.5, 2.5, 2, 2, 1, *np.arange(6) / 4, *np.zeros(6)])
ERRORS = np.array([1.0, 4.0, 4.75, 5.0])
STEPS = Products(DOMAIN, tuple(Product(clique, tuple(np.tril(np.ones((n, n), dtype=int)) for n in DOMAIN.shape(clique)))
                               for clique in QUERIES.cliques))  # fmt: skip
SELECTIONS: dict[str, tuple[Candidates, Score]] = {
    "L1": (QUERIES, L1Error(ESTIMATE, np.arange(1.0, 5), np.zeros(4))),
    "linear": (STEPS, LinearL1Error(ESTIMATE, np.arange(1.0, 5), np.zeros(4))),
    "generalised": (QUERIES, Generalised(L1Error(ESTIMATE, np.arange(1.0, 5), np.zeros(4)), 0.5)),
    "generalised, linear": (STEPS, Generalised(LinearL1Error(ESTIMATE, np.arange(1.0, 5), np.zeros(4)), 0.5)),
    "mutual information": (QUERIES, MutualInformation(("a", "b", "b", "c"))),
    "R": (QUERIES, RScore(("a", "b", "b", "c"))),
}


def test_errors_are_l1_distances_to_the_estimate() -> None:
    for budget, scale in ((Budget.pure(10**9), 4e-9), (Budget.gdp(10**18), 2e-9), (Budget.zcdp(10**18), 1.4e-9)):
        found = private_statistics(TABLE, budget).measure_errors(QUERIES, ESTIMATE, Fraction(1))
        assert found.values.tolist() == ERRORS.tolist()
        assert found.scale >= scale
        assert found.queries is QUERIES


def test_an_estimate_is_rounded_to_steps() -> None:
    private = private_statistics(TABLE, Budget.pure(10**9))
    found = private.measure_errors(QUERIES.only([("a",)]), np.array([3 + 0.4 / 256, 2 - 0.6 / 256]), Fraction(1))
    assert found.values.tolist() == [1 / 256]


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("bound", [1, 3])
def test_scales_hide_a_unit_that_moves_every_error(neighbours: Neighbours, bound: int) -> None:
    """b rows, 2 b replaced, in each of the 4 errors: L1 4 d, L2^2 4 d^2."""
    unit = PrivacyUnit(neighbours, Contribution(Shape.TABLE, bound), 9 if neighbours is REPLACE else None)
    moved = bound * (2 if neighbours is REPLACE else 1)
    wanted = {Currency.PURE: 4 * moved * 2, Currency.ZCDP: 2.0 * moved, Currency.GDP: 2 * moved * math.sqrt(2)}
    for currency, scale in wanted.items():
        terms = PrivacyTerms(unit, Budget(currency, Fraction(1)))
        assert terms.errors_scale(QUERIES, Fraction(1, 2)) == pytest.approx(scale)


@pytest.mark.parametrize("currency", Currency)
def test_the_noise_has_the_law_that_was_paid_for(currency: Currency) -> None:
    """1,500 errors of one table, each with noise of its own in steps of 1/256."""
    copies = QUERIES.only([("a",)] * 1500)
    private = private_statistics(TABLE, Budget(currency, Fraction(1500)))
    found = private.measure_errors(copies, np.tile(ESTIMATE[:2], 1500), Fraction(1))
    assert found.noise is private.terms.noise
    # In steps of 1/256, so that the laws on whole counts apply.
    assert noise_p_value((found.values - 1) * 256, currency, found.scale * 256) > REJECT_BELOW
    assert found.stddev == pytest.approx(found.scale * (math.sqrt(2) if currency is Currency.PURE else 1), rel=1e-3)
    (charge,) = private.charges
    assert charge.scale == found.scale == private.terms.errors_scale(copies, Fraction(1))


def test_answers_are_replayed_and_named_by_all_that_was_asked() -> None:
    journal, half = MemoryJournal(), Fraction(1, 2)
    first = private_statistics(TABLE, Budget.pure(1), journal=journal).measure_errors(QUERIES, ESTIMATE, half)
    blind = private_statistics(NoStatistics(TABLE.contribution), Budget.pure(1), journal=journal)
    assert blind.measure_errors(QUERIES, ESTIMATE, half).values.tolist() == first.values.tolist()
    assert blind.remaining_share == half
    named = {journal.answers[0][0]}
    for queries, estimate, share in (
        (QUERIES.only([("a",), ("b",), ("b", "a"), ("b", "c"), ()]), np.append(ESTIMATE, 1), half),
        (QUERIES, ESTIMATE + 1, half),
        (QUERIES, ESTIMATE, Fraction(1, 3)),
    ):
        journal = MemoryJournal()
        private_statistics(TABLE, Budget.pure(1), journal=journal).measure_errors(queries, estimate, share)
        named.add(journal.answers[0][0])
    assert len(named) == 4


class OtherMarginals(Marginals):
    pass


REFUSED = {
    "another shape": (QUERIES, np.zeros(5), ValueError),
    "a matrix": (QUERIES, np.zeros((2, QUERIES.size)), ValueError),
    "no number": (QUERIES, np.full(QUERIES.size, np.nan), ValueError),
    "too large": (QUERIES, np.full(QUERIES.size, 2.0**44), ValueError),
    "conjunctions": (Conjunctions.single_columns(BinaryView(17)), ESTIMATE, TypeError),
    "other marginals": (OtherMarginals(DOMAIN, QUERIES.cliques), ESTIMATE, TypeError),
}


@pytest.mark.parametrize(("queries", "estimate", "error"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused_before_a_charge(
    queries: Marginals, estimate: NDArray[np.float64], error: type[Exception]
) -> None:
    private = private_statistics(NoStatistics(TABLE.contribution), Budget.pure(1))
    with pytest.raises(error):
        private.measure_errors(queries, estimate, Fraction(1))
    assert private.charges == ()


def test_baskets_have_no_errors() -> None:
    private = private_statistics(NoStatistics(Contribution(Shape.BASKETS, 3)), Budget.pure(1))
    with pytest.raises(ConfigError, match="baskets"):
        private.measure_errors(QUERIES, ESTIMATE, Fraction(1))
    for candidates, score in SELECTIONS.values():
        with pytest.raises(ConfigError, match="baskets"):
            private.select(candidates, score, Fraction(1))
    assert private.charges == ()


def seen(private: PrivateStatistics, monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """What the samplers see of the data in one call of each kind."""
    inputs: list[list[int]] = []

    def see(exact: NDArray[np.int64], *_: object) -> NDArray[np.int64]:
        inputs.append(exact.tolist())
        return exact

    with monkeypatch.context() as patch:
        patch.setattr(kernel, "add_noise", see)
        patch.setattr(kernel, "noisy_argmax", lambda scores, *_: int(np.argmax(see(scores))))
        for candidates, score in SELECTIONS.values():
            private.select(candidates, score, Fraction(1, 10))
        private.measure_errors(QUERIES, ESTIMATE, Fraction(1, 10))
    return inputs


@pytest.mark.parametrize("neighbours", Neighbours)
def test_memory_changes_neither_a_score_nor_an_error_nor_a_charge(
    neighbours: Neighbours, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, charges = [], []
    for request, kept in ((1 << 25, 1 << 27), (1, 0), (7, 8)):
        monkeypatch.setattr(exact_answers, "LARGEST_REQUEST", request)
        monkeypatch.setattr(exact_answers, "LARGEST_KEPT", kept)
        watched = WatchedStatistics(TABLE)
        private = private_statistics(watched, Budget.zcdp(1), neighbours=neighbours, units=5)
        found.append(seen(private, monkeypatch))
        charges.append(private.charges)
        assert (len(watched.requests) == 1) == (request > 100)
    assert found[0] == found[1] == found[2]
    assert charges[0] == charges[1] == charges[2]
    assert [len(scores) for scores in found[0]] == [4] * 7
    assert len({tuple(scores) for scores in found[0]}) == 7


@pytest.mark.parametrize("name", SELECTIONS)
@pytest.mark.parametrize("currency", Currency)
def test_the_best_candidate_is_selected_where_the_budget_is_large(name: str, currency: Currency) -> None:
    candidates, score = SELECTIONS[name]
    private = private_statistics(TABLE, Budget(currency, Fraction(10**6)))
    unit = PrivacyUnit(ADD_REMOVE, TABLE.contribution)
    exact = exact_answers.ExactAnswers(TABLE).tables(candidates)
    scores = score.scores(candidates, unit, exact)
    chosen = [private.select(candidates, score, Fraction(1, 20)) for _ in range(5)]
    assert scores[chosen].tolist() == [scores.max()] * 5
    assert scores.max() > scores.min()


def test_noise_of_errors_is_named() -> None:
    found = private_statistics(TABLE, Budget.gdp(1)).measure_errors(QUERIES, ESTIMATE, Fraction(1))
    assert found.noise is Noise.ROUNDED_GAUSSIAN
    assert (found.values * 2**18 == np.rint(found.values * 2**18)).all()
