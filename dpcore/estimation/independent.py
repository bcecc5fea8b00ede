"""The product of one-way marginals."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import final

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.domain import BinaryView, Clique, Domain
from dpcore.estimation.linear_answers import answers_of_products
from dpcore.estimation.model import BasketRows, SyntheticRows, TableRows
from dpcore.queries import Marginals, Parities, Products, Queries


@final
@dataclass(frozen=True, eq=False)
class IndependentModel:
    """Attributes (or items) that are independent of each other.

    view: The 0/1 columns.
    chances: float64 [view.columns]; sum to 1 within each one-hot group, each in [0, 1] for baskets.
    total: Number of units.
    domain: Names of the groups of a table; None for baskets.
    """

    view: BinaryView
    chances: NDArray[np.float64]
    total: float
    domain: Domain | None = None

    def answer(self, queries: Queries) -> NDArray[np.float64]:
        if isinstance(queries, Marginals):
            return self.total * np.concatenate([self._joint(queries, clique) for clique in queries.cliques])
        if isinstance(queries, Products):
            return answers_of_products(queries, self.answer)
        groups = self.view.group_of_column()
        if isinstance(queries, Parities):
            return self.total * _parity_chances(queries.columns, self.chances, groups)
        return self.total * _conjunction_chances(queries.columns, queries.negated, self.chances, groups)

    def sample(self, units: int, generator: np.random.Generator) -> SyntheticRows:
        if self.domain is None:
            return self._sample_baskets(units, generator)
        codes = [
            np.minimum(np.searchsorted(np.cumsum(p), generator.random(units), side="right"), p.size - 1)
            for p in self._distributions()
        ]
        return TableRows(self.domain, np.stack(codes, axis=1).astype(np.int32))

    def _distributions(self) -> list[NDArray[np.float64]]:
        return [self.chances[start:stop] for start, stop in self.view.groups]

    def _joint(self, queries: Marginals, clique: Clique) -> NDArray[np.float64]:
        if self.domain is None:
            raise ValueError("marginals of baskets; want conjunctions")
        distributions = self._distributions()
        factors = [distributions[self.domain.index(name)] for name in queries.domain.canonical(clique)]
        return reduce(lambda left, right: np.multiply.outer(left, right).ravel(), factors, np.ones(1))

    def _sample_baskets(self, units: int, generator: np.random.Generator) -> BasketRows:
        """Item by item: how many units hold it, then which."""
        holders = generator.binomial(units, self.chances)
        chosen = [generator.choice(units, size=count, replace=False) for count in holders.tolist()]
        unit = np.concatenate(chosen).astype(np.int32)
        item = np.repeat(np.arange(self.view.columns, dtype=np.int32), holders)
        order = np.lexsort((item, unit))
        return BasketRows(units, unit[order], item[order])


def to_simplex(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The closest probability vector in L2 to values of any sign.

    Source: Duchi et al. (2008), Fig. 1: subtract one threshold, drop what falls below 0.
    """
    values = values - values.max()  # A common shift changes nothing, and large values would lose the 1 below.
    ordered = np.sort(values)[::-1]
    thresholds = (np.cumsum(ordered) - 1) / np.arange(1, len(values) + 1)
    last = np.flatnonzero(ordered > thresholds)[-1]
    projected = np.maximum(values - thresholds[last], 0)
    return np.asarray(projected / projected.sum())


@compiled
def _conjunction_chances(
    columns: NDArray[np.int32], negated: NDArray[np.bool_], chances: NDArray[np.float64], groups: NDArray[np.int32]
) -> NDArray[np.float64]:
    """Chance of each conjunction when groups are independent and hold one column each (or are single columns).

    Within a group the literals together allow its wanted column, if there is exactly one and it is not refused, or
    every column that no literal refuses.
    """
    result = np.ones(columns.shape[0])
    for row in range(columns.shape[0]):
        for first in range(columns.shape[1]):
            group = groups[columns[row, first]]
            wanted, refused, seen = 0, 0.0, False
            kept = 0.0
            for other in range(columns.shape[1]):
                if groups[columns[row, other]] != group:
                    continue
                seen = seen or other < first
                if negated[row, other]:
                    refused += chances[columns[row, other]]
                else:
                    wanted += 1
                    kept = chances[columns[row, other]]
            if seen:
                continue
            if wanted == 0:
                result[row] *= max(0.0, 1.0 - refused)
            elif wanted == 1:
                result[row] *= kept
            else:
                result[row] = 0.0
    return result


@compiled
def _parity_chances(
    columns: NDArray[np.int32], chances: NDArray[np.float64], groups: NDArray[np.int32]
) -> NDArray[np.float64]:
    """Chance that an even number of columns is 1, when groups are independent and hold one column each; -1 is none.

    With x the columns of a record, E prod (1 - 2 x) = 2 chance - 1. At most one of a group's columns is 1, so its
    factor is 1 - 2 (sum of their chances).
    """
    result = np.ones(columns.shape[0])
    for row in range(columns.shape[0]):
        signed = 1.0
        for first in range(columns.shape[1]):
            if columns[row, first] < 0:
                continue
            group, held, seen = groups[columns[row, first]], 0.0, False
            for other in range(columns.shape[1]):
                if columns[row, other] >= 0 and groups[columns[row, other]] == group:
                    seen = seen or other < first
                    held += chances[columns[row, other]]
            if not seen:
                signed *= 1.0 - 2.0 * min(1.0, held)
        result[row] = (1.0 + signed) / 2.0
    return result
