"""Synthetic baskets and answers of any conjunctions, from clipped counts of items and pairs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Final, final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.domain import BinaryView
from dpcore.errors import ConfigError
from dpcore.estimation.baskets.basket_estimate import BasketMeasurements, estimated_model
from dpcore.estimation.baskets.size_law import SizeLaw
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Measurement
from dpcore.mechanisms.api import Plan, Progress, Release, Step, Traits, silent
from dpcore.mechanisms.baskets.basket_queries import popular_items
from dpcore.mechanisms.baskets.constants import BasketMixtureConstants
from dpcore.mechanisms.baskets.measuring import BasketMeasuring, Shares
from dpcore.mechanisms.baskets.predicted import predicted_seconds
from dpcore.mechanisms.clipping.marginals import check_clipped_noise, unit_stddev
from dpcore.queries import ClippedSums, Conjunctions
from dpcore.uncertainty import of_model
from dpcore.workload import Workload

_CLASSES_BYTES: Final = 1 << 28  # Classes by items, in the model and in its counts.
_PAIR_BYTES: Final = 64  # A pair in the fit, with temporary arrays.
_ITEM_BYTES: Final = 128  # An item in the fit, with temporary arrays.
_ITEMS_OF_A_PAIR: Final = 2
_STAGES: Final = 8  # Three measurements, four stages of the fit, and the answers.


@final
@dataclass(frozen=True)
class BasketMixture:
    """A model of baskets: classes of a basket size and a taste, in which items are nearly independent.

    The workload decides what is answered, and not what is measured. There are no settings.

    1. MEASURE the number of units, if it is private, and a histogram of basket sizes.
    2. MEASURE item counts, clipped to the norm with the smallest predicted error that 97 % of the units
       keep or more, by the histogram.
    3. CHOOSE up to 300 popular items by their noisy counts.
    4. MEASURE a histogram of how many pairs of popular items baskets have, and with the remaining budget the counts of
       these pairs, clipped to the norm with the smallest predicted error, or to one that 95 % of the
       units keep if that is smaller.
    5. ESTIMATE the law of sizes, and fit item logits, tastes and their shares so that the clipped counts of the model
       agree with the measured ones (``estimation.baskets``). Rare items differ by popularity alone.

    Synthetic baskets have sizes and item counts of the model up to a few units, at any number of units.

    Guarantee: the budget's, by composition of at most five measurements. Answers have no intervals, because the error
    of the model is unknown; ``clipped_gaussian`` gives intervals, also for conjunctions with negations.

    Source: this project. ``dpcore/kernel/clipped_sensitivity.py`` has the proof of the sensitivity of clipped sums.
    """

    traits: ClassVar[Traits] = Traits(
        name="basket_mixture",
        answers=("conjunctions",),
        shapes=("baskets",),
        rows=True,
        mostly_gaussian=True,
        several_rows=False,
        recommended_for="synthetic baskets, and conjunctions of any sign and order of baskets",
    )

    constants: BasketMixtureConstants = field(default=BasketMixtureConstants(), init=False, repr=False)

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        queries = _checked_queries(workload)
        shares, items = Shares.of(terms, self.constants), queries.view.columns
        popular = min(items, self.constants.max_popular)
        check_clipped_noise(terms, shares.counts, items)
        check_clipped_noise(terms, shares.pairs, popular * (popular - 1) // 2)
        steps = [
            Step("measure basket sizes", float(shares.sizes), 1, unit_stddev(terms, shares.sizes)),
            Step("measure clipped item counts", float(shares.counts), 1),
            Step("measure how many popular pairs baskets have", float(shares.histogram), 1),
            Step(f"measure clipped counts of pairs of up to {popular:,} items", float(shares.pairs), 1),
        ]
        if shares.units:
            steps.insert(0, Step("measure units", float(shares.units), 1, unit_stddev(terms, shares.units)))
        notes = (
            f"the error cannot be predicted from public facts. The noise of a pair has a standard deviation of C x "
            f"{unit_stddev(terms, shares.pairs):.4g} counts, where C is the norm to which baskets are clipped, chosen "
            f"from a noisy histogram",
            "answers are those of a model of basket sizes and tastes, without intervals. Items beyond the "
            f"{popular:,} most popular ones are related to others by basket size alone",
        )
        memory = _CLASSES_BYTES + _PAIR_BYTES * popular**2 + 16 * queries.size + _ITEM_BYTES * items
        largest = min(items, terms.unit.contribution.bound)
        seconds = predicted_seconds(items, largest, self.constants.max_popular)
        return Plan(tuple(steps), 0, memory, None, notes, tuple(map(terms.measured, shares.all)), seconds)

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        self.plan(private.terms, workload)
        view, report = _checked_queries(workload).view, _Stages(progress)
        measure = BasketMeasuring(private, view, self.constants, Shares.of(private.terms, self.constants))
        units = measure.units()  # MEASURE
        law = measure.sizes()
        report()
        counts = measure.counts(units, law)
        report()
        popular = self._popular(counts)  # CHOOSE
        pairs = measure.pairs(popular, counts.values)  # MEASURE
        report()
        measured = _basket_measurements(view, units, law, counts, popular, pairs)
        model = estimated_model(measured, self.constants.fit, generator, report)  # ESTIMATE
        answers = of_model(model.answer(workload.queries))
        progress(_STAGES, _STAGES)
        return Release(workload, answers, model, tuple(measure.taken))

    def _popular(self, counts: Measurement) -> NDArray[np.int64]:
        constants = self.constants
        threshold = constants.popular_deviations * counts.stddev
        return popular_items(counts.values, threshold, constants.min_popular, constants.max_popular)


def _basket_measurements(
    view: BinaryView,
    units: float,
    law: SizeLaw,
    counts: Measurement,
    popular: NDArray[np.int64],
    pairs: Measurement,
) -> BasketMeasurements:
    """The measurements as the estimation takes them: pairs as a symmetric table of the popular items."""
    table = np.zeros((popular.size, popular.size))
    table[np.triu_indices(popular.size, 1)] = pairs.values
    return BasketMeasurements(
        view=view,
        units=units,
        law=law,
        counts=counts.values,
        count_stddev=counts.stddev,
        count_weights=_weights(counts),
        popular=popular,
        pairs=table + table.T,
        pair_stddev=pairs.stddev,
        pair_weights=_weights(pairs),
    )


@dataclass
class _Stages:
    """Counts the stages that are done."""

    progress: Progress
    done: int = 0

    def __call__(self) -> None:
        self.done += 1
        self.progress(self.done, _STAGES)


def _weights(measured: Measurement) -> NDArray[np.float64]:
    """The fraction of each of k answers that the clipped sums keep, float64 by k."""
    sums = measured.queries
    assert isinstance(sums, ClippedSums)
    return np.asarray(sums.weights[0] / sums.denominator)


def _checked_queries(workload: Workload) -> Conjunctions:
    """The queries. Raises ConfigError unless they are conjunctions of at least two items of baskets."""
    queries = workload.queries
    if not isinstance(queries, Conjunctions) or queries.view.groups:
        raise ConfigError("basket_mixture models baskets; want workload.conjunctions, and shape baskets")
    if queries.view.columns < _ITEMS_OF_A_PAIR:
        raise ConfigError("basket_mixture measures pairs; want two items or more")
    return queries
