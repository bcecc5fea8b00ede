"""The only door to exact aggregates. SENSITIVE: for the kernel, offline evaluation and the pipelines."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpcore.queries import CountingQueries, UnitQueries


class Shape(StrEnum):
    """TABLE: rows over a categorical domain. BASKETS: (unit, item) pairs, one set of items a unit."""

    TABLE = "table"
    BASKETS = "baskets"


@dataclass(frozen=True)
class Contribution:
    """What one unit can hold, public, and enforced by the pipeline before anything is counted.

    bound: Rows a unit of a table, or distinct items a unit of baskets.
    """

    shape: Shape
    bound: int

    def __post_init__(self) -> None:
        if self.bound < 1:
            raise ValueError(f"a unit's contribution is bounded by {self.bound}; want >= 1")


@dataclass(frozen=True)
class QueryAnswers:
    """Exact answers of a batch of linear queries: how many rows (table) or units (baskets) satisfy each."""

    queries: CountingQueries


Request = QueryAnswers | UnitQueries


class Statistics(Protocol):
    """Exact aggregates of one dataset whose units are whole and bounded. SENSITIVE.

    Contract, checked for every engine by tests/contract:
        * ``aggregate`` gives int64 [size of the request], non-negative, the same bits on every engine and for every
          layout of the same rows in files;
        * adding one unit moves no answer by more than ``contribution`` allows, whatever that unit holds;
        * it never fails because of what a unit holds; it raises IntegrityError where counts that it merges cannot be
          those of units within their contribution;
        * queries over other attributes or columns than the data's raise ConfigError: the kernel takes the one-hot
          groups of a sensitivity from the queries.
    """

    @property
    def contribution(self) -> Contribution: ...

    def aggregate(self, request: Request) -> NDArray[np.int64]: ...
