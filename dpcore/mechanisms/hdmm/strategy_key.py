"""Products with their weights, as caches of strategies know them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

import numpy as np
from numpy.typing import NDArray

from dpcore.queries import Products
from dpcore.workload import Workload, relative


@final
@dataclass(frozen=True)
class AskedProducts:
    """What a strategy is chosen for; two are equal where queries and relative weights are.

    digest: Of the queries. weights: Of their terms, parts of the largest.
    """

    digest: str
    weights: tuple[float, ...]
    queries: Products = field(compare=False)

    @classmethod
    def of(cls, queries: Products, workload: Workload) -> AskedProducts:
        """queries: The workload's, or the same over another domain."""
        return cls(queries.digest(), tuple(relative(workload.weights).tolist()), queries)

    @property
    def squared_weights(self) -> NDArray[np.float64]:
        """How much a squared error of each term matters, float64 [terms]."""
        return np.asarray(self.weights, dtype=np.float64) ** 2
