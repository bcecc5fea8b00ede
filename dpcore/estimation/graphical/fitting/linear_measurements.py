"""Splits noisy measurements into linear functions of single marginals."""

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

_MIN_STDDEV: Final = 1e-9  # Laplace noise of a huge epsilon is exactly 0.
Matrices = tuple[NDArray[np.float64], ...]


@dataclass(frozen=True, eq=False)
class LinearMeasurement:
    """Noisy values of a linear function of one marginal.

    clique: Attributes of the marginal.
    values: Exact answers plus noise, float64 [rows]; for a whole marginal one value for each cell, in counts.
    precision: 1 / sigma^2 of every value.
    matrices: Kronecker factors of the function, one for each attribute; None for the marginal itself.
    constant: Part of the squared loss that does not depend on the marginal.
    centred: Whether the function is the component of the marginal that smaller marginals do not determine: its mean
        along every attribute is subtracted (``components``).
    """

    clique: Clique
    values: NDArray[np.float64]
    precision: float
    matrices: Matrices | None = None
    constant: float = 0.0
    centred: bool = False

    def apply(self, table: NDArray[np.float64]) -> NDArray[np.float64]:
        """The function of a table, without the centring; float64 [rows]."""
        return table.ravel() if self.matrices is None else kronecker_times(self.matrices, table)

    def apply_transpose(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The transpose of the function applied to ``values``, float64 [cells]."""
        if self.matrices is None:
            return values
        return kronecker_times([matrix.T for matrix in self.matrices], values)

    @property
    def curvature(self) -> float:
        """A number c with precision |A d|^2 <= c |d|_1^2 for all differences d of two tables of one total.

        d = t (u - v) with distributions u, v and |d|_1 = 2 t, so c is a quarter of the largest precision |a - b|^2 of
        two columns a, b of A. That |a - b|^2 is at most 2 max |a|^2 if no entry is negative, else 4 max |a|^2.
        """
        if self.matrices is None:
            return self.precision / 2 if self.values.size > 1 else 0.0
        largest = math.prod(float((matrix**2).sum(axis=0).max()) for matrix in self.matrices)
        nonnegative = all((matrix >= 0).all() for matrix in self.matrices)
        return self.precision * largest * (0.5 if nonnegative else 1.0)


def precision_of(measurement: Measurement) -> float:
    """1 / sigma^2 of every value; it is finite even if the noise is exactly 0."""
    return float(max(measurement.stddev, _MIN_STDDEV) ** -2)


def linear_measurements(measurement: Measurement) -> list[LinearMeasurement]:
    """Splits a measurement into one part for each marginal.

    Raises: TypeError for queries other than marginals and products.
    """
    precision = precision_of(measurement)
    match measurement.queries:
        case Marginals() as queries:
            tables = queries.split(measurement.values)
            pairs = zip(queries.cliques, tables, strict=True)
            return [
                LinearMeasurement(clique, np.asarray(table, dtype=np.float64).ravel(), precision)
                for clique, table in pairs
            ]
        case Products() as queries:
            pieces = np.split(measurement.values, np.cumsum([product.size for product in queries.terms])[:-1])
            return [
                LinearMeasurement(
                    product.clique, piece, precision, _scaled(product.matrices, product.weight / queries.denominator)
                )
                for product, piece in zip(queries.terms, pieces, strict=True)
            ]
        case unsupported:
            raise TypeError(f"a measurement of {type(unsupported).__name__}; want marginals, or products on marginals")


def measured_cliques(measurement: Measurement) -> tuple[Clique, ...]:
    """The cliques on whose marginals the measured queries are."""
    return tuple(part.clique for part in linear_measurements(measurement))


def merged(measurements: Iterable[LinearMeasurement]) -> list[LinearMeasurement]:
    """Averages repeated measurements of the same function; whole marginals come first. The squared loss is unchanged:

        sum_j p_j |A mu - y_j|^2 = p |A mu - y|^2 + constant,    p = sum_j p_j,    y = sum_j p_j y_j / p.

    Repeated functions would give a fit directions along which no marginal changes.
    """
    by_function: dict[tuple[object, ...], LinearMeasurement] = {}
    for measurement in measurements:
        matrices = (matrix.tobytes() for matrix in measurement.matrices or ())
        key = (measurement.clique, measurement.centred, *matrices)
        earlier = by_function.get(key)
        by_function[key] = measurement if earlier is None else _average(earlier, measurement)
    return sorted(by_function.values(), key=lambda measurement: measurement.matrices is not None)


def _average(first: LinearMeasurement, second: LinearMeasurement) -> LinearMeasurement:
    """The average of two measurements of one function, weighted by their precisions."""
    precision = first.precision + second.precision
    values = (first.precision * first.values + second.precision * second.values) / precision
    scatter = ((first.values - second.values) ** 2).sum() * first.precision * second.precision / precision
    constant = first.constant + second.constant + scatter / 2
    return replace(first, values=values, precision=precision, constant=constant)


def maximal(domain: Domain, cliques: Iterable[Clique]) -> tuple[Clique, ...]:
    """The cliques that lie inside no other clique, each once, in their order."""
    distinct = tuple(dict.fromkeys(map(domain.canonical, cliques)))
    names = {clique: frozenset(clique) for clique in distinct}
    return tuple(clique for clique in distinct if not any(names[clique] < larger for larger in names.values()))


def smallest_containing(clique: Clique, cliques: Sequence[Clique], domain: Domain) -> int:
    """The position of the smallest clique that contains ``clique``. Raises: ValueError if none does."""
    names = frozenset(clique)
    containing = [index for index, candidate in enumerate(cliques) if names <= frozenset(candidate)]
    if not containing:
        raise ValueError(f"clique {clique} lies in none of {len(cliques)} cliques; want one that contains it")
    return min(containing, key=lambda index: domain.size(cliques[index]))


def _scaled(matrices: tuple[NDArray[np.int64], ...], factor: float) -> Matrices:
    """Real matrices whose Kronecker product is that of the given ones times a factor."""
    if not matrices:
        return (np.full((1, 1), factor),)
    first, *rest = (matrix.astype(np.float64) for matrix in matrices)
    return (factor * first, *rest)
