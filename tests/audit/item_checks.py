"""Checks of the discovery of items that the real code passes and that planted bugs must fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, norm

from dpcore.errors import BudgetExceededError
from dpcore.exact_statistics import Contribution, NamedSums, Shape
from dpcore.kernel import item_threshold
from dpcore.kernel.budget import Budget
from dpcore.kernel.conversion import delta_of_gdp, gdp_of
from dpcore.kernel.private_items import ItemTerms, PrivateItems
from dpcore.kernel.sensitivity import Neighbours, PrivacyUnit
from dpcore.testing.memory import MemoryJournal, MemoryLedger
from pipelines import contribution
from pipelines.aggregators.item_sums import ItemSums

BOUND = 6
SALT = bytes(range(16))
BASKETS = Contribution(Shape.BASKETS, BOUND)
UNIT = PrivacyUnit(Neighbours.ADD_REMOVE_UNIT, BASKETS)
OFTEN = Fraction(1, 20)
_TRIALS = 4_000


class Pipeline:
    """The truncation and the sums that ship, over baskets in memory."""

    def __init__(self, baskets: Sequence[Sequence[str]]) -> None:
        self.baskets = baskets
        self.contribution = BASKETS
        self.item_parts = 1
        self.reads = 0

    def item_sums(self, weights: NDArray[np.int64], part: int, excluded: tuple[bytes, ...] = ()) -> NamedSums:
        self.reads += 1
        baskets = [[name for name in basket if name.encode() not in excluded] for basket in self.baskets]
        units = pa.array([unit for unit, basket in enumerate(baskets) for _ in basket], pa.int64())
        names = sorted({name for basket in baskets for name in basket})
        items = np.array([names.index(name) for basket in baskets for name in basket], dtype=np.int32)
        pairs = contribution.named_block(units, items, pa.array(names, pa.large_string()), BOUND, SALT)
        aggregator = ItemSums(weights, SALT)
        return aggregator.extract(aggregator.add_pairs(aggregator.create(), pairs))


def terms(unit: PrivacyUnit = UNIT, budget: Budget | None = None, threshold_delta: Fraction = OFTEN) -> ItemTerms:
    return ItemTerms(unit, budget or Budget.gdp(1), threshold_delta, 100)


def private_items(
    statistics: Pipeline, journal: MemoryJournal | None = None, wanted: ItemTerms | None = None
) -> PrivateItems:
    wanted = wanted or terms()
    return PrivateItems(
        statistics, wanted, ledger=MemoryLedger(wanted.budget), journal=MemoryJournal() if journal is None else journal
    )


def new_items(count: int) -> list[str]:
    return [f"new {number}" for number in range(count)]


def no_unit_alone_is_released_too_often() -> None:
    """The exact probability that any item of a unit passes that nobody else has, for each number of items."""
    for budget in (Budget.gdp(1), Budget.zcdp(Fraction(1, 2)), Budget.gdp(Fraction(1, 100))):
        for threshold_delta in (Fraction(1, 2), OFTEN, Fraction(1, 10**9)):
            rounds = terms(budget=budget, threshold_delta=threshold_delta).rounds
            for items in range(1, BOUND + 1):
                alone = 0.0
                for wanted in rounds:  # None of the unit's items passes in the first, so all are there in the second.
                    sums = Pipeline([new_items(items)]).item_sums(wanted.weights, 0).sums
                    scale = wanted.basis.scale * wanted.steps
                    alone += norm.sf((wanted.threshold - 1 - sums * wanted.steps) / scale).sum()
                assert alone <= float(threshold_delta) * (1 + 1e-6)


def the_law_of_a_new_unit() -> None:
    """Runs of the whole verb on one unit, as often as the threshold promises or less."""
    passed = sum(bool(private_items(Pipeline([new_items(BOUND)])).discover().names) for _ in range(_TRIALS))
    assert binom.sf(passed - 1, _TRIALS, float(OFTEN)) > 1e-8


def sums_are_noisy_enough() -> None:
    """The scale for all pairs of units of up to ten items, which are truncated to six."""
    weights = item_threshold.weights_of(BOUND)
    sizes = range(11)
    vectors = [np.zeros(30)]
    for size in sizes[1:]:
        for first in (0, 10):
            sums = Pipeline([[f"{first + number:02d}" for number in range(size)]]).item_sums(weights, 0)
            vector = np.zeros(30)
            for item in range(sums.sums.size):
                vector[int(sums.name(item))] = sums.sums[item]
            vectors.append(vector)
    for neighbours in Neighbours:
        replaced = neighbours is Neighbours.REPLACE_ONE_UNIT
        moved = max(((one - other) ** 2).sum() for one in vectors for other in (vectors if replaced else vectors[:1]))
        unit = PrivacyUnit(neighbours, BASKETS, 9 if replaced else None)
        for budget, factor in ((Budget.gdp(1), 1), (Budget.zcdp(1), 2)):
            spent = [moved / (factor * each.basis.scale**2) for each in terms(unit, budget).rounds]
            assert sum(spent) <= 1 + 1e-12


def a_unit_adds_once_to_each_item() -> None:
    baskets = [["a", "b", "a", "a"], ["b"], ["c", "b", "b"]]
    weights = item_threshold.weights_of(BOUND)
    sums = Pipeline(baskets).item_sums(weights, 0)
    found = {sums.name(item).decode(): int(sums.sums[item]) for item in range(sums.sums.size)}
    assert found == {"a": weights[2], "b": 2 * weights[2] + weights[1], "c": weights[2]}


def discovery_is_charged_before_it_reads_and_drawn_once() -> None:
    statistics, journal = Pipeline([["a", "b"]] * 200), MemoryJournal()
    private = private_items(statistics, journal)
    first = private.discover()
    with pytest.raises(BudgetExceededError):
        private.discover()
    again = private_items(statistics, journal).discover()
    assert (again.names, again.values.tolist()) == (first.names, first.values.tolist())
    assert statistics.reads == len(terms().rounds)


def delta_is_that_of_both_parts() -> None:
    """The worst outcome: the new items of a unit are released, or the noise tells the unit apart."""
    for epsilon, delta, threshold_delta in ((1.0, 1e-6, Fraction(1, 4_000_000)), (0.1, 1e-3, Fraction(1, 4000))):
        budget = gdp_of(*item_threshold.without_threshold_delta(epsilon, delta, threshold_delta))
        whole = delta_of_gdp(float(budget), epsilon + float(np.log1p(-float(threshold_delta)))) + float(threshold_delta)
        assert whole <= delta
        assert item_threshold.epsilon_with_threshold_delta(Budget.gdp(budget), delta, threshold_delta) <= epsilon


CHECKS: dict[str, Callable[[], None]] = {
    "items: new ones": no_unit_alone_is_released_too_often,
    "items: law of new ones": the_law_of_a_new_unit,
    "items: noise": sums_are_noisy_enough,
    "items: once": a_unit_adds_once_to_each_item,
    "items: order": discovery_is_charged_before_it_reads_and_drawn_once,
    "items: delta": delta_is_that_of_both_parts,
}
