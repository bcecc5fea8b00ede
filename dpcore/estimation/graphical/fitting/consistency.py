"""Least-squares estimates of marginals from noisy marginals or residuals: consistent, unbiased, possibly negative.

A vector over the values of one attribute is the sum of a constant vector and a vector that sums to 0. A table mu_r of a
clique r is therefore the sum, over subsets s of r, of components in orthogonal subspaces V_s. The component in V_s
follows from the marginal mu_s, and is spread evenly over the other attributes of r:

    mu_r = sum_s  w_s x 1 / n_(r - s),    w_s = (x over i in s of (I - 1 1^T / n_i)) mu_s.

Here n_t is the number of cells of a clique t. The components w_s of different subsets do not determine each other, and
w_s is the same for every clique that contains s.

Let y_r be a measurement of mu_r with independent noise of variance sigma^2 in each cell. Its own marginal on s gives an
estimate of w_s with the covariance sigma^2 n_(r - s) (x over i in s of (I - 1 1^T / n_i)). The estimates of different
subsets are uncorrelated, because the subspaces are orthogonal. The covariances of all estimates of w_s are multiples of
one matrix, so their average with the weights 1 / (sigma^2 n_(r - s)) is the generalised least-squares estimate: it has
the smallest variance of all unbiased linear estimates.

A measured residual of s, M = M_1 x ... x M_k with M_i'M_i = c_i^2 (I - 1 1^T / n_i) (``residual_matrix``), determines
w_s alone: the estimate M^T y / c^2, with c the product of the c_i, has the covariance
sigma^2 / c^2 (x over i of (I - 1 1^T / n_i)).

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

_EXACT: Final = 1e-9  # Two matrices are equal if no entry differs by more, relative to the largest.

T = TypeVar("T")
Attribute = TypeVar("Attribute")


@final
class LeastSquares:
    """Least-squares estimates of the marginals of measured cliques and their subsets.

    domain: Attributes of the marginals.
    measurements: Measurements of whole marginals or of residuals.

    Raises: TypeError for measurements of anything else. The methods raise ValueError for a clique with a component that
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
        """The variance of each cell of ``marginal``, in squared counts; it is the same for all cells.

        It is the sum over subsets s of v_s / n_(r - s)^2 * product over i in s of (1 - 1 / n_i). Here 1 / v_s is the
        sum of 1 / (sigma^2 n_(r' - s)) over the measured cliques r' that contain s, and of c^2 / sigma^2 over the
        measured residuals of s.
        """
        clique = self.domain.canonical(clique)
        variance = 0.0
        for subset in self._subsets(clique):
            centred = math.prod(1 - 1 / size for size in self.domain.shape(subset))
            spread = self.domain.size(clique) / self.domain.size(subset)
            variance += centred / (_component(self._precisions, subset, clique) * spread**2)
        return variance

    def largest_variance(self, clique: Clique) -> float:
        """The largest eigenvalue of the covariance of ``marginal``.

        It is the largest variance of a combination of cells whose coefficients have the sum of squares 1. The
        eigenvalue on the subspace of a subset s is v_s / n_(r - s). If only whole marginals were measured, s = r has
        the largest: every measured clique r' that contains r contains s too, and its contributions to the inverse,
        1 / (sigma^2 n_(r' - s)) times n_(r - s), and 1 / (sigma^2 n_(r' - r)), are equal.
        """
        clique = self.domain.canonical(clique)
        sizes = {subset: self.domain.size(clique) / self.domain.size(subset) for subset in self._subsets(clique)}
        return max(1 / (_component(self._precisions, subset, clique) * size) for subset, size in sizes.items())

    def _subsets(self, clique: Clique) -> Iterator[Clique]:
        """The subsets that have a component; the component of an attribute with one value is 0."""
        names = [name for name, size in zip(clique, self.domain.shape(clique), strict=True) if size > 1]
        return (subset for size in range(len(names) + 1) for subset in combinations(names, size))


def estimate_total(domain: Domain, measurements: Sequence[Measurement]) -> tuple[float, float]:
    """Estimates the number of records and its standard deviation, from measurements of marginals and of products.

    The estimate is a weighted mean of one estimate per measurement. A whole marginal gives the sum of its values, with
    the weight 1 / (sigma^2 cells), which is the least-squares estimate. A product A mu + noise gives 1^T A^+ values, if
    the rows of A determine the total.

    Raises: ValueError if no measurement determines the total.
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
    """The shortest x with x . (A table) = the sum of the table for every table, float64 [rows]; None if none exists."""
    if measurement.matrices is None:
        return np.ones(measurement.values.size)
    row = np.ones(1)
    if any(np.abs(matrix.sum(axis=1)).max() <= _EXACT * np.abs(matrix).max() for matrix in measurement.matrices):
        return None  # The rows of a residual sum to 0, so they say nothing about the total.
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

    Returns: (subset s, estimate of w_s in the shape of s, its precision 1 / v_s) for each component; None for a
        function that mixes components, or that determines a component only partly.
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
    """The c^2 with M'M = c^2 (I - 11' / n) if M is a residual matrix with n at least 2; else 0."""
    matrix, size = np.frombuffer(content).reshape(shape), shape[1]
    scale = float((matrix**2).sum()) / max(1, size - 1)
    centring = np.eye(size) - 1 / size
    is_residual = size > 1 and scale > 0 and np.abs(matrix.T @ matrix / scale - centring).max() <= _EXACT
    return scale if is_residual else 0.0


def orthogonal_components(
    clique: tuple[Attribute, ...], table: NDArray[np.float64], leading: int = 0
) -> list[tuple[tuple[Attribute, ...], NDArray[np.float64]]]:
    """w_s of a table for every subset s of its clique: each attribute is either summed out or centred.

    clique: Names or numbers of the attributes, one for each axis after the leading ones.
    leading: Number of leading axes that are no attributes, as in a stack of tables.
    """
    components: list[tuple[tuple[Attribute, ...], NDArray[np.float64]]] = [((), table)]
    for attribute in clique:
        extended = []
        for subset, values in components:
            axis = leading + len(subset)  # The axes before it are centred.
            extended.append((subset, values.sum(axis=axis)))
            extended.append(((*subset, attribute), values - values.mean(axis=axis, keepdims=True)))
        components = extended
    return components


def _component(by_subset: Mapping[Clique, T], subset: Clique, clique: Clique) -> T:
    """The entry of a subset. Raises: ValueError if no measurement determines it."""
    if subset not in by_subset:
        raise ValueError(f"no measurement holds {subset}, a part of {clique}; want cliques inside measured ones")
    return by_subset[subset]
