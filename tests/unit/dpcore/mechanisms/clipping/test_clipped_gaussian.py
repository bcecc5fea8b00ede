from __future__ import annotations

import math
import re
from fractions import Fraction

import numpy as np
import pytest

from dpcore.domain import BinaryView, Domain
from dpcore.errors import ConfigError, DomainTooLargeError
from dpcore.exact_statistics import QueryAnswers
from dpcore.kernel.budget import Budget, Currency
from dpcore.mechanisms.clipping import clipped_gaussian
from dpcore.mechanisms.clipping.clipped_gaussian import ClippedGaussian
from dpcore.mechanisms.clipping.constants import BOUND_CONFIDENCE, NOISE_CONFIDENCE, ClippedGaussianConstants
from dpcore.mechanisms.clipping.marginals import clipped_marginals
from dpcore.queries import ClippedSums, Conjunctions, SatisfactionHistogram
from dpcore.queries.generation import random_conjunctions
from dpcore.testing.doubles import REPLACE, private_statistics
from dpcore.testing.tiny_statistics import TinyBaskets, TinyTable
from dpcore.workload import Workload, all_k_way, conjunctive
from tests.support.constants import with_constants

DRAW = np.random.default_rng(0)
VIEW = BinaryView(30)
# Popular and rare items, light units and heavy ones.
ACTIVITY = np.exp(DRAW.normal(0.0, 0.7, 3000))
BITS = DRAW.random((3000, 30)) < 1 - np.exp(-np.outer(ACTIVITY, 0.6 * np.exp(-np.arange(30) / 8)))
BITS = BITS[BITS.any(axis=1)]
BASKETS = TinyBaskets(VIEW, BITS)
TRIPLES = random_conjunctions(VIEW, 800, 3, np.random.default_rng(1))
EXACT = BASKETS.aggregate(QueryAnswers(TRIPLES))
FEW = conjunctive(random_conjunctions(VIEW, 20, 2, np.random.default_rng(2)))
DOMAIN = Domain.of({"a": 3, "b": 4})
CODES = DRAW.integers(0, DOMAIN.sizes, (50, 2))
ALL = Fraction(1)
NO_NOISE = {currency: Budget(currency, Fraction(10) ** 12) for currency in Currency}


def answers_of(budget: Budget, workload: Workload, mechanism: ClippedGaussian | None = None, seed: int = 0):  # type: ignore[no-untyped-def]
    private = private_statistics(BASKETS, budget, neighbours=REPLACE, units=len(BITS))
    return (mechanism or ClippedGaussian()).run(private, workload, generator=np.random.default_rng(seed))


@pytest.mark.parametrize("currency", list(Currency))
@pytest.mark.parametrize("workload", [conjunctive(TRIPLES), FEW], ids=["predicted", "few"])
def test_without_noise_nothing_is_clipped_and_answers_are_exact(currency: Currency, workload: Workload) -> None:
    release = answers_of(NO_NOISE[currency], workload)
    exact = BASKETS.aggregate(QueryAnswers(workload.queries))
    assert np.abs(release.answers.values - exact).max() < 0.01
    assert (release.answers.upper - release.answers.lower).max() < 0.02


@pytest.mark.parametrize("currency", list(Currency))
def test_under_noise_heavy_units_are_clipped_and_noise_is_far_below_that_of_the_whole_vector(
    currency: Currency,
) -> None:
    budget = Budget(currency, Fraction(1))
    release = answers_of(budget, conjunctive(TRIPLES))
    sums = release.measurements[-1].queries
    assert isinstance(sums, ClippedSums)
    assert sums.weights[0, -1] < sums.denominator
    unclipped = private_statistics(BASKETS, budget, neighbours=REPLACE, units=len(BITS)).measure(TRIPLES, ALL)
    assert release.measurements[-1].stddev < unclipped.stddev / 2


def test_shrinkage_lowers_the_error_and_stays_within_the_interval() -> None:
    budget = Budget.gdp(Fraction(4))
    kept = [answers_of(budget, conjunctive(TRIPLES), seed=seed) for seed in range(4)]
    raw = [np.abs(release.measurements[-1].values - EXACT).mean() for release in kept if len(release.measurements) == 4]
    best = [np.abs(release.answers.values - EXACT).mean() for release in kept]
    assert len(raw) == 4
    assert np.mean(best) < 0.7 * np.mean(raw)
    for release in kept:
        answers = release.answers
        assert (answers.lower >= 0).all()
        assert ((answers.lower <= answers.values) & (answers.values <= answers.upper)).all()


def test_intervals_of_what_all_units_satisfy_keep_their_order() -> None:
    """The noise carries about half of 2,000 answers above the number of units, and some by more than an interval."""
    everybody = TinyBaskets(BinaryView(3), np.ones((40, 3), dtype=bool))
    same = conjunctive(Conjunctions(everybody.view, np.tile([0, 1], (2000, 1)), np.zeros((2000, 2), dtype=bool)))
    private = private_statistics(everybody, Budget.gdp(1000), neighbours=REPLACE, units=40)
    release = with_constants(ClippedGaussian(), min_predicted_queries=9999).run(
        private, same, generator=np.random.default_rng(0)
    )
    answers, measured = release.answers, release.measurements[-1]
    assert (measured.values - 2.06 * measured.stddev > 40).any()
    assert ((answers.lower <= answers.values) & (answers.values <= answers.upper) & (answers.upper <= 40)).all()


def test_few_queries_and_single_literals_buy_no_marginals() -> None:
    for workload in (FEW, conjunctive(Conjunctions.single_columns(VIEW))):
        release = answers_of(Budget.zcdp(1), workload)
        assert [type(measured.queries) for measured in release.measurements] == [SatisfactionHistogram, ClippedSums]


def test_unpopular_queries_may_be_left_unmeasured() -> None:
    """A quarter of the queries may be measured alone, and the ratio makes all other answers look small."""
    mechanism = with_constants(ClippedGaussian(), set_fractions=(1.0, 0.25), max_set_noise=1e9, max_to_mean=1e-9)
    answers = answers_of(Budget.gdp(100), conjunctive(TRIPLES), mechanism).answers
    measured = ~np.isnan(answers.stddev)
    assert measured.sum() == TRIPLES.size // 4
    assert EXACT[measured].mean() > EXACT[~measured].mean()
    covered = (answers.lower <= EXACT) & (answers.upper >= EXACT)
    assert covered[~measured].mean() > 0.95
    assert np.abs(answers.values - EXACT)[~measured].mean() < EXACT[~measured].mean()


def test_the_plan_names_the_noise_by_the_number_of_satisfied_queries() -> None:
    private = private_statistics(BASKETS, Budget.gdp(1), neighbours=REPLACE, units=len(BITS))
    plan = ClippedGaussian().plan(private.terms, conjunctive(TRIPLES))
    assert [step.calls for step in plan.steps] == [1, 1, 1, 1]
    assert sum(step.share for step in plan.steps) == pytest.approx(1.0)
    assert "C x" in plan.notes[0]
    release = ClippedGaussian().run(private, conjunctive(TRIPLES), generator=np.random.default_rng(0))
    assert plan.predicted_error is None
    by_number = {
        int(number.replace(",", "")): float(stddev)
        for stddev, number in re.findall(r"([0-9.]+) if ([0-9,]+)", plan.notes[0])
    }
    assert by_number[100] == pytest.approx(10 * by_number[1], rel=1e-3)
    stddev = release.measurements[-1].stddev
    assert by_number[1] <= stddev * 1.001
    assert stddev <= by_number[1] * math.sqrt(TRIPLES.size) * 1.001


def test_a_table_is_taken_by_its_one_hot_columns() -> None:
    table = TinyTable(DOMAIN, CODES)
    pairs = conjunctive(Conjunctions(BinaryView.one_hot(DOMAIN), np.array([[0, 3], [1, 4]]), np.zeros((2, 2), bool)))
    for min_predicted_queries in (1, 500):
        private = private_statistics(table, NO_NOISE[Currency.ZCDP])
        mechanism = with_constants(ClippedGaussian(), min_predicted_queries=min_predicted_queries)
        release = mechanism.run(private, pairs, generator=np.random.default_rng(0))
        assert np.abs(release.answers.values - table.aggregate(QueryAnswers(pairs.queries))).max() < 0.01


@pytest.mark.parametrize(
    ("mechanism", "workload", "wanted"),
    [
        (ClippedGaussian(), all_k_way(DOMAIN, 2), "want workload.conjunctions"),
        (
            ClippedGaussian(),
            conjunctive(Conjunctions(VIEW, np.arange(7)[None], np.ones((1, 7), bool))),
            "7 negated literals; want at most 6, or mechanism: dqrs",
        ),
    ],
)
def test_what_it_cannot_do_is_refused(mechanism: ClippedGaussian, workload: Workload, wanted: str) -> None:
    private = private_statistics(BASKETS, Budget.gdp(1))
    with pytest.raises(ConfigError, match=wanted):
        mechanism.plan(private.terms, workload)


def test_the_constants_leave_a_share_for_the_clipped_sums() -> None:
    constants = ClippedGaussianConstants()
    assert constants.marginals_share > 0
    assert constants.units_share > 0
    assert 0 < constants.histogram_share < 1 - constants.marginals_share - constants.units_share
    assert constants.min_predicted_queries >= 1
    assert constants.set_fractions[0] == 1
    assert sorted(constants.set_fractions, reverse=True) == list(constants.set_fractions)
    assert (1 - NOISE_CONFIDENCE) + 2 * (1 - BOUND_CONFIDENCE) <= 0.05 + 1e-12


def test_too_many_answers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clipped_gaussian, "LARGEST_ANSWERS", 19)
    with pytest.raises(DomainTooLargeError):
        ClippedGaussian().plan(private_statistics(BASKETS, Budget.gdp(1)).terms, FEW)


def test_one_way_marginals_have_less_noise_than_the_largest_basket_asks_for() -> None:
    """300 items of which nobody holds more than 30, where no bound on baskets is declared."""
    wide = TinyBaskets(BinaryView(300), np.pad(BITS, ((0, 0), (0, 270))))
    budget = Budget.gdp(Fraction(1, 10))
    found = clipped_marginals(private_statistics(wide, budget, neighbours=REPLACE, units=len(BITS)), wide.view, ALL)
    plain = private_statistics(wide, budget, neighbours=REPLACE, units=len(BITS))
    assert found.stddev < 0.6 * plain.measure(Conjunctions.single_columns(wide.view), ALL).stddev
    assert found.units == len(BITS)
    assert np.abs(found.values[:30] - BITS.sum(axis=0)).max() < 6 * found.stddev + 0.1 * len(BITS)
    assert (found.upper(0.99999)[:30] > BITS.sum(axis=0)).all()


def test_one_way_marginals_of_some_columns_and_the_noisy_number_of_units() -> None:
    columns = np.array([7, 3, 7], dtype=np.int32)
    private = private_statistics(BASKETS, NO_NOISE[Currency.PURE])
    found = clipped_marginals(private, VIEW, ALL, columns)
    assert found.columns.tolist() == [3, 7]
    assert np.allclose(found.values, BITS[:, [3, 7]].sum(axis=0), atol=0.01)
    assert found.units == pytest.approx(len(BITS))
