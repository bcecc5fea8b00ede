"""Conjunctions of columns that are 1 together more often than by chance: a sum of products of column factors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.compiled import compiled

RANKS = (1, 2, 4, 8)
_SWEEPS = 12
_FOLDS = 2
_TOLERATED = 1.05
_SMALLEST_SPREAD = 0.02  # Relative variance of factors around their mean, so that the ridge never ends.


@dataclass(frozen=True, eq=False)
class Predicted:
    """Predictions of answers that were made without those answers.

    values: float64 [fitted queries], each from the folds that do not hold it.
    others: float64 [other queries], mean over the folds.
    rank: How many products are added up.
    """

    values: NDArray[np.float64]
    others: NDArray[np.float64]
    rank: int


def cross_predicted(
    columns: NDArray[np.int32],
    values: NDArray[np.float64],
    stddev: float,
    frequencies: NDArray[np.float64],
    others: NDArray[np.int32],
    generator: Generator,
) -> Predicted:
    """Predicts each noisy frequency of a conjunction from the noisy frequencies of the others.

    The model: the frequency of columns a, b, c is sum over r of prod over j in {a, b, c} of p_j f_jr, with the given
    one-way frequencies p. It is what a mixture of independent columns answers; r stands for kinds of units. Factors f_j
    are fitted by alternating least squares, one column after another, each drawn towards the mean factor by a ridge
    whose strength follows from the spread of all factors, so that rare columns keep their frequency.

    Two folds: the prediction of an answer never sees its own noise, so that residuals tell how good it is: their mean
    square less that of the noise. Of all ranks the largest within 5 % of the best is taken: where means are alike, more
    products miss fewer single answers by far.

    columns, others: int32 [m, k] and [o, k].
    values: float64 [m], with noise of ``stddev``.
    frequencies: float64 [columns of the view], > 0.

    Source: alternating least squares of the canonical decomposition (Carroll and Chang 1970); cross-fitting.
    """
    stddev = max(stddev, 1e-12)  # Answers without noise are weighed alike, too.
    fold = generator.permutation(np.arange(len(values)) % _FOLDS)
    best, least = Predicted(frequencies[columns].prod(axis=1), frequencies[others].prod(axis=1), 0), np.inf
    for rank in RANKS:
        predicted = np.zeros(len(values))
        elsewhere = np.zeros(len(others))
        for held in range(_FOLDS):
            use = fold != held
            factors = _fit(columns, values, stddev, frequencies, use, rank, generator)
            predicted[~use] = _answers(columns[~use], frequencies, factors)
            elsewhere += _answers(others, frequencies, factors) / _FOLDS
        excess = max(0.0, float(np.mean((values - predicted) ** 2)) - stddev**2)
        if np.isfinite(excess) and excess <= _TOLERATED * least:
            best, least = Predicted(predicted, elsewhere, rank), min(least, excess)
    return best


def _fit(
    columns: NDArray[np.int32],
    values: NDArray[np.float64],
    stddev: float,
    frequencies: NDArray[np.float64],
    use: NDArray[np.bool_],
    rank: int,
    generator: Generator,
) -> NDArray[np.float64]:
    """Factors, float64 [columns of the view, rank]."""
    order = columns.shape[1]
    flat = columns.ravel()
    by_column = np.argsort(flat, kind="stable")
    starts = np.searchsorted(flat[by_column], np.arange(frequencies.size + 1)).astype(np.int64)
    weights = np.where(np.diff(starts) > 0, frequencies, 0.0)
    weights /= weights.sum()
    products = frequencies[columns[use]].prod(axis=1)
    lift = max(0.1, float(values[use] @ products) / max(float(products @ products), 1e-300))
    # Different starts for the ranks: from equal ones they would stay equal.
    mean = (lift / rank) ** (1 / order) * np.exp(0.3 * generator.standard_normal(rank))
    factors = mean * np.exp(0.3 * generator.standard_normal((frequencies.size, rank)))
    ridge = np.full(rank, 2.0 / float(mean.mean()) ** 2)
    common_first = np.argsort(-frequencies, kind="stable")
    for _ in range(_SWEEPS):
        queries = (by_column // order).astype(np.int64)
        _sweep(columns, values / stddev, use, starts, queries, frequencies, factors, mean, ridge, common_first, stddev)
        mean = weights @ factors
        spread = weights @ (factors - mean) ** 2
        ridge = 1.0 / np.maximum(spread, max(_SMALLEST_SPREAD * float(mean.mean()) ** 2, 1e-12))
    return np.asarray(factors)


@compiled
def _sweep(
    columns: NDArray[np.int32],
    scaled: NDArray[np.float64],
    use: NDArray[np.bool_],
    starts: NDArray[np.int64],
    queries: NDArray[np.int64],
    frequencies: NDArray[np.float64],
    factors: NDArray[np.float64],
    mean: NDArray[np.float64],
    ridge: NDArray[np.float64],
    common_first: NDArray[np.int64],
    stddev: float,
) -> None:
    """Solves for the factors of each column in turn, all others held; values and features in units of the noise."""
    rank = factors.shape[1]
    feature = np.empty(rank)
    for column in common_first:
        matrix = np.zeros((rank, rank))
        right = np.zeros(rank)
        found = False
        for place in range(starts[column], starts[column + 1]):
            query = queries[place]
            if not use[query]:
                continue
            found = True
            for r in range(rank):
                feature[r] = frequencies[column] / stddev
            for literal in range(columns.shape[1]):
                other = columns[query, literal]
                if other != column:
                    for r in range(rank):
                        feature[r] *= frequencies[other] * factors[other, r]
            for r in range(rank):
                right[r] += scaled[query] * feature[r]
                for s in range(r + 1):
                    matrix[r, s] += feature[r] * feature[s]
        if not found:
            for r in range(rank):
                factors[column, r] = mean[r]
            continue
        for r in range(rank):
            for s in range(r):
                matrix[s, r] = matrix[r, s]
            matrix[r, r] += ridge[r]
            right[r] += ridge[r] * mean[r]
        solved = np.linalg.solve(matrix, right)
        for r in range(rank):
            factors[column, r] = solved[r]


@compiled
def _answers(
    columns: NDArray[np.int32], frequencies: NDArray[np.float64], factors: NDArray[np.float64]
) -> NDArray[np.float64]:
    answers = np.zeros(columns.shape[0])
    for query in range(columns.shape[0]):
        for r in range(factors.shape[1]):
            product = 1.0
            for literal in range(columns.shape[1]):
                column = columns[query, literal]
                product *= frequencies[column] * factors[column, r]
            answers[query] += product
    return answers
