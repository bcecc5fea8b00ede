"""What every estimator ends in: a public model that answers queries and yields rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.queries import Queries


@dataclass(frozen=True, eq=False)
class TableRows:
    """Synthetic rows of a table.

    codes: int32 [rows, attributes], in the order of ``domain``.
    """

    domain: Domain
    codes: NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class BasketRows:
    """Synthetic baskets as pairs.

    units: Number of baskets; some may be empty.
    unit, item: int32 [pairs]; ``unit`` ascends from 0.
    """

    units: int
    unit: NDArray[np.int32]
    item: NDArray[np.int32]


SyntheticRows = TableRows | BasketRows


class Model(Protocol):
    """A public distribution over records, scaled to a number of units. Everything it gives is post-processing.

    Contract, checked for every model by tests/contract:
        * ``answer(q)`` has shape (q.size,), is finite and non-negative, and lies within [0, total] where q counts;
        * the answers of overlapping marginals agree, and those of products are linear in them;
        * frequencies in ``sample(n, generator)`` approach ``answer / total``; one generator state gives one sample.
    """

    @property
    def total(self) -> float:
        """Number of units that the model stands for."""
        ...

    def answer(self, queries: Queries) -> NDArray[np.float64]:
        """Expected counts, float64 [queries.size]."""
        ...

    def sample(self, units: int, generator: np.random.Generator) -> SyntheticRows:
        """Rows of ``units`` synthetic units."""
        ...
