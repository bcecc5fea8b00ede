"""The model of independent attributes: the product of one-way marginals."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import final

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.domain import BinaryView, Clique, Domain
from dpcore.estimation.graphical.sampling.rounded_tables import RoundedTables
from dpcore.estimation.linear_answers import answers_of_products
from dpcore.estimation.model import BasketRows, SyntheticRows, TableRows
from dpcore.estimation.rounded_items import RoundedItems, dealt_items
from dpcore.queries import Marginals, Parities, Products, Queries


@final
@dataclass(frozen=True, eq=False)
class IndependentModel:
    """A distribution in which all attributes (or all items of baskets) are independent. Implements Model.

    view: The 0/1 columns.
    probabilities: float64 [view.columns], the probability that each column is 1. For a table they sum to 1 within each
        one-hot group; for baskets each is in [0, 1].
    total: The number of units.
    domain: The attributes of a table, one per one-hot group; None for baskets.
    """

    view: BinaryView
    probabilities: NDArray[np.float64]
    total: float
    domain: Domain | None = None

    def answer(self, queries: Queries) -> NDArray[np.float64]:
        """Expected counts, float64 [queries.size]; see ``Model``. Raises ValueError for marginals of baskets."""
        if isinstance(queries, Marginals):
            return self.total * np.concatenate([self._joint(queries, clique) for clique in queries.cliques])
        if isinstance(queries, Products):
            return answers_of_products(queries, self.answer)
        groups = self.view.group_of_column()
        if isinstance(queries, Parities):
            return self.total * _parity_probabilities(queries.columns, self.probabilities, groups)
        literals = queries.columns, queries.negated, queries.orders
        return self.total * _conjunction_probabilities(*literals, self.probabilities, groups)

    def sample(self, units: int, generator: np.random.Generator) -> SyntheticRows:
        """Independent rows of a table, or independent baskets; see ``Model``."""
        if self.domain is None:
            return self._sample_baskets(units, generator)
        codes = [
            np.minimum(np.searchsorted(np.cumsum(p), generator.random(units), side="right"), p.size - 1)
            for p in self._distributions()
        ]
        return TableRows(self.domain, np.stack(codes, axis=1).astype(np.int32))

    def rounded(self, units: int, generator: np.random.Generator) -> RoundedTables | RoundedItems:
        """The counts of each attribute's values, or of the units that hold each item; see ``Model``."""
        if self.domain is None:
            return RoundedItems.of(self.probabilities, units, generator)
        factors = [((name,), p) for name, p in zip(self.domain.names, self._distributions(), strict=True)]
        return RoundedTables.of_product(self.domain, factors, units, generator)

    def _distributions(self) -> list[NDArray[np.float64]]:
        return [self.probabilities[start:stop] for start, stop in self.view.groups]

    def _joint(self, queries: Marginals, clique: Clique) -> NDArray[np.float64]:
        if self.domain is None:
            raise ValueError("marginals of baskets; want conjunctions")
        distributions = self._distributions()
        factors = [distributions[self.domain.index(name)] for name in queries.domain.canonical(clique)]
        return reduce(lambda left, right: np.multiply.outer(left, right).ravel(), factors, np.ones(1))

    def _sample_baskets(self, units: int, generator: np.random.Generator) -> BasketRows:
        """Draws, for each item, how many units hold it, and then which units."""
        return dealt_items(units, generator.binomial(units, self.probabilities), generator)


def to_simplex(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The Euclidean projection onto the probability simplex: float64 [n].

    values: float64 [n], n >= 1, of any sign.

    One threshold is subtracted from all values, and negative results become 0.

    Source: Duchi et al. (2008), Fig. 1.
    """
    # A shift does not change the projection, and next to large values the 1 below would be lost to rounding.
    values = values - values.max()
    ordered = np.sort(values)[::-1]
    thresholds = (np.cumsum(ordered) - 1) / np.arange(1, len(values) + 1)
    last_positive = np.flatnonzero(ordered > thresholds)[-1]
    projected = np.maximum(values - thresholds[last_positive], 0)
    return np.asarray(projected / projected.sum())


@compiled
def _conjunction_probabilities(
    columns: NDArray[np.int32],
    negated: NDArray[np.bool_],
    orders: NDArray[np.int64],
    probabilities: NDArray[np.float64],
    groups: NDArray[np.int32],
) -> NDArray[np.float64]:
    """The probability of each conjunction, for independent groups that are one-hot or a single column.

    orders: int64 [m], how many literals of each row count; the others repeat the last of these.

    Within a group, exactly one positive literal has the probability of its column. Without a positive literal, the
    probability is 1 minus that of the negated columns. Two positive literals contradict each other.
    """
    result = np.ones(columns.shape[0])
    for row in range(columns.shape[0]):
        for first in range(orders[row]):
            group = groups[columns[row, first]]
            positive_literals, negated_probability, seen = 0, 0.0, False
            positive_probability = 0.0
            for second in range(orders[row]):
                if groups[columns[row, second]] != group:
                    continue
                seen = seen or second < first
                if negated[row, second]:
                    negated_probability += probabilities[columns[row, second]]
                else:
                    positive_literals += 1
                    positive_probability = probabilities[columns[row, second]]
            if seen:
                continue
            if positive_literals == 0:
                result[row] *= max(0.0, 1.0 - negated_probability)
            elif positive_literals == 1:
                result[row] *= positive_probability
            else:
                result[row] = 0.0
    return result


@compiled
def _parity_probabilities(
    columns: NDArray[np.int32], probabilities: NDArray[np.float64], groups: NDArray[np.int32]
) -> NDArray[np.float64]:
    """The probability that an even number of a parity's columns is 1, for independent groups; -1 is padding.

    For the columns x of a record, E prod (1 - 2 x) = 2 probability - 1. At most one column of a group is 1, so the
    factor of a group is 1 - 2 (sum of its columns' probabilities).
    """
    result = np.ones(columns.shape[0])
    for row in range(columns.shape[0]):
        expected_sign = 1.0
        for first in range(columns.shape[1]):
            if columns[row, first] < 0:
                continue
            group, group_probability, seen = groups[columns[row, first]], 0.0, False
            for second in range(columns.shape[1]):
                if columns[row, second] >= 0 and groups[columns[row, second]] == group:
                    seen = seen or second < first
                    group_probability += probabilities[columns[row, second]]
            if not seen:
                expected_sign *= 1.0 - 2.0 * min(1.0, group_probability)
        result[row] = (1.0 + expected_sign) / 2.0
    return result
