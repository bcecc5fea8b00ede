"""Measurements as linear functions of single marginals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.least_squares import kronecker_times
from dpcore.measurement import Measurement
from dpcore.queries import Marginals, Products

_LEAST_STDDEV: Final = 1e-9  # Laplace noise of a huge epsilon is exactly 0.
Matrices = tuple[NDArray[np.float64], ...]


@dataclass(frozen=True, eq=False)
class LinearTerm:
    """Noisy values of a linear function of one marginal.

    clique: The marginal.
    values: float64 [rows], answers plus noise; for a whole marginal one a cell, in counts.
    precision: 1 / sigma^2 of every value.
    matrices: The factors of the function, one an attribute; None for the marginal itself.
    constant: Part of the squared loss that no marginal changes.
    centred: Whether the function is the marginal less all that smaller ones tell: its mean along every attribute is
        taken off (``components``).
    """

    clique: Clique
    values: NDArray[np.float64]
    precision: float
    matrices: Matrices | None = None
    constant: float = 0.0
    centred: bool = False

    def applied(self, table: NDArray[np.float64]) -> NDArray[np.float64]:
        """The function of a table, float64 [rows]."""
        return table.ravel() if self.matrices is None else kronecker_times(self.matrices, table)

    def transposed(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The transpose of the function at ``values``, float64 [cells]."""
        if self.matrices is None:
            return values
        return kronecker_times([matrix.T for matrix in self.matrices], values)

    @property
    def curvature(self) -> float:
        """c with precision |A d|^2 <= c |d|_1^2 for all differences d of two tables of one total.

        d = t (u - v) with distributions u, v and |d|_1 = 2 t, so c is a quarter of the largest precision |a - b|^2 of
        two columns a, b; that is at most 2 max |a|^2 where no entry is negative, else 4 max |a|^2.
        """
        if self.matrices is None:
            return self.precision / 2 if self.values.size > 1 else 0.0
        largest = math.prod(float((matrix**2).sum(axis=0).max()) for matrix in self.matrices)
        alike = all((matrix >= 0).all() for matrix in self.matrices)
        return self.precision * largest * (0.5 if alike else 1.0)


def precision_of(measurement: Measurement) -> float:
    """1 / sigma^2 of every value, finite where the noise is exactly 0."""
    return float(max(measurement.stddev, _LEAST_STDDEV) ** -2)


def linear_terms(measurement: Measurement) -> list[LinearTerm]:
    """The parts of a measurement, one a marginal. Raises TypeError for queries that no marginal answers."""
    precision = precision_of(measurement)
    match measurement.queries:
        case Marginals() as queries:
            tables = queries.split(measurement.values)
            pairs = zip(queries.cliques, tables, strict=True)
            return [
                LinearTerm(clique, np.asarray(table, dtype=np.float64).ravel(), precision) for clique, table in pairs
            ]
        case Products() as queries:
            pieces = np.split(measurement.values, np.cumsum([term.size for term in queries.terms])[:-1])
            return [
                LinearTerm(term.clique, piece, precision, _scaled(term.matrices, term.weight / queries.denominator))
                for term, piece in zip(queries.terms, pieces, strict=True)
            ]
        case other:
            raise TypeError(f"a measurement of {type(other).__name__}; want marginals, or products on marginals")


def measured_cliques(measurement: Measurement) -> tuple[Clique, ...]:
    """The marginals that a measurement tells about."""
    return tuple(term.clique for term in linear_terms(measurement))


def merged(terms: Iterable[LinearTerm]) -> list[LinearTerm]:
    """The same squared loss with one term for each function that was measured; whole marginals first.

    sum_j p_j |A mu - y_j|^2 = p |A mu - y|^2 + constant with p = sum_j p_j and y = sum_j p_j y_j / p. Repeated terms
    would give a fit directions that no marginal moves along.
    """
    found: dict[tuple[object, ...], LinearTerm] = {}
    for term in terms:
        key = (term.clique, term.centred, *(matrix.tobytes() for matrix in term.matrices or ()))
        before = found.get(key)
        found[key] = term if before is None else _average(before, term)
    return sorted(found.values(), key=lambda term: term.matrices is not None)


def _average(one: LinearTerm, other: LinearTerm) -> LinearTerm:
    precision = one.precision + other.precision
    values = (one.precision * one.values + other.precision * other.values) / precision
    spread = ((one.values - other.values) ** 2).sum() * one.precision * other.precision / precision
    return replace(one, values=values, precision=precision, constant=one.constant + other.constant + spread / 2)


def maximal(domain: Domain, cliques: Iterable[Clique]) -> tuple[Clique, ...]:
    """The cliques that lie in no other one, each once, in their order."""
    distinct = tuple(dict.fromkeys(map(domain.canonical, cliques)))
    names = {clique: frozenset(clique) for clique in distinct}
    return tuple(clique for clique in distinct if not any(names[clique] < other for other in names.values()))


def home(clique: Clique, cliques: Sequence[Clique], domain: Domain) -> int:
    """The smallest of the cliques that contains ``clique``."""
    names = frozenset(clique)
    holding = [index for index, other in enumerate(cliques) if names <= frozenset(other)]
    if not holding:
        raise ValueError(f"clique {clique} lies in none of {len(cliques)} cliques; want one that contains it")
    return min(holding, key=lambda index: domain.size(cliques[index]))


def _scaled(matrices: tuple[NDArray[np.int64], ...], factor: float) -> Matrices:
    """Real factors whose product has the factor in it."""
    if not matrices:
        return (np.full((1, 1), factor),)
    first, *rest = (matrix.astype(np.float64) for matrix in matrices)
    return (factor * first, *rest)
