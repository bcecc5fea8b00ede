"""The nested sets of popular queries, and the choice of one of them from a histogram without noise."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np

from dpcore.domain import BinaryView
from dpcore.kernel.budget import Budget
from dpcore.mechanisms.clipping.constants import ClippedGaussianConstants
from dpcore.mechanisms.clipping.marginals import OneWay
from dpcore.mechanisms.clipping.query_sets import (
    choose_set,
    column_frequencies,
    histogram_of,
    independent_products,
    nested_sets,
)
from dpcore.queries import Conjunctions
from dpcore.testing.doubles import REPLACE, private_statistics
from dpcore.testing.tiny_statistics import TinyBaskets

UNITS, ITEMS = 2000, 20
VIEW = BinaryView(ITEMS)
RANDOM = np.random.default_rng(0)
BASKETS = TinyBaskets(VIEW, RANDOM.random((UNITS, ITEMS)) < 0.5 * 0.7 ** np.arange(ITEMS))
PAIRS = np.array([(a, b) for a in range(ITEMS) for b in range(a)], dtype=np.int32)
QUERIES = Conjunctions(VIEW, PAIRS, np.zeros(PAIRS.shape, dtype=np.bool_))
COUNTS = np.append(1000.0 * 0.7 ** np.arange(ITEMS - 1), -5.0)
ONE_WAY = OneWay(np.arange(ITEMS, dtype=np.int32), COUNTS, 2.0, float(UNITS), ())
CONSTANTS = ClippedGaussianConstants(set_fractions=(1.0, 0.2, 0.1), max_set_noise=0.01)
SHARE = Fraction(1, 2)
PRIVATE = private_statistics(BASKETS, Budget.zcdp(10**6), neighbours=REPLACE, units=UNITS)


def test_frequencies_stay_above_the_noise() -> None:
    frequencies = column_frequencies(QUERIES, ONE_WAY)
    assert frequencies[0] == 0.5
    assert frequencies[-1] == 2.0 / UNITS, "a negative count is raised to one standard deviation"
    assert (independent_products(QUERIES, ONE_WAY) > 0).all()


def test_sets_are_nested_and_hold_the_most_popular_queries() -> None:
    sets = nested_sets(PRIVATE.terms, QUERIES, ONE_WAY, SHARE, CONSTANTS)
    assert [members.size for members in sets] == [190, 38, 19]
    products = independent_products(QUERIES, ONE_WAY)
    for larger, smaller in pairwise(sets):
        assert set(smaller.tolist()) < set(larger.tolist())
        outside = np.setdiff1d(larger, smaller)
        assert products[smaller].min() >= products[outside].max()
        assert (np.diff(smaller) > 0).all()


def test_small_data_and_unknown_popularity_leave_the_set_of_all_queries() -> None:
    few = OneWay(ONE_WAY.columns, COUNTS, 2.0, 1e-6, ())
    for one_way in (None, few):
        (everything,) = nested_sets(PRIVATE.terms, QUERIES, one_way, SHARE, CONSTANTS)
        assert everything.tolist() == list(range(190))


def test_the_histogram_has_one_group_for_each_set() -> None:
    sets = nested_sets(PRIVATE.terms, QUERIES, ONE_WAY, SHARE, CONSTANTS)
    assert histogram_of(QUERIES, sets).group_sizes.tolist() == [190, 38, 19]
    assert histogram_of(QUERIES, sets[:1]).group_sizes.tolist() == [190]


def test_a_smaller_set_is_chosen_only_if_the_answers_outside_look_small() -> None:
    sets = nested_sets(PRIVATE.terms, QUERIES, ONE_WAY, SHARE, CONSTANTS)
    private = private_statistics(BASKETS, Budget.zcdp(10**6), neighbours=REPLACE, units=UNITS)
    histogram = private.measure(histogram_of(QUERIES, sets), SHARE)
    poor = private_statistics(BASKETS, Budget.zcdp(Fraction(1, 1000)), neighbours=REPLACE, units=UNITS)
    sizes = []
    for max_to_mean in (1e-9, 1e9):
        constants = ClippedGaussianConstants(max_to_mean=max_to_mean)
        chosen = choose_set(poor.terms, QUERIES, sets, histogram, ONE_WAY, SHARE, constants)
        sizes.append(chosen.members.size)
        index = [members.size for members in sets].index(chosen.members.size)
        assert np.array_equal(chosen.cells, histogram.values.reshape(3, -1)[index])
        assert chosen.clip >= 1
    assert sizes[0] < sizes[1] == 190
