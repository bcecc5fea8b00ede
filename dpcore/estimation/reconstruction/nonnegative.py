"""Non-negative and consistent answers from unbiased ones, as an option: smaller errors on sparse data, but a bias.

Tables are consistent that have one total and agree on what they share. They form an affine space, and the nearest
point of it, in squared distances over variances, is found by averages of residuals (``pgm.consistency``). Of the points
that are non-negative, too, the nearest is found here through its dual: with y >= 0 the multipliers of the signs and
P(v) the projection on the consistent tables, x = P(v + y) and y <- max(0, y - x). That is Dykstra's algorithm of
alternating projections; Nesterov's momentum makes it fast.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.fitting.consistency import orthogonal_components
from dpcore.estimation.least_squares import kronecker_times, total_factors
from dpcore.queries import Marginals, Product, Products

Real = NDArray[np.float64]
_Term = tuple[Product, Real, Real]  # With its answers and their standard deviations.

TOLERANCE: Final = 1e-3  # Of a standard deviation: root mean square distance to the optimum, an upper bound.
_STEPS: Final = 5_000
_FITTING_STEPS: Final = 2_000
_OFTEN: Final = 10  # Steps between two looks at how far the optimum is.
_WHOLE: Final = 1e-9


def nonnegative_consistent(
    queries: Marginals, values: Real, stddevs: Real, total: float | None = None, tolerance: float = TOLERANCE
) -> Real:
    """Non-negative tables that have one total and agree on shared attributes, nearest to noisy ones: [queries.size].

    values: Unbiased answers, float64 [queries.size], of measured or of reconstructed marginals.
    stddevs: Of each, positive. A clique counts by the mean of its cells' variances, which are mostly alike.
    total: The number of rows where it is public; None for the least-squares estimate from the values, at least 0.
    tolerance: How far from the optimum the answers may stay, as a root mean square in standard deviations. They are
        non-negative and agree whatever it is, up to rounding.

    The values stay as they are where they are non-negative and consistent already. What comes out is biased, and no
    interval of the values is one of theirs: ``uncertainty.of_model`` makes answers of them.

    Source: in place of the NNLS of McKenna's thesis (2022), section 3.9, which needs a table over all attributes.

    Raises ValueError for arrays that do not fit, standard deviations that are not positive, and a negative total.
    """
    values, stddevs = _checked(values, stddevs, queries.size, total)
    weights = [1 / float((part**2).mean()) for part in np.split(stddevs, np.cumsum(queries.sizes)[:-1])]
    project = _Projection(queries, weights, total)
    start = project(values)
    rows = project.total
    if rows == 0:
        return np.zeros(queries.size)
    uniform = np.repeat([rows / size for size in queries.sizes], queries.sizes)
    precision = np.repeat(weights, queries.sizes)
    enough = queries.size * tolerance**2 / 2
    y = ahead = np.zeros(queries.size)
    momentum, x = 1.0, start
    for _ in range(_STEPS):
        answers = _mixed(x, uniform)
        # The dual value of ``ahead``, which is >= 0, is at most the optimum.
        distance = 0.5 * float(precision @ (answers - start) ** 2)
        gap = distance - 0.5 * float(precision @ (x - start) ** 2) + float(precision @ (ahead * x))
        if gap <= max(enough, _WHOLE * distance):
            break
        before, y = y, np.maximum(0.0, ahead - x)
        if float(precision @ ((ahead - y) * (y - before))) > 0:  # The momentum leads astray.
            momentum = 1.0
        after = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
        ahead = np.maximum(0.0, y + (momentum - 1) / after * (y - before))
        momentum = after
        x = project(values + ahead)
    return answers


def nonnegative_products(
    queries: Products, values: Real, stddevs: Real, total: float | None = None, tolerance: float = TOLERANCE
) -> Real:
    """Answers of prefixes, ranges and other products that non-negative tables of one total have: [queries.size].

    For each clique of the terms a table is fitted to the answers of all its terms, in squared distances over variances:
    prefixes become monotone, and a range the sum of its parts. Tables of different cliques have one total, but need not
    agree on other attributes that they share. Hundreds of prefixes are left a little short of the optimum.

    values, stddevs, total, tolerance: As of ``nonnegative_consistent``.

    Source: thesis of McKenna (2022), section 3.9, non-negative least squares over the measured table.

    Raises ValueError as there, and where neither ``total`` nor an answer tells the number of rows.
    """
    values, stddevs = _checked(values, stddevs, queries.size, total)
    starts = np.cumsum([term.size for term in queries.terms])[:-1]
    terms = list(zip(queries.terms, np.split(values, starts), np.split(stddevs, starts), strict=True))
    rows = _rows(queries, terms) if total is None else total
    answers: dict[int, Real] = {}
    for clique in queries.marginals.cliques:
        places = [place for place, term in enumerate(queries.terms) if term.clique == clique]
        fitted = _Fitted(queries, [terms[place] for place in places])
        table = fitted.table(rows, tolerance)
        answers |= dict(zip(places, fitted.parts(table), strict=True))
    return np.concatenate([answers[place] for place in range(len(terms))])


class _Projection:
    """P: the consistent tables that are nearest to given ones, each clique's squared distances times its weight.

    A table is the sum of its residuals over the parts s of its clique r, spread evenly over r - s. The squared norm of
    such a part is that of the residual over the cells of r - s, so that equal residuals are nearest where they are the
    averages by weight * cells of s / cells of r.
    """

    def __init__(self, queries: Marginals, weights: Sequence[float], total: float | None) -> None:
        self._queries = queries
        self._domain: Domain = queries.domain
        self._fixed = total
        self._precisions: dict[Clique, float] = {}
        self._shares: list[dict[Clique, float]] = []
        for clique, weight in zip(queries.cliques, weights, strict=True):
            parts = [part for part, _ in orthogonal_components(clique, np.zeros((1,) * len(clique)))]
            self._shares.append({part: weight * self._domain.size(part) / self._domain.size(clique) for part in parts})
            for part, precision in self._shares[-1].items():
                self._precisions[part] = self._precisions.get(part, 0.0) + precision

    @property
    def total(self) -> float:
        """Of the tables: that of the first projection where none was given, at least 0."""
        assert self._fixed is not None
        return self._fixed

    def __call__(self, values: Real) -> Real:
        means: dict[Clique, Real] = {}
        tables = self._queries.split(values)
        for clique, table, shares in zip(self._queries.cliques, tables, self._shares, strict=True):
            for part, residual in orthogonal_components(clique, np.asarray(table, dtype=np.float64)):
                share = shares[part] / self._precisions[part]
                means[part] = share * residual if part not in means else means[part] + share * residual
        if self._fixed is None:
            self._fixed = max(0.0, float(means[()]))
        means[()] = np.asarray(self._fixed)
        pairs = zip(self._queries.cliques, self._shares, strict=True)
        return np.concatenate([self._joined(clique, {part: means[part] for part in parts}) for clique, parts in pairs])

    def _joined(self, clique: Clique, tables: dict[Clique, Real]) -> Real:
        """The sum of the residuals, raveled, one attribute at a time: what lacks it is spread over its values."""
        for axis, (name, size) in enumerate(zip(clique, self._domain.shape(clique), strict=True)):
            tables = {
                part: np.expand_dims(table, axis) / size + tables[name, *part]
                for part, table in tables.items()
                if name not in part
            }
        return tables[()].ravel()


class _Fitted:
    """The table of one clique that is fitted to the answers of some terms."""

    def __init__(self, queries: Products, terms: Sequence[_Term]) -> None:
        self._factors = [[matrix.astype(np.float64) for matrix in term.matrices] for term, _, _ in terms]
        self._scales = [term.weight / queries.denominator / stddevs for term, _, stddevs in terms]
        self._wanted = [values / stddevs for _, values, stddevs in terms]
        self._weights = [term.weight / queries.denominator for term, _, _ in terms]
        self._cells = queries.domain.size(terms[0][0].clique)

    def parts(self, table: Real) -> list[Real]:
        """The answers of each term."""
        pairs = zip(self._weights, self._factors, strict=True)
        return [weight * kronecker_times(factors, table) for weight, factors in pairs]

    def table(self, rows: float, tolerance: float) -> Real:
        """On the simplex of non-negative tables of so many rows, by a projected gradient with momentum."""
        if rows == 0:
            return np.zeros(self._cells)
        steepest = self._steepest()
        enough = sum(map(len, self._wanted)) * tolerance**2 / 2
        x = ahead = _on_simplex(self._least_squares(), rows)
        momentum = 1.0
        for step in range(_FITTING_STEPS):
            if step % _OFTEN == 0:
                slope = self._gradient(x)
                if float(slope @ x) - rows * float(slope.min()) <= enough:
                    break
            before, x = x, _on_simplex(ahead - self._gradient(ahead) / steepest, rows)
            if float((ahead - x) @ (x - before)) > 0:
                momentum = 1.0
            after = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
            ahead = x + (momentum - 1) / after * (x - before)
            momentum = after
        return x

    def _least_squares(self) -> Real:
        """From the term of most answers, whatever their signs."""
        most = max(range(len(self._wanted)), key=lambda place: len(self._wanted[place]))
        answers = self._wanted[most] / self._scales[most]
        return kronecker_times([np.asarray(np.linalg.pinv(factor)) for factor in self._factors[most]], answers)

    def _gradient(self, table: Real) -> Real:
        """Sum over terms of A'(A table - wanted), where A are its queries over their standard deviations."""
        found = np.zeros(self._cells)
        for factors, scale, aim in zip(self._factors, self._scales, self._wanted, strict=True):
            left = scale * kronecker_times(factors, table) - aim
            found += kronecker_times([factor.T for factor in factors], scale * left)
        return found

    def _steepest(self) -> float:
        """At least the largest eigenvalue of the sum of A'A."""
        found = 0.0
        for factors, scale in zip(self._factors, self._scales, strict=True):
            norms = [float(np.linalg.norm(factor, 2)) for factor in factors]
            found += (float(np.abs(scale).max()) * math.prod(norms)) ** 2
        return found


def _on_simplex(values: Real, total: float) -> Real:
    """The nearest non-negative vector of this sum."""
    ordered = np.sort(values)[::-1]
    over = (np.cumsum(ordered) - total) / np.arange(1, ordered.size + 1)
    return np.asarray(np.maximum(0.0, values - over[int(np.flatnonzero(ordered > over)[-1])]))


def _mixed(tables: Real, uniform: Real) -> Real:
    """Consistent tables without a negative cell: as much of the uniform ones as that takes."""
    short = np.maximum(0.0, -tables)
    part = float((short / (short + uniform)).max())
    return np.maximum(0.0, (1 - part) * tables + part * uniform) if part else tables


def _rows(queries: Products, terms: Sequence[_Term]) -> float:
    totals, precisions = [], []
    for term, values, stddevs in terms:
        factors = total_factors(Products(queries.domain, (term,), queries.denominator))
        if factors is not None:
            totals.append(float(kronecker_times(factors, values)[0]))
            precisions.append(1 / float(kronecker_times([factor**2 for factor in factors], stddevs**2)[0]))
    if not totals:
        raise ValueError("no answers tell the number of rows; want total")
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
