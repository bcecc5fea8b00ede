"""Exact answers of small datasets in memory, computed in plain NumPy: the reference for the engines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import BinaryView, Domain
from dpcore.exact_statistics import Contribution, Request, Shape
from dpcore.queries import ClippedSums, Conjunctions, Marginals, Parities, SatisfactionHistogram, UnitCount


@dataclass(frozen=True, eq=False)
class TinyTable:
    """A table whose rows are already encoded, grouped by unit and truncated. Row r belongs to unit r // bound.

    domain: The domain of the attributes.
    codes: Values of the attributes, [rows, attributes], in the order of the domain.
    bound: Maximum number of rows per unit.
    """

    domain: Domain
    codes: NDArray[np.integer]
    bound: int = 1

    @property
    def contribution(self) -> Contribution:
        return Contribution(Shape.TABLE, self.bound)

    def aggregate(self, request: Request) -> NDArray[np.int64]:
        if isinstance(request, UnitCount):
            return np.array([-(-len(self.codes) // self.bound)], dtype=np.int64)
        if isinstance(request, SatisfactionHistogram | ClippedSums):
            return clipped(request, one_hot_matrix(self.domain, self.codes))
        if isinstance(request.queries, Marginals):
            return np.concatenate([self._table(clique) for clique in request.queries.cliques])
        return count_satisfied(request.queries, one_hot_matrix(self.domain, self.codes))

    def _table(self, clique: tuple[str, ...]) -> NDArray[np.int64]:
        table = np.zeros(self.domain.shape(clique), dtype=np.int64)
        for row in self.codes[:, list(self.domain.axes(clique))]:
            table[tuple(row)] += 1
        return table.ravel()


@dataclass(frozen=True, eq=False)
class TinyBaskets:
    """Baskets as the rows of a 0/1 matrix. A row without items is not counted as a unit.

    view: The binary view of the items.
    matrix: Whether a unit holds an item, bool [units, items].
    bound: Maximum number of items per basket; by default the number of all items.
    """

    view: BinaryView
    matrix: NDArray[np.bool_]
    bound: int | None = None

    @property
    def contribution(self) -> Contribution:
        return Contribution(Shape.BASKETS, self.bound or self.view.columns)

    def aggregate(self, request: Request) -> NDArray[np.int64]:
        baskets = np.asarray(self.matrix, dtype=np.bool_)
        baskets = baskets[baskets.any(axis=1)]
        if isinstance(request, UnitCount):
            return np.array([len(baskets)], dtype=np.int64)
        if isinstance(request, SatisfactionHistogram | ClippedSums):
            return clipped(request, baskets)
        if isinstance(request.queries, Marginals):
            raise TypeError("baskets have no attributes; want conjunctions")
        return count_satisfied(request.queries, baskets)


def one_hot_matrix(domain: Domain, codes: NDArray[np.integer]) -> NDArray[np.bool_]:
    """One-hot encoding of rows, bool [rows, sum of sizes], in the order of ``BinaryView.one_hot``."""
    return np.concatenate([codes[:, [axis]] == np.arange(size) for axis, size in enumerate(domain.sizes)], axis=1)


def count_satisfied(queries: Conjunctions | Parities, matrix: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Number of rows of the matrix that satisfy each query, int64 [m]."""
    return count_parities(queries, matrix) if isinstance(queries, Parities) else count_conjunctions(queries, matrix)


def count_parities(queries: Parities, matrix: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Number of rows with an even number of ones in the columns of each parity, int64 [m]."""
    counts = [(matrix[:, columns[columns >= 0]].sum(axis=1) % 2 == 0).sum() for columns in queries.columns]
    return np.array(counts, dtype=np.int64)


def count_conjunctions(queries: Conjunctions, matrix: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Number of rows of the matrix that satisfy each conjunction, int64 [m]."""
    counts = [
        (matrix[:, columns] != negated).all(axis=1).sum()
        for columns, negated in zip(queries.columns, queries.negated, strict=True)
    ]
    return np.array(counts, dtype=np.int64)


def clipped(request: SatisfactionHistogram | ClippedSums, matrix: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Satisfaction histogram or clipped sums by definition. Each row of the matrix is one unit."""
    queries = request.queries
    satisfied = np.stack([matrix[:, columns].all(axis=1) for columns in queries.columns], axis=1).astype(np.int64)
    groups = np.zeros(queries.size, dtype=np.int32) if request.groups is None else request.groups
    answers = []
    for group in range(groups.max() + 1):
        in_group = satisfied[:, groups == group]
        k = in_group.sum(axis=1)
        if isinstance(request, SatisfactionHistogram):
            starts = [0, *2 ** np.arange(request.cells - 1)] if request.starts is None else request.starts.tolist()
            stops = [*starts[1:], queries.size + 1]
            answers.append([((k >= start) & (k < stop)).sum() for start, stop in zip(starts, stops, strict=True)])
        else:
            answers.append(request.weights[group, k] @ in_group)
    if isinstance(request, SatisfactionHistogram):
        return np.concatenate(answers).astype(np.int64)
    sums = np.empty(queries.size, dtype=np.int64)
    for group, values in enumerate(answers):
        sums[groups == group] = values
    return sums
