"""Least-squares estimates of marginals from noisy overlapping marginals: consistent, unbiased, possibly negative.

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

Source: Xiao, He, Zhang and Kifer, "An Optimal and Scalable Matrix Mechanism for Noisy Marginals" (2023), section 4, for
the subspaces; the average of many measurements is derived above.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Final, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.pgm.linear_terms import LinearTerm, linear_terms
from dpcore.measurement import Measurement

_EXACT: Final = 1e-9

T = TypeVar("T")


@final
class LeastSquares:
    """The least-squares estimates of the marginals of all measured cliques and of their parts.

    Raises TypeError for measurements of anything but marginals; the methods raise ValueError for a clique that no
    measured one contains.
    """

    def __init__(self, domain: Domain, measurements: Sequence[Measurement]) -> None:
        self.domain = domain
        terms = _whole(domain, measurements)
        self._precisions = _precisions(domain, terms)
        self._components = _components(domain, terms, self._precisions)

    def holds(self, clique: Clique) -> bool:
        """Whether a measured clique contains it."""
        return all(name in self.domain for name in clique) and self.domain.canonical(clique) in self._precisions

    def marginal(self, clique: Clique) -> NDArray[np.float64]:
        """In counts, shape [attributes] in the order of the domain. Cells may be negative."""
        clique = self.domain.canonical(clique)
        table = np.zeros(self.domain.shape(clique))
        for subset in _subsets(clique):
            component = _of(self._components, subset, clique)
            shape = [size if name in subset else 1 for name, size in zip(clique, table.shape, strict=True)]
            table += component.reshape(shape) * (self.domain.size(subset) / table.size)
        return table

    def variance(self, clique: Clique) -> float:
        """Of every cell of ``marginal``: within a clique all are alike.

        sum over subsets s of  v_s / n_(r - s)^2 * product over i in s of (1 - 1 / n_i),  where 1 / v_s is the sum of
        1 / (sigma^2 n_(r' - s)) over the measured r' that contain s.
        """
        clique = self.domain.canonical(clique)
        variance = 0.0
        for subset in _subsets(clique):
            centred = math.prod(1 - 1 / size for size in self.domain.shape(subset))
            spread = self.domain.size(clique) / self.domain.size(subset)
            variance += centred / (_of(self._precisions, subset, clique) * spread**2)
        return variance

    def largest_variance(self, clique: Clique) -> float:
        """An upper bound on the variance of a sum of cells with coefficients of squared sum 1, reached but for cliques
        with attributes of one value.

        The covariance is v_s / n_(r - s) on the subspace of each subset s, which is largest for s = r: a measured
        clique that holds r holds s too, and 1 / (sigma^2 n_(r' - s)) times n_(r - s) is 1 / (sigma^2 n_(r' - r)).
        """
        clique = self.domain.canonical(clique)
        return 1 / _of(self._precisions, clique, clique)


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


def _terms(domain: Domain, measurements: Sequence[Measurement]) -> Iterator[LinearTerm]:
    for measurement in measurements:
        if getattr(measurement.queries, "domain", domain) != domain:
            raise ValueError("a measurement has another domain; want that of the marginals")
        yield from linear_terms(measurement)


def _whole(domain: Domain, measurements: Sequence[Measurement]) -> list[LinearTerm]:
    terms = list(_terms(domain, measurements))
    if any(term.matrices is not None for term in terms):
        raise TypeError("a measurement of products; want whole marginals")
    return terms


def _rows_that_sum(term: LinearTerm) -> NDArray[np.float64] | None:
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


def _components(
    domain: Domain, terms: Sequence[LinearTerm], precisions: Mapping[Clique, float]
) -> dict[Clique, NDArray[np.float64]]:
    """The least-squares estimate of w_s, shape [attributes of s], of every subset s of a measured clique."""
    found = {subset: np.zeros(domain.shape(subset)) for subset in precisions}
    for term in terms:
        for subset, component in split(term.clique, term.values.reshape(domain.shape(term.clique))):
            found[subset] += component * (_precision(domain, term, subset) / precisions[subset])
    return found


def _precisions(domain: Domain, terms: Sequence[LinearTerm]) -> dict[Clique, float]:
    """1 / v_s of every subset s of a measured clique."""
    found: dict[Clique, float] = {}
    for term in terms:
        for subset in _subsets(term.clique):
            found[subset] = found.get(subset, 0.0) + _precision(domain, term, subset)
    return found


def _precision(domain: Domain, term: LinearTerm, subset: Clique) -> float:
    """Of a cell of the term's own marginal on a subset: it sums n_(r - s) noisy cells."""
    return term.precision * domain.size(subset) / domain.size(term.clique)


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


def _subsets(clique: Clique) -> Iterator[Clique]:
    return (subset for size in range(len(clique) + 1) for subset in combinations(clique, size))


def _of(found: Mapping[Clique, T], subset: Clique, clique: Clique) -> T:
    if subset not in found:
        raise ValueError(f"no measurement holds {subset}, a part of {clique}; want cliques inside measured ones")
    return found[subset]
