"""Multiplicative weights on a dense table, for single linear queries with values -1, 0 and 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.domain import Domain
from dpcore.queries import Product

# A query from ``QueryWeights.query``, its measured answer, and the distance at which no update is made.
MeasuredQuery = tuple[NDArray[np.int8], float, float]

# Largest exponent of an update: noise far above the total would overflow, and exp(30) moves nearly all mass anyway.
_MAX_EXPONENT: Final = 30.0
_VALUES: Final = np.array([-1.0, 0.0, 1.0])  # The possible values of a query at a cell.


@final
class QueryWeights:
    """The distribution of MWEM, updated for one query at a time.

    domain: The attributes of the table.
    start: The initial table, float64 [cells], positive, of any sum, in C order.
    total: The sum n of the distribution, in counts.
    step: The length of an update. The default 1/2 is that of the paper. The derivative of q(A) / n along an update is
        the variance of q(x) under A / n, so a step of up to 1 cannot overshoot m; for 0/1 queries up to 4 cannot.

    The update for a query q with the measured answer m is A(x) <- A(x) exp(step q(x) (m - q(A)) / n); then A is scaled
    to sum n.

    Source: Hardt, Ligett and McSherry (2012), Fig. 1, step 3.
    """

    def __init__(self, domain: Domain, start: NDArray[np.float64], total: float, step: float = 0.5) -> None:
        self.domain = domain
        self.total = total
        self.step = step
        self.table = np.array(start, dtype=np.float64) * (total / float(start.sum()))

    def query(self, term: Product) -> NDArray[np.int8]:
        """The value q(x) of a query at every cell, int8 [cells].

        term: A product with one answer.

        Raises ValueError for a term with several answers, or with values other than -1, 0 and 1.
        """
        largest = term.weight * max([1, *(int(np.abs(matrix).max()) for matrix in term.matrices)])
        if term.size != 1 or largest > 1:
            raise ValueError(f"a term of {term.size:,} answers, values to {largest}; want one query of values -1, 0, 1")
        values = np.ones([1] * len(self.domain.names), dtype=np.int8)
        for name, matrix in zip(term.clique, term.matrices, strict=True):
            shape = [-1 if other == name else 1 for other in self.domain.names]
            values = values * matrix[0].astype(np.int8).reshape(shape)
        return np.ascontiguousarray(np.broadcast_to(values, self.domain.sizes)).ravel()

    def answer(self, query: NDArray[np.int8]) -> float:
        """The answer q(A) of the current table, in counts."""
        return float(_VALUES @ _sums(self.table, query))

    def follow(self, measured: Sequence[MeasuredQuery], passes: int) -> None:
        """Updates the table for every measured query in turn.

        measured: The queries, each with its noisy answer in counts and a distance in counts. The table is not updated
            for a query whose answer is within this distance of the noisy one.
        passes: Maximum number of passes over all queries, >= 0. The passes stop after one without an update.

        If the distance is positive, a noisy answer that no table of sum n attains is replaced by the nearest attainable
        one.
        """
        for _ in range(passes):
            updated = [self._update(*query) for query in measured]
            if not any(updated):
                return

    def _update(self, query: NDArray[np.int8], value: float, within: float) -> bool:
        """Updates the table for one query; returns whether an update was needed."""
        sums = _sums(self.table, query)
        answer = float(_VALUES @ sums)
        if within > 0:
            attainable = _VALUES[sums > 0]
            value = min(max(value, self.total * float(attainable.min())), self.total * float(attainable.max()))
            if abs(value - answer) <= within:
                return False
        exponents = _VALUES * (self.step * (value - answer) / self.total)
        factors = np.exp(np.clip(exponents, -_MAX_EXPONENT, _MAX_EXPONENT))
        _scale(self.table, query, factors * (self.total / float(factors @ sums)))
        return True


@compiled
def _sums(table: NDArray[np.float64], query: NDArray[np.int8]) -> NDArray[np.float64]:
    """The sums of the cells where the query is -1, 0 and 1: float64 [3]."""
    sums = np.zeros(3)
    for cell in range(table.size):
        sums[query[cell] + 1] += table[cell]
    return sums


@compiled
def _scale(table: NDArray[np.float64], query: NDArray[np.int8], factors: NDArray[np.float64]) -> None:
    """Multiplies each cell by the factor of the query's value there; factors are those of -1, 0 and 1."""
    for cell in range(table.size):
        table[cell] *= factors[query[cell] + 1]
