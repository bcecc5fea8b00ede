"""The Fourier baseline: exact without noise, its noise as its plan says, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from dpcore.domain import BinaryView, Domain
from dpcore.errors import ConfigError, DomainTooLargeError
from dpcore.estimation.multiplicative_weights.dense import DenseModel
from dpcore.evaluation import exact_answers
from dpcore.exact_statistics import Contribution, Shape
from dpcore.kernel.budget import Budget, Currency
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.sensitivity import PrivacyUnit
from dpcore.mechanisms.fourier import PROFILES, Fourier, FourierProfile
from dpcore.queries import Conjunctions, Products
from dpcore.queries.ranges import prefix, range_marginals
from dpcore.testing.doubles import ADD_REMOVE, REPLACE, NoStatistics, private_statistics
from dpcore.testing.tiny_statistics import TinyTable
from dpcore.workload import Workload, all_k_way, conjunctive, explicit, linear
from tests.support.constants import with_constants
from tests.support.recorded_randomness import recorded

DOMAIN = Domain.of({"a": 2, "b": 2, "unused": 9, "c": 2, "d": 2})
ROWS = np.random.default_rng(0).integers(0, DOMAIN.sizes, (300, 5))
ROWS[:200, 4] = ROWS[:200, 0]
TABLE = TinyTable(DOMAIN, ROWS)
WORKLOAD = all_k_way(DOMAIN, 2, ["a", "b", "c", "d"])
BUDGETS = (Budget.pure(1), Budget.zcdp(1), Budget.gdp(1))
GENERATOR = np.random.default_rng(0)
LONG = with_constants(Fourier(), iterations=3000)
every_budget = pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: budget.currency.name)


@every_budget
@pytest.mark.parametrize("units", [None, 300])
def test_without_noise_the_answers_are_exact(budget: Budget, units: int | None) -> None:
    plenty = 10**4 if budget.currency is Currency.PURE else 10**10
    private = private_statistics(TABLE, Budget(budget.currency, plenty * budget.amount), units=units)
    release = LONG.run(private, WORKLOAD, generator=GENERATOR)
    assert np.allclose(release.answers.values, exact_answers(TABLE, WORKLOAD.queries), atol=0.1)
    assert isinstance(release.model, DenseModel)
    assert release.model.domain.names == ("a", "b", "c", "d")


@every_budget
@pytest.mark.parametrize("replaced", [False, True])
def test_the_whole_budget_is_charged_at_once_as_planned(budget: Budget, replaced: bool) -> None:
    neighbours = REPLACE if replaced else ADD_REMOVE
    private = private_statistics(TABLE, budget, neighbours=neighbours, units=300)
    plan = Fourier().plan(private.terms, WORKLOAD)
    release = Fourier().run(private, WORKLOAD, generator=GENERATOR)
    assert [step.share for step in plan.steps] == [1.0]
    assert len(private.charges) == 1
    assert private.remaining_share == 0
    assert release.measurements[0].stddev == plan.steps[0].stddev
    assert release.measurements[0].queries.size == 10  # 4 of one attribute, 6 of two.


def test_the_noise_of_pure_dp_is_laplace_of_scale_m_over_epsilon() -> None:
    release = Fourier().run(private_statistics(TABLE, Budget.pure(2)), WORKLOAD, generator=GENERATOR)
    (measured,) = release.measurements
    assert measured.scale == pytest.approx(11 / 2)  # The number of rows is private, and measured as well.
    assert isinstance(measured.queries, Products)
    assert measured.queries.terms[0].clique == ()


@every_budget
def test_answers_agree_and_none_is_negative(budget: Budget) -> None:
    small = Budget(budget.currency, budget.amount / 20)
    for mechanism in (Fourier(profile="published"), Fourier()):
        release = mechanism.run(private_statistics(TABLE, small), WORKLOAD, generator=GENERATOR)
        ab, ac = release.answers.values[:4].reshape(2, 2), release.answers.values[4:8].reshape(2, 2)
        assert np.allclose(ab.sum(axis=1), ac.sum(axis=1))
        assert release.answers.values.min() >= 0


def test_what_is_below_the_noise_stays_uniform() -> None:
    release = with_constants(Fourier(), tolerance=10.0).run(
        private_statistics(TABLE, Budget.pure(1), units=300), WORKLOAD, generator=GENERATOR
    )
    assert np.allclose(release.answers.values, 75)


def test_products_are_answered_from_the_marginals_that_they_are_read_off() -> None:
    queries = range_marginals(DOMAIN, [("a", "b")], {"a": prefix(2)})
    release = LONG.run(private_statistics(TABLE, Budget.pure(10**4)), linear(queries), generator=GENERATOR)
    assert np.allclose(release.answers.values, exact_answers(TABLE, queries), atol=0.1)


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_the_constants_of_a_profile_have_a_meaning(profile: FourierProfile) -> None:
    assert 0 <= profile.tolerance < float("inf")
    assert profile.iterations >= 1


def test_the_published_profile_follows_the_coefficients_further_than_the_noise() -> None:
    """Its table is nearer to the measured parities, whose residual the default leaves at the size of the noise."""
    residuals = {}
    for name in ("default", "published"):
        with recorded("the same measurement"):
            private = private_statistics(TABLE, Budget.pure(1), units=300)
            release = Fourier(profile=name).run(private, WORKLOAD, generator=GENERATOR)  # type: ignore[arg-type]
        (measured,) = release.measurements
        assert release.model is not None
        fitted = release.model.answer(measured.queries)
        residuals[name] = np.sqrt(np.mean((measured.values - fitted) ** 2)) / measured.stddev
    assert 0.3 < residuals["default"] <= 1
    assert residuals["published"] < 0.1


def conjunctions() -> Workload:
    return conjunctive(Conjunctions(BinaryView(4), np.array([[0, 1]]), np.zeros((1, 2), dtype=np.bool_)))


@pytest.mark.parametrize(
    ("mechanism", "workload", "message"),
    [
        (Fourier(), all_k_way(DOMAIN, 2), "attribute 'unused' has 9 values; want 2"),
        (Fourier(), explicit(DOMAIN, {(): 1.0}), "names no attribute"),
        (Fourier(), conjunctions(), "want workload.marginals"),
        (Fourier(profile="printed"), WORKLOAD, "want default or published"),  # type: ignore[arg-type]
    ],
)
def test_what_it_cannot_do_is_refused_before_anything_is_measured(
    mechanism: Fourier, workload: Workload, message: str
) -> None:
    private = private_statistics(NoStatistics(Contribution(Shape.TABLE, 1)), Budget.pure(1))
    with pytest.raises(ConfigError, match=message):
        mechanism.plan(private.terms, workload)
    with pytest.raises(ConfigError, match=message):
        mechanism.run(private, workload, generator=GENERATOR)


def test_baskets_and_large_tables_are_refused() -> None:
    baskets = PrivacyTerms(PrivacyUnit(ADD_REMOVE, Contribution(Shape.BASKETS, 3)), Budget.pure(1))
    with pytest.raises(ConfigError, match="baskets"):
        Fourier().plan(baskets, WORKLOAD)
    wide = Domain.of({f"x{place}": 2 for place in range(23)})
    table = PrivacyTerms(PrivacyUnit(ADD_REMOVE, TABLE.contribution), Budget.pure(1))
    with pytest.raises(DomainTooLargeError, match="fourier"):
        Fourier().plan(table, all_k_way(wide, 2))
