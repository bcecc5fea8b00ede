"""The only interface to exact aggregates. SENSITIVE: only the kernel, offline evaluation and pipelines may use it."""

from __future__ import annotations

from dataclasses import dataclass, field
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


@dataclass(frozen=True, eq=False)
class NamedSums:
    """Weighted sums of items, each with its name. SENSITIVE.

    data: The names as UTF-8, one after the other, uint8 [bytes].
    offsets: Start of each name in ``data``, followed by the number of bytes, int64 [items + 1].
    sums: Sum of each item, int64 [items], positive. Each item occurs once.
    units: Number of units with at least one item.
    """

    data: NDArray[np.uint8] = field(repr=False)
    offsets: NDArray[np.int64] = field(repr=False)
    sums: NDArray[np.int64] = field(repr=False)
    units: int = field(repr=False)

    def name(self, item: int) -> bytes:
        """The name of an item."""
        return self.data[self.offsets[item] : self.offsets[item + 1]].tobytes()


class ItemStatistics(Protocol):
    """Exact sums of the items of baskets, whatever their names are.

    SENSITIVE. Contract, checked for every engine by tests/contract:
        * A unit keeps at most ``contribution.bound`` distinct items. If it keeps k, it adds ``weights[k]`` to the sum
          of each of them, and nothing to others. Which it keeps depends on its own rows and on a secret alone.
        * Every item that a unit keeps is in exactly one part. The number of parts follows from the number of
          rows, so that nothing visible may tell it.
        * The sums are bit by bit the same on every engine and for every layout of the same rows in files.
    """

    @property
    def contribution(self) -> Contribution:
        """The bound on what one unit holds, which these sums enforce."""
        ...

    @property
    def item_parts(self) -> int:
        """Number of parts of the items, so that each fits in memory."""
        ...

    def item_sums(self, weights: NDArray[np.int64], part: int, excluded: tuple[bytes, ...] = ()) -> NamedSums:
        """The sums of the items of one part. SENSITIVE.

        weights: Weight by the number of distinct items of a unit, int64 [bound + 1].
        part: Number of the part, from 0.
        excluded: Names of items that are left out before a unit is truncated, as if nobody had them.
        """
        ...
