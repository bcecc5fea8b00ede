"""The query release game of a query class: what drawn queries ask of a record, and what a record satisfies."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, final

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.domain import BinaryView
from dpcore.oracles.assembly import assembled, net_weights
from dpcore.oracles.clauses import SignedClauses, signed_clauses
from dpcore.oracles.lengthening import lengthened
from dpcore.queries import Conjunctions, CountingQueries, Marginals, Parities


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
    """The game of a query class."""
    match queries:
        case Conjunctions():
            return ConjunctionGame(queries)
        case Marginals():
            return MarginalGame.of(queries)
        case Parities():
            return ParityGame(queries)


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
    """Every cell of some marginals as a conjunction of one-hot columns; cells are never listed.

    offsets: int64 [cliques], the first cell of each clique.
    orders: int64 [cliques], attributes of each clique; k is the largest.
    axes: int64 [cliques, k], attributes of each clique, then zeros.
    strides: int64 [cliques, k], step in cells of each attribute, then zeros.
    """

    queries: Marginals
    view: BinaryView
    offsets: NDArray[np.int64]
    orders: NDArray[np.int64]
    axes: NDArray[np.int64]
    strides: NDArray[np.int64]

    @classmethod
    def of(cls, queries: Marginals) -> MarginalGame:
        domain, orders = queries.domain, [len(clique) for clique in queries.cliques]
        axes = np.zeros((len(orders), max(1, *orders)), dtype=np.int64)
        strides = np.zeros_like(axes)
        for row, (clique, order) in enumerate(zip(queries.cliques, orders, strict=True)):
            shape = domain.shape(clique)
            axes[row, :order] = domain.axes(clique)
            strides[row, :order] = [math.prod(shape[axis + 1 :]) for axis in range(order)]
        offsets = np.cumsum([0, *queries.sizes[:-1]], dtype=np.int64)
        return cls(queries, BinaryView.one_hot(domain), offsets, np.array(orders, dtype=np.int64), axes, strides)

    @property
    def size(self) -> int:
        return self.queries.size

    def objective(self, drawn: NDArray[np.int64]) -> SignedClauses:
        """Cells of fewer attributes than others are lengthened; beside longer ones, those of one are gains."""
        cells, weights, constant = net_weights(drawn, self.size)
        orders = self.orders[self._clique_of(cells)]
        longest = int(orders.max(initial=1))
        columns = self.columns_of(cells)
        constant += int(weights[orders == 0].sum())
        single = (orders == 1) & (longest > 1)
        parts = [
            lengthened(self.view, 2 * columns[orders == order, :order], weights[orders == order], longest)
            for order in np.unique(orders[(orders > 0) & ~single])
        ]
        codes = np.concatenate([np.empty((0, longest), dtype=np.int32), *(codes for codes, _ in parts)])
        of_codes = np.concatenate([np.empty(0, dtype=np.int64), *(weights for _, weights in parts)])
        return assembled(self.view, codes, of_codes, constant, columns[single, 0], weights[single])

    def columns_of(self, cells: NDArray[np.int64]) -> NDArray[np.int32]:
        """The one-hot columns whose conjunction is each cell, int32 [cells, k]; -1 behind those of a smaller clique."""
        clique = self._clique_of(cells)
        sizes = np.array(self.queries.domain.sizes, dtype=np.int64)
        starts = np.array([start for start, _ in self.view.groups], dtype=np.int64)
        axes, strides = self.axes[clique], self.strides[clique]
        codes = (cells - self.offsets[clique])[:, None] // np.maximum(strides, 1) % sizes[axes]
        return np.where(strides > 0, starts[axes] + codes, -1).astype(np.int32)

    def _clique_of(self, cells: NDArray[np.int64]) -> NDArray[np.intp]:
        return np.searchsorted(self.offsets, cells, side="right") - 1

    def add_satisfied(self, hits: NDArray[np.int32], record: NDArray[np.bool_]) -> None:
        """A record is in one cell of each clique."""
        codes = np.array([record[start:stop].argmax() for start, stop in self.view.groups], dtype=np.int64)
        hits[self.offsets + (codes[self.axes] * self.strides).sum(axis=1)] += 1


@final
@dataclass(frozen=True, eq=False)
class ParityGame:
    """Parities as at most two conjunctions each, and gains of their columns.

    For 0/1 values a, b, c, with [..] for a conjunction and ~ for a negation, the parities of one, two and three are
        1 - a,    1 - a - b + 2 [a b],    a + b + c - 1 + 2 [~a ~b ~c] - 2 [a b c].
    The relaxation of that is tighter than of the four disjoint conjunctions that make up a parity of three: with all
    columns at 1/2 it claims 3/2 and those claim 2, where 1 is the truth.
    """

    queries: Parities

    @property
    def view(self) -> BinaryView:
        return self.queries.view

    @property
    def size(self) -> int:
        return self.queries.size

    def objective(self, drawn: NDArray[np.int64]) -> SignedClauses:
        chosen, weights, constant = net_weights(drawn, self.size)
        orders, columns = self.queries.orders[chosen], self.queries.columns[chosen]
        longest = int(orders.max(initial=1))
        sign = np.where(orders == 3, 1, -1)
        constant -= int((sign * weights).sum())
        together = (orders == 3) & self._can_all_be_1(columns)
        apart = orders == 3
        two = (orders == 2) & self._can_all_be_1(columns)
        pairs, of_pairs = lengthened(self.view, 2 * columns[two, : min(2, longest)], 2 * weights[two], longest)
        codes = [pairs, 2 * columns[together, :longest], 2 * columns[apart, :longest] + 1]
        of_codes = [of_pairs, -2 * weights[together], 2 * weights[apart]]
        named = columns >= 0
        gains = np.broadcast_to((sign * weights)[:, None], columns.shape)[named]
        return assembled(self.view, np.concatenate(codes), np.concatenate(of_codes), constant, columns[named], gains)

    def _can_all_be_1(self, columns: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Whether the columns of each row lie in different one-hot groups, bool [rows]; -1 is no column."""
        if not self.view.groups:
            return np.ones(len(columns), dtype=np.bool_)
        starts = np.array([start for start, _ in self.view.groups])
        groups = np.where(columns < 0, -1 - np.arange(columns.shape[1]), np.searchsorted(starts, columns, side="right"))
        groups.sort(axis=1)
        return np.asarray((groups[:, 1:] != groups[:, :-1]).all(axis=1))

    def add_satisfied(self, hits: NDArray[np.int32], record: NDArray[np.bool_]) -> None:
        _add_even(hits, self.queries.columns, record)


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


@compiled
def _add_even(hits: NDArray[np.int32], columns: NDArray[np.int32], record: NDArray[np.bool_]) -> None:
    """Adds 1 where an even number of the columns of a query is 1; -1 is no column."""
    for query in range(columns.shape[0]):
        odd = 0
        for place in range(columns.shape[1]):
            column = columns[query, place]
            if column >= 0 and record[column]:
                odd ^= 1
        hits[query] += 1 - odd
