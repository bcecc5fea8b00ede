"""Predictions of conjunctions from each other: a low-rank factorisation of their frequencies, with cross-fitting."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.compiled import compiled

RANKS = (1, 2, 4, 8)
_SWEEPS = 12  # Sweeps of alternating least squares over all columns.
_FOLDS = 2
_MAX_RELATIVE_EXCESS = 1.05  # The largest rank whose excess error is at most this multiple of the best is chosen.
# Lower bound on the variance of the factors, in squares of their mean, so that the ridge never becomes infinite.
_MIN_RELATIVE_VARIANCE = 0.02


@dataclass(frozen=True, eq=False)
class Predicted:
    """Predicted frequencies of conjunctions, each made without the conjunction's own noisy frequency.

    values: float64 [fitted queries], each predicted from the fold that does not contain it.
    others: float64 [other queries], means over the folds.
    rank: Number of products in the sum; 0 for independent columns.
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

    columns: int32 [m, k], the columns of the fitted conjunctions.
    values: float64 [m], their frequencies with independent noise.
    stddev: Standard deviation of that noise, as a frequency.
    frequencies: float64 [columns of the view], positive, the one-way frequencies p.
    others: int32 [o, k], the columns of further conjunctions to predict.
    generator: For the folds and the starting values.

    In the model, the frequency of the conjunction of columns a, b, c is the sum over r of the product over j in
    {a, b, c} of p_j f_jr. A mixture of independent columns has this form, with one r per component. The factors f_j are
    fitted by alternating least squares, one column after another. A ridge penalty draws each f_j towards the mean
    factor, so that the predictions of rare columns stay in proportion to their frequencies; its strength follows from
    the variance of all factors.

    With two folds, the prediction of an answer never depends on its own noise. The mean squared residual minus the
    noise variance therefore estimates the squared error of the predictions, the excess error. Among the ranks 1, 2, 4
    and 8 the largest whose excess error is within 5 % of the best is chosen: at equal mean error, a sum of more
    products has fewer answers with a large error.

    Source: alternating least squares of the canonical decomposition (Carroll and Chang 1970); cross-fitting.
    """
    stddev = max(stddev, 1e-6)  # With less noise, the normal equations would be singular.
    fold = generator.permutation(np.arange(len(values)) % _FOLDS)
    folds = [fold != number for number in range(_FOLDS)]
    observations = [_Observations.of(columns, values, frequencies, use) for use in folds]
    best, best_excess = Predicted(frequencies[columns].prod(axis=1), frequencies[others].prod(axis=1), 0), np.inf
    for rank in RANKS:
        predicted = np.zeros(len(values))
        predicted_others = np.zeros(len(others))
        for use, observed in zip(folds, observations, strict=True):
            factors = _fit(columns, values / stddev, stddev, frequencies, observed, rank, generator)
            predicted[~use] = _answers(columns[~use], frequencies, factors)
            predicted_others += _answers(others, frequencies, factors) / _FOLDS
        excess = max(0.0, float(np.mean((values - predicted) ** 2)) - stddev**2)
        if np.isfinite(excess) and excess <= _MAX_RELATIVE_EXCESS * best_excess:
            best, best_excess = Predicted(predicted, predicted_others, rank), min(best_excess, excess)
    return best


@dataclass(frozen=True, eq=False)
class _Observations:
    """The conjunctions of one fold, listed once for each of their columns, so that a sweep reads them in sequence.

    starts: First observation of each column of the view, followed by their number, int64 [columns of the view + 1].
    partners: The other columns of the observed conjunction, int32 [observations, k - 1].
    queries: Index of the conjunction, int64 [observations].
    lift: The mean frequency of the conjunctions relative to independent columns.
    """

    starts: NDArray[np.int64]
    partners: NDArray[np.int32]
    queries: NDArray[np.int64]
    lift: float

    @classmethod
    def of(
        cls,
        columns: NDArray[np.int32],
        values: NDArray[np.float64],
        frequencies: NDArray[np.float64],
        use: NDArray[np.bool_],
    ) -> _Observations:
        """The observations of the conjunctions of ``use``."""
        used, order = np.flatnonzero(use), columns.shape[1]
        flat = columns[used].ravel()
        by_column = np.argsort(flat, kind="stable")
        starts = np.searchsorted(flat[by_column], np.arange(frequencies.size + 1)).astype(np.int64)
        queries, literals = used[by_column // order], by_column % order
        others = np.array([[other for other in range(order) if other != literal] for literal in range(order)], np.int64)
        partners = columns[queries[:, None], others.reshape(order, -1)[literals]]
        products = frequencies[columns[used]].prod(axis=1)
        lift = max(0.1, float(values[used] @ products) / max(float(products @ products), 1e-300))
        return cls(starts, partners, queries, lift)


def _fit(
    columns: NDArray[np.int32],
    scaled: NDArray[np.float64],
    stddev: float,
    frequencies: NDArray[np.float64],
    observations: _Observations,
    rank: int,
    generator: Generator,
) -> NDArray[np.float64]:
    """The factors f, float64 [columns of the view, rank], fitted to the observed conjunctions."""
    weights = np.where(np.bincount(columns.ravel(), minlength=frequencies.size) > 0, frequencies, 0.0)
    weights /= weights.sum()
    # The starting values differ between the ranks, because equal ones would stay equal.
    mean = (observations.lift / rank) ** (1 / columns.shape[1]) * np.exp(0.3 * generator.standard_normal(rank))
    factors = mean * np.exp(0.3 * generator.standard_normal((frequencies.size, rank)))
    ridge = np.full(rank, 2.0 / float(mean.mean()) ** 2)
    common_first = np.argsort(-frequencies, kind="stable")
    starts, partners, observed = observations.starts, observations.partners, scaled[observations.queries]
    loads = frequencies[:, None] * factors
    for _ in range(_SWEEPS):
        _sweep(starts, partners, observed, frequencies, factors, loads, mean, ridge, common_first, stddev)
        mean = weights @ factors
        variance = weights @ (factors - mean) ** 2
        ridge = 1.0 / np.maximum(variance, max(_MIN_RELATIVE_VARIANCE * float(mean.mean()) ** 2, 1e-12))
    return np.asarray(factors)


@compiled
def _sweep(
    starts: NDArray[np.int64],
    partners: NDArray[np.int32],
    observed: NDArray[np.float64],
    frequencies: NDArray[np.float64],
    factors: NDArray[np.float64],
    loads: NDArray[np.float64],
    mean: NDArray[np.float64],
    ridge: NDArray[np.float64],
    common_first: NDArray[np.int64],
    stddev: float,
) -> None:
    """Solves for the factors of each column in turn, with all others fixed.

    The factors are updated in place, common columns first, and with them the loads, frequencies times factors. Values
    and features are in units of the noise.
    """
    rank = factors.shape[1]
    feature, gram, moments = np.empty(rank), np.empty((rank, rank)), np.empty(rank)
    for column in common_first:
        first, stop = starts[column], starts[column + 1]
        gram[:] = 0.0
        moments[:] = 0.0
        for row in range(first, stop):
            for r in range(rank):
                feature[r] = frequencies[column] / stddev
            for other in range(partners.shape[1]):
                partner = partners[row, other]
                for r in range(rank):
                    feature[r] *= loads[partner, r]
            for r in range(rank):
                moments[r] += observed[row] * feature[r]
                for s in range(r + 1):
                    gram[r, s] += feature[r] * feature[s]
        smallest = 1e-12 * np.trace(gram)  # Without noise, few observations would leave a singular matrix.
        for r in range(rank):
            for s in range(r):
                gram[s, r] = gram[r, s]
            gram[r, r] += ridge[r] + smallest
            moments[r] += ridge[r] * mean[r]
        solution = np.linalg.solve(gram, moments) if stop > first else mean
        for r in range(rank):
            factors[column, r] = solution[r]
            loads[column, r] = frequencies[column] * solution[r]


@compiled
def _answers(
    columns: NDArray[np.int32], frequencies: NDArray[np.float64], factors: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The model's frequency of each conjunction, float64 [conjunctions]."""
    answers = np.zeros(columns.shape[0])
    for query in range(columns.shape[0]):
        for r in range(factors.shape[1]):
            product = 1.0
            for literal in range(columns.shape[1]):
                column = columns[query, literal]
                product *= frequencies[column] * factors[column, r]
            answers[query] += product
    return answers
