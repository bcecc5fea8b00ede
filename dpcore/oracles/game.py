"""The query release game of a query class: what drawn queries ask of a record, and what a record satisfies."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, final

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.domain import BinaryView
from dpcore.errors import ConfigError
from dpcore.oracles.clauses import SignedClauses, signed_clauses
from dpcore.queries import Conjunctions, CountingQueries, Marginals


class Game(Protocol):
    """Payoff of a query q and a record x: q(D) - q(x). The query player raises it, the data player lowers it.

    view: The columns of a record.
    size: Number of queries m; index i < m is query i, m + i its complement.
    """

    @property
    def view(self) -> BinaryView: ...

    @property
    def size(self) -> int: ...

    def objective(self, drawn: NDArray[np.int64]) -> SignedClauses:
        """How many of the drawn queries and complements a record satisfies.

        drawn: int64 [s], as the kernel's ``sample`` gives them.
        """
        ...

    def add_satisfied(self, hits: NDArray[np.int32], record: NDArray[np.bool_]) -> None:
        """Adds 1 to hits[i] for each query i < m that the record satisfies.

        hits: int32 [m], changed in place. record: bool [view.columns].
        """
        ...


def game_of(queries: CountingQueries) -> Game:
    """The game of a query class.

    Raises ConfigError for marginals of different orders: their cells are clauses of one length.
    """
    match queries:
        case Conjunctions():
            return ConjunctionGame(queries)
        case Marginals():
            return MarginalGame.of(queries)


@final
@dataclass(frozen=True, eq=False)
class ConjunctionGame:
    """Conjunctions as they are."""

    queries: Conjunctions

    @property
    def view(self) -> BinaryView:
        return self.queries.view

    @property
    def size(self) -> int:
        return self.queries.size

    def objective(self, drawn: NDArray[np.int64]) -> SignedClauses:
        return signed_clauses(self.queries, drawn)

    def add_satisfied(self, hits: NDArray[np.int32], record: NDArray[np.bool_]) -> None:
        _add_satisfied(hits, self.queries.columns, self.queries.negated, record)


@final
@dataclass(frozen=True, eq=False)
class MarginalGame:
    """Every cell of some marginals of one order, as a conjunction of one-hot columns; cells are never listed.

    offsets: int64 [cliques], the first cell of each clique.
    axes: int64 [cliques, k], attributes of each clique.
    strides: int64 [cliques, k], step in cells of each attribute.
    """

    queries: Marginals
    view: BinaryView
    offsets: NDArray[np.int64]
    axes: NDArray[np.int64]
    strides: NDArray[np.int64]

    @classmethod
    def of(cls, queries: Marginals) -> MarginalGame:
        orders = {len(clique) for clique in queries.cliques}
        if len(orders) > 1 or 0 in orders:
            raise ConfigError(f"marginals of {sorted(orders)} attributes; want one order >= 1 for this mechanism")
        shapes = [queries.domain.shape(clique) for clique in queries.cliques]
        strides = [[math.prod(shape[axis + 1 :]) for axis in range(len(shape))] for shape in shapes]
        return cls(
            queries,
            BinaryView.one_hot(queries.domain),
            np.cumsum([0, *queries.sizes[:-1]], dtype=np.int64),
            np.array([queries.domain.axes(clique) for clique in queries.cliques], dtype=np.int64),
            np.array(strides, dtype=np.int64),
        )

    @property
    def size(self) -> int:
        return self.queries.size

    def objective(self, drawn: NDArray[np.int64]) -> SignedClauses:
        cells, position = np.unique(drawn % self.size, return_inverse=True)
        chosen = Conjunctions(self.view, self.columns_of(cells), np.zeros((len(cells), self.axes.shape[1]), np.bool_))
        return signed_clauses(chosen, np.where(drawn < self.size, position, position + len(cells)))

    def columns_of(self, cells: NDArray[np.int64]) -> NDArray[np.int32]:
        """The one-hot columns whose conjunction is each cell, int32 [cells, k]."""
        clique = np.searchsorted(self.offsets, cells, side="right") - 1
        sizes = np.array(self.queries.domain.sizes, dtype=np.int64)
        starts = np.array([start for start, _ in self.view.groups], dtype=np.int64)
        axes = self.axes[clique]
        codes = (cells - self.offsets[clique])[:, None] // self.strides[clique] % sizes[axes]
        return (starts[axes] + codes).astype(np.int32)

    def add_satisfied(self, hits: NDArray[np.int32], record: NDArray[np.bool_]) -> None:
        """A record is in one cell of each clique."""
        codes = np.array([record[start:stop].argmax() for start, stop in self.view.groups], dtype=np.int64)
        hits[self.offsets + (codes[self.axes] * self.strides).sum(axis=1)] += 1


@compiled
def _add_satisfied(
    hits: NDArray[np.int32], columns: NDArray[np.int32], negated: NDArray[np.bool_], record: NDArray[np.bool_]
) -> None:
    """Adds 1 where the record satisfies all literals of a query."""
    for query in range(columns.shape[0]):
        holds = 1
        for literal in range(columns.shape[1]):
            if record[columns[query, literal]] == negated[query, literal]:
                holds = 0
                break
        hits[query] += holds
