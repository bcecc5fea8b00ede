"""All measured values as one linear map of the marginals of a few cliques: the stacked measurement matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.fitting.linear_measurements import (
    LinearMeasurement,
    maximal,
    merged,
    smallest_containing,
)
from dpcore.estimation.graphical.inference.strides import StridePlans, add_part, stride_plans, sum_part
from dpcore.queries import Marginals


@final
class MeasurementMatrix:
    """The matrices A of all linear measurements, stacked: A mu against values y with precisions 1 / sigma^2.

    domain: Attributes of the model.
    measurements: At least one.
    merge: Whether repeated measurements of the same function are averaged (``linear_measurements.merged``).
    cliques: Further cliques, each of which lies inside a clique of the queries.

    queries: The marginals mu: the measured and further cliques that lie in no other one.
    measurements: The measurement of each block of rows, in order.
    values: y, float64 [rows].
    precisions: 1 / sigma^2 of each row, float64 [rows].
    starts: Where the rows of each measurement begin, and the end of the last; int64 [measurements + 1].
    constant: The constant by which averaging reduces 1/2 sum (A mu - y)^2 / sigma^2.

    Raises: ValueError without measurements.
    """

    def __init__(
        self,
        domain: Domain,
        measurements: Sequence[LinearMeasurement],
        merge: bool = True,
        cliques: Sequence[Clique] = (),
    ) -> None:
        self.measurements = merged(measurements) if merge else list(measurements)
        if not self.measurements:
            raise ValueError("no measurements; want at least one")
        measured = [measurement.clique for measurement in self.measurements]
        self.queries = Marginals(domain, maximal(domain, [*measured, *cliques]))
        self.values = np.concatenate([measurement.values for measurement in self.measurements])
        sizes = [measurement.values.size for measurement in self.measurements]
        self.precisions = np.repeat([measurement.precision for measurement in self.measurements], sizes)
        self.starts = np.cumsum([0, *sizes])
        self.constant = sum(measurement.constant for measurement in self.measurements)
        self._cells = np.cumsum([0, *map(domain.size, measured)])
        self._whole = all(measurement.matrices is None for measurement in self.measurements)
        self._plan = self._plan_strides(domain)
        self._axes = _Axes.of(domain, self.measurements)

    def apply(self, marginals: NDArray[np.float64]) -> NDArray[np.float64]:
        """A mu, float64 [rows]. marginals: mu, float64 [queries.size]."""
        tables = self._tables(marginals)
        _centre(self._axes, tables)
        return self._measure(tables)

    def expected_counts(self, marginals: NDArray[np.float64]) -> NDArray[np.float64]:
        """A mu without the centring: centred measurements give the marginal itself. float64 [rows]."""
        return self._measure(self._tables(marginals))

    def apply_transpose(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """A^T rows, float64 [queries.size]. rows: float64 [rows]."""
        if not self._whole:
            pieces = zip(self.measurements, np.split(rows, self.starts[1:-1]), strict=True)
            rows = np.concatenate([measurement.apply_transpose(piece) for measurement, piece in pieces])
        marginals, tables = np.zeros(self.queries.size), np.array(rows, dtype=np.float64)
        _centre(self._axes, tables)
        _add_parts(self._plan, marginals, tables)
        return marginals

    def _tables(self, marginals: NDArray[np.float64]) -> NDArray[np.float64]:
        """The marginal of each measurement, one after another."""
        tables = np.empty(self._cells[-1])
        _sum_parts(self._plan, marginals, tables)
        return tables

    def _measure(self, tables: NDArray[np.float64]) -> NDArray[np.float64]:
        """The matrices of each measurement applied to its table."""
        if self._whole:
            return tables
        pieces = zip(self.measurements, np.split(tables, self._cells[1:-1]), strict=True)
        return np.concatenate([measurement.apply(piece) for measurement, piece in pieces])

    def _plan_strides(self, domain: Domain) -> StridePlans:
        """Where the marginal of each measurement lies in those of the queries."""
        begins = np.cumsum([0, *self.queries.sizes]).tolist()
        pairs = []
        for measurement, begin in zip(self.measurements, self._cells.tolist(), strict=False):
            host = smallest_containing(measurement.clique, self.queries.cliques, domain)
            pairs.append((self.queries.cliques[host], begins[host], measurement.clique, begin))
        return stride_plans(domain, pairs)


class _Axes(NamedTuple):
    """The axes along which the mean of centred measurements is subtracted, in order; each field is int64 [axes].

    begin: First cell of the measurement's table.
    cells: Number of cells of that table.
    size: Length of the axis.
    inner: Number of cells from one value of the axis to the next.
    """

    begin: NDArray[np.int64]
    cells: NDArray[np.int64]
    size: NDArray[np.int64]
    inner: NDArray[np.int64]

    @classmethod
    def of(cls, domain: Domain, measurements: Sequence[LinearMeasurement]) -> _Axes:
        rows: list[tuple[int, int, int, int]] = []
        begin = 0
        for measurement in measurements:
            inner = cells = domain.size(measurement.clique)
            for size in domain.shape(measurement.clique):
                inner //= size
                if measurement.centred:
                    rows.append((begin, cells, size, inner))
            begin += cells
        begins, cells_of, sizes, inners = np.array(rows, dtype=np.int64).reshape(-1, 4).T.copy()
        return cls(begins, cells_of, sizes, inners)


@compiled
def _centre(axes: _Axes, values: NDArray[np.float64]) -> None:
    """Subtracts the mean along each axis, in place."""
    for axis in range(axes.begin.size):
        size, inner = axes.size[axis], axes.inner[axis]
        for outer in range(axes.cells[axis] // (size * inner)):
            first = axes.begin[axis] + outer * size * inner
            for cell in range(first, first + inner):
                mean = 0.0
                for step in range(size):
                    mean += values[cell + step * inner]
                mean /= size
                for step in range(size):
                    values[cell + step * inner] -= mean


@compiled
def _sum_parts(plan: StridePlans, marginals: NDArray[np.float64], tables: NDArray[np.float64]) -> None:
    """Sets ``tables`` to the marginals of all measurements."""
    for part in range(plan.table.size):
        sum_part(plan, part, marginals, tables)


@compiled
def _add_parts(plan: StridePlans, marginals: NDArray[np.float64], tables: NDArray[np.float64]) -> None:
    """Adds the tables of all measurements to the marginals that hold them."""
    for part in range(plan.table.size):
        add_part(plan, part, marginals, tables)
