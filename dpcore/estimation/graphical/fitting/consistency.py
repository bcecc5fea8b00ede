"""Least-squares estimates of marginals from noisy marginals or residuals: consistent, unbiased, possibly negative.

For each attribute of n values, a vector is a constant plus one that sums to 0. A table mu_r of a clique r is therefore
the sum, over subsets s of r, of components that lie in orthogonal subspaces V_s; the component in V_s is that of the
marginal mu_s, spread evenly:

    mu_r = sum_s  w_s x 1 / n_(r - s),    w_s = (x over i in s of (I - 1 1^T / n_i)) mu_s.

The w_s of all subsets s are free of each other and the same for every clique that contains s. Measured with independent
noise of one variance sigma^2 for each cell, y_r gives an estimate of w_s through its own marginal on s, with covariance
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

_EXACT: Final = 1e-9  # Relative error of entries up to which two matrices are equal.

T = TypeVar("T")


@final
class LeastSquares:
    """The least-squares estimates of all marginals whose components were all measured: measured cliques and their
    parts.

    domain: Attributes of the marginals.
    measurements: Of whole marginals or of residuals.

    Raises: TypeError for measurements of anything else. The methods raise ValueError for a clique of which a component
        was not measured.
    """

    def __init__(self, domain: Domain, measurements: Sequence[Measurement]) -> None:
        self.domain = domain
        self._precisions: dict[Clique, float] = {}
        self._components: dict[Clique, NDArray[np.float64]] = {}
        for part in _linear_measurements(domain, measurements):
            estimates = component_estimates(domain, part)
            if estimates is None:
                raise TypeError("a measurement of products; want whole marginals, or residuals")
            for subset, component, precision in estimates:
                self._precisions[subset] = self._precisions.get(subset, 0.0) + precision
                self._components[subset] = self._components.get(subset, 0.0) + precision * component
        for subset, precision in self._precisions.items():
            self._components[subset] = self._components[subset] / precision

    def holds(self, clique: Clique) -> bool:
        """Whether there is an estimate of the clique's marginal."""
        return all(name in self.domain for name in clique) and all(
            subset in self._precisions for subset in self._subsets(self.domain.canonical(clique))
        )

    def marginal(self, clique: Clique) -> NDArray[np.float64]:
        """The estimate in counts, float64 of shape ``domain.shape(clique)`` in the domain's order; may be negative."""
        clique = self.domain.canonical(clique)
        table = np.zeros(self.domain.shape(clique))
        for subset in self._subsets(clique):
            component = _component(self._components, subset, clique)
            shape = [size if name in subset else 1 for name, size in zip(clique, table.shape, strict=True)]
            table += component.reshape(shape) * (self.domain.size(subset) / table.size)
        return table

    def variance(self, clique: Clique) -> float:
        """The variance of each cell of ``marginal``, in squared counts: all cells of a clique have the same.

        sum over subsets s of  v_s / n_(r - s)^2 * product over i in s of (1 - 1 / n_i),  where 1 / v_s is the sum of
        1 / (sigma^2 n_(r' - s)) over the measured r' that contain s, and the c^2 / sigma^2 of measured residuals of s.
        """
        clique = self.domain.canonical(clique)
        variance = 0.0
        for subset in self._subsets(clique):
            centred = math.prod(1 - 1 / size for size in self.domain.shape(subset))
            spread = self.domain.size(clique) / self.domain.size(subset)
            variance += centred / (_component(self._precisions, subset, clique) * spread**2)
        return variance

    def largest_variance(self, clique: Clique) -> float:
        """The largest variance of a combination of cells of ``marginal`` with coefficients of squared sum 1.

        The covariance is v_s / n_(r - s) on the subspace of each subset s. Of whole marginals it is largest for s = r:
        a measured clique that holds r holds s too, and 1 / (sigma^2 n_(r' - s)) times n_(r - s) is
        1 / (sigma^2 n_(r' - r)).
        """
        clique = self.domain.canonical(clique)
        sizes = {subset: self.domain.size(clique) / self.domain.size(subset) for subset in self._subsets(clique)}
        return max(1 / (_component(self._precisions, subset, clique) * size) for subset, size in sizes.items())

    def _subsets(self, clique: Clique) -> Iterator[Clique]:
        """The subsets that have a component: an attribute of one value has none."""
        names = [name for name, size in zip(clique, self.domain.shape(clique), strict=True) if size > 1]
        return (subset for size in range(len(names) + 1) for subset in combinations(names, size))


def estimate_total(domain: Domain, measurements: Sequence[Measurement]) -> tuple[float, float]:
    """Estimates the number of records and its standard deviation, from measurements of marginals and of products.

    From whole marginals the least-squares estimate, sums weighted by 1 / (sigma^2 cells); a product A mu + noise gives
    1^T A^+ values where all rows of A together determine the total.

    Raises: ValueError where no measurement determines the total.
    """
    weighted_sum = precision = 0.0
    for part in _linear_measurements(domain, measurements):
        row = _row_that_sums(part)
        if row is None:
            continue
        part_precision = part.precision / float(row @ row)
        weighted_sum += part_precision * float(row @ part.values)
        precision += part_precision
    if precision == 0:
        raise ValueError("no measurement determines the number of records; want one whole marginal, or the total")
    return weighted_sum / precision, precision**-0.5


def _linear_measurements(domain: Domain, measurements: Sequence[Measurement]) -> Iterator[LinearMeasurement]:
    """The parts of all measurements. Raises: ValueError for a measurement of another domain."""
    for measurement in measurements:
        if getattr(measurement.queries, "domain", domain) != domain:
            raise ValueError("a measurement has another domain; want that of the marginals")
        yield from linear_measurements(measurement)


def _row_that_sums(measurement: LinearMeasurement) -> NDArray[np.float64] | None:
    """The shortest x with x . (A table) = the sum of the table, float64 [rows]; None where there is none."""
    if measurement.matrices is None:
        return np.ones(measurement.values.size)
    row = np.ones(1)
    if any(np.abs(matrix.sum(axis=1)).max() <= _EXACT * np.abs(matrix).max() for matrix in measurement.matrices):
        return None  # A residual does not see what all values share.
    for matrix in measurement.matrices:
        factor = np.linalg.lstsq(matrix.T, np.ones(matrix.shape[1]), rcond=None)[0]
        if np.abs(factor @ matrix - 1).max() > _EXACT:
            return None
        row = np.outer(row, factor).ravel()
    return row


def component_estimates(
    domain: Domain, measurement: LinearMeasurement
) -> list[tuple[Clique, NDArray[np.float64], float]] | None:
    """Estimates the components that a measurement determines.

    Returns: (subset s, estimate of w_s in the shape of s, its precision 1 / v_s) for each; None for a function that
        mixes components, or determines a part of one.
    """
    if measurement.matrices is None:
        tables = orthogonal_components(measurement.clique, measurement.values.reshape(domain.shape(measurement.clique)))
        cells = measurement.values.size
        return [(subset, table, measurement.precision * table.size / cells) for subset, table in tables]
    if measurement.clique:
        scales = [_residual_scale(matrix.tobytes(), matrix.shape) for matrix in measurement.matrices]
    else:
        scales = [float(measurement.matrices[0][0, 0] ** 2)]
    if 0.0 in scales:
        return None
    squared = math.prod(scales)
    table = kronecker_times([matrix.T for matrix in measurement.matrices], measurement.values) / squared
    return [(measurement.clique, table.reshape(domain.shape(measurement.clique)), measurement.precision * squared)]


def has_components(measurement: Measurement) -> bool:
    """Whether a measurement is of whole marginals or of residuals, so that ``LeastSquares`` takes it."""
    match measurement.queries:
        case Marginals():
            return True
        case Products() as queries:
            matrices = {id(matrix): matrix for product in queries.terms for matrix in product.matrices}
            real = [matrix.astype(np.float64) for matrix in matrices.values()]
            return all(_residual_scale(matrix.tobytes(), matrix.shape) for matrix in real)
        case _:
            return False


@lru_cache(maxsize=256)
def _residual_scale(content: bytes, shape: tuple[int, int]) -> float:
    """c^2 where M'M = c^2 (I - 11' / n) with n at least 2; else 0."""
    matrix, size = np.frombuffer(content).reshape(shape), shape[1]
    scale = float((matrix**2).sum()) / max(1, size - 1)
    centring = np.eye(size) - 1 / size
    is_residual = size > 1 and scale > 0 and np.abs(matrix.T @ matrix / scale - centring).max() <= _EXACT
    return scale if is_residual else 0.0


def orthogonal_components(clique: Clique, table: NDArray[np.float64]) -> list[tuple[Clique, NDArray[np.float64]]]:
    """w_s of a table for every subset s of its clique: each attribute is summed out, or centred."""
    components: list[tuple[Clique, NDArray[np.float64]]] = [((), table)]
    for name in clique:
        extended = []
        for subset, values in components:
            axis = len(subset)  # The axes before it are centred.
            extended.append((subset, values.sum(axis=axis)))
            extended.append(((*subset, name), values - values.mean(axis=axis, keepdims=True)))
        components = extended
    return components


def _component(by_subset: Mapping[Clique, T], subset: Clique, clique: Clique) -> T:
    """The entry of a subset. Raises: ValueError where no measurement holds it."""
    if subset not in by_subset:
        raise ValueError(f"no measurement holds {subset}, a part of {clique}; want cliques inside measured ones")
    return by_subset[subset]
