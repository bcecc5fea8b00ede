"""The cache key of a strategy for products: the queries and the relative weights of their terms."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

import numpy as np
from numpy.typing import NDArray

from dpcore.queries import Products
from dpcore.workload import Workload, relative


@final
@dataclass(frozen=True)
class ProductsKey:
    """Products with relative weights. Two keys are equal if their queries and their relative weights are equal.

    digest: Digest of the queries.
    weights: The weight of each term, divided by the largest weight.
    queries: The queries themselves, which equality and hash ignore.
    """

    digest: str
    weights: tuple[float, ...]
    queries: Products = field(compare=False)

    @classmethod
    def of(cls, queries: Products, workload: Workload) -> ProductsKey:
        """The key of the workload's queries, or of the same queries over another domain."""
        return cls(queries.digest(), tuple(relative(workload.weights).tolist()), queries)

    @property
    def squared_weights(self) -> NDArray[np.float64]:
        """The weight of the squared error of each term, float64 [terms]."""
        return np.asarray(self.weights, dtype=np.float64) ** 2
