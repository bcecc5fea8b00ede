"""Random conjunctions and parities, chosen from public facts only: never from exact counts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.domain import BinaryView
from dpcore.queries.conjunctions import Conjunctions
from dpcore.queries.distinct import DistinctRows
from dpcore.queries.parities import LARGEST_ORDER, NONE, Parities

_ROUNDS = 200
_DENSE = 1 << 22  # Sets of one order that are listed where half of them or more are wanted.


def random_conjunctions(
    view: BinaryView,
    count: int,
    order: int,
    generator: np.random.Generator,
    *,
    weights: NDArray[np.float64] | None = None,
    negate: bool = False,
) -> Conjunctions:
    """Distinct conjunctions of ``order`` literals, no two of them in one one-hot group.

    weights: float64 [view.columns], how often a column is proposed; None for uniform. Public or already noisy.
    negate: Negates each literal with probability 1/2.

    Raises ValueError when the view has fewer than ``count`` different conjunctions that such draws reach.
    """
    groups = view.group_of_column()
    chance = None if weights is None else _chances(weights, view)
    usable = groups.size if chance is None else int(np.count_nonzero(chance))
    if order < 1 or order > len(np.unique(groups if chance is None else groups[chance > 0])):
        raise ValueError(f"order {order} over {usable} usable columns; want 1 .. the number of usable groups")
    found = DistinctRows(count, order)
    for _ in range(_ROUNDS):
        wanted = count - len(found)
        if wanted <= 0:
            break
        drawn = generator.choice(view.columns, size=(wanted + wanted // 8 + 16, order), p=chance)
        legal = _legal(drawn.astype(np.int32), groups)
        signs = generator.integers(0, 2, size=legal.shape) if negate else 0
        # A literal is 2 * column + sign, so that one row of integers names a conjunction.
        found.offer(np.asarray(2 * legal + signs, dtype=np.int32))
    if len(found) < count:
        raise ValueError(f"only {len(found)} distinct conjunctions of order {order} were found; want count <= that")
    return Conjunctions(view, found.rows >> 1, (found.rows & 1).astype(np.bool_))


def random_parities(view: BinaryView, count: int, order: int, generator: np.random.Generator) -> Parities:
    """Distinct parities of 1 to ``order`` columns, no two of them in one one-hot group.

    Each number of columns comes in proportion to the parities of so many columns that ``all_parities`` would list.

    Raises ValueError when there are fewer than ``count``.
    """
    columns, available = _telling_columns(view), parity_counts(view, order)
    total = sum(available)
    if not 1 <= count <= total:
        raise ValueError(f"{count} parities of at most {order} columns; want 1 .. {total}")
    parts = [count * sets // total for sets in available]
    for place in sorted(range(order), key=lambda place: parts[place] - available[place]):
        parts[place] = min(available[place], parts[place] + count - sum(parts))  # What rounding down left over.
    drawn = [
        _random_sets(view, columns, part, size, sets, generator)
        for size, (part, sets) in enumerate(zip(parts, available, strict=True), 1)
        if part
    ]
    return Parities(view, _stacked(drawn, order))


def all_parities(view: BinaryView, order: int) -> Parities:
    """Every parity of 1 to ``order`` columns, no two of them in one one-hot group, short ones first.

    An attribute of two values is one 0/1 column, that of its second value: the parities of its first are complements of
    those. An attribute of one value has none.

    Raises ValueError for an order that is not 1, 2 or 3, or has no parities.
    """
    if not sum(parity_counts(view, order)):
        raise ValueError("every attribute has one value; want a column that tells rows apart")
    columns = _telling_columns(view)
    return Parities(view, _stacked([_all_sets(view, columns, size) for size in range(1, order + 1)], order))


def parity_counts(view: BinaryView, order: int) -> tuple[int, ...]:
    """How many parities of 1, 2, ... ``order`` columns ``all_parities`` lists, without listing them."""
    if not 1 <= order <= LARGEST_ORDER:
        raise ValueError(f"order {order}; want parities of 1 .. {LARGEST_ORDER} columns")
    if view.groups:
        sizes = np.bincount(view.group_of_column()[_telling_columns(view)], minlength=1).tolist()
        first, second, third = (sum(size**power for size in sizes) for power in (1, 2, 3))
    else:
        first = second = third = view.columns
    # Elementary symmetric polynomials of the sizes from their power sums (Newton's identities).
    sums = (first, (first**2 - second) // 2, (first**3 - 3 * first * second + 2 * third) // 6)
    return sums[:order]


def _chances(weights: NDArray[np.float64], view: BinaryView) -> NDArray[np.float64]:
    if weights.shape != (view.columns,) or not np.isfinite(weights).all() or weights.min() < 0 or weights.sum() <= 0:
        raise ValueError(f"weights of shape {weights.shape}; want {view.columns} finite numbers >= 0, not all 0")
    return np.asarray(weights / weights.sum())


def _telling_columns(view: BinaryView) -> NDArray[np.int32]:
    """Columns whose parities say something that those of other columns do not, ascending."""
    kept = np.ones(view.columns, dtype=np.bool_)
    for start, stop in view.groups:
        if stop - start <= 2:
            kept[start] = False
    return np.flatnonzero(kept).astype(np.int32)


def _random_sets(
    view: BinaryView, columns: NDArray[np.int32], count: int, size: int, available: int, generator: np.random.Generator
) -> NDArray[np.int32]:
    """``count`` distinct sets of ``size`` columns from different groups, int32 [count, size]; all are as likely."""
    if 2 * count > available:
        chosen = generator.choice(available, size=count, replace=False)
        return _all_sets(view, columns, size)[chosen]
    found, groups = DistinctRows(count, size), view.group_of_column()
    while len(found) < count:  # At least half of all sets are new in each draw.
        wanted = count - len(found)
        drawn = generator.choice(columns, size=(wanted + wanted // 8 + 16, size))
        found.offer(_legal(drawn, groups))
    return found.rows


def _all_sets(view: BinaryView, columns: NDArray[np.int32], size: int) -> NDArray[np.int32]:
    """Every set of ``size`` columns from different groups, in lexicographic order, int32 [sets, size]."""
    groups = view.group_of_column()[columns]
    first_behind = np.searchsorted(groups, groups, side="right")  # Of the next groups.
    places = np.arange(columns.size)[:, None]
    for _ in range(size - 1):
        starts = first_behind[places[:, -1]]
        behind = columns.size - starts
        within = np.arange(behind.sum()) - np.repeat(np.cumsum(behind) - behind, behind)
        places = np.column_stack([np.repeat(places, behind, axis=0), np.repeat(starts, behind) + within])
    return columns[places]


def _stacked(parts: list[NDArray[np.int32]], width: int) -> NDArray[np.int32]:
    """Sets of several sizes as rows of one width."""
    return np.concatenate([np.pad(part, ((0, 0), (0, width - part.shape[1])), constant_values=NONE) for part in parts])


@compiled
def _legal(drawn: NDArray[np.int32], groups: NDArray[np.int32]) -> NDArray[np.int32]:
    """The rows whose columns lie in different groups, each ascending; in their order."""
    kept = np.empty_like(drawn)
    found = 0
    for row in range(drawn.shape[0]):
        legal = True
        for place in range(drawn.shape[1]):
            column, behind = drawn[row, place], place
            for other in range(place):
                legal = legal and groups[drawn[row, other]] != groups[column]
            while behind > 0 and kept[found, behind - 1] > column:
                kept[found, behind] = kept[found, behind - 1]
                behind -= 1
            kept[found, behind] = column
        found += legal
    return kept[:found].copy()
