"""Factors of pairs of columns: how much more or less often they occur together than a model predicts."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.estimation.clipping.item_mixture import NO_COLUMN

FACTORS: Final = np.array([0.0, 0.25, 0.5, 0.7, 0.85, 1.0, 1.15, 1.35, 1.6, 2.0, 2.6, 3.5, 5.0, 8.0])
_UNCHANGED = 5  # The index of the factor 1.
_MIN_INFORMATION = 0.2  # Pairs below it, in units of 1 / variance of the factor, do not take part in the prior.
_START = 0.9  # Prior probability of the factor 1 at the start.
_ITERATIONS = 30
_PSEUDO_PAIRS = 7.0  # Pairs with the factor 1 that are added to the prior, so that few pairs do not decide it.


def with_pair_factors(
    columns: NDArray[np.int32],
    values: NDArray[np.float64],
    predictions: NDArray[np.float64],
    deviations: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Predictions times the factor of each pair of their columns, learnt from the other conjunctions; float64 [m].

    columns: int32 [m, k], the columns of the conjunctions, ascending; ``NO_COLUMN`` after the last of shorter ones.
    values: float64 [m], noisy frequencies, with independent noise.
    predictions: float64 [m], predicted ones, >= 0, that do not depend on the own noise of a conjunction.
    deviations: float64 [m], positive standard deviations of the noise.

    If the factor of a pair is f, the conjunctions with both columns have the frequency f x prediction. Their values and
    noise give f a Gaussian likelihood with sums A of value x prediction / variance and B of prediction^2 / variance.
    The prior of f is discrete, on ``FACTORS``, and learnt from all pairs by expectation maximisation; most of it is at
    1. A conjunction is multiplied by the posterior means of the factors of its pairs, without its own part in A and B.

    Two columns that no unit has together, such as two values of one attribute, are the case that a mixture of few
    classes misses by most; they have the factor 0.

    Source: empirical Bayes with a discrete prior (Kiefer and Wolfowitz 1956, Laird 1978).
    """
    rows, pairs = _pairs_of(columns)
    if not rows.size:
        return predictions
    information = (predictions / deviations)[rows] ** 2
    evidence = (values * predictions / deviations**2)[rows]
    all_evidence = np.bincount(pairs, weights=evidence).astype(np.float64)
    all_information = np.bincount(pairs, weights=information).astype(np.float64)
    taught = all_information > _MIN_INFORMATION
    prior = np.full(FACTORS.size, (1.0 - _START) / (FACTORS.size - 1))
    prior[_UNCHANGED] = _START
    pseudo = np.full(FACTORS.size, 0.02)
    pseudo[_UNCHANGED] += _PSEUDO_PAIRS
    for _ in range(_ITERATIONS):
        total = _summed_posterior(all_evidence[taught], all_information[taught], prior, FACTORS) + pseudo
        prior = total / total.sum()
    product = predictions.copy()
    others = all_evidence[pairs] - evidence, all_information[pairs] - information
    _multiply(product, rows, *others, prior, FACTORS)
    return product


def _pairs_of(columns: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each two columns of each conjunction: the conjunction, and the number of the pair; int64 [entries]."""
    rows, keys = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    size = int(columns.max()) + 1
    for second in range(1, columns.shape[1]):
        named = np.flatnonzero(columns[:, second] != NO_COLUMN)
        for first in range(second):
            rows.append(named)
            keys.append(columns[named, first].astype(np.int64) * size + columns[named, second])
    _, numbers = np.unique(np.concatenate(keys), return_inverse=True)
    return np.concatenate(rows), numbers


@compiled
def _posterior(
    evidence: float, information: float, prior: NDArray[np.float64], factors: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The posterior probability of each factor, float64 [factors]."""
    logs = evidence * factors - 0.5 * information * factors**2
    posterior: NDArray[np.float64] = np.exp(logs - logs.max()) * prior
    posterior /= posterior.sum()
    return posterior


@compiled
def _summed_posterior(
    evidence: NDArray[np.float64],
    information: NDArray[np.float64],
    prior: NDArray[np.float64],
    factors: NDArray[np.float64],
) -> NDArray[np.float64]:
    """The sum over all pairs of their posteriors, float64 [factors]."""
    total = np.zeros(prior.size)
    for pair in range(evidence.size):
        total += _posterior(evidence[pair], information[pair], prior, factors)
    return total


@compiled
def _multiply(
    product: NDArray[np.float64],
    rows: NDArray[np.int64],
    evidence: NDArray[np.float64],
    information: NDArray[np.float64],
    prior: NDArray[np.float64],
    factors: NDArray[np.float64],
) -> None:
    """Multiplies the product of each row by the posterior mean of each of its factors, in place."""
    for entry in range(rows.size):
        posterior = _posterior(evidence[entry], information[entry], prior, factors)
        product[rows[entry]] *= (posterior * factors).sum()
