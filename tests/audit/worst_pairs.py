"""Neighbours that are hardest to keep apart from one another, and the claim that they are audited under.

Every pair makes what a call of the kernel sees differ by all that it is charged for, in the direction where its noise
hides least.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dpcore.domain import BinaryView, Domain
from dpcore.exact_statistics import Contribution, Request, Shape, Statistics
from dpcore.kernel.budget import Budget, Currency
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.kernel.sensitivity import Neighbours
from dpcore.queries import ClippedSums, Conjunctions, Marginals, SatisfactionHistogram, UnitCount
from dpcore.testing.doubles import REPLACE, private_statistics
from dpcore.testing.tiny_statistics import TinyBaskets, clipped, one_hot_matrix

ROWS = 64  # Rows a unit: noise is then wide, and the discrete laws nearly those of real numbers.
ONE = Domain.of({"x": 2})
TWO = Domain.of({"x": 2, "y": 2})
TWO_ITEMS = BinaryView(2)


@dataclass(frozen=True)
class Claim:
    """What is claimed: a budget, that of (epsilon, delta), for one kind of neighbours."""

    budget: Budget
    epsilon: float
    delta: float
    neighbours: Neighbours

    @property
    def replaced(self) -> bool:
        return self.neighbours is REPLACE

    @property
    def width(self) -> float:
        """The bounded range of one selection or draw that costs the whole budget."""
        amount = float(self.budget.amount)
        if self.budget.currency is Currency.PURE:
            return amount
        if self.budget.currency is Currency.ZCDP:
            return math.sqrt(8 * amount)
        chance = float(ndtr(math.sqrt(amount) / 2))
        return 2 * math.log(chance / (1 - chance))

    def times(self, copies: int) -> Budget:
        return Budget(self.budget.currency, copies * self.budget.amount)


@dataclass(frozen=True, eq=False)
class Cells:
    """Exact statistics of a table given by its cells. counts: Shape of the domain; rows in each cell."""

    domain: Domain
    counts: NDArray[np.int64]
    units: int
    bound: int = 1

    @property
    def contribution(self) -> Contribution:
        return Contribution(Shape.TABLE, self.bound)

    def aggregate(self, request: Request) -> NDArray[np.int64]:
        if isinstance(request, UnitCount):
            return np.array([self.units], dtype=np.int64)
        if isinstance(request, SatisfactionHistogram | ClippedSums):
            return clipped(request, np.repeat(self._records, self.counts.ravel(), axis=0))
        if isinstance(request.queries, Marginals):
            return np.concatenate([self._table(clique) for clique in request.queries.cliques])
        return self._conjunctions(request.queries)

    def _table(self, clique: tuple[str, ...]) -> NDArray[np.int64]:
        others = tuple(axis for axis, name in enumerate(self.domain.names) if name not in clique)
        return np.asarray(self.counts.sum(axis=others)).ravel()

    def _conjunctions(self, queries: Conjunctions) -> NDArray[np.int64]:
        """Copies of a query are counted once."""
        literals, place = np.unique(queries.columns * 2 + queries.negated, axis=0, return_inverse=True)
        satisfied = (self._records[:, literals // 2] != (literals % 2).astype(bool)).all(axis=2)
        return np.asarray(self.counts.ravel() @ satisfied)[place.ravel()]

    @cached_property
    def _records(self) -> NDArray[np.bool_]:
        return one_hot_matrix(self.domain, np.indices(self.domain.sizes).reshape(len(self.domain.sizes), -1).T)


def table(domain: Domain, rows: Sequence[tuple[int, ...]], bound: int = 1) -> Cells:
    """Rows of whole units: each holds ``bound`` of them."""
    counts = np.zeros(domain.sizes, dtype=np.int64)
    for row in rows:
        counts[row] += 1
    return Cells(domain, counts, len(rows) // bound, bound)


@dataclass(frozen=True, eq=False)
class Pair:
    """Two neighbours. units: Their number where it is declared public."""

    first: Statistics
    neighbour: Statistics
    units: int | None

    def private(self, neighbour: bool, budget: Budget, kind: Neighbours) -> PrivateStatistics:
        data = self.neighbour if neighbour else self.first
        return private_statistics(data, budget, neighbours=kind, units=self.units)


def one_cell(claim: Claim) -> Pair:
    """A unit's rows lie in one cell of two, or in the other one; or there is no unit."""
    rows = table(ONE, [(0,)] * ROWS, ROWS)
    if claim.replaced:
        return Pair(rows, table(ONE, [(1,)] * ROWS, ROWS), 1)
    return Pair(rows, table(ONE, [], ROWS), None)


def opposite_errors(claim: Claim) -> Pair:
    """Against a uniform estimate for four rows the error of one marginal grows and that of the other one falls."""
    rows = [(0, 0), (0, 1), (1, 1), (1, 1)]
    other = [*rows[:-1], (0, 0)] if claim.replaced else [*rows, (0, 0)]
    return Pair(table(TWO, rows), table(TWO, other), 4)


def lone_row(claim: Claim) -> Pair:
    """One row in the cell of the query, against one in the other cell or none."""
    return Pair(table(ONE, [(1,)] if claim.replaced else []), table(ONE, [(0,)]), 1)


def basket_of_two(claim: Claim) -> Pair:
    """One basket of both items, against one of the first item alone or none."""
    other = np.array([[True, False]]) if claim.replaced else np.zeros((0, 2), dtype=np.bool_)
    return Pair(TinyBaskets(TWO_ITEMS, other, 2), TinyBaskets(TWO_ITEMS, np.ones((1, 2), dtype=np.bool_), 2), 1)


def lone_basket(claim: Claim) -> Pair:
    """One basket of all three items, against one of a single item or none."""
    view, others = BinaryView(3), [[True, False, False]] if claim.replaced else []
    first, neighbour = (np.array(side, dtype=np.bool_).reshape(-1, 3) for side in (others, [[True] * 3]))
    return Pair(TinyBaskets(view, first, 3), TinyBaskets(view, neighbour, 3), 1)
