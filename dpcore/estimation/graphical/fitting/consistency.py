"""Least-squares estimates of marginals from noisy marginals or residuals: consistent, unbiased, possibly negative.

For each attribute of n values, a vector is a constant plus one that sums to 0. A table mu_r of a clique r is therefore
the sum, over subsets s of r, of components that lie in orthogonal subspaces V_s; the component in V_s is that of the
marginal mu_s, spread evenly:

    mu_r = sum_s  w_s x 1 / n_(r - s),    w_s = (x over i in s of (I - 1 1^T / n_i)) mu_s.

The w_s of all subsets s are free of each other and the same for every clique above s. Measured with independent noise
of one variance sigma^2 a cell, y_r gives an estimate of w_s through its own marginal on s, with covariance
sigma^2 n_(r - s) (x over i in s of (I - 1 1^T / n_i)), uncorrelated with that of every other subset, since the
subspaces are orthogonal. All covariances of w_s are multiples of one matrix, so averages weighted by
1 / (sigma^2 n_(r - s)) are the generalised least squares of all measurements: of all unbiased linear estimates those
with the smallest variance.

A measured residual of s, M_1 x ... x M_k with M_i'M_i = c_i^2 (I - 1 1^T / n_i) (``residual_matrix``), tells w_s alone:
as M^T y / c^2 with the covariance sigma^2 / c^2 (x over i of (I - 1 1^T / n_i)), c the product of the c_i.

Source: Xiao, He, Zhang and Kifer, "An Optimal and Scalable Matrix Mechanism for Noisy Marginals" (2023), section 4, for
the subspaces; the average of many measurements is derived above.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Final, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.fitting.linear_measurements import LinearMeasurement, linear_measurements
from dpcore.estimation.least_squares import kronecker_times
from dpcore.measurement import Measurement
from dpcore.queries import Marginals, Products

_EXACT: Final = 1e-9

T = TypeVar("T")


@final
class LeastSquares:
    """The least-squares estimates of all marginals whose components were all measured: those of measured cliques and of
    their parts.

    Raises TypeError for measurements of anything but marginals and residuals; the methods raise ValueError for a clique
    of which a component was not measured.
    """

    def __init__(self, domain: Domain, measurements: Sequence[Measurement]) -> None:
        self.domain = domain
        self._precisions: dict[Clique, float] = {}
        self._components: dict[Clique, NDArray[np.float64]] = {}
        for term in _terms(domain, measurements):
            found = component_estimates(domain, term)
            if found is None:
                raise TypeError("a measurement of products; want whole marginals, or residuals")
            for subset, component, precision in found:
                self._precisions[subset] = self._precisions.get(subset, 0.0) + precision
                self._components[subset] = self._components.get(subset, 0.0) + precision * component
        for subset, precision in self._precisions.items():
            self._components[subset] = self._components[subset] / precision

    def holds(self, clique: Clique) -> bool:
        """Whether there is an estimate of it."""
        return all(name in self.domain for name in clique) and all(
            subset in self._precisions for subset in self._subsets(self.domain.canonical(clique))
        )

    def marginal(self, clique: Clique) -> NDArray[np.float64]:
        """In counts, shape [attributes] in the order of the domain. Cells may be negative."""
        clique = self.domain.canonical(clique)
        table = np.zeros(self.domain.shape(clique))
        for subset in self._subsets(clique):
            component = _of(self._components, subset, clique)
            shape = [size if name in subset else 1 for name, size in zip(clique, table.shape, strict=True)]
            table += component.reshape(shape) * (self.domain.size(subset) / table.size)
        return table

    def variance(self, clique: Clique) -> float:
        """Of every cell of ``marginal``: within a clique all are alike.

        sum over subsets s of  v_s / n_(r - s)^2 * product over i in s of (1 - 1 / n_i),  where 1 / v_s is the sum of
        1 / (sigma^2 n_(r' - s)) over the measured r' that contain s, and the c^2 / sigma^2 of measured residuals of s.
        """
        clique = self.domain.canonical(clique)
        variance = 0.0
        for subset in self._subsets(clique):
            centred = math.prod(1 - 1 / size for size in self.domain.shape(subset))
            spread = self.domain.size(clique) / self.domain.size(subset)
            variance += centred / (_of(self._precisions, subset, clique) * spread**2)
        return variance

    def largest_variance(self, clique: Clique) -> float:
        """Of a sum of cells with coefficients of squared sum 1.

        The covariance is v_s / n_(r - s) on the subspace of each subset s. Of whole marginals it is largest for s = r:
        a measured clique that holds r holds s too, and 1 / (sigma^2 n_(r' - s)) times n_(r - s) is
        1 / (sigma^2 n_(r' - r)).
        """
        clique = self.domain.canonical(clique)
        sizes = {subset: self.domain.size(clique) / self.domain.size(subset) for subset in self._subsets(clique)}
        return max(1 / (_of(self._precisions, subset, clique) * size) for subset, size in sizes.items())

    def _subsets(self, clique: Clique) -> Iterator[Clique]:
        """Those with a component: an attribute of one value has none."""
        names = [name for name, size in zip(clique, self.domain.shape(clique), strict=True) if size > 1]
        return (subset for size in range(len(names) + 1) for subset in combinations(names, size))


def consistent_marginals(
    domain: Domain, measurements: Sequence[Measurement], cliques: Sequence[Clique]
) -> list[NDArray[np.float64]]:
    """The least-squares estimate of each clique's marginal from all measurements, in counts, shape [attributes].

    Equal on what two cliques share. Cells may be negative.

    Raises ValueError for a clique that no measured one contains, TypeError for measurements of anything but marginals.
    """
    found = LeastSquares(domain, measurements)
    return [found.marginal(clique) for clique in cliques]


def cell_variances(domain: Domain, measurements: Sequence[Measurement], cliques: Sequence[Clique]) -> list[float]:
    """The variance of every cell of each of ``consistent_marginals``."""
    found = LeastSquares(domain, measurements)
    return [found.variance(clique) for clique in cliques]


def estimate_total(domain: Domain, measurements: Sequence[Measurement]) -> tuple[float, float]:
    """The number of records and its standard deviation, from measurements of marginals and of products on them.

    From whole marginals the least-squares estimate, sums weighted by 1 / (sigma^2 cells); a product A mu + noise gives
    1^T A^+ values where all rows of A together determine the total.

    Raises ValueError where no measurement determines the total.
    """
    weighted = precision = 0.0
    for term in _terms(domain, measurements):
        row = _rows_that_sum(term)
        if row is None:
            continue
        known = term.precision / float(row @ row)
        weighted += known * float(row @ term.values)
        precision += known
    if precision == 0:
        raise ValueError("no measurement determines the number of records; want one whole marginal, or the total")
    return weighted / precision, precision**-0.5


def _terms(domain: Domain, measurements: Sequence[Measurement]) -> Iterator[LinearMeasurement]:
    for measurement in measurements:
        if getattr(measurement.queries, "domain", domain) != domain:
            raise ValueError("a measurement has another domain; want that of the marginals")
        yield from linear_measurements(measurement)


def _rows_that_sum(term: LinearMeasurement) -> NDArray[np.float64] | None:
    """The shortest x with x . (A table) = the sum of the table, float64 [rows]; None where there is none."""
    if term.matrices is None:
        return np.ones(term.values.size)
    row = np.ones(1)
    if any(np.abs(matrix.sum(axis=1)).max() <= _EXACT * np.abs(matrix).max() for matrix in term.matrices):
        return None  # A residual: what all values share is not seen.
    for matrix in term.matrices:
        factor = np.linalg.lstsq(matrix.T, np.ones(matrix.shape[1]), rcond=None)[0]
        if np.abs(factor @ matrix - 1).max() > _EXACT:
            return None
        row = np.outer(row, factor).ravel()
    return row


def component_estimates(
    domain: Domain, term: LinearMeasurement
) -> list[tuple[Clique, NDArray[np.float64], float]] | None:
    """Components that a term tells, in the shapes of their attributes, with precisions 1 / v_s.

    None for a function that mixes them, or tells a part of one.
    """
    if term.matrices is None:
        tables = split(term.clique, term.values.reshape(domain.shape(term.clique)))
        return [(subset, table, term.precision * table.size / term.values.size) for subset, table in tables]
    if term.clique:
        scales = [_residual_scale(matrix.tobytes(), matrix.shape) for matrix in term.matrices]
    else:
        scales = [float(term.matrices[0][0, 0] ** 2)]
    if 0.0 in scales:
        return None
    squared = math.prod(scales)
    table = kronecker_times([matrix.T for matrix in term.matrices], term.values) / squared
    return [(term.clique, table.reshape(domain.shape(term.clique)), term.precision * squared)]


def has_components(measurement: Measurement) -> bool:
    """Whether it is of whole marginals or of residuals."""
    match measurement.queries:
        case Marginals():
            return True
        case Products() as queries:
            matrices = {id(matrix): matrix for term in queries.terms for matrix in term.matrices}
            real = [matrix.astype(np.float64) for matrix in matrices.values()]
            return all(_residual_scale(matrix.tobytes(), matrix.shape) for matrix in real)
        case _:
            return False


@lru_cache(maxsize=256)
def _residual_scale(content: bytes, shape: tuple[int, int]) -> float:
    """c^2 where M'M = c^2 (I - 11' / n) with n at least 2; else 0."""
    matrix, size = np.frombuffer(content).reshape(shape), shape[1]
    found = float((matrix**2).sum()) / max(1, size - 1)
    centred = np.eye(size) - 1 / size
    alike = size > 1 and found > 0 and np.abs(matrix.T @ matrix / found - centred).max() <= _EXACT
    return found if alike else 0.0


def split(clique: Clique, table: NDArray[np.float64]) -> list[tuple[Clique, NDArray[np.float64]]]:
    """w_s of a table for every subset s of its clique: each attribute is summed out, or centred."""
    parts: list[tuple[Clique, NDArray[np.float64]]] = [((), table)]
    for name in clique:
        after = []
        for subset, values in parts:
            axis = len(subset)  # Those before it are centred ones.
            after.append((subset, values.sum(axis=axis)))
            after.append(((*subset, name), values - values.mean(axis=axis, keepdims=True)))
        parts = after
    return parts


def _of(found: Mapping[Clique, T], subset: Clique, clique: Clique) -> T:
    if subset not in found:
        raise ValueError(f"no measurement holds {subset}, a part of {clique}; want cliques inside measured ones")
    return found[subset]
