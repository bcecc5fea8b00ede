"""Local least squares: each part of a workload is answered from the measurement of that part alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from dpcore.measurement import Measurement, Noise, mean_absolute_noise, noise_stddev
from dpcore.queries import Marginals, Products
from dpcore.uncertainty import CONFIDENCE, Answers, half_width

Factors = Sequence[NDArray[np.float64]]

_MIN_STDDEV = 1e-9  # In counts. Smaller noise is treated as this, so that its square does not underflow in a sum.
_SINGLE_ENTRY = 1 - 1e-9  # A row has a single non-zero entry if its largest entry is at least this part of its norm.


def local_least_squares(measured: Sequence[tuple[Measurement, Factors]]) -> Answers:
    """The answers (R_1 x ... x R_k) y of each measurement y, concatenated, with intervals.

    measured: Each measurement with its matrices R_i, float64 [m_i, p_i]; the product of the p_i is the number of
        measured values. Without matrices, the answers are the values themselves. If y = (A_1 x ... x A_k) x + noise and
        R_i = W_i A_i^+, the answers are the best linear unbiased estimates of (W_1 x ... x W_k) x from y.

    The standard deviation and the interval of an answer r'y are |r|_2 times those of one value. If r has several
    entries, the interval is at least that of a normal (or, under Laplace noise, Laplace) variable of the answer's
    standard deviation, and is widened by one step of the noise's grid on each side. A sum of Laplace variables is
    closer to normal than a single one, so its interval is slightly conservative: at a nominal 95 % it covers at most
    96.6 %.

    Returns the answers in counts, with standard deviations and 95 % intervals.

    Source: thesis of McKenna (2022), section 3.9, case 3, by Algorithm 1.
    """
    parts = [_part(measurement, factors) for measurement, factors in measured]
    values, stddev, widths = (np.concatenate(pieces) for pieces in zip(*parts, strict=True))
    return Answers(values, stddev, values - widths, values + widths, measured=True)


def kronecker_times(factors: Factors, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The product (R_1 x ... x R_k) values, computed one factor at a time: float64 [product of the m_i].

    factors: R_i, float64 [m_i, p_i].
    values: [product of the p_i], in C order and of any shape.

    Source: thesis of McKenna (2022), Algorithm 1.
    """
    answers = np.asarray(values).reshape([factor.shape[1] for factor in factors])
    for axis, factor in enumerate(factors):
        answers = np.moveaxis(np.tensordot(factor, answers, axes=(1, axis)), 0, axis)
    return answers.ravel()


def total_factors(queries: Marginals | Products) -> Factors | None:
    """Row vectors T_i, float64 [1, p_i], whose Kronecker product maps the exact answers to the number of rows.

    queries: Marginals of one clique, or products of one term.

    Returns the vectors of least variance, 1' A^+, or None if the number of rows is not a linear function of the
    answers.
    """
    if isinstance(queries, Marginals):
        return [np.ones((1, size)) for size in queries.domain.shape(queries.cliques[0])]
    (term,) = queries.terms
    factors = [np.full((1, 1), queries.denominator / term.weight)]
    for matrix in term.matrices:
        factor = np.ones((1, matrix.shape[1])) @ np.linalg.pinv(matrix.astype(np.float64))
        if not np.allclose(factor @ matrix, 1.0, atol=1e-6):
            return None
        factors.append(factor)
    return factors


def row_total(measurements: Sequence[Measurement]) -> float:
    """The number of rows of the table: the precision-weighted mean over all measurements that determine it.

    measurements: Measurements of marginals of one clique, or of products of one term.

    Raises ValueError if no measurement determines the number of rows.
    """
    totals, precisions = [], []
    for measurement in measurements:
        assert isinstance(measurement.queries, Marginals | Products)
        factors = total_factors(measurement.queries)
        if factors is not None:
            totals.append(float(kronecker_times(factors, measurement.values).sum()))
            norm = math.prod(float(np.linalg.norm(factor)) for factor in factors)
            precisions.append((norm * max(measurement.stddev, _MIN_STDDEV)) ** -2)
    if not totals:
        raise ValueError("no measurement determines the number of rows; want one whose rows span the row of ones")
    return float(np.average(totals, weights=precisions))


def mean_absolute_error(noise: Noise, scale: float, denominator: int, factors: Factors) -> float:
    """The expected absolute error of the answers of ``local_least_squares``, averaged over the answers, in counts.

    noise: The law of the noise.
    scale: The scale of the noise, in steps of 1 / denominator.
    denominator: Steps of the noise's grid per count.
    factors: R_i, float64 [m_i, p_i].

    The result is exact for Gaussian noise, and for answers that use a single measured value. For sums of Laplace
    variables, which are scale mixtures of normals, it is at most 13 % too large (Jensen's inequality).
    """
    of_single_value, of_normal = mean_absolute_noise(noise, scale), noise_stddev(noise, scale) * math.sqrt(2 / math.pi)
    norms = [np.linalg.norm(factor, axis=1) for factor in factors]
    is_single = [
        np.abs(factor).max(axis=1) >= _SINGLE_ENTRY * norm for factor, norm in zip(factors, norms, strict=True)
    ]
    mean_norm = math.prod(float(norm.mean()) for norm in norms)
    single_norm = math.prod(float((norm * single).mean()) for norm, single in zip(norms, is_single, strict=True))
    return (single_norm * of_single_value + (mean_norm - single_norm) * of_normal) / denominator


def _part(
    measurement: Measurement, factors: Factors
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """The answers of one measurement, their standard deviations, and the half-widths of their intervals."""
    steps, scale = measurement.denominator, measurement.scale
    value_width = half_width(measurement.noise, scale * steps) / steps
    if not factors:
        size = len(measurement.values)
        return measurement.values, np.full(size, measurement.stddev), np.full(size, value_width)
    norms = _kronecker_row_norms([np.linalg.norm(factor, axis=1) for factor in factors])
    largest = _kronecker_row_norms([np.abs(factor).max(axis=1) for factor in factors])
    widths_of_sums = norms * max(value_width, unit_quantile(measurement.noise) * measurement.stddev) + largest / steps
    widths = np.where(largest >= _SINGLE_ENTRY * norms, norms * value_width, widths_of_sums)
    return kronecker_times(factors, measurement.values), norms * measurement.stddev, widths


def _kronecker_row_norms(norms: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """The norms (or other multiplicative functions) of a Kronecker product's rows, from those of its factors."""
    return reduce(lambda left, right: np.multiply.outer(left, right).ravel(), norms)


def unit_quantile(noise: Noise) -> float:
    """The half-width of the 95 % interval of a variable of variance 1.

    noise: The law of the noise. Laplace noise gets the quantile of a Laplace variable, which is larger than that of a
        normal variable; all other noise gets the normal quantile.
    """
    if noise is Noise.LAPLACE:
        return -math.log(1 - CONFIDENCE) / math.sqrt(2)
    return NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
