"""One-way marginals of baskets with far less noise than their largest basket asks for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import BinaryView
from dpcore.kernel.budget import Currency
from dpcore.kernel.events import Event
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Measurement, noise_stddev
from dpcore.mechanisms.api import Step
from dpcore.mechanisms.clipping.clip_choice import choose_clip, loss_bound, significant
from dpcore.queries import ClippedSums, Conjunctions, SatisfactionHistogram
from dpcore.uncertainty import half_width

HISTOGRAM_PART = Fraction(1, 4)  # Of the share, for how many items units hold.


@dataclass(frozen=True, eq=False)
class OneWay:
    """Noisy one-way marginals of some columns.

    columns: int32, ascending.
    values: float64, one a column, in counts; may be negative. Clipped: nearly always a little too small.
    stddev: Of their noise.
    units: Noisy number of units, at least 1.
    measurements: Everything that was measured for them.
    """

    columns: NDArray[np.int32]
    values: NDArray[np.float64]
    stddev: float
    units: float
    measurements: tuple[Measurement, ...]

    def upper(self, confidence: float) -> NDArray[np.float64]:
        """Upper ends of intervals of the exact counts, each alone at this confidence at least."""
        *histogram, measured = self.measurements
        left = (1 - confidence) / 2
        steps = measured.denominator
        noise = half_width(measured.noise, measured.scale * steps, 1 - 2 * left) / steps
        if not histogram or not isinstance(measured.queries, ClippedSums):
            return self.values + noise
        return self.values + noise + loss_bound(histogram[0], histogram[0].values, measured.queries, 1 - left)


def clipped_marginals(
    private: PrivateStatistics, view: BinaryView, share: Fraction, columns: NDArray[np.int32] | None = None
) -> OneWay:
    """How many units have a 1 in each column, measured for ``share``; ``columns`` restricts it to some.

    Baskets: a quarter buys the histogram of basket sizes in powers of two; from it the norm C is chosen to which each
    basket is clipped (noise of the largest of all columns against the loss of the most common item). The noise is then
    proportional to C, not to the largest basket that the declared contribution allows.
    Tables: a row has one 1 in each one-hot group, so nothing is clipped.
    """
    terms = private.terms
    singles = one_way_queries(view, columns)
    named = singles.columns[:, 0]
    if view.groups:
        measured = private.measure(singles, share)
        units = terms.unit.units or _rows(measured.values, named, view)
        return OneWay(named, measured.values, measured.stddev, max(1.0, float(units)), (measured,))
    sizes = SatisfactionHistogram(singles)
    histogram = private.measure(sizes, HISTOGRAM_PART * share)
    units = max(1.0, float(terms.unit.units or histogram.values.sum()))
    rest = (1 - HISTOGRAM_PART) * share
    extreme = math.sqrt(2 * math.log(max(2, singles.size)))
    cells = significant(histogram.values, histogram.stddev)
    choice = choose_clip(cells, singles.size, unit_stddev(terms, rest), extreme, 1.0, norm_of(terms))
    measured = private.measure(ClippedSums.of(singles, [choice.clip], norm=norm_of(terms)), rest)
    return OneWay(named, measured.values, measured.stddev, units, (histogram, measured))


def plan_clipped_marginals(
    terms: PrivacyTerms, view: BinaryView, share: Fraction, columns: NDArray[np.int32] | None = None
) -> tuple[list[Step], list[Event]]:
    """What ``clipped_marginals`` will measure."""
    if view.groups:
        stddev = noise_stddev(terms.noise, terms.measure_scale(one_way_queries(view, columns), share))
        return [Step("measure one-way marginals", float(share), 1, stddev)], [terms.measured(share)]
    parts = HISTOGRAM_PART * share, (1 - HISTOGRAM_PART) * share
    steps = [
        Step("measure basket sizes", float(parts[0]), 1, unit_stddev(terms, parts[0])),
        Step("measure clipped one-way marginals", float(parts[1]), 1),
    ]
    return steps, [terms.measured(part) for part in parts]


def one_way_queries(view: BinaryView, columns: NDArray[np.int32] | None) -> Conjunctions:
    """The positive literal of each of these columns, of all when None."""
    named = np.arange(view.columns, dtype=np.int32) if columns is None else np.unique(columns)
    return Conjunctions(view, named[:, None], np.zeros((named.size, 1), dtype=np.bool_))


def unit_scale(terms: PrivacyTerms, share: Fraction) -> float:
    """Noise scale of answers that one unit moves by 1 in the norm of the currency, in counts."""
    one = Conjunctions(BinaryView(1), np.zeros((1, 1), dtype=np.int32), np.zeros((1, 1), dtype=np.bool_))
    return terms.measure_scale(SatisfactionHistogram(one), share)


def unit_stddev(terms: PrivacyTerms, share: Fraction) -> float:
    """Standard deviation of that noise, in counts."""
    return noise_stddev(terms.noise, unit_scale(terms, share))


def norm_of(terms: PrivacyTerms) -> int:
    """Laplace noise follows the sum of what a unit moves, Gaussian noise its Euclidean norm."""
    return 1 if terms.budget.currency is Currency.PURE else 2


def _rows(values: NDArray[np.float64], columns: NDArray[np.int32], view: BinaryView) -> float:
    """The largest sum over the columns of one attribute: all its columns sum to the number of rows."""
    groups = view.group_of_column()[columns]
    return float(np.bincount(groups, weights=values).max())
