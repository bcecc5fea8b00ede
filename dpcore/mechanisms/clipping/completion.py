"""Answers of ``clipped_gaussian`` from its measurements: shrinkage, prediction, and the expected loss by clipping."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.estimation.clipping.column_factors import Predicted, cross_predicted
from dpcore.estimation.clipping.expected_loss import expected_loss
from dpcore.estimation.clipping.shrinkage import shrunk
from dpcore.measurement import Measurement
from dpcore.mechanisms.clipping.clip_choice import loss_bound, points_of_cells, significant
from dpcore.mechanisms.clipping.constants import BOUND_CONFIDENCE, NOISE_CONFIDENCE
from dpcore.mechanisms.clipping.marginals import OneWay
from dpcore.mechanisms.clipping.query_sets import ChosenSet, QuerySet, column_frequencies
from dpcore.queries import ClippedSums, Conjunctions
from dpcore.uncertainty import Answers, half_width


def completed_answers(
    queries: Conjunctions,
    chosen: ChosenSet,
    histogram: Measurement,
    measured: Measurement,
    one_way: OneWay | None,
    units: int | None,
    loss_deviations: float,
    generator: Generator,
) -> Answers:
    """Values and intervals of all queries, those that were not measured included.

    chosen: The queries that were measured.
    histogram: The noisy histogram from which they were chosen.
    measured: The clipped sums of the chosen queries.
    one_way: One-way marginals, or None if they were not measured; then all queries were, and no answer is shrunk or
        completed.
    units: The number of units if it is public.
    loss_deviations: Histogram cells below this many standard deviations do not count towards the expected loss.
    generator: For the folds and starting values of the predictions.
    """
    sums, members = measured.queries, chosen.members
    assert isinstance(sums, ClippedSums)
    steps = measured.denominator
    width = half_width(measured.noise, measured.scale * steps, NOISE_CONFIDENCE) / steps
    max_loss = loss_bound(histogram, chosen.cells, sums, BOUND_CONFIDENCE)
    highest = np.inf if units is None else float(units)
    values = np.zeros(queries.size)
    lower, upper = np.zeros(queries.size), np.full(queries.size, highest)
    stddev = np.full(queries.size, np.nan)
    stddev[members] = measured.stddev
    lower[members] = measured.values - width
    upper[members] = np.minimum(measured.values + width + max_loss, highest)
    values[members] = measured.values
    if one_way is not None:
        outside = np.setdiff1d(np.arange(queries.size), members, assume_unique=True)
        predicted = _predicted(queries, members, outside, measured, one_way, generator)
        values[members] = shrunk(measured.values, measured.stddev, predicted.values * one_way.units, width)
        values[outside] = predicted.others * one_way.units
        cells = significant(chosen.cells, histogram.stddev, loss_deviations)
        values[members] += _expected_loss(cells, sums, values[members])
        if outside.size:
            column_upper = np.zeros(queries.view.columns)
            column_upper[one_way.columns] = one_way.upper(1 - (1 - BOUND_CONFIDENCE) / queries.order)
            upper[outside] = np.minimum(column_upper[queries.columns[outside]].min(axis=1), highest)
    # The truth is between 0 and the number of units. An interval that lies outside is moved to the nearer end.
    lower, upper = np.clip(lower, 0.0, highest), np.maximum(upper, 0.0)
    return Answers(np.clip(values, lower, upper), stddev, lower, upper, measured=True)


def _expected_loss(cells: NDArray[np.float64], sums: ClippedSums, answers: NDArray[np.float64]) -> NDArray[np.float64]:
    """The counts that each measured answer is expected to lack, from the cleaned cells of the histogram."""
    satisfied = np.minimum(points_of_cells(len(cells)), sums.queries.size)
    lost = 1.0 - sums.weights[0][satisfied.astype(np.int64)] / sums.denominator
    units = np.broadcast_to(cells[1:, None] / satisfied.shape[1], satisfied.shape)
    return expected_loss(answers, satisfied.ravel(), units.ravel(), lost.ravel())


def _predicted(
    queries: Conjunctions,
    members: QuerySet,
    outside: QuerySet,
    measured: Measurement,
    one_way: OneWay,
    generator: Generator,
) -> Predicted:
    """Predicted frequencies of the measured queries and of those outside, from the measured ones."""
    noisy_frequencies, stddev = measured.values / one_way.units, measured.stddev / one_way.units
    frequencies = column_frequencies(queries, one_way)
    fitted, others = queries.columns[members], queries.columns[outside]
    return cross_predicted(fitted, noisy_frequencies, stddev, frequencies, others, generator)
