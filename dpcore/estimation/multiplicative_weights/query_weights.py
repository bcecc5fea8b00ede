"""A dense table that follows single linear queries by multiplicative weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.domain import Domain
from dpcore.queries import Product

# A query, as ``QueryWeights.query`` gives it, its measured answer, and how near to it is near enough.
Followed = tuple[NDArray[np.int8], float, float]

_LARGEST_EXPONENT: Final = 30.0  # Noise far above the total would overflow: such a step moves nearly all mass anyway.
_VALUES: Final = np.array([-1.0, 0.0, 1.0])


@final
class QueryWeights:
    """A(x) <- A(x) exp(step q(x) (m - q(A)) / n), then scaled to sum n, for one query q with values -1, 0, 1 at a time.

    domain: Of the table. start: float64 [cells], positive, C order. total: n.
    step: 1/2 in the paper. A step up to 1 cannot overshoot m, for 0/1 queries one up to 4, because the variance of q(x)
        under A / n is how fast q(A) / n moves.

    Source: Hardt, Ligett and McSherry (2012), Fig. 1, step 3.
    """

    def __init__(self, domain: Domain, start: NDArray[np.float64], total: float, step: float = 0.5) -> None:
        self.domain = domain
        self.total = total
        self.step = step
        self.table = np.array(start, dtype=np.float64) * (total / float(start.sum()))

    def query(self, term: Product) -> NDArray[np.int8]:
        """A product of one answer as q(x) for every cell, int8 [cells].

        Raises ValueError for a term of several answers, or with values other than -1, 0 and 1.
        """
        largest = term.weight * max([1, *(int(np.abs(matrix).max()) for matrix in term.matrices)])
        if term.size != 1 or largest > 1:
            raise ValueError(f"a term of {term.size:,} answers, values to {largest}; want one query of values -1, 0, 1")
        found = np.ones([1] * len(self.domain.names), dtype=np.int8)
        for name, matrix in zip(term.clique, term.matrices, strict=True):
            shape = [-1 if other == name else 1 for other in self.domain.names]
            found = found * matrix[0].astype(np.int8).reshape(shape)
        return np.ascontiguousarray(np.broadcast_to(found, self.domain.sizes)).ravel()

    def answer(self, query: NDArray[np.int8]) -> float:
        """q(A)."""
        return float(_VALUES @ _sums(self.table, query))

    def follow(self, measured: Sequence[Followed], passes: int) -> None:
        """``passes`` rounds of updates over all measured queries, each (query, noisy answer, within).

        A query that the table answers within so much of the measured value is left alone, and a value that no table of
        sum n can have is taken as the nearest one that some table has. With within 0 all are followed as they are.
        """
        for _ in range(passes):
            moved = [self._follow(*one) for one in measured]
            if not any(moved):
                return

    def _follow(self, query: NDArray[np.int8], value: float, within: float) -> bool:
        sums = _sums(self.table, query)
        answer = float(_VALUES @ sums)
        if within > 0:
            held = _VALUES[sums > 0]
            value = min(max(value, self.total * float(held.min())), self.total * float(held.max()))
            if abs(value - answer) <= within:
                return False
        exponents = _VALUES * (self.step * (value - answer) / self.total)
        factors = np.exp(np.clip(exponents, -_LARGEST_EXPONENT, _LARGEST_EXPONENT))
        _scale(self.table, query, factors * (self.total / float(factors @ sums)))
        return True


@compiled
def _sums(table: NDArray[np.float64], query: NDArray[np.int8]) -> NDArray[np.float64]:
    """Sum of the cells where the query is -1, 0 and 1; float64 [3]."""
    sums = np.zeros(3)
    for cell in range(table.size):
        sums[query[cell] + 1] += table[cell]
    return sums


@compiled
def _scale(table: NDArray[np.float64], query: NDArray[np.int8], factors: NDArray[np.float64]) -> None:
    for cell in range(table.size):
        table[cell] *= factors[query[cell] + 1]
