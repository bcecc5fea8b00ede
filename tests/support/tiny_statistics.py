"""Exact answers of small datasets held in memory, by slow and obvious numpy: the reference that engines are held to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import BinaryView, Domain
from dpcore.exact_statistics import Contribution, Request, Shape
from dpcore.queries import Conjunctions, Marginals, UnitCount


@dataclass(frozen=True, eq=False)
class TinyTable:
    """A table whose rows are already whole and bounded; row r belongs to unit r // bound.

    codes: [rows, attributes], in the order of the domain.
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
        if isinstance(request.queries, Marginals):
            return np.concatenate([self._table(clique) for clique in request.queries.cliques])
        return count_conjunctions(request.queries, one_hot_matrix(self.domain, self.codes))

    def _table(self, clique: tuple[str, ...]) -> NDArray[np.int64]:
        table = np.zeros(self.domain.shape(clique), dtype=np.int64)
        for row in self.codes[:, list(self.domain.axes(clique))]:
            table[tuple(row)] += 1
        return table.ravel()


@dataclass(frozen=True, eq=False)
class TinyBaskets:
    """Baskets as the rows of a 0/1 matrix [units, items]; a unit without items is no unit.

    bound: Most items a basket may hold; all of them when None.
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
        if isinstance(request.queries, Marginals):
            raise TypeError("baskets have no attributes; want conjunctions")
        return count_conjunctions(request.queries, baskets)


def one_hot_matrix(domain: Domain, codes: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Rows as 0/1 columns, bool [rows, sum of sizes], in the order of ``BinaryView.one_hot``."""
    return np.concatenate([codes[:, [axis]] == np.arange(size) for axis, size in enumerate(domain.sizes)], axis=1)


def count_conjunctions(queries: Conjunctions, matrix: NDArray[np.bool_]) -> NDArray[np.int64]:
    """How many rows of the matrix satisfy each conjunction, int64 [m]."""
    counts = [
        (matrix[:, columns] != negated).all(axis=1).sum()
        for columns, negated in zip(queries.columns, queries.negated, strict=True)
    ]
    return np.array(counts, dtype=np.int64)
