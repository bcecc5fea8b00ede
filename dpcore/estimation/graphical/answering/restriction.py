"""Restrictions of a query on a calibrated tree: factors and ranges of values; and the parts of its results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.estimation.graphical.answering.contraction import Table

Results = Mapping[tuple[int, ...], NDArray[np.float64]]  # Result arrays by the attributes of their axes.


class Restriction(NamedTuple):
    """How a query transforms or restricts some attributes.

    max_cells: The largest number of cells of an intermediate table between the nodes and the answer.
    factors: Matrices by the attribute that they sum out; their other label replaces the attribute in the answer.
    ranges: The range of values to which each restricted attribute is restricted.
    """

    max_cells: int
    factors: Mapping[int, Table] = MappingProxyType({})
    ranges: Mapping[int, slice] = MappingProxyType({})

    def narrow(self, label: int, begin: int, end: int) -> Restriction:
        """The restriction for some of the values, or rows of the factor, of one attribute."""
        if label in self.factors:
            labels, values = self.factors[label]
            return self._replace(factors={**self.factors, label: Table(labels, values[:, begin:end])})
        before = self.ranges[label].start if label in self.ranges else 0
        return self._replace(ranges={**self.ranges, label: slice(before + begin, before + end)})

    def restrict(self, table: Table, sizes: Sequence[int]) -> Table:
        """The part of a table within the ranges; an attribute of the table may be restricted already.

        sizes: Number of values of each unrestricted attribute.
        """
        if not self.ranges:
            return table
        parts = [slice(None)] * len(table.labels)
        for axis, label in enumerate(table.labels):
            if label in self.ranges and table.values.shape[axis] == sizes[label]:
                parts[axis] = self.ranges[label]
        return Table(table.labels, table.values[tuple(parts)])


def factor_tables(domain: Domain, factors: Mapping[str, NDArray[np.float64]]) -> dict[int, Table]:
    """The factors of a Kronecker query by the position of their attribute, ascending.

    The label of a factor's rows is the position of its attribute plus the number of attributes.

    factors: By attribute, float64 [rows, size of the attribute].

    Raises: ValueError for a factor of another shape, or an unknown attribute.
    """
    tables = {}
    for name in domain.canonical(factors):
        label, matrix = domain.index(name), np.asarray(factors[name], dtype=np.float64)
        if matrix.ndim != 2 or matrix.shape[1] != domain.sizes[label]:
            raise ValueError(f"factor of {name!r} has shape {matrix.shape}; want [rows, {domain.sizes[label]}]")
        tables[label] = Table((label, len(domain.names) + label), matrix.T)
    return tables


def cut_points(begin: int, end: int, pieces: int) -> list[int]:
    """Bounds of at least two nonempty pieces of a range, of nearly equal length."""
    pieces = min(max(2, pieces), end - begin)
    return [begin + (end - begin) * piece // pieces for piece in range(pieces + 1)]


def split_results(results: Results, label: int, values: slice) -> Results:
    """Views of the results for some values of an attribute; results without the attribute are unchanged."""
    return {
        labels: result[(slice(None),) * labels.index(label) + (values,)] if label in labels else result
        for labels, result in results.items()
    }


def result_views(shapes: Sequence[tuple[int, ...]]) -> tuple[NDArray[np.float64], list[NDArray[np.float64]]]:
    """A vector of zeros for results of these shapes, one after another, and a view of it for each."""
    sizes = [math.prod(shape) for shape in shapes]
    vector = np.zeros(sum(sizes))
    ends = np.cumsum(sizes, dtype=np.int64).tolist()
    views = [vector[end - size : end].reshape(shape) for end, size, shape in zip(ends, sizes, shapes, strict=True)]
    return vector, views
