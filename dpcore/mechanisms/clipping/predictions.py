"""Predictions of conjunctions from the other noisy values of a release, from which estimates start."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.estimation.clipping.column_factors import cross_predicted
from dpcore.estimation.clipping.estimates import Prediction
from dpcore.estimation.clipping.loss_curve import LossCurve
from dpcore.estimation.clipping.noise_law import NoiseLaw
from dpcore.estimation.clipping.posterior import Caps, posterior
from dpcore.estimation.clipping.prior import learnt_prior
from dpcore.estimation.clipping.support import Support
from dpcore.measurement import Measurement
from dpcore.mechanisms.clipping.marginals import OneWay
from dpcore.mechanisms.clipping.query_sets import QuerySet, column_frequencies
from dpcore.queries import Conjunctions

_SIGNIFICANT_TOTAL = 4.0  # Standard deviations from which on the total of the values scales the products.
_MIN_FACTOR = 1e-3  # In counts. Smaller predictions by column factors are replaced in the geometric mean.
_TAIL = 0.01
_MIN_COLUMNS = 30  # Fewer one-way marginals are not worth a prior.


def predictions_of(
    queries: Conjunctions,
    members: QuerySet,
    outside: QuerySet,
    measured: Measurement,
    one_way: OneWay,
    generator: Generator,
) -> list[Prediction]:
    """Three predictions of the clipped answers: by column factors, by products, and their geometric means.

    queries: All queries.
    members: Indices of those that were measured.
    outside: Indices of the others.
    measured: The clipped sums of the measured queries.
    one_way: Noisy one-way marginals of their columns.
    generator: For the folds and starting values of the column factors.

    Column factors learn from the measured values, with cross-fitting. Products of one-way marginals are rougher, but on
    very sparse data, where single values teach nothing, they are better; they are scaled to the total of the values.
    """
    units, stddev = one_way.units, measured.stddev
    factors = cross_predicted(
        queries.columns[members],
        measured.values / units,
        stddev / units,
        column_frequencies(queries, one_way),
        queries.columns[outside],
        generator,
    )
    by_factors = Prediction(factors.values * units, factors.others * units)
    products = _products(queries, one_way)
    total, scale = float(measured.values.sum()), 1.0
    if total > _SIGNIFICANT_TOTAL * stddev * np.sqrt(members.size):
        scale = total / max(float(products[members].sum()), 1e-9)
    by_products = Prediction(scale * products[members], scale * products[outside])
    return [by_factors, by_products, _geometric_mean(by_factors, by_products)]


def caps_of(queries: Conjunctions, members: QuerySet, one_way: OneWay) -> Caps:
    """Noisy upper bounds of the measured queries: the smallest one-way marginal of their columns."""
    values = np.full(queries.view.columns, np.inf)
    values[one_way.columns] = np.maximum(one_way.values, 0.0)
    return Caps(values[queries.columns[members]].min(axis=1), one_way.stddev)


def _products(queries: Conjunctions, one_way: OneWay) -> NDArray[np.float64]:
    """The expected answer of each query if its columns were independent, in counts, float64 [queries]."""
    frequencies = np.zeros(queries.view.columns)
    frequencies[one_way.columns] = np.clip(_estimated_counts(one_way) / one_way.units, 0.0, 1.0)
    return np.asarray(frequencies[queries.columns].prod(axis=1) * one_way.units)


def _estimated_counts(one_way: OneWay) -> NDArray[np.float64]:
    """Posterior means of the one-way marginals, so that columns whose noise is positive do not look frequent."""
    values, noise = one_way.values, NoiseLaw.of(one_way.measurements[-1])
    if values.size < _MIN_COLUMNS or noise.stddev < 1.0:
        return np.maximum(values, min(noise.stddev / 5, 1.0))
    support = Support.up_to(float(values.max()) + 8 * noise.stddev)
    curve = LossCurve(support.points, support.points)
    level = np.full(values.size, max(1.0, float(values.mean())))
    prior = learnt_prior(values, noise, level, curve, support, informative=False)
    return posterior(values, noise, prior, level, curve, None, _TAIL).mean


def _geometric_mean(first: Prediction, second: Prediction) -> Prediction:
    return Prediction(
        np.sqrt(np.maximum(first.measured, _MIN_FACTOR) * second.measured),
        np.sqrt(np.maximum(first.others, _MIN_FACTOR) * second.others),
    )
