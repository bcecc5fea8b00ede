"""Checks of satisfaction histograms and clipped sums that the real code passes and that planted bugs must fail."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from itertools import combinations

import numpy as np
import pytest

from dpcore.domain import BinaryView, Domain
from dpcore.errors import ConfigError, IntegrityError
from dpcore.exact_statistics import Contribution, QueryAnswers, Request, Shape
from dpcore.kernel.budget import Budget
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.sensitivity import Neighbours, PrivacyUnit
from dpcore.mechanisms.clipping.lattice_groups import Groups
from dpcore.queries import ClippedSums, Conjunctions, SatisfactionHistogram, UnitCount, UnitQueries
from dpcore.queries.lattice import Lattice
from dpcore.queries.mixed_orders import random_mixed_conjunctions
from dpcore.testing.doubles import REPLACE, NoStatistics, private_statistics
from dpcore.testing.tiny_statistics import TinyBaskets, TinyTable
from pipelines.aggregators import Aggregator, BasketBlock, aggregator_for
from pipelines.aggregators.pairs import ClippedPairs
from pipelines.layout import BasketLayout

DOMAIN = Domain.of({"a": 2, "b": 3})
ONE_HOT = BinaryView.one_hot(DOMAIN)
ROWS = np.array([[0, 0], [0, 1], [1, 2], [1, 2]])


def positive(view: BinaryView, *columns: tuple[int, ...]) -> Conjunctions:
    return Conjunctions(view, np.array(columns), np.zeros((len(columns), len(columns[0])), dtype=np.bool_))


def clipped_answers_are_noisy_enough() -> None:
    """The scale for every pair of sets of three items, of weights that were clipped and of weights that rise with k."""
    queries = positive(BinaryView(3), (0, 1), (0, 2), (1, 2), (0, 1))
    groups = np.array([0, 0, 0, 1], dtype=np.int32)
    several_orders = Conjunctions.joined([positive(BinaryView(3), (0,), (1,), (2,)), queries])
    by_order = np.array([0, 0, 0, 1, 1, 1, 1], dtype=np.int32)
    for asked in (
        SatisfactionHistogram(several_orders, by_order),
        ClippedSums.of(several_orders, [1.5, 1], by_order, factors=[1, 2.5]),
        ClippedSums.of(several_orders, [2, 1], by_order, factors=[3, 1], norm=1),
        SatisfactionHistogram(queries, groups),
        SatisfactionHistogram(queries, groups, np.array([0, 1, 3])),
        ClippedSums.of(queries, [1, 0.5], groups, factors=[1, 3]),
        ClippedSums.of(queries, [1], norm=1),
        ClippedSums(queries, np.array([[0, 1, 2, 5, 9]])),
    ):
        held = [np.zeros(asked.size, dtype=np.int64), *map(partial(_of_one_unit, asked), range(1, 8))]
        for neighbours in Neighbours:
            replaced = neighbours is REPLACE
            changes = np.array([one - other for one in held for other in (held if replaced else held[:1])])
            unit = PrivacyUnit(neighbours, Contribution(Shape.BASKETS, 3), 9 if replaced else None)
            l1, l2 = np.abs(changes).sum(axis=1).max(), (changes**2).sum(axis=1).max()
            for budget, scale in {
                Budget.pure(1): l1,
                Budget.zcdp(1): math.sqrt(l2 / 2),
                Budget.gdp(1): math.sqrt(l2),
            }.items():
                assert PrivacyTerms(unit, budget).measure_scale(asked, Fraction(1)) >= scale * (1 - 1e-12)


def _of_one_unit(asked: UnitQueries, items: int) -> np.ndarray:
    """What a unit adds that holds the items whose bits are set."""
    return TinyBaskets(BinaryView(3), np.array([[items >> item & 1 for item in range(3)]], dtype=bool)).aggregate(asked)


def signed_sums_are_of_members_measured_once() -> None:
    """Each positive conjunction is asked once, in the group of its order, and exact sums give exact signed answers."""
    queries = random_mixed_conjunctions(BinaryView(5), 60, [1, 2, 3], np.random.default_rng(0), negate=True)
    lattice = Lattice.of(queries)
    groups = Groups.of(lattice)
    literals = [frozenset(row) for row in lattice.members.columns.tolist()]
    assert len(set(literals)) == lattice.members.size
    assert [len(row) for row in literals] == (groups.of_member + 1).tolist()
    held = np.array([[items >> item & 1 for item in range(5)] for items in range(1, 32)], dtype=bool)
    baskets = TinyBaskets(BinaryView(5), held)
    asked = ClippedSums.of(lattice.members, [99.0] * groups.count, groups.of_member)
    sums = baskets.aggregate(asked) / asked.denominator
    answers = lattice.signed_sums(np.concatenate([sums, [len(held), 0]]))
    assert answers.tolist() == baskets.aggregate(QueryAnswers(queries)).tolist()
    assert (
        lattice.plain_sums(np.ones(lattice.members.size + 2)) == 2 ** (queries.negated & queries.counted).sum(1)
    ).all()


def clipped_answers_are_of_one_row() -> None:
    """A unit of three rows would add three times over."""
    table = TinyTable(DOMAIN, np.zeros((3, 2), dtype=np.int64), 3)
    queries = positive(ONE_HOT, (0, 2))
    for asked in (SatisfactionHistogram(queries), ClippedSums.of(queries, [1])):
        with pytest.raises(ConfigError):
            private_statistics(NoStatistics(table.contribution), Budget.pure(1)).measure(asked, Fraction(1))


def clipped_aggregates_are_checked() -> None:
    """A histogram in which a unit is twice, and sums to which the units cannot add that much."""

    class Doubled(TinyTable):
        def aggregate(self, request: Request) -> np.ndarray:
            return super().aggregate(request) * (1 if isinstance(request, UnitCount) else 2)

    queries = positive(ONE_HOT, (0, 2), (0, 3), (1, 4))
    for asked in (SatisfactionHistogram(queries), ClippedSums.of(queries, [1], norm=1)):
        private = private_statistics(Doubled(DOMAIN, ROWS), Budget.pure(1))
        private.measure(UnitCount(), Fraction(1, 2))
        with pytest.raises(IntegrityError):
            private.measure(asked, Fraction(1, 4))


def clipped_queries(groups: bool) -> ClippedSums:
    """Every pair of five items, clipped at 1: those of items 0 and 1 apart from the others, or all together."""
    queries = positive(BinaryView(5), *combinations(range(5), 2))
    of_query = (queries.columns > 1).any(axis=1).astype(np.int32)
    return ClippedSums.of(queries, [1, 1], of_query) if groups else ClippedSums.of(queries, [1])


def clipped_sums_are_of_each_unit_alone() -> None:
    """A unit's vector has norm 1 for each group whatever the others hold, over more units than one word has bits."""
    for groups in (False, True):
        asked = clipped_queries(groups)
        aggregator = aggregator_for(asked, BasketLayout("u", "i", 5))
        held = [list(items) for size in (1, 2, 5, 3) for items in combinations(range(5), size)] * 3
        alone = [_clipped(aggregator, [items]) for items in held]
        assert all((vector**2).sum() <= len(asked.group_sizes) << 32 for vector in alone)
        assert alone[-1].any()
        assert (_clipped(aggregator, held) == sum(alone)).all()


def every_unit_is_binned_once() -> None:
    asked = SatisfactionHistogram(clipped_queries(groups=True).queries, clipped_queries(groups=True).groups)
    aggregator = aggregator_for(asked, BasketLayout("u", "i", 5))
    bins = [asked.split(_clipped(aggregator, [list(range(size))])) for size in range(1, 6)]
    assert all(cells.sum(axis=1).tolist() == [1, 1] for cells in bins)
    # Of the pairs of the first items: the one group holds pair (0, 1), the other one the others.
    assert [cells.argmax(axis=1).tolist() for cells in bins] == [[0, 0], [1, 0], [1, 2], [1, 3], [1, 4]]


def pairs_are_clipped_by_what_a_unit_holds() -> None:
    """All pairs of items, which are counted unit by unit: the sums and bins of every set of five items, each alone."""
    asked = clipped_queries(groups=False)
    sums, bins = (
        aggregator_for(request, BasketLayout("u", "i", 5)) for request in (asked, SatisfactionHistogram(asked.queries))
    )
    assert isinstance(sums, ClippedPairs)
    for held in (list(items) for size in range(1, 6) for items in combinations(range(5), size)):
        pairs = len(held) * (len(held) - 1) // 2
        vector = _clipped(sums, [held + held[:1]])  # One item twice.
        assert vector.tolist() == [
            int(asked.weights[0, pairs]) * (set(pair) <= set(held)) for pair in asked.queries.columns.tolist()
        ]
        assert (vector**2).sum() <= 1 << 32
        assert _clipped(bins, [held]).argmax() == pairs.bit_length()


def _clipped(aggregator: Aggregator, units: list[list[int]]) -> np.ndarray:
    starts = np.cumsum([0, *map(len, units)])
    block = BasketBlock(starts, np.concatenate(units).astype(np.int32))
    return aggregator.extract(aggregator.add(aggregator.create(), block))


def wrong_clipped_sums_are_found() -> None:
    sums, sums_of_pairs = clipped_queries(groups=True), clipped_queries(groups=False)
    for asked in (sums, sums_of_pairs, SatisfactionHistogram(sums_of_pairs.queries)):
        aggregator = aggregator_for(asked, BasketLayout("u", "i", 5))
        block = BasketBlock(np.array([0, 3, 5]), np.array([0, 1, 2, 3, 4], dtype=np.int32))
        counted = aggregator.add(aggregator.create(), block)
        for place in range(counted.size - 2):
            wrong = counted.copy()
            wrong[place] += 1
            with pytest.raises(IntegrityError):
                aggregator.extract(wrong)


CHECKS: dict[str, Callable[[], None]] = {
    "clipped": clipped_answers_are_noisy_enough,
    "signed sums": signed_sums_are_of_members_measured_once,
    "clipped, one row": clipped_answers_are_of_one_row,
    "clipped aggregates": clipped_aggregates_are_checked,
    "clipped sums": clipped_sums_are_of_each_unit_alone,
    "clipped pairs": pairs_are_clipped_by_what_a_unit_holds,
    "bins": every_unit_is_binned_once,
    "clipped slices": wrong_clipped_sums_are_found,
}
