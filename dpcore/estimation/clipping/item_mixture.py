"""Predictions of conjunctions of all orders from each other: classes of units with independent items, cross-fitted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.compiled import compiled

NO_COLUMN: Final = -1  # Pads the columns of conjunctions of fewer literals.
CLASSES: Final = 16
_FOLDS = 4
_SWEEPS = 30
_DESCENTS = 8  # Rounds of coordinate descent per column and sweep, from the values of the sweep before.
LARGEST_FITTED: Final = 200_000  # Of more conjunctions, the most informative ones are fitted.
_MIN_VARIANCE = 0.01  # Least variance of a probability between the classes, as a part of p (1 - p).
_MIN_SPREAD = 1e-4  # Least p (1 - p) there.
_MIN_DEVIATION = 1e-6  # With less noise, the normal equations would be singular.


def mixture_predicted(
    columns: NDArray[np.int32],
    values: NDArray[np.float64],
    deviations: NDArray[np.float64],
    frequencies: NDArray[np.float64],
    total_deviation: float,
    generator: Generator,
) -> NDArray[np.float64]:
    """Predicts each noisy frequency of a conjunction from the noisy frequencies of the others, float64 [m].

    columns: int32 [m, k], the columns of the conjunctions; ``NO_COLUMN`` after the last literal of shorter ones.
    values: float64 [m], their frequencies with independent noise.
    deviations: float64 [m], the standard deviations of that noise.
    frequencies: float64 [columns of the view], approximate frequencies of the columns, from which the fit starts.
    total_deviation: Standard deviation of the noise in the number of units, as a part of it.
    generator: For the folds and the starting values.

    In the model, a unit is of class r with probability s_r, and then has column j with probability t_jr, independently
    of its other columns. The frequency of the conjunction of columns a, b, c is the sum over r of s_r t_ar t_br t_cr.
    One set of probabilities is fitted to conjunctions of all orders, so that many noisy triples refine pairs and single
    columns, and all cells of a query are possible ones. The fit is alternating weighted least squares, for one column
    after another and then for the s_r. All probabilities are in [0, 1]; the s_r sum to 1 up to ``total_deviation``. A
    ridge penalty draws the t_jr to the frequency of the column times the activity of the class, with the variance that
    all t_jr have around it.

    With four folds, the prediction of a conjunction never depends on its own noise.

    Source: latent class analysis (Lazarsfeld 1950) from moments; alternating least squares; cross-fitting.
    """
    present, compact = np.unique(columns[columns != NO_COLUMN], return_inverse=True)
    indices = np.full(columns.shape, NO_COLUMN, dtype=np.int32)
    indices[columns != NO_COLUMN] = compact
    deviations, start = np.maximum(deviations, _MIN_DEVIATION), frequencies[present]
    fitted = _most_informative(indices, start, deviations)
    fold = generator.permutation(np.arange(values.size) % _FOLDS)
    predicted = np.empty(values.size)
    for number in range(_FOLDS):
        use = np.flatnonzero(fitted & (fold != number))
        observations = _Observations.of(indices[use], values[use], deviations[use], start.size)
        probabilities, shares = _fit(observations, start, max(total_deviation, _MIN_DEVIATION), generator)
        predicted[fold == number] = _answers(indices[fold == number], probabilities, shares)
    return predicted


def _most_informative(
    columns: NDArray[np.int32], frequencies: NDArray[np.float64], deviations: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """The conjunctions to fit: those whose product of frequencies is largest relative to their noise, bool [m]."""
    chosen = np.ones(len(columns), dtype=np.bool_)
    if chosen.size > LARGEST_FITTED:
        products = np.where(columns == NO_COLUMN, 1.0, frequencies[columns]).prod(axis=1)
        chosen[np.argsort(-products / deviations, kind="stable")[LARGEST_FITTED:]] = False
    return chosen


@final
@dataclass(frozen=True, eq=False)
class _Observations:
    """The conjunctions of one fold, and a list of them for each of their columns.

    columns: int32 [m, k], as in ``mixture_predicted``, numbered without gaps.
    scaled: float64 [m], values in units of their noise.
    weights: float64 [m], 1 / standard deviation.
    starts: First entry of each column in the lists, followed by their number, int64 [columns + 1].
    rows: The conjunction of each entry, int64 [entries].
    """

    columns: NDArray[np.int32]
    scaled: NDArray[np.float64]
    weights: NDArray[np.float64]
    starts: NDArray[np.int64]
    rows: NDArray[np.int64]

    @classmethod
    def of(
        cls, columns: NDArray[np.int32], values: NDArray[np.float64], deviations: NDArray[np.float64], count: int
    ) -> _Observations:
        """The observations of some conjunctions of ``count`` columns."""
        flat = columns.ravel()
        by_column = np.argsort(flat, kind="stable")
        starts = np.searchsorted(flat[by_column], np.arange(count + 1)).astype(np.int64)
        return cls(columns, values / deviations, 1.0 / deviations, starts, by_column // columns.shape[1])


def _fit(
    observations: _Observations, frequencies: NDArray[np.float64], total_deviation: float, generator: Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The probabilities t, float64 [columns, CLASSES], and the shares s, float64 [CLASSES]."""
    # The classes start with different probabilities, because equal ones would stay equal.
    noise = np.exp(0.5 * generator.standard_normal((frequencies.size, CLASSES)))
    probabilities = np.clip(frequencies[:, None] * noise, 1e-4, 0.95)
    shares = np.full(CLASSES, 1.0 / CLASSES)
    common_first = np.argsort(-frequencies, kind="stable")
    for _ in range(_SWEEPS):
        mean = probabilities @ shares / shares.sum()
        centres = np.minimum(probabilities.sum(axis=0) / mean.sum() * mean[:, None], 0.99)
        spread = np.maximum(mean * (1.0 - mean), _MIN_SPREAD)
        squares = (probabilities - centres) ** 2 @ shares / shares.sum()
        ridge = 1.0 / (max(_MIN_VARIANCE, float(squares.sum() / spread.sum())) * spread)
        _sweep(
            observations.starts,
            observations.rows,
            observations.columns,
            observations.scaled,
            observations.weights,
            probabilities,
            shares,
            centres,
            ridge,
            common_first,
        )
        _update_shares(
            observations.columns, observations.scaled, observations.weights, probabilities, shares, total_deviation
        )
    return probabilities, shares


@compiled
def _sweep(
    starts: NDArray[np.int64],
    rows: NDArray[np.int64],
    columns: NDArray[np.int32],
    scaled: NDArray[np.float64],
    weights: NDArray[np.float64],
    probabilities: NDArray[np.float64],
    shares: NDArray[np.float64],
    centres: NDArray[np.float64],
    ridge: NDArray[np.float64],
    common_first: NDArray[np.int64],
) -> None:
    """Solves for the probabilities of each column in turn, with all others fixed; they are updated in place."""
    classes = shares.size
    feature, gram, moments = np.empty(classes), np.empty((classes, classes)), np.empty(classes)
    for column in common_first:
        gram[:] = 0.0
        moments[:] = ridge[column] * centres[column]
        for entry in range(starts[column], starts[column + 1]):
            row = rows[entry]
            feature[:] = shares * weights[row]
            for partner in columns[row]:
                if partner != column and partner >= 0:
                    for r in range(classes):
                        feature[r] *= probabilities[partner, r]
            _add(gram, moments, feature, scaled[row])
        for r in range(classes):
            gram[r, r] += ridge[column]
        _descend(gram, moments, probabilities[column], 1.0)


@compiled
def _update_shares(
    columns: NDArray[np.int32],
    scaled: NDArray[np.float64],
    weights: NDArray[np.float64],
    probabilities: NDArray[np.float64],
    shares: NDArray[np.float64],
    total_deviation: float,
) -> None:
    """Solves for the shares of the classes, with all probabilities fixed; they are updated in place."""
    classes = shares.size
    feature = np.empty(classes)
    gram = np.full((classes, classes), 1.0 / total_deviation**2)
    moments = np.full(classes, 1.0 / total_deviation**2)
    for row in range(columns.shape[0]):
        feature[:] = weights[row]
        for column in columns[row]:
            if column >= 0:
                for r in range(classes):
                    feature[r] *= probabilities[column, r]
        _add(gram, moments, feature, scaled[row])
    smallest = 1e-6 * np.trace(gram) / classes
    for r in range(classes):
        gram[r, r] += smallest
    _descend(gram, moments, shares, np.inf)
    for r in range(classes):
        shares[r] = max(shares[r], 1e-6)


@compiled
def _add(gram: NDArray[np.float64], moments: NDArray[np.float64], feature: NDArray[np.float64], value: float) -> None:
    """Adds one observation to the normal equations, of which the lower triangle is filled."""
    for r in range(feature.size):
        moments[r] += value * feature[r]
        for s in range(r + 1):
            gram[r, s] += feature[r] * feature[s]


@compiled
def _descend(
    gram: NDArray[np.float64], moments: NDArray[np.float64], solution: NDArray[np.float64], largest: float
) -> None:
    """Coordinate descent of the normal equations in [0, largest], in place; ``gram`` has its lower triangle alone."""
    for r in range(solution.size):
        for s in range(r):
            gram[s, r] = gram[r, s]
    for _ in range(_DESCENTS):
        for r in range(solution.size):
            gradient = moments[r]
            for s in range(solution.size):
                gradient -= gram[r, s] * solution[s]
            solution[r] = min(max(solution[r] + gradient / gram[r, r], 0.0), largest)


@compiled
def _answers(
    columns: NDArray[np.int32], probabilities: NDArray[np.float64], shares: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The model's frequency of each conjunction, float64 [conjunctions]."""
    answers = np.zeros(columns.shape[0])
    for row in range(columns.shape[0]):
        for r in range(shares.size):
            product = shares[r]
            for column in columns[row]:
                if column >= 0:
                    product *= probabilities[column, r]
            answers[row] += product
    return answers
