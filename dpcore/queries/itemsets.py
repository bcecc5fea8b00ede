"""The request for frequent itemsets, whose queries a mechanism chooses, and conjunctions of itemsets."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import BinaryView
from dpcore.queries.conjunctions import Conjunctions

LARGEST_LISTED: Final = 1_000_000
"""Maximum number of itemsets of each size that a release lists."""

ORDERS: Final = (2, 3)
"""The largest sizes of itemsets that can be asked for."""


@dataclass(frozen=True)
class Itemsets:
    """The frequent itemsets of baskets, of each size from 1 to ``order``. Which they are is part of the answer.

    view: The items.
    order: Largest number of items of an itemset, 2 or 3.
    top: How many itemsets of each size are wanted, the most frequent ones; None with ``min_support``.
    min_support: Fraction of the units, in (0, 1), that a wanted itemset has at least; None with ``top``. At most
        ``LARGEST_LISTED`` itemsets of each size are listed.

    Raises ValueError for another order, for a table, for fewer items than the order, and unless exactly one of ``top``
    and ``min_support`` is given, within its range.
    """

    view: BinaryView
    order: int
    top: int | None = None
    min_support: Fraction | None = None

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise ValueError(f"itemsets of order {self.order}; want 2 or 3")
        if self.view.groups:
            raise ValueError("itemsets of a table; want baskets")
        if self.view.columns < self.order:
            raise ValueError(f"itemsets of order {self.order} of {self.view.columns} items; want more items")
        if (self.top is None) == (self.min_support is None):
            raise ValueError("itemsets by top and min_support, or by neither; want one of them")
        if self.top is not None and not 1 <= self.top <= LARGEST_LISTED:
            raise ValueError(f"top is {self.top:,}; want 1 .. {LARGEST_LISTED:,}")
        if self.min_support is not None and not 0 < self.min_support < 1:
            raise ValueError(f"min_support is {float(self.min_support):g}; want a fraction of the units in (0, 1)")

    @property
    def max_listed(self) -> int:
        """Maximum number of itemsets of each size that are listed."""
        return LARGEST_LISTED if self.top is None else self.top

    @property
    def size(self) -> int:
        """Maximum number of answers."""
        return sum(min(self.max_listed, math.comb(self.view.columns, size)) for size in range(1, self.order + 1))

    @property
    def description(self) -> str:
        """A short description for plans and certificates."""
        sizes = "items and pairs" if self.order == 2 else "items, pairs and triples"
        if self.top is not None:
            return f"the {self.top:,} most frequent {sizes} each"
        return f"{sizes} of a support of {float(self.min_support or 0):g} or more"

    def digest(self) -> str:
        """A digest of the request."""
        limits = [self.top, None if self.min_support is None else str(self.min_support)]
        return hashlib.sha256(json.dumps(["itemsets", self.view.columns, self.order, *limits]).encode()).hexdigest()


def all_pairs(items: NDArray[np.int32]) -> NDArray[np.int32]:
    """All pairs of the items in lexicographic order, int32 [pairs, 2]; ``items`` is ascending and has at least two."""
    first = np.repeat(items, np.arange(items.size - 1, -1, -1))
    second = np.concatenate([items[start:] for start in range(1, items.size)])
    return np.stack([first, second], axis=1)


def positive(view: BinaryView, columns: NDArray[np.int32]) -> Conjunctions:
    """The conjunctions that say that a unit holds all items of an itemset; ``columns`` is int32 [m, size]."""
    return Conjunctions(view, columns, np.zeros(columns.shape, dtype=np.bool_))
