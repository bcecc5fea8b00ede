"""The query release game of a query class: the objective of drawn queries, and the queries that a record satisfies."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Protocol, final

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.domain import BinaryView
from dpcore.oracles.clauses import SignedClauses, merge_clauses, signed_clauses
from dpcore.oracles.pad_clauses import pad_clauses
from dpcore.queries import Conjunctions, CountingQueries, Marginals, Parities

_BLOCK: Final = 4096  # Number of queries whose hits are counted together: they fit in the first-level cache.


class Game(Protocol):
    """A two-player game with the payoff q(D) - q(x) of a query q and a record x.

    The query player maximises the payoff, and the data player minimises it.

    view: The columns of a record.
    size: The number m of queries; index i < m is query i, and m + i its complement.
    """

    @property
    def view(self) -> BinaryView:
        """The columns of a record."""
        ...

    @property
    def size(self) -> int:
        """The number m of queries."""
        ...

    def objective(self, drawn: NDArray[np.int64]) -> SignedClauses:
        """The number of drawn queries and complements that a record satisfies, as an objective.

        drawn: int64 [s], indices from the kernel's ``sample``.
        """
        ...

    def add_satisfied(self, hits: NDArray[np.int32], record: NDArray[np.bool_]) -> None:
        """Adds 1 to hits[i] for each query i < m that the record satisfies.

        hits: int32 [m], changed in place.
        record: bool [view.columns].
        """
        ...


def game_of(queries: CountingQueries) -> Game:
    """The game of a query class.

    queries: Conjunctions, marginals or parities.
    """
    match queries:
        case Conjunctions():
            return ConjunctionGame.of(queries)
        case Marginals():
            return MarginalGame.of(queries)
        case Parities():
            return ParityGame(queries)


@final
@dataclass(frozen=True, eq=False)
class ConjunctionGame:
    """The game of conjunctions of columns.

    queries: The conjunctions.
    codes: int32 [k, m], literals 2 * column + negated; row j has the literal j of every query.
    """

    queries: Conjunctions
    codes: NDArray[np.int32]

    @classmethod
    def of(cls, queries: Conjunctions) -> ConjunctionGame:
        """The game of these conjunctions."""
        return cls(queries, np.ascontiguousarray((2 * queries.columns + queries.negated).T, dtype=np.int32))

    @property
    def view(self) -> BinaryView:
        """See ``Game``."""
        return self.queries.view

    @property
    def size(self) -> int:
        """See ``Game``."""
        return self.queries.size

    def objective(self, drawn: NDArray[np.int64]) -> SignedClauses:
        """See ``Game``."""
        return signed_clauses(self.queries, drawn)

    def add_satisfied(self, hits: NDArray[np.int32], record: NDArray[np.bool_]) -> None:
        """See ``Game``."""
        _add_satisfied(hits, self.codes, np.stack([record, ~record], axis=1).astype(np.uint8).ravel())


@final
@dataclass(frozen=True, eq=False)
class MarginalGame:
    """The game of the cells of marginals, each a conjunction of one-hot columns; the cells are never enumerated.

    queries: The marginals.
    view: The one-hot columns of the domain.
    offsets: int64 [cliques], the first cell of each clique.
    orders: int64 [cliques], the number of attributes of each clique; k is the largest.
    axes: int64 [cliques, k], the attributes of each clique, padded with zeros.
    strides: int64 [cliques, k], the stride in cells of each attribute, padded with zeros.
    """

    queries: Marginals
    view: BinaryView
    offsets: NDArray[np.int64]
    orders: NDArray[np.int64]
    axes: NDArray[np.int64]
    strides: NDArray[np.int64]

    @classmethod
    def of(cls, queries: Marginals) -> MarginalGame:
        """The game of the cells of these marginals."""
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
        """See ``Game``."""
        return self.queries.size

    def objective(self, drawn: NDArray[np.int64]) -> SignedClauses:
        """See ``Game``. Shorter clauses are padded; if there are longer ones, cells of one attribute become gains."""
        cells, weights, constant = _net_weights(drawn, self.size)
        orders = self.orders[self._clique_of(cells)]
        longest = int(orders.max(initial=1))
        columns = self.columns_of(cells)
        constant += int(weights[orders == 0].sum())
        single = (orders == 1) & (longest > 1)
        parts = [
            pad_clauses(self.view, 2 * columns[orders == order, :order], weights[orders == order], longest)
            for order in np.unique(orders[(orders > 0) & ~single])
        ]
        codes = np.concatenate([np.empty((0, longest), dtype=np.int32), *(codes for codes, _ in parts)])
        code_weights = np.concatenate([np.empty(0, dtype=np.int64), *(weights for _, weights in parts)])
        return merge_clauses(self.view, codes, code_weights, constant, columns[single, 0], weights[single])

    def columns_of(self, cells: NDArray[np.int64]) -> NDArray[np.int32]:
        """The one-hot columns whose conjunction is each cell: int32 [cells, k], padded with -1.

        cells: int64 [cells], indices among the cells of all marginals.
        """
        clique = self._clique_of(cells)
        sizes = np.array(self.queries.domain.sizes, dtype=np.int64)
        starts = np.array([start for start, _ in self.view.groups], dtype=np.int64)
        axes, strides = self.axes[clique], self.strides[clique]
        codes = (cells - self.offsets[clique])[:, None] // np.maximum(strides, 1) % sizes[axes]
        return np.where(strides > 0, starts[axes] + codes, -1).astype(np.int32)

    def _clique_of(self, cells: NDArray[np.int64]) -> NDArray[np.intp]:
        return np.searchsorted(self.offsets, cells, side="right") - 1

    def add_satisfied(self, hits: NDArray[np.int32], record: NDArray[np.bool_]) -> None:
        """See ``Game``. A record is in one cell of each clique."""
        codes = np.array([record[start:stop].argmax() for start, stop in self.view.groups], dtype=np.int64)
        hits[self.offsets + (codes[self.axes] * self.strides).sum(axis=1)] += 1


def _net_weights(samples: NDArray[np.int64], size: int) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """The distinct sampled queries, ascending, their non-zero weights, and the constant.

    A query drawn a times and its complement b times contribute b + (a - b) q.

    samples: int64 [s]; i < size is query i, and size + i its complement.
    size: The number of queries.
    """
    complemented = samples >= size
    drawn, position = np.unique(samples % size, return_inverse=True)
    weights = np.bincount(position, weights=np.where(complemented, -1.0, 1.0), minlength=drawn.size).astype(np.int64)
    return drawn[weights != 0], weights[weights != 0], int(complemented.sum())


# The negated literals of the four conjunctions of three columns whose sum is 1 if the number of ones is even, or odd.
_EVEN: Final = np.array([[1, 1, 1], [0, 0, 1], [0, 1, 0], [1, 0, 0]], dtype=np.int32)
_ODD: Final = 1 - _EVEN


@final
@dataclass(frozen=True, eq=False)
class ParityGame:
    """The game of parities, as conjunctions of negative weight and gains of their columns.

    For 0/1 values the parities of one and two columns are 1 - a and 1 - a - b + 2 [a b]. A parity of three columns is 1
    minus the four conjunctions with an odd number of ones, and its complement is 1 minus those with an even number. The
    linear relaxation is then at most the number of samples. With conjunctions of positive weight it could be twice as
    large, which leaves branch and bound more work; the shorter a + b + c - 1 + 2 [~a ~b ~c] - 2 [a b c] has the same
    drawback.

    queries: The parities, of at most three columns.
    """

    queries: Parities

    @property
    def view(self) -> BinaryView:
        """See ``Game``."""
        return self.queries.view

    @property
    def size(self) -> int:
        """See ``Game``."""
        return self.queries.size

    def objective(self, drawn: NDArray[np.int64]) -> SignedClauses:
        """See ``Game``."""
        chosen, weights, constant = _net_weights(drawn, self.size)
        orders, columns = self.queries.orders[chosen], self.queries.columns[chosen]
        longest = int(orders.max(initial=1))
        short, long = orders < 3, orders == 3
        constant += int(weights[short | (weights > 0)].sum())
        is_pair = orders == 2
        pairs, pair_weights = self._satisfiable(2 * columns[is_pair, : min(2, longest)], 2 * weights[is_pair])
        parts = [pad_clauses(self.view, pairs, pair_weights, longest)]
        for side, negations in ((long & (weights > 0), _ODD), (long & (weights < 0), _EVEN)):
            codes = (2 * columns[side, None, :longest] + negations[:, :longest]).reshape(-1, longest)
            parts.append(self._satisfiable(codes, np.repeat(-np.abs(weights[side]), len(negations))))
        named = (columns >= 0) & short[:, None]
        gains = np.broadcast_to(-weights[:, None], columns.shape)[named]
        all_codes, all_weights = (np.concatenate(pieces) for pieces in zip(*parts, strict=True))
        return merge_clauses(self.view, all_codes, all_weights, constant, columns[named], gains)

    def _satisfiable(
        self, codes: NDArray[np.int32], weights: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """The clauses that can hold, with their weights: those without two positive literals of one one-hot group."""
        if not self.view.groups:
            return codes, weights
        starts = np.array([start for start, _ in self.view.groups])
        distinct = -1 - np.arange(codes.shape[1])  # Negated literals exclude nothing.
        groups = np.sort(np.where(codes & 1, distinct, np.searchsorted(starts, codes >> 1, side="right")), axis=1)
        kept = (groups[:, 1:] != groups[:, :-1]).all(axis=1)
        return codes[kept], weights[kept]

    def add_satisfied(self, hits: NDArray[np.int32], record: NDArray[np.bool_]) -> None:
        """See ``Game``."""
        _add_even(hits, self.queries.columns, record)


@compiled
def _add_satisfied(hits: NDArray[np.int32], codes: NDArray[np.int32], holds: NDArray[np.uint8]) -> None:
    """Adds 1 for each query all of whose literals the record satisfies.

    holds: uint8 [2 columns], whether each literal holds.

    There is no branch, because mispredicted branches cost more than looking up all literals. Queries are processed in
    blocks, literal by literal, so that the inner loops are simple.
    """
    held = np.empty(_BLOCK, dtype=np.uint8)
    for start in range(0, codes.shape[1], _BLOCK):
        count = min(_BLOCK, codes.shape[1] - start)
        for query in range(count):
            held[query] = holds[codes[0, start + query]]
        for literal in range(1, codes.shape[0]):
            for query in range(count):
                held[query] &= holds[codes[literal, start + query]]
        for query in range(count):
            hits[start + query] += held[query]


@compiled
def _add_even(hits: NDArray[np.int32], columns: NDArray[np.int32], record: NDArray[np.bool_]) -> None:
    """Adds 1 for each query that has an even number of columns with a 1; -1 stands for no column."""
    for query in range(columns.shape[0]):
        odd = 0
        for index in range(columns.shape[1]):
            column = columns[query, index]
            if column >= 0 and record[column]:
                odd ^= 1
        hits[query] += 1 - odd
