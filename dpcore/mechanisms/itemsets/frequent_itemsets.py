"""Frequent itemsets: the most frequent items, pairs and triples of baskets, and their association rules."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar, final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.errors import ConfigError
from dpcore.estimation.itemsets.candidates import (
    MAX_TRIANGLES,
    Candidates,
    candidate_triples,
    paired_items,
    rank_of_products,
)
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.mechanisms.api import Plan, Progress, Release, Step, Traits, silent
from dpcore.mechanisms.clipping.marginals import (
    OneWay,
    check_clipped_noise,
    clipped_marginals,
    plan_clipped_marginals,
    unit_stddev,
)
from dpcore.mechanisms.itemsets.clipped_stage import measure_stage, stage_shares
from dpcore.mechanisms.itemsets.constants import LARGEST_PAIRS, LARGEST_TRIPLES, FrequentItemsetsConstants
from dpcore.mechanisms.itemsets.listing import answers_of, listed_itemsets, supports_of, units_of
from dpcore.queries.itemsets import Itemsets, all_pairs
from dpcore.workload import Workload, conjunctive


@final
@dataclass(frozen=True)
class FrequentItemsets:
    """Measures items, then all pairs of the items that can still matter, then triples whose pairs look frequent.

    Every decision is post-processing of noisy values: no exact count chooses, prunes or orders anything. The number of
    calls to the kernel, their kinds and their shares are fixed before the first one.

    1. MEASURE basket sizes and clipped counts of all items.
    2. CHOOSE the items whose noisy count reaches the threshold, at most ``max_paired_items``. The threshold is
       ``min_support`` times the units, or for ``top`` the product of noisy frequencies of that rank: pairs of that rank
       are seldom less frequent than if items were independent.
    3. MEASURE how many pairs of these items each unit holds; choose a clip from it; MEASURE clipped sums of all pairs.
    4. For order 3, CHOOSE candidate triples whose three noisy pairs look frequent, by their predicted counts.
    5. MEASURE how many candidates each unit holds; choose a clip from it; MEASURE clipped sums of all candidates.
    6. ESTIMATE counts with intervals, list the most frequent itemsets of each size, and form their association rules.

    max_paired_items: Maximum number of items whose pairs are measured, from 3 to 4,472, which have 10 million pairs.
        Memory and time grow with its square.

    Formal guarantee of ``itemsets``, over all noise: with probability 0.95 or more, all intervals of the release hold
    together: those of all counts of items, pairs and triples that were measured, listed or not, of the number of units,
    and of the support, confidence and lift of every rule. Because they hold together, the choice of what is listed does
    not weaken them. For the lower ends of counts this is so whatever the data contain. For all other ends it is so if
    no itemset loses more by clipping than its interval allows: twice the loss that is expected from how many itemsets
    units hold, plus one standard deviation (``dpcore/decisions/itemsets.md`` has the losses of nine datasets). Under
    pure DP all ends of counts are so whatever the data contain. Nothing is guaranteed about itemsets that are not
    listed.

    The noise of the counts of each size is that of independent draws with one standard deviation, in column ``stddev``.

    Source: this project, for clipped sums; Agrawal and Srikant (1994) for pruning by subsets, here on noisy counts.
    """

    max_paired_items: int = 2_000

    traits: ClassVar[Traits] = Traits(
        name="frequent_itemsets",
        answers=("itemsets",),
        shapes=("baskets",),
        rows=False,
        mostly_gaussian=True,
        several_rows=False,
        recommended_for="frequent items, pairs and triples of baskets, and association rules",
    )

    constants: FrequentItemsetsConstants = field(default=FrequentItemsetsConstants(), init=False, repr=False)

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        request = _checked(self, workload)
        shares = _Shares.of(request, self.constants)
        steps, events = plan_clipped_marginals(terms, request.view, shares.items)
        pairs = math.comb(min(self.max_paired_items, request.view.columns), 2)
        stages = [("pairs", shares.pairs, pairs)]
        if shares.triples:
            triples = math.comb(min(self.max_paired_items, request.view.columns), 3)
            stages.append(("triples", shares.triples, min(LARGEST_TRIPLES, triples)))
        notes = []
        for name, share, size in stages:
            histogram, sums = stage_shares(share, self.constants)
            check_clipped_noise(terms, sums, size)
            steps.append(
                Step(f"measure how many {name} units hold", float(histogram), 1, unit_stddev(terms, histogram))
            )
            steps.append(Step(f"measure clipped sums of up to {size:,} {name}", float(sums), 1))
            events += [terms.measured(histogram), terms.measured(sums)]
            notes.append(
                f"the noise of a count of {name} has a standard deviation of C x {unit_stddev(terms, sums):.4g}, where "
                f"C is the norm to which the {name} of a unit are clipped, chosen from a noisy histogram: about the "
                f"square root of how many of the measured {name} most units hold"
            )
        notes.append(
            "which itemsets are listed follows from noisy counts. All intervals hold together with 95 %: lower ends of "
            "counts whatever the data are, the others if clipping takes at most twice the expected loss and one "
            "standard deviation"
        )
        return Plan(tuple(steps), 0, _memory(request, pairs), None, tuple(notes), tuple(events))

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        self.plan(private.terms, workload)
        request, constants = _checked(self, workload), self.constants
        view, shares = request.view, _Shares.of(request, constants)
        one_way = clipped_marginals(private, view, shares.items)  # MEASURE
        progress(1, request.order)
        counts = np.maximum(one_way.values, one_way.stddev)
        items = self._chosen_items(request, one_way)  # CHOOSE
        columns = all_pairs(items)
        independent = Candidates(columns, counts[columns].prod(axis=1) / one_way.units)
        pairs = measure_stage(private, view, independent, shares.pairs, constants)  # MEASURE
        progress(2, request.order)
        measured = [pairs]
        if request.order > 2:
            least, rank = _least_count(request, one_way.units), request.top or 0
            candidates = candidate_triples(  # CHOOSE
                Candidates(columns, pairs.shrunk(np.inf)),
                counts,
                least=least,
                rank=rank,
                part=constants.triples_part,
                largest=self._largest_triples(request),
            )
            measured.append(measure_stage(private, view, candidates, shares.triples, constants))  # MEASURE
            progress(3, request.order)
        units = units_of(private.terms.unit.units, one_way, measured)  # ESTIMATE
        itemsets = listed_itemsets(request, supports_of(one_way, measured, units, constants), units)
        queries, answers = answers_of(view, itemsets)
        drawn = [*one_way.measurements, *(part for stage in measured for part in (stage.histogram, stage.measured))]
        return Release(conjunctive(queries), answers, None, tuple(drawn), itemsets=itemsets)

    def _largest_triples(self, request: Itemsets) -> int:
        """Maximum number of candidate triples."""
        if request.top is None:
            return LARGEST_TRIPLES
        return min(LARGEST_TRIPLES, max(10, self.constants.triples_per_listed * request.top))

    def _chosen_items(self, request: Itemsets, one_way: OneWay) -> NDArray[np.int32]:
        """The items whose pairs are measured, int32, ascending."""
        least = _least_count(request, one_way.units)
        if request.top is not None:
            descending = np.sort(np.maximum(one_way.values, 0.0))[::-1][: self.max_paired_items]
            least = rank_of_products(descending, request.top) / one_way.units
        margin = self.constants.margin * one_way.stddev
        largest = self.max_paired_items
        if request.top is not None:
            largest = min(largest, max(10, math.isqrt(2 * self.constants.pairs_per_listed * request.top)))
        chosen = paired_items(one_way.values, least - margin, request.order, largest)
        return np.asarray(one_way.columns[chosen], dtype=np.int32)


@dataclass(frozen=True)
class _Shares:
    """Shares of the whole budget for items, pairs and triples; 0 for triples that are not measured."""

    items: Fraction
    pairs: Fraction
    triples: Fraction

    @classmethod
    def of(cls, request: Itemsets, constants: FrequentItemsetsConstants) -> _Shares:
        items = Fraction(constants.items_share)
        pairs = 1 - items if request.order == 2 else Fraction(constants.pairs_share)
        return cls(items, pairs, 1 - items - pairs)


def _least_count(request: Itemsets, units: float) -> float:
    """The smallest count that is wanted; 0 if a rank decides."""
    return 0.0 if request.min_support is None else float(request.min_support) * units


def _checked(mechanism: FrequentItemsets, workload: Workload) -> Itemsets:
    """The request of the workload. Raises ConfigError for other workloads and settings."""
    request = workload.requested
    if not isinstance(request, Itemsets):
        raise ConfigError("mechanism frequent_itemsets finds itemsets; want workload.itemsets, or another mechanism")
    largest = math.isqrt(2 * LARGEST_PAIRS)
    if not 3 <= mechanism.max_paired_items <= largest:
        raise ConfigError(
            f"mechanism.max_paired_items is {mechanism.max_paired_items:,}; want 3 .. {largest:,}, whose pairs fit in "
            "memory"
        )
    return request


def _memory(request: Itemsets, pairs: int) -> int:
    """Peak memory, in bytes: of pairs with weights, sums, noise, estimates and rules, of triples, and of the items."""
    triples = 0 if request.order == 2 else 24 * MAX_TRIANGLES + 200 * LARGEST_TRIPLES
    return 400 * pairs + 3 * triples + request.view.columns * 8 * 20
