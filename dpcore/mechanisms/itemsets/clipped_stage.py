"""One stage of ``frequent_itemsets``: clipped supports of itemsets of one size, with a privately chosen clip."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import BinaryView
from dpcore.estimation.clipping.shrinkage import shrunk
from dpcore.estimation.itemsets.candidates import Candidates
from dpcore.estimation.itemsets.clipping_loss import LossCurve, loss_curve
from dpcore.estimation.itemsets.supports import Supports
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Measurement, Noise
from dpcore.mechanisms.clipping.clip_choice import choose_clip, loss_bound, points_of_cells, significant
from dpcore.mechanisms.clipping.marginals import norm_of, unit_stddev
from dpcore.mechanisms.itemsets.constants import LOSS_FAILURE, NOISE_FAILURE, FrequentItemsetsConstants
from dpcore.queries import ClippedSums, SatisfactionHistogram
from dpcore.queries.itemsets import positive
from dpcore.uncertainty import half_width


@dataclass(frozen=True, eq=False)
class Stage:
    """The noisy supports of some itemsets of one size.

    histogram: Units by how many of the itemsets they hold.
    measured: The clipped sums.
    predicted: Predicted counts, float64 [m], from earlier stages; None if there are none.
    """

    histogram: Measurement
    measured: Measurement
    predicted: NDArray[np.float64] | None = None

    @property
    def sums(self) -> ClippedSums:
        """The clipped sums that were measured."""
        assert isinstance(self.measured.queries, ClippedSums)
        return self.measured.queries

    def shrunk(self, max_shift: float) -> NDArray[np.float64]:
        """The noisy counts, moved towards the predictions by empirical Bayes, float64 [m].

        max_shift: Maximum move, in standard deviations of the noise.
        """
        if self.predicted is None:
            return self.measured.values
        stddev = self.measured.stddev
        return shrunk(self.measured.values, stddev, [self.predicted], max_shift * stddev)

    def supports(self, units: float, constants: FrequentItemsetsConstants) -> Supports:
        """Estimates and intervals of the exact counts.

        units: Upper bound on the number of units.
        constants: How far estimates move, and how much loss by clipping the intervals allow for.

        All noise intervals hold together with probability 0.9875, by the union bound. Clipping only lowers counts, so
        that the lower end of a noise interval is one for the exact count. The upper end is raised by an allowance for
        the loss: ``loss_factor`` times the expected loss from generously counted cells of the histogram, plus one
        standard deviation, but never more than a bound on any loss, which holds with probability 0.9975. Under pure DP
        it is this bound.
        """
        steps = self.measured.denominator
        values, stddev = self.measured.values, self.measured.stddev
        width = half_width(self.measured.noise, self.measured.scale * steps, 1 - NOISE_FAILURE / values.size) / steps
        estimates = self.shrunk(constants.max_shift)
        bound = loss_bound(self.histogram, self.histogram.values, self.sums, 1 - LOSS_FAILURE)
        allowance = np.full(values.size, bound)
        if self.measured.noise is not Noise.LAPLACE:  # Laplace noise hides the cells of clipped units too often.
            expected = self._loss_curve(constants.allowed_deviations).at(values + width)
            allowance = np.minimum(constants.loss_factor * expected + stddev, bound)
        lower = np.clip(values - width, 0.0, units)
        upper = np.clip(values + width + allowance, 0.0, units)
        completed = estimates + np.minimum(self._loss_curve(constants.loss_deviations).at(estimates), bound)
        return Supports(self.sums.queries.columns, values, np.clip(completed, lower, upper), stddev, lower, upper)

    def _loss_curve(self, deviations: float) -> LossCurve:
        """The expected loss by count, from the cells of the histogram above this many standard deviations."""
        cells = significant(self.histogram.values, self.histogram.stddev, deviations)
        satisfied = np.minimum(points_of_cells(len(cells)), self.sums.queries.size)
        lost = 1.0 - self.sums.weights[0][satisfied.astype(np.int64)] / self.sums.denominator
        units = np.broadcast_to(np.maximum(cells[1:, None], 0.0) / satisfied.shape[1], satisfied.shape)
        return loss_curve(self.shrunk(np.inf), satisfied.ravel(), units.ravel(), lost.ravel())


def measure_stage(
    private: PrivateStatistics,
    view: BinaryView,
    candidates: Candidates,
    share: Fraction,
    constants: FrequentItemsetsConstants,
) -> Stage:
    """Measures the supports of itemsets: a histogram, a clip that is chosen from it, and the clipped sums.

    private: The kernel.
    view: The items.
    candidates: The itemsets, with their predicted counts.
    share: Share of the budget for both measurements.
    constants: How the share is divided, and how the clip is chosen.
    """
    terms, queries = private.terms, positive(view, candidates.itemsets)
    histogram_share, sums_share = stage_shares(share, constants)
    histogram = private.measure(SatisfactionHistogram(queries), histogram_share)  # MEASURE
    clip = choose_clip(
        significant(histogram.values, histogram.stddev),
        queries.size,
        unit_stddev(terms, sums_share),
        constants.noise_factor,
        float(candidates.predicted.max() / candidates.predicted.sum()),
        norm_of(terms),
        completed=True,
    ).clip
    measured = private.measure(ClippedSums.of(queries, [clip], norm=norm_of(terms)), sums_share)  # MEASURE
    return Stage(histogram, measured, candidates.predicted)


def stage_shares(share: Fraction, constants: FrequentItemsetsConstants) -> tuple[Fraction, Fraction]:
    """The shares of the histogram and of the sums of a stage."""
    histogram = Fraction(constants.histogram_part) * share
    return histogram, share - histogram
