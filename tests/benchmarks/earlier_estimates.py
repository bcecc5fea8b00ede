"""The estimator of clipped answers of earlier versions, for comparison: limited shrinkage, plus an expected loss."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.estimation.clipping.column_factors import cross_predicted
from dpcore.estimation.clipping.expected_loss import expected_loss
from dpcore.estimation.clipping.shrinkage import shrunk
from dpcore.measurement import Measurement
from dpcore.mechanisms.api import Release
from dpcore.mechanisms.clipping.clip_choice import points_of_cells, significant
from dpcore.mechanisms.clipping.marginals import OneWay
from dpcore.mechanisms.clipping.query_sets import column_frequencies
from dpcore.queries import ClippedSums, Conjunctions, SatisfactionHistogram
from dpcore.uncertainty import half_width


def earlier_values(queries: Conjunctions, release: Release, generator: Generator) -> NDArray[np.float64]:
    """What the earlier estimator answers, float64 [queries], from a release of ``clipped_gaussian``.

    queries: The queries of the release.
    release: The release. Its last measurements are the histogram and the clipped sums.
    generator: For the predictions.
    """
    *one_way_measurements, histogram, measured = release.measurements
    sums = measured.queries
    assert isinstance(sums, ClippedSums)
    estimation = release.answers.estimation
    assert estimation is not None
    is_measured = ~np.isnan(estimation.measured)
    width = half_width(measured.noise, measured.scale * measured.denominator, 0.96) / measured.denominator
    values = np.zeros(queries.size)
    values[is_measured] = measured.values
    if one_way_measurements:
        one_way = _one_way(one_way_measurements)
        units = one_way.units
        predicted = cross_predicted(
            queries.columns[is_measured],
            measured.values / units,
            measured.stddev / units,
            column_frequencies(queries, one_way),
            queries.columns[~is_measured],
            generator,
        )
        values[is_measured] = shrunk(measured.values, measured.stddev, [predicted.values * units], width)
        values[~is_measured] = predicted.others * units
        cells = significant(_cells_of(histogram, sums), histogram.stddev, 4.0)
        numbers = np.minimum(points_of_cells(len(cells)), sums.queries.size)
        lost = 1.0 - sums.weights[0][numbers.astype(np.int64)] / sums.denominator
        counts = np.broadcast_to(cells[1:, None] / numbers.shape[1], numbers.shape)
        values[is_measured] += expected_loss(values[is_measured], numbers.ravel(), counts.ravel(), lost.ravel())
    return np.maximum(np.clip(values, estimation.guaranteed_lower, estimation.guaranteed_upper), 0.0)


def _one_way(measurements: list[Measurement]) -> OneWay:
    sizes, singles = measurements
    assert isinstance(singles.queries, ClippedSums)
    units = max(1.0, float(sizes.values.sum()))
    return OneWay(singles.queries.queries.columns[:, 0], singles.values, singles.stddev, units, tuple(measurements))


def _cells_of(histogram: Measurement, sums: ClippedSums) -> NDArray[np.float64]:
    """The cells of the histogram's group that was measured: the one with as many queries as the sums have."""
    assert isinstance(histogram.queries, SatisfactionHistogram)
    group = int(np.flatnonzero(histogram.queries.group_sizes == sums.queries.size)[0])
    return histogram.values.reshape(histogram.queries.group_sizes.size, -1)[group]
