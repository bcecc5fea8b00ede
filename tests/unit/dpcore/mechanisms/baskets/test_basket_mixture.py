"""The mechanism on generated baskets with sizes and tastes: what it measures, and how near its model is."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import BinaryView, Domain
from dpcore.errors import ConfigError
from dpcore.estimation.baskets.basket_model import BasketMixture as BasketModel
from dpcore.estimation.baskets.size_law import SizeLaw
from dpcore.estimation.model import BasketRows
from dpcore.exact_statistics import QueryAnswers
from dpcore.kernel.budget import Budget, Currency
from dpcore.mechanisms.api import Release
from dpcore.mechanisms.baskets.basket_mixture import BasketMixture
from dpcore.mechanisms.baskets.basket_queries import (
    cell_quantile,
    count_clip,
    largest_pair_part,
    popular_items,
)
from dpcore.mechanisms.independent import Independent
from dpcore.queries import ClippedSums, Conjunctions, SatisfactionHistogram, UnitCount
from dpcore.queries.generation import random_conjunctions
from dpcore.queries.itemsets import all_pairs, positive
from dpcore.testing.doubles import REPLACE, private_statistics
from dpcore.testing.tiny_statistics import TinyBaskets
from dpcore.workload import Workload, all_k_way, conjunctive
from tests.support.constants import with_constants

DRAW = np.random.default_rng(0)
VIEW = BinaryView(40)
UNITS = 4000
TASTE = np.where(DRAW.random((UNITS, 1)) < 0.5, np.arange(40) % 2, 1 - np.arange(40) % 2)
ACTIVITY = np.exp(DRAW.normal(0.0, 0.6, (UNITS, 1)))
BITS = DRAW.random((UNITS, 40)) < 1 - np.exp(-ACTIVITY * (0.1 + TASTE) * 0.8 * np.exp(-np.arange(40) / 9))
BITS[~BITS.any(axis=1), 0] = True
BASKETS = TinyBaskets(VIEW, BITS)
PAIRS = positive(VIEW, all_pairs(np.arange(40, dtype=np.int32)))
SIGNED = random_conjunctions(VIEW, 300, 3, np.random.default_rng(1), negate=True)
BUDGET = Budget.gdp(1)


def run(mechanism: BasketMixture | Independent, budget: Budget = BUDGET, queries: Conjunctions = PAIRS) -> Release:
    return mechanism.run(private_statistics(BASKETS, budget), conjunctive(queries), generator=np.random.default_rng(2))


def errors(release: Release, queries: Conjunctions) -> NDArray[np.float64]:
    assert release.model is not None
    return np.asarray(np.abs(release.model.answer(queries) - BASKETS.aggregate(QueryAnswers(queries))))


@pytest.fixture(scope="module")
def release() -> Release:
    return run(BasketMixture())


@pytest.mark.parametrize("queries", [PAIRS, SIGNED], ids=["pairs", "signed triples"])
def test_pairs_and_signed_triples_are_nearer_than_those_of_independent_items(
    release: Release, queries: Conjunctions
) -> None:
    own, other = errors(release, queries), errors(run(Independent()), queries)
    assert own.max() < 0.5 * other.max()
    assert own.mean() < 0.6 * other.mean()


def test_rows_have_the_sizes_and_items_of_the_data(release: Release) -> None:
    assert isinstance(release.model, BasketModel)
    rows = release.model.sample(UNITS, np.random.default_rng(3))
    assert isinstance(rows, BasketRows)
    sizes = [np.bincount(held, minlength=41) / UNITS for held in (BITS.sum(axis=1), np.bincount(rows.unit))]
    assert np.abs(sizes[0] - sizes[1]).sum() / 2 < 0.05
    counts = np.bincount(rows.item, minlength=40)
    clipped = release.measurements[2]
    assert np.abs(counts - BITS.sum(axis=0)).max() < 5 * clipped.stddev


def test_it_measures_what_it_says_and_answers_by_its_model(release: Release) -> None:
    kinds = [type(measured.queries) for measured in release.measurements]
    assert kinds == [UnitCount, SatisfactionHistogram, ClippedSums, SatisfactionHistogram, ClippedSums]
    assert release.model is not None
    assert np.array_equal(release.answers.values, release.model.answer(PAIRS))
    assert np.isnan(release.answers.lower).all()
    assert not release.answers.measured
    public = private_statistics(BASKETS, BUDGET, neighbours=REPLACE, units=UNITS)
    again = BasketMixture().run(public, conjunctive(PAIRS), generator=np.random.default_rng(2))
    assert len(again.measurements) == 4
    assert again.model is not None
    assert again.model.total == UNITS


@pytest.mark.parametrize("currency", list(Currency))
def test_with_next_to_no_noise_pairs_are_nearly_exact(currency: Currency) -> None:
    precise = run(BasketMixture(), Budget(currency, Fraction(10) ** 8))
    assert errors(precise, PAIRS).max() < 0.012 * UNITS
    assert errors(precise, Conjunctions.single_columns(VIEW)).max() < 0.002 * UNITS


def test_only_popular_items_have_pairs() -> None:
    few = run(with_constants(BasketMixture(), max_popular=7))
    pairs = few.measurements[-1].queries
    assert isinstance(pairs, ClippedSums)
    assert pairs.size == 21
    counts = few.measurements[2].values
    assert set(np.unique(pairs.queries.columns)) == set(np.argsort(-counts)[:7])
    assert errors(few, Conjunctions.single_columns(VIEW)).max() < 6 * few.measurements[2].stddev


def test_the_plan_names_every_measurement_and_its_share() -> None:
    plan = BasketMixture().plan(private_statistics(BASKETS, BUDGET).terms, conjunctive(PAIRS))
    assert sum(step.share for step in plan.steps) == pytest.approx(1)
    assert len(plan.events) == len(plan.steps) == 5
    assert plan.predicted_error is None
    assert "up to 40 items" in plan.steps[-1].label


@pytest.mark.parametrize(
    ("workload", "view", "wanted"),
    [
        (all_k_way(Domain.of({"a": 2, "b": 3}), 2), VIEW, "want workload.conjunctions"),
        (conjunctive(Conjunctions.single_columns(BinaryView(1))), BinaryView(1), "want two items or more"),
    ],
)
def test_what_it_cannot_do_is_refused_before_anything_is_measured(
    workload: Workload, view: BinaryView, wanted: str
) -> None:
    private = private_statistics(TinyBaskets(view, BITS[:, : view.columns]), BUDGET)
    with pytest.raises(ConfigError, match=wanted):
        BasketMixture().run(private, workload, generator=np.random.default_rng(0))
    assert private.charges == ()


def test_popular_items_are_those_above_the_threshold_within_bounds() -> None:
    counts = np.array([5.0, 1.0, 9.0, -3.0, 7.0])
    assert popular_items(counts, 6.0, 0, 5).tolist() == [2, 4]
    assert popular_items(counts, 6.0, 3, 5).tolist() == [0, 2, 4]
    assert popular_items(counts, -9.0, 0, 2).tolist() == [2, 4]
    assert popular_items(counts, 99.0, 9, 9).tolist() == [0, 1, 2, 3, 4]


def test_the_clip_of_counts_balances_noise_and_loss() -> None:
    law = SizeLaw(np.array([0, 4, 16, 100]), np.array([0.5, 0.3, 0.15, 0.05]))
    for norm, clips in ((2, [2.0, 4.0, 10.0]), (1, [4.0, 16.0, 100.0])):
        # Much noise, no noise, and a larger part of the units that must be kept.
        assert count_clip(law, 1000, 1e3, 3.0, 0.75, norm) == clips[0]
        assert count_clip(law, 1000, 1e-9, 3.0, 0.75, norm) == clips[2]
        assert count_clip(law, 1000, 1e3, 3.0, 0.9, norm) == clips[1]
    losses = {2.0: 0.15 * 0.5 + 0.05 * 0.8, 4.0: 0.05 * 0.6, 10.0: 0.0}
    errors = {clip: 3 * clip + 0.3 * 1000 * loss for clip, loss in losses.items()}
    assert count_clip(law, 1000, 1.0, 3.0, 0.75, 2) == min(errors, key=lambda clip: errors[clip]) == 4.0
    assert count_clip(SizeLaw(np.array([0]), np.ones(1)), 10, 1.0, 3.0, 0.97, 2) == 1.0


def test_quantiles_of_cells() -> None:
    cells = np.array([40.0, 30.0, 0.0, 30.0])  # 0, 1, 2 to 3, 4 to 7.
    assert cell_quantile(cells, 0.4, 7) == 1.0
    assert cell_quantile(cells, 0.85, 7) == pytest.approx(4 * 2**0.5)
    assert cell_quantile(cells, 1.0, 7) == 7.0
    assert cell_quantile(np.zeros(4), 0.9, 7) == 1.0


def test_the_most_common_pair_is_a_part_of_all() -> None:
    assert largest_pair_part(np.array([3.0, 2.0, -1.0, 1.0])) == pytest.approx(6 / (6 + 3 + 2))
    assert largest_pair_part(np.array([4.0, 0.0])) == 1.0
