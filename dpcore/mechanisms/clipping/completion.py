"""Answers of ``clipped_gaussian`` from its measurements: estimates, their intervals, and guaranteed intervals."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.estimation.clipping.discoveries import q_values
from dpcore.estimation.clipping.estimates import estimated
from dpcore.estimation.clipping.loss_curve import Satisfied, satisfied_units
from dpcore.estimation.clipping.noise_law import NoiseLaw
from dpcore.measurement import Measurement
from dpcore.mechanisms.clipping.clip_choice import loss_bound, points_of_cells
from dpcore.mechanisms.clipping.constants import BOUND_CONFIDENCE, NOISE_CONFIDENCE
from dpcore.mechanisms.clipping.marginals import OneWay
from dpcore.mechanisms.clipping.predictions import caps_of, predictions_of
from dpcore.mechanisms.clipping.query_sets import ChosenSet, QuerySet
from dpcore.queries import ClippedSums, Conjunctions
from dpcore.uncertainty import Answers, Estimation, half_width


def completed_answers(
    queries: Conjunctions,
    chosen: ChosenSet,
    histogram: Measurement,
    measured: Measurement,
    one_way: OneWay | None,
    units: int | None,
    generator: Generator,
) -> Answers:
    """Estimates and intervals of all queries, those that were not measured included.

    chosen: The queries that were measured.
    histogram: The noisy histogram from which they were chosen.
    measured: The clipped sums of the chosen queries.
    one_way: One-way marginals, or None if they were not measured; then all queries were, and all are treated as
        exchangeable.
    units: The number of units if it is public.
    generator: For the folds and starting values of the predictions.
    """
    members, noise = chosen.members, NoiseLaw.of(measured)
    outside = _outside(queries, members)
    highest = np.inf if units is None else float(units)
    satisfied = _satisfied(chosen, histogram, measured)
    predictions, caps = [], None
    if one_way is not None:
        predictions = predictions_of(queries, members, outside, measured, one_way, generator)
        caps = caps_of(queries, members, one_way)
    q = q_values(measured.values, noise)
    asked, others = estimated(measured.values, noise, predictions, satisfied, caps, highest)
    guaranteed_lower, guaranteed_upper = _guaranteed(queries, chosen, histogram, measured, one_way, highest)

    upper = np.minimum(others.upper, guaranteed_upper[outside])

    def joined(of_members: NDArray[np.float64] | float, of_others: NDArray[np.float64] | float) -> NDArray[np.float64]:
        values = np.empty(queries.size)
        values[members], values[outside] = of_members, of_others
        return values

    estimation = Estimation(
        joined(measured.values, np.nan),
        joined(q, np.nan),
        guaranteed_lower,
        guaranteed_upper,
    )
    return Answers(
        joined(asked.values, np.minimum(others.values, upper)),
        joined(measured.stddev, np.nan),
        joined(asked.lower, others.lower),
        joined(asked.upper, upper),
        measured=True,
        estimation=estimation,
    )


def _satisfied(chosen: ChosenSet, histogram: Measurement, measured: Measurement) -> Satisfied:
    """How many of the measured queries units satisfy, and the fraction of each count that they lose."""
    sums = measured.queries
    assert isinstance(sums, ClippedSums)
    numbers = np.minimum(points_of_cells(len(chosen.cells)), sums.queries.size)
    kept = sums.weights[0][numbers.astype(np.int64)] / sums.denominator
    total_stddev = measured.stddev * float(np.sqrt(len(measured.values)))
    total = float(measured.values.sum())
    return satisfied_units(chosen.cells[1:], histogram.stddev, numbers, kept, total, total_stddev)


def _guaranteed(
    queries: Conjunctions,
    chosen: ChosenSet,
    histogram: Measurement,
    measured: Measurement,
    one_way: OneWay | None,
    highest: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Ends of intervals that hold for each query alone, whatever the data contain."""
    sums, members = measured.queries, chosen.members
    assert isinstance(sums, ClippedSums)
    steps = measured.denominator
    width = half_width(measured.noise, measured.scale * steps, NOISE_CONFIDENCE) / steps
    max_loss = loss_bound(histogram, chosen.cells, sums, BOUND_CONFIDENCE)
    lower, upper = np.zeros(queries.size), np.full(queries.size, highest)
    lower[members] = measured.values - width
    upper[members] = np.minimum(measured.values + width + max_loss, highest)
    outside = _outside(queries, members)
    if one_way is not None and outside.size:
        column_upper = np.zeros(queries.view.columns)
        column_upper[one_way.columns] = one_way.upper(1 - (1 - BOUND_CONFIDENCE) / queries.order)
        upper[outside] = np.minimum(column_upper[queries.columns[outside]].min(axis=1), highest)
    # The truth is between 0 and the number of units. An interval that lies outside is moved to the nearer end.
    return np.clip(lower, 0.0, highest), np.maximum(upper, 0.0)


def _outside(queries: Conjunctions, members: QuerySet) -> QuerySet:
    """Indices of the queries that were not measured."""
    return np.setdiff1d(np.arange(queries.size), members, assume_unique=True)
