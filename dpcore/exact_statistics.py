"""The only interface to exact aggregates. SENSITIVE: only the kernel, offline evaluation and pipelines may use it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpcore.queries import CountingQueries, UnitQueries


class Shape(StrEnum):
    """The shape of a dataset.

    TABLE: Rows over a categorical domain; a unit holds one or more rows.
    BASKETS: (unit, item) pairs; a unit holds one set of items.
    """

    TABLE = "table"
    BASKETS = "baskets"


@dataclass(frozen=True)
class Contribution:
    """The public bound on what one unit holds. The pipeline enforces it before anything is counted.

    shape: The shape of the dataset.
    bound: Maximum number of rows per unit of a table, or of distinct items per unit of baskets; at least 1.

    Raises ValueError for a bound below 1.
    """

    shape: Shape
    bound: int

    def __post_init__(self) -> None:
        if self.bound < 1:
            raise ValueError(f"a unit's contribution is bounded by {self.bound}; want >= 1")


@dataclass(frozen=True)
class QueryAnswers:
    """Request for the number of rows (tables) or units (baskets) that satisfy each of a batch of queries."""

    queries: CountingQueries


Request = QueryAnswers | UnitQueries


class Statistics(Protocol):
    """Exact aggregates of one dataset, in which all data of a unit are together and truncated to its contribution.

    SENSITIVE. Contract, checked for every engine by tests/contract:
        * ``aggregate`` returns int64 [size of the request], non-negative, and bit by bit the same on every engine and
          for every layout of the same rows in files.
        * Adding one unit moves no answer by more than ``contribution`` allows, whatever the unit holds.
        * The values of a unit never cause a failure. IntegrityError is raised when merged counts cannot come from units
          within their contribution.
        * Queries over attributes or columns that the data do not have raise ConfigError. This matters for privacy,
          because the kernel takes the one-hot groups of a sensitivity from the queries.
    """

    @property
    def contribution(self) -> Contribution:
        """The bound on what one unit holds, which these aggregates enforce."""
        ...

    def aggregate(self, request: Request) -> NDArray[np.int64]:
        """The exact answers to a request, int64 [size of the request]. SENSITIVE."""
        ...
