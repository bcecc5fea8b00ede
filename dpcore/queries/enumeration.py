"""All conjunctions of a small view: how many there are, and a list of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain, combinations, product
from math import comb

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import BinaryView


def group_sizes(view: BinaryView, usable: NDArray[np.bool_] | None = None) -> Counter[int]:
    """How many one-hot groups have each number of usable columns; groups without one are left out.

    view: The 0/1 columns. Without groups, every column is a group of its own.
    usable: bool [view.columns]; None for all columns.
    """
    if not view.groups:
        return Counter({1: view.columns if usable is None else int(np.count_nonzero(usable))})
    if usable is None:
        return Counter(stop - start for start, stop in view.groups)
    used = np.add.reduceat(usable, [start for start, _ in view.groups], dtype=np.int64)
    return Counter(used[used > 0].tolist())


def numbers_of_sets(sizes: Mapping[int, int], largest: int) -> list[int]:
    """The numbers of sets of 0, 1, ... ``largest`` columns from different groups, as exact integers.

    These are the elementary symmetric polynomials of the group sizes.

    sizes: How many groups have each size.
    """
    numbers = [1] + [0] * largest
    for size, groups in sizes.items():
        powers = [comb(groups, degree) * size**degree for degree in range(min(groups, largest) + 1)]
        numbers = [
            sum(powers[degree] * numbers[total - degree] for degree in range(min(len(powers), total + 1)))
            for total in range(largest + 1)
        ]
    return numbers


def number_of_conjunctions(
    view: BinaryView, order: int, *, usable: NDArray[np.bool_] | None = None, negate: bool = False
) -> int:
    """The number of different conjunctions of ``order`` literals from different groups, without listing any.

    usable: The columns that may be named, bool [view.columns]; None for all.
    negate: Whether each literal may be negated.
    """
    return numbers_of_sets(group_sizes(view, usable), order)[order] << (order if negate else 0)


def all_conjunctions(view: BinaryView, order: int, usable: NDArray[np.bool_], *, negate: bool) -> NDArray[np.int32]:
    """Every conjunction of ``order`` literals, coded as 2 * column + negated: int32 [conjunctions, order].

    The arguments are those of ``number_of_conjunctions``. Columns ascend within a row.
    """
    columns = np.fromiter(chain.from_iterable(_sets(view, order, usable)), np.int32).reshape(-1, order)
    if not negate:
        return 2 * columns
    signs = (np.arange(1 << order)[:, None] >> np.arange(order)) & 1
    return (2 * columns[:, None, :] + signs.astype(np.int32)).reshape(-1, order)


def _sets(view: BinaryView, order: int, usable: NDArray[np.bool_]) -> Iterator[tuple[int, ...]]:
    columns = np.flatnonzero(usable)
    if not view.groups:
        yield from combinations(columns.tolist(), order)
        return
    by_group = [columns[(columns >= start) & (columns < stop)].tolist() for start, stop in view.groups]
    for chosen in combinations([group for group in by_group if group], order):
        yield from product(*chosen)
