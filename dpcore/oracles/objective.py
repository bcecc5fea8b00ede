"""The query release game of a query class: what drawn queries ask of a record, and what a record satisfies."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Protocol, final

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.domain import BinaryView
from dpcore.oracles.clauses import SignedClauses, assembled, signed_clauses
from dpcore.oracles.pad_clauses import lengthened
from dpcore.queries import Conjunctions, CountingQueries, Marginals, Parities

_BLOCK: Final = 4096  # Queries whose hits are counted at a time: within the first cache.


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
            return ConjunctionGame.of(queries)
        case Marginals():
            return MarginalGame.of(queries)
        case Parities():
            return ParityGame(queries)


@final
@dataclass(frozen=True, eq=False)
class ConjunctionGame:
    """Conjunctions as they are.

    codes: int32 [k, m], literals 2 * column + negated; the first of all queries, then the second.
    """

    queries: Conjunctions
    codes: NDArray[np.int32]

    @classmethod
    def of(cls, queries: Conjunctions) -> ConjunctionGame:
        return cls(queries, np.ascontiguousarray((2 * queries.columns + queries.negated).T, dtype=np.int32))

    @property
    def view(self) -> BinaryView:
        return self.queries.view

    @property
    def size(self) -> int:
        return self.queries.size

    def objective(self, drawn: NDArray[np.int64]) -> SignedClauses:
        return signed_clauses(self.queries, drawn)

    def add_satisfied(self, hits: NDArray[np.int32], record: NDArray[np.bool_]) -> None:
        _add_satisfied(hits, self.codes, np.stack([record, ~record], axis=1).astype(np.uint8).ravel())


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
        cells, weights, constant = _net_weights(drawn, self.size)
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


def _net_weights(samples: NDArray[np.int64], size: int) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """What the samples weigh together: distinct queries, ascending, their weights, none of them 0, and the constant.

    A query drawn a times and its complement b times contribute b + (a - b) q.

    samples: int64 [s]; i < size is query i, size + i its complement.
    """
    complemented = samples >= size
    drawn, position = np.unique(samples % size, return_inverse=True)
    weights = np.bincount(position, weights=np.where(complemented, -1.0, 1.0), minlength=drawn.size).astype(np.int64)
    return drawn[weights != 0], weights[weights != 0], int(complemented.sum())


# Negations of the four conjunctions of three literals that make up an even, and an odd, number of ones.
_EVEN: Final = np.array([[1, 1, 1], [0, 0, 1], [0, 1, 0], [1, 0, 0]], dtype=np.int32)
_ODD: Final = 1 - _EVEN


@final
@dataclass(frozen=True, eq=False)
class ParityGame:
    """Parities as conjunctions to avoid, and gains of their columns.

    For 0/1 values the parities of one and two columns are 1 - a and 1 - a - b + 2 [a b]. A parity of three is wanted by
    avoiding the four conjunctions that make up an odd number of ones, its complement by avoiding those of an even one:
    the relaxation then claims no more than the number of samples. Conjunctions to satisfy would claim up to twice that
    and leave branch and bound more to do; so would a + b + c - 1 + 2 [~a ~b ~c] - 2 [a b c], though it is shorter.
    """

    queries: Parities

    @property
    def view(self) -> BinaryView:
        return self.queries.view

    @property
    def size(self) -> int:
        return self.queries.size

    def objective(self, drawn: NDArray[np.int64]) -> SignedClauses:
        chosen, weights, constant = _net_weights(drawn, self.size)
        orders, columns = self.queries.orders[chosen], self.queries.columns[chosen]
        longest = int(orders.max(initial=1))
        short, long = orders < 3, orders == 3
        constant += int(weights[short | (weights > 0)].sum())
        two = orders == 2
        pairs, of_pairs = self._possible(2 * columns[two, : min(2, longest)], 2 * weights[two])
        parts = [lengthened(self.view, pairs, of_pairs, longest)]
        for side, negations in ((long & (weights > 0), _ODD), (long & (weights < 0), _EVEN)):
            codes = (2 * columns[side, None, :longest] + negations[:, :longest]).reshape(-1, longest)
            parts.append(self._possible(codes, np.repeat(-np.abs(weights[side]), len(negations))))
        named = (columns >= 0) & short[:, None]
        gains = np.broadcast_to(-weights[:, None], columns.shape)[named]
        all_codes, all_weights = (np.concatenate(pieces) for pieces in zip(*parts, strict=True))
        return assembled(self.view, all_codes, all_weights, constant, columns[named], gains)

    def _possible(
        self, codes: NDArray[np.int32], weights: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """The clauses that do not want two columns of one one-hot group, with their weights."""
        if not self.view.groups:
            return codes, weights
        starts = np.array([start for start, _ in self.view.groups])
        apart = -1 - np.arange(codes.shape[1])
        groups = np.sort(np.where(codes & 1, apart, np.searchsorted(starts, codes >> 1, side="right")), axis=1)
        kept = (groups[:, 1:] != groups[:, :-1]).all(axis=1)
        return codes[kept], weights[kept]

    def add_satisfied(self, hits: NDArray[np.int32], record: NDArray[np.bool_]) -> None:
        _add_even(hits, self.queries.columns, record)


@compiled
def _add_satisfied(hits: NDArray[np.int32], codes: NDArray[np.int32], holds: NDArray[np.uint8]) -> None:
    """Adds 1 where the record satisfies all literals of a query.

    holds: uint8 [2 columns], whether each literal holds. No branch: which literals hold is as good as random, and
    guessing wrong costs more than looking all of them up; block by block, literal by literal, so that loops are short.
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
    """Adds 1 where an even number of the columns of a query is 1; -1 is no column."""
    for query in range(columns.shape[0]):
        odd = 0
        for place in range(columns.shape[1]):
            column = columns[query, place]
            if column >= 0 and record[column]:
                odd ^= 1
        hits[query] += 1 - odd
