"""Random conjunctions of several orders, chosen from public facts alone, never from exact counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import BinaryView
from dpcore.queries.conjunctions import Conjunctions
from dpcore.queries.enumeration import number_of_conjunctions
from dpcore.queries.generation import random_conjunctions


def random_mixed_conjunctions(
    view: BinaryView,
    count: int,
    orders: Sequence[int],
    generator: np.random.Generator,
    *,
    weights: NDArray[np.float64] | None = None,
    negate: bool = False,
) -> Conjunctions:
    """Distinct random conjunctions of several orders, low orders first.

    view: The 0/1 columns.
    count: The number of conjunctions of all orders together. ``counts_by_order`` divides it. If fewer exist, all of
        them are taken.
    orders: Distinct numbers of literals.
    generator: The source of randomness, which need not be secret.
    weights: float64 [view.columns], relative frequencies with which columns are proposed, public or already noisy. By
        default all columns are equally likely.
    negate: Whether to negate each literal with probability 1/2.

    Raises ValueError if the weights propose too few different conjunctions.
    """
    ascending = sorted(orders)
    usable = np.ones(view.columns, dtype=np.bool_) if weights is None else weights > 0
    usable[[start for start, stop in view.groups if stop - start == 1]] = False
    existing = [number_of_conjunctions(view, order, usable=usable, negate=negate) for order in ascending]
    shares = counts_by_order(min(count, sum(existing)), existing)
    return Conjunctions.joined(
        [
            random_conjunctions(view, share, order, generator, weights=weights, negate=negate)
            for share, order in zip(shares, ascending, strict=True)
            if share
        ]
    )


def counts_by_order(count: int, available: Sequence[int]) -> list[int]:
    """How many conjunctions of each order are chosen: equally many, as far as so many exist.

    count: The number of conjunctions of all orders together; at most as many as exist.
    available: The number of distinct conjunctions of each order.

    An order with too few gets all of them, and the others share the rest equally.
    """
    parts, rest = [0] * len(available), count
    for rank, index in enumerate(sorted(range(len(available)), key=available.__getitem__)):
        parts[index] = min(available[index], rest // (len(available) - rank))
        rest -= parts[index]
    return parts
