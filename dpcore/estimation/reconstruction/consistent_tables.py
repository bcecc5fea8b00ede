"""The nearest consistent tables: all marginals of one shape are handled together, as one array."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpcore.domain import Clique
from dpcore.estimation.graphical.fitting.consistency import orthogonal_components
from dpcore.queries import Marginals

Real = NDArray[np.float64]
_Axes = tuple[int, ...]
_Shape = tuple[int, ...]


@final
@dataclass(frozen=True, eq=False)
class _Batch:
    """The cliques of one shape.

    shape: The shape of each table.
    cells: Positions of the cells in the vector of all answers, intp [cliques, cells of the shape].
    parts: By the axes of a subset: its position among the parts of the same shape, intp [cliques].
    means: By the axes of a subset: the weights of its residuals in the mean of each part, sparse [parts, cliques].
    """

    shape: _Shape
    cells: NDArray[np.intp]
    parts: dict[_Axes, NDArray[np.intp]]
    means: dict[_Axes, csr_array]


@final
class ConsistentTables:
    """The projection onto the consistent tables, with each clique's squared distances multiplied by its weight.

    A table on clique r is the sum of its residuals over the parts s of r, each spread evenly over r - s. The squared
    norm of a spread residual is that of the residual divided by the number of cells of r - s. The nearest consistent
    tables therefore use, for each part, the mean residual weighted by weight * (cells of s) / (cells of r).
    """

    def __init__(self, queries: Marginals, weights: Sequence[float], total: float | None) -> None:
        """
        queries: The marginals.
        weights: One positive weight for each clique.
        total: The total of the tables; None to determine it in the first projection.
        """
        self._total = total
        self._size = queries.size
        starts = np.cumsum([0, *queries.sizes])
        by_shape: dict[_Shape, list[int]] = {}
        for position, clique in enumerate(queries.cliques):
            by_shape.setdefault(queries.domain.shape(clique), []).append(position)
        parts = _Parts(queries)
        for shape, positions in by_shape.items():
            parts.add(shape, [queries.cliques[position] for position in positions], np.take(weights, positions))
        self._counts = parts.counts
        self._batches = [
            _Batch(
                shape,
                starts[positions][:, None] + np.arange(math.prod(shape)),
                parts.indices[shape],
                {axes: parts.means(shape, axes) for axes in parts.indices[shape]},
            )
            for shape, positions in by_shape.items()
        ]

    @property
    def total(self) -> float:
        """The total of the tables, at least 0. Unless it was given, the first projection determines it."""
        assert self._total is not None
        return self._total

    def __call__(self, values: Real) -> Real:
        """The nearest consistent tables, float64 [size], to given ones, float64 [size]."""
        residuals = {shape: np.zeros((count, *shape)) for shape, count in self._counts.items()}
        for batch in self._batches:
            tables = values[batch.cells].reshape(-1, *batch.shape)
            for axes, components in orthogonal_components(tuple(range(len(batch.shape))), tables, leading=1):
                shape = components.shape[1:]
                sums = batch.means[axes] @ components.reshape(len(components), -1)
                residuals[shape] += sums.reshape(-1, *shape)
        if self._total is None:
            self._total = max(0.0, float(residuals[()][0]))
        residuals[()][:] = self._total
        answers = np.empty(self._size)
        for batch in self._batches:
            tables = _assembled(batch.shape, {axes: self._at(residuals, batch, axes) for axes in batch.parts})
            answers[batch.cells] = tables.reshape(len(batch.cells), -1)
        return answers

    def _at(self, residuals: dict[_Shape, Real], batch: _Batch, axes: _Axes) -> Real:
        return residuals[_sizes(batch.shape, axes)][batch.parts[axes]]


def _assembled(shape: _Shape, parts: dict[_Axes, Real]) -> Real:
    """The sum of the residuals; one without an attribute is spread evenly over its values."""
    tables = parts
    for axis, size in enumerate(shape):
        tables = {
            axes: np.expand_dims(part, axis + 1) / size + tables[tuple(sorted((*axes, axis)))]
            for axes, part in tables.items()
            if axis not in axes
        }
    return tables[()]


@final
class _Parts:
    """The parts of all cliques, numbered within each shape, with the weights of the cliques' residuals.

    counts: The number of parts of each shape.
    indices: By the shape of cliques and the axes of a subset: its part's number for each clique, intp [cliques].
    """

    def __init__(self, queries: Marginals) -> None:
        numbers: dict[_Shape, dict[Clique, int]] = {}
        for part in dict.fromkeys(part for clique in queries.cliques for part in _subsets(clique)):
            of_shape = numbers.setdefault(queries.domain.shape(part), {})
            of_shape[part] = len(of_shape)
        self._numbers = numbers
        self.counts = {shape: len(of_shape) for shape, of_shape in numbers.items()}
        self._precisions = {shape: np.zeros(count) for shape, count in self.counts.items()}
        self.indices: dict[_Shape, dict[_Axes, NDArray[np.intp]]] = {}
        self._shares: dict[_Shape, dict[_Axes, Real]] = {}

    def add(self, shape: _Shape, cliques: Sequence[Clique], weights: Real) -> None:
        """Adds the cliques of one shape, with weights float64 [cliques]."""
        self.indices[shape], self._shares[shape] = {}, {}
        for axes in _axes(len(shape)):
            small = _sizes(shape, axes)
            numbers = [self._numbers[small][tuple(clique[axis] for axis in axes)] for clique in cliques]
            self.indices[shape][axes] = np.array(numbers, dtype=np.intp)
            self._shares[shape][axes] = weights * (math.prod(small) / math.prod(shape))
            np.add.at(self._precisions[small], self.indices[shape][axes], self._shares[shape][axes])

    def means(self, shape: _Shape, axes: _Axes) -> csr_array:
        """The matrix [parts, cliques] that sums the residuals of the cliques with their weights in the mean."""
        precision, rows = self._precisions[_sizes(shape, axes)], self.indices[shape][axes]
        entries = (self._shares[shape][axes] / precision[rows], (rows, np.arange(len(rows))))
        return csr_array(entries, shape=(len(precision), len(rows)))


def _sizes(shape: _Shape, axes: _Axes) -> _Shape:
    return tuple(shape[axis] for axis in axes)


def _axes(order: int) -> list[_Axes]:
    return [axes for size in range(order + 1) for axes in combinations(range(order), size)]


def _subsets(clique: Clique) -> list[Clique]:
    return [part for size in range(len(clique) + 1) for part in combinations(clique, size)]
