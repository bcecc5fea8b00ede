"""Non-negative and consistent answers from unbiased ones: an option with smaller errors on sparse data, but a bias.

Tables are consistent if they have the same total and agree on the attributes that they share. Consistent tables form an
affine space; the point of that space nearest to given tables (in squared distances divided by variances) is found by
averaging residuals (``consistent_tables.py``). The nearest point that is non-negative as
well is found through its dual. Let P(v) be the projection onto the consistent tables and y >= 0 the multipliers of the
sign constraints; then x = P(v + y) and y <- max(0, y - x). This is Dykstra's algorithm of alternating projections,
accelerated by Nesterov's momentum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.estimation.least_squares import kronecker_times, total_factors
from dpcore.estimation.reconstruction.consistent_tables import ConsistentTables
from dpcore.queries import Marginals, Product, Products

Real = NDArray[np.float64]
_MeasuredTerm = tuple[Product, Real, Real]  # A term, its answers, and their standard deviations.

TOLERANCE: Final = 1e-3  # Default root-mean-square distance to the optimum, in standard deviations.
_STEPS: Final = 5_000  # Maximum number of steps for consistent marginals.
_CELLS: Final = 1 << 31  # Maximum number of cells of all steps together, a few minutes; but 20 steps are always made.
_FITTING_STEPS: Final = 2_000  # Maximum number of steps for the table of one clique.
_STEPS_PER_CHECK: Final = 10  # Steps between two computations of the distance to the optimum.
_RELATIVE_TOLERANCE: Final = 1e-9  # The steps also stop at this duality gap relative to the objective.


def nonnegative_consistent(
    queries: Marginals, values: Real, stddevs: Real, total: float | None = None, tolerance: float = TOLERANCE
) -> Real:
    """The nearest non-negative tables that have one total and agree on shared attributes: float64 [queries.size].

    queries: The marginals.
    values: float64 [queries.size], unbiased answers of measured or reconstructed marginals, in counts.
    stddevs: float64 [queries.size], the standard deviation of each value, positive, in counts. A clique is weighted by
        the mean variance of its cells, which are nearly equal in most uses.
    total: The public number of rows. By default it is the least-squares estimate from the values, at least 0.
    tolerance: Stop once the root-mean-square distance to the optimum is at most this, in standard deviations. The
        answers are non-negative and consistent for any tolerance, up to rounding. The default is far below the noise.

    For millions of cells a limit on the work may end the steps above the tolerance.

    Values that are already non-negative and consistent do not change. The answers are biased, and the intervals of the
    values do not apply to them; ``uncertainty.of_model`` turns them into answers without intervals.

    Raises ValueError for arrays of other shapes, standard deviations that are not positive, and a negative total.

    Source: replaces the NNLS of McKenna's thesis (2022), section 3.9, which needs a table over all attributes.
    """
    values, stddevs = _checked(values, stddevs, queries.size, total)
    weights = [1 / float((part**2).mean()) for part in np.split(stddevs, np.cumsum(queries.sizes)[:-1])]
    project = ConsistentTables(queries, weights, total)
    start = project(values)
    rows = project.total
    if rows == 0:
        return np.zeros(queries.size)
    uniform = np.repeat([rows / size for size in queries.sizes], queries.sizes)
    precision = np.repeat(weights, queries.sizes)
    max_gap = queries.size * tolerance**2 / 2
    y = extrapolated = np.zeros(queries.size)
    momentum, x = 1.0, start
    for _ in range(max(20, min(_STEPS, _CELLS // queries.size))):
        answers = _mixed_with_uniform(x, uniform)
        # ``extrapolated`` is a feasible dual point, so its dual value is a lower bound on the optimum.
        distance = 0.5 * float(precision @ (answers - start) ** 2)
        gap = distance - 0.5 * float(precision @ (x - start) ** 2) + float(precision @ (extrapolated * x))
        if gap <= max(max_gap, _RELATIVE_TOLERANCE * distance):
            break
        previous, y = y, np.maximum(0.0, extrapolated - x)
        # Momentum that points uphill is restarted.
        if float(precision @ ((extrapolated - y) * (y - previous))) > 0:
            momentum = 1.0
        next_momentum = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
        extrapolated = np.maximum(0.0, y + (momentum - 1) / next_momentum * (y - previous))
        momentum = next_momentum
        x = project(values + extrapolated)
    return answers


def nonnegative_products(
    queries: Products, values: Real, stddevs: Real, total: float | None = None, tolerance: float = TOLERANCE
) -> Real:
    """The nearest answers of prefixes, ranges and other products that non-negative tables have: float64 [queries.size].

    queries: The products.
    values, stddevs, total, tolerance: The same as for ``nonnegative_consistent``.

    For each clique a non-negative table is fitted to the answers of all its terms, in squared distances divided by
    variances. Prefixes become monotone, and a range becomes the sum of its parts. The tables of different cliques have
    the same total, but need not agree on the attributes that they share. For hundreds of prefixes the limit on the
    steps ends the fit slightly above the optimum.

    Raises ValueError as ``nonnegative_consistent`` does, and if neither ``total`` nor an answer determines the number
    of rows.

    Source: thesis of McKenna (2022), section 3.9, non-negative least squares over the measured table.
    """
    values, stddevs = _checked(values, stddevs, queries.size, total)
    starts = np.cumsum([term.size for term in queries.terms])[:-1]
    terms = list(zip(queries.terms, np.split(values, starts), np.split(stddevs, starts), strict=True))
    rows = _row_total(queries, terms) if total is None else total
    answers: dict[int, Real] = {}
    for clique in queries.marginals.cliques:
        indices = [index for index, term in enumerate(queries.terms) if term.clique == clique]
        fitted = _FittedTable(queries, [terms[index] for index in indices])
        table = fitted.table(rows, tolerance)
        answers |= dict(zip(indices, fitted.parts(table), strict=True))
    return np.concatenate([answers[index] for index in range(len(terms))])


class _FittedTable:
    """A non-negative least-squares fit of one clique's table to the answers of some terms."""

    def __init__(self, queries: Products, terms: Sequence[_MeasuredTerm]) -> None:
        self._factors = [[matrix.astype(np.float64) for matrix in term.matrices] for term, _, _ in terms]
        self._scales = [term.weight / queries.denominator / stddevs for term, _, stddevs in terms]
        self._targets = [values / stddevs for _, values, stddevs in terms]
        self._weights = [term.weight / queries.denominator for term, _, _ in terms]
        self._cells = queries.domain.size(terms[0][0].clique)

    def parts(self, table: Real) -> list[Real]:
        """The answers of each term."""
        pairs = zip(self._weights, self._factors, strict=True)
        return [weight * kronecker_times(factors, table) for weight, factors in pairs]

    def table(self, rows: float, tolerance: float) -> Real:
        """The fitted non-negative table with this number of rows, by projected gradient steps with momentum."""
        if rows == 0:
            return np.zeros(self._cells)
        curvature = self._largest_curvature()
        max_gap = sum(map(len, self._targets)) * tolerance**2 / 2
        x = extrapolated = _on_simplex(self._least_squares(), rows)
        momentum = 1.0
        for step in range(_FITTING_STEPS):
            if step % _STEPS_PER_CHECK == 0:
                gradient = self._gradient(x)
                if float(gradient @ x) - rows * float(gradient.min()) <= max_gap:
                    break
            previous, x = x, _on_simplex(extrapolated - self._gradient(extrapolated) / curvature, rows)
            if float((extrapolated - x) @ (x - previous)) > 0:
                momentum = 1.0
            next_momentum = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
            extrapolated = x + (momentum - 1) / next_momentum * (x - previous)
            momentum = next_momentum
        return x

    def _least_squares(self) -> Real:
        """The unconstrained fit to the term with the most answers."""
        largest = max(range(len(self._targets)), key=lambda index: len(self._targets[index]))
        answers = self._targets[largest] / self._scales[largest]
        return kronecker_times([np.asarray(np.linalg.pinv(factor)) for factor in self._factors[largest]], answers)

    def _gradient(self, table: Real) -> Real:
        """The sum over the terms of A'(A table - target), with A the term's queries divided by standard deviations."""
        gradient = np.zeros(self._cells)
        for factors, scale, target in zip(self._factors, self._scales, self._targets, strict=True):
            residual = scale * kronecker_times(factors, table) - target
            gradient += kronecker_times([factor.T for factor in factors], scale * residual)
        return gradient

    def _largest_curvature(self) -> float:
        """An upper bound on the largest eigenvalue of the sum of A'A over the terms."""
        bound = 0.0
        for factors, scale in zip(self._factors, self._scales, strict=True):
            norms = [float(np.linalg.norm(factor, 2)) for factor in factors]
            bound += (float(np.abs(scale).max()) * math.prod(norms)) ** 2
        return bound


def _on_simplex(values: Real, total: float) -> Real:
    """The nearest non-negative vector with the sum ``total``."""
    ordered = np.sort(values)[::-1]
    thresholds = (np.cumsum(ordered) - total) / np.arange(1, ordered.size + 1)
    return np.asarray(np.maximum(0.0, values - thresholds[int(np.flatnonzero(ordered > thresholds)[-1])]))


def _mixed_with_uniform(tables: Real, uniform: Real) -> Real:
    """Consistent tables, mixed with the smallest share of uniform tables that leaves no cell negative."""
    deficits = np.maximum(0.0, -tables)
    weight = float((deficits / (deficits + uniform)).max())
    return np.maximum(0.0, (1 - weight) * tables + weight * uniform) if weight else tables


def _row_total(queries: Products, terms: Sequence[_MeasuredTerm]) -> float:
    """The precision-weighted mean of the numbers of rows that the terms determine, at least 0."""
    totals, precisions = [], []
    for term, values, stddevs in terms:
        factors = total_factors(Products(queries.domain, (term,), queries.denominator))
        if factors is not None:
            totals.append(float(kronecker_times(factors, values)[0]))
            precisions.append(1 / float(kronecker_times([factor**2 for factor in factors], stddevs**2)[0]))
    if not totals:
        raise ValueError("no answer determines the number of rows; want total")
    return max(0.0, float(np.average(totals, weights=precisions)))


def _checked(values: Real, stddevs: Real, size: int, total: float | None) -> tuple[Real, Real]:
    values, stddevs = np.asarray(values, dtype=np.float64), np.asarray(stddevs, dtype=np.float64)
    if values.shape != (size,) or stddevs.shape != (size,):
        raise ValueError(f"values of shape {values.shape} and stddevs of {stddevs.shape}; want ({size},) both")
    if not (np.isfinite(values).all() and np.isfinite(stddevs).all() and (stddevs > 0).all()):
        raise ValueError("a value that is not finite, or a stddev that is not positive; want measured answers")
    if total is not None and not 0 <= total < math.inf:
        raise ValueError(f"a total of {total:g} rows; want 0 or more")
    return values, stddevs
