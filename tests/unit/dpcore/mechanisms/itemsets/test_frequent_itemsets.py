"""frequent_itemsets on small baskets: without noise it is Apriori; with noise its intervals hold together."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import BinaryView
from dpcore.errors import ConfigError
from dpcore.estimation.itemsets.supports import FrequentItemsets as Found
from dpcore.exact_statistics import Contribution, Shape
from dpcore.kernel.budget import Budget, Currency
from dpcore.kernel.conversion import budget_of
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.sensitivity import PrivacyUnit
from dpcore.mechanisms.itemsets.frequent_itemsets import FrequentItemsets
from dpcore.queries import ClippedSums, Itemsets, SatisfactionHistogram
from dpcore.testing.doubles import ADD_REMOVE, private_statistics
from dpcore.testing.memory import MemoryJournal
from dpcore.testing.tiny_statistics import TinyBaskets
from dpcore.workload import conjunctive, frequent
from tests.support.constants import with_constants

ITEMS = 12
VIEW = BinaryView(ITEMS)
HUGE, SMALL = budget_of(10_000.0, 1e-6, Currency.GDP), budget_of(1.0, 1e-6, Currency.GDP)


def baskets(units: int = 3_000, seed: int = 0) -> NDArray[np.bool_]:
    """Items of falling popularity, and three that go together."""
    draw = np.random.default_rng(seed)
    matrix = draw.random((units, ITEMS)) < 0.4 * 0.75 ** np.arange(ITEMS)
    together = draw.random(units) < 0.1
    matrix[together, 7:10] = True
    matrix[~matrix.any(axis=1), 0] = True
    return matrix


def exact(matrix: NDArray[np.bool_], size: int) -> dict[tuple[int, ...], int]:
    return {items: int(matrix[:, items].all(axis=1).sum()) for items in combinations(range(ITEMS), size)}


def found(
    request: Itemsets, budget: Budget, matrix: NDArray[np.bool_], mechanism: FrequentItemsets | None = None
) -> Any:
    private = private_statistics(TinyBaskets(VIEW, matrix), budget)
    return (mechanism or FrequentItemsets()).run(private, frequent(request), generator=np.random.default_rng(0))


def test_without_noise_it_lists_the_most_frequent_itemsets() -> None:
    matrix = baskets()
    release = found(Itemsets(VIEW, 3, top=6), HUGE, matrix)
    assert [part.items.shape for part in release.itemsets.listed] == [(6, 1), (6, 2), (6, 3)]
    for size, part in enumerate(release.itemsets.listed, 1):
        counts = exact(matrix, size)
        largest = sorted(counts.values(), reverse=True)[:6]
        assert [counts[tuple(items)] for items in part.items.tolist()] == largest
        assert part.values == pytest.approx(largest, abs=8)
    assert release.workload.queries.orders.tolist() == [1] * 6 + [2] * 6 + [3] * 6
    values = np.concatenate([part.values for part in release.itemsets.listed])
    assert release.answers.values.tolist() == values.tolist()


def test_without_noise_it_lists_what_reaches_the_support() -> None:
    matrix = baskets()
    release = found(Itemsets(VIEW, 3, min_support=Fraction(5, 100)), HUGE, matrix)
    for size, part in enumerate(release.itemsets.listed, 1):
        clear = {items for items, count in exact(matrix, size).items() if count >= 0.055 * len(matrix)}
        possible = {items for items, count in exact(matrix, size).items() if count >= 0.045 * len(matrix)}
        listed = set(map(tuple, part.items.tolist()))
        assert clear <= listed <= possible
        assert clear


def test_the_most_frequent_item_is_listed_even_if_nothing_is_frequent() -> None:
    release = found(Itemsets(VIEW, 2, min_support=Fraction(999, 1000)), HUGE, baskets())
    assert release.itemsets.listed[0].items.tolist() == [[0]]
    assert release.itemsets.rules.size == 0
    assert release.workload.queries.size == 1


def test_rules_are_those_of_the_listed_itemsets() -> None:
    matrix = baskets()
    made: Found = found(Itemsets(VIEW, 3, top=4), HUGE, matrix).itemsets
    rules, units = made.rules, len(matrix)
    listed = {tuple(items) for part in made.listed[1:] for items in part.items.tolist()}
    named = set()
    for row in range(rules.size):
        x = [item for item in rules.antecedents[row].tolist() if item >= 0]
        y = int(rules.consequents[row])
        whole = tuple(sorted((*x, y)))
        named.add((whole, y))
        both, with_x, with_y = (int(matrix[:, list(items)].all(axis=1).sum()) for items in (whole, x, [y]))
        assert whole in listed
        assert rules.support.values[row] == pytest.approx(both / units, abs=0.01)
        assert rules.confidence.values[row] == pytest.approx(both / with_x, abs=0.03)
        assert rules.lift.values[row] == pytest.approx(units * both / (with_x * with_y), rel=0.1)
    assert named == {(items, item) for items in listed for item in items}


def everything_holds(made: Found, matrix: NDArray[np.bool_]) -> bool:
    units = len(matrix)
    holds = made.units.lower <= units <= made.units.upper
    for size, part in enumerate(made.listed, 1):
        counts = np.array([exact(matrix, size)[tuple(items)] for items in part.items.tolist()])
        holds &= bool(((part.lower <= counts) & (counts <= part.upper)).all())
    rules = made.rules
    for row in range(rules.size):
        x, y = [item for item in rules.antecedents[row].tolist() if item >= 0], int(rules.consequents[row])
        both, with_x, with_y = (int(matrix[:, items].all(axis=1).sum()) for items in ([*x, y], x, [y]))
        truths = (both / units, both / max(with_x, 1), units * both / max(with_x * with_y, 1))
        for ratios, truth in zip((rules.support, rules.confidence, rules.lift), truths, strict=True):
            holds &= bool(ratios.lower[row] <= truth * (1 + 1e-9) and truth <= ratios.upper[row] * (1 + 1e-9))
    return holds


@pytest.mark.parametrize("currency", list(Currency))
def test_all_intervals_hold_together(currency: Currency) -> None:
    """They fail together with probability 0.05 at most, so that 12 of 40 runs fail with probability below 1e-6."""
    budget = budget_of(1.0, 0.0 if currency is Currency.PURE else 1e-6, currency)
    matrix = baskets(800)
    held = [everything_holds(found(Itemsets(VIEW, 3, top=5), budget, matrix).itemsets, matrix) for _ in range(40)]
    assert sum(held) > 28


def test_noise_is_as_wide_as_the_intervals_say() -> None:
    """Interval and standard deviation follow the noise: the mean square error of pairs is near the variance."""
    matrix = baskets(2_000)
    releases = [found(Itemsets(VIEW, 2, top=3), SMALL, matrix) for _ in range(60)]
    errors = [
        (part.measured[0] - exact(matrix, 2)[tuple(part.items[0].tolist())]) / part.stddev
        for part in (release.itemsets.listed[1] for release in releases)
    ]
    assert 0.2 < float(np.mean(np.square(errors))) < 8  # Selection and clipping move it; a wrong scale by far more.


def test_what_is_measured_follows_from_noisy_counts_alone() -> None:
    """With the same journal, other data give the same candidates, itemsets and rules."""
    journal = MemoryJournal()
    request, mechanism = frequent(Itemsets(VIEW, 3, top=4)), FrequentItemsets()
    sides = []
    for matrix in (baskets(500), ~baskets(500) | (np.arange(ITEMS) == 1)):
        private = private_statistics(TinyBaskets(VIEW, matrix), SMALL, journal=journal)
        sides.append(mechanism.run(private, request, generator=np.random.default_rng(0)))
    first, second = sides
    assert first.workload.queries.digest() == second.workload.queries.digest()
    assert first.itemsets.rules.lift.values.tolist() == second.itemsets.rules.lift.values.tolist()


def test_calls_and_candidates_are_bounded_in_advance() -> None:
    mechanism = with_constants(FrequentItemsets(5), triples_per_listed=2)
    release = found(Itemsets(VIEW, 3, top=2), SMALL, baskets(), mechanism)
    kinds = [type(measured.queries) for measured in release.measurements]
    assert kinds == [SatisfactionHistogram, ClippedSums] * 3
    _, pairs, triples = (measured.queries.queries for measured in release.measurements[1::2])
    assert pairs.size <= 10
    assert triples.size <= 10


def test_plan_lists_the_calls_of_the_run() -> None:
    private = private_statistics(TinyBaskets(VIEW, baskets()), SMALL)
    workload = frequent(Itemsets(VIEW, 3, top=2))
    plan = FrequentItemsets().plan(private.terms, workload)
    release = FrequentItemsets().run(private, workload, generator=np.random.default_rng(0))
    assert [event.charged for event in plan.events] == [charge.amount for charge in private.charges]
    assert sum(step.calls for step in plan.steps) == len(release.measurements) == 6
    assert sum(step.share for step in plan.steps) == pytest.approx(1)


def test_other_workloads_and_settings_are_refused() -> None:
    terms = PrivacyTerms(PrivacyUnit(ADD_REMOVE, Contribution(Shape.BASKETS, 3)), SMALL)
    workload = frequent(Itemsets(VIEW, 2, top=2))
    for largest in (2, 4_473):
        with pytest.raises(ConfigError, match=r"want 3 \.\. 4,472"):
            FrequentItemsets(largest).plan(terms, workload)
    queries = found(Itemsets(VIEW, 2, top=1), SMALL, baskets(50)).workload.queries
    with pytest.raises(ConfigError, match=r"want workload\.itemsets"):
        FrequentItemsets().plan(terms, conjunctive(queries))
