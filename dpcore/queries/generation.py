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

    An attribute of one value is never named: a literal would always hold, or never.

    Raises ValueError when the view has fewer than ``count`` different conjunctions that such draws reach.
    """
    groups = view.group_of_column()
    chance = _chances(weights, view)
    usable = groups.size if chance is None else int(np.count_nonzero(chance))
    if order < 1 or order > len(np.unique(groups if chance is None else groups[chance > 0])):
        raise ValueError(f"order {order} over {usable} usable columns; want 1 .. the number of usable groups")
    rows = DistinctRows(count, order)
    for _ in range(_ROUNDS):
        wanted = count - len(rows)
        if wanted <= 0:
            break
        drawn = generator.choice(view.columns, size=(wanted + wanted // 8 + 16, order), p=chance)
        legal = _legal(drawn.astype(np.int32), groups)
        signs = generator.integers(0, 2, size=legal.shape) if negate else 0
        # A literal is 2 * column + sign, so that one row of integers names a conjunction.
        rows.offer(np.asarray(2 * legal + signs, dtype=np.int32))
    if len(rows) < count:
        raise ValueError(f"only {len(rows)} distinct conjunctions of order {order} were found; want count <= that")
    return Conjunctions(view, rows.rows >> 1, (rows.rows & 1).astype(np.bool_))


def random_parities(
    view: BinaryView,
    count: int,
    order: int,
    generator: np.random.Generator,
    columns: NDArray[np.integer] | None = None,
) -> Parities:
    """Distinct parities of 1 to ``order`` columns, no two of them in one one-hot group.

    Each number of columns comes in proportion to the parities of so many columns that ``all_parities`` would list.

    columns: Those that may be named; None for all.

    Raises ValueError when there are fewer than ``count``.
    """
    columns, available = _telling_columns(view, columns), parity_counts(view, order, columns)
    total = sum(available)
    if not 1 <= count <= total:
        raise ValueError(f"{count} parities of at most {order} columns; want 1 .. {total}")
    parts = [count * sets // total for sets in available]
    for index in sorted(range(order), key=lambda index: parts[index] - available[index]):
        parts[index] = min(available[index], parts[index] + count - sum(parts))  # What rounding down left over.
    drawn = [
        _random_sets(view, columns, part, size, sets, generator)
        for size, (part, sets) in enumerate(zip(parts, available, strict=True), 1)
        if part
    ]
    return Parities(view, _stacked(drawn, order))


def all_parities(view: BinaryView, order: int, columns: NDArray[np.integer] | None = None) -> Parities:
    """Every parity of 1 to ``order`` columns, no two of them in one one-hot group, short ones first.

    An attribute of two values is one 0/1 column, that of its second value: the parities of its first are complements of
    those. An attribute of one value has none.

    columns: Those that may be named; None for all.

    Raises ValueError for an order that is not 1, 2 or 3, or has no parities.
    """
    available = parity_counts(view, order, columns)
    if not sum(available):
        raise ValueError("every attribute has one value; want a column that tells rows apart")
    columns = _telling_columns(view, columns)
    listed = [_all_sets(view, columns, size, sets) for size, sets in enumerate(available, 1)]
    return Parities(view, _stacked(listed, order))


def parity_counts(view: BinaryView, order: int, columns: NDArray[np.integer] | None = None) -> tuple[int, ...]:
    """How many parities of 1, 2, ... ``order`` columns ``all_parities`` lists, without listing them."""
    if not 1 <= order <= LARGEST_ORDER:
        raise ValueError(f"order {order}; want parities of 1 .. {LARGEST_ORDER} columns")
    sizes, times = np.unique(_in_each_group(view, _telling_columns(view, columns)), return_counts=True)
    pairs = list(zip(sizes.tolist(), times.tolist(), strict=True))
    first, second, third = (sum(often * size**power for size, often in pairs) for power in (1, 2, 3))
    # Elementary symmetric polynomials of the sizes from their power sums (Newton's identities).
    sums = (first, (first**2 - second) // 2, (first**3 - 3 * first * second + 2 * third) // 6)
    return sums[:order]


def _chances(weights: NDArray[np.float64] | None, view: BinaryView) -> NDArray[np.float64] | None:
    """How often each column is proposed, None for all alike; never the one value of an attribute that has no other."""
    constant = [start for start, stop in view.groups if stop - start == 1]
    if weights is None and not constant:
        return None
    if weights is None:
        weights = np.ones(view.columns)
    elif weights.shape != (view.columns,) or not np.isfinite(weights).all() or weights.min() < 0 or weights.sum() <= 0:
        raise ValueError(f"weights of shape {weights.shape}; want {view.columns} finite numbers >= 0, not all 0")
    weights = weights.copy()
    weights[constant] = 0.0
    if not weights.any():
        raise ValueError("every attribute with a weight has one value; want one that tells rows apart")
    return np.asarray(weights / weights.sum())


def _telling_columns(view: BinaryView, columns: NDArray[np.integer] | None) -> NDArray[np.int32]:
    """Those of the columns whose parities say something that parities of others do not, ascending."""
    kept = np.ones(view.columns, dtype=np.bool_)
    for start, stop in view.groups:
        if stop - start <= 2:
            kept[start] = False
    telling = np.flatnonzero(kept)
    return (telling if columns is None else np.intersect1d(telling, columns)).astype(np.int32)


def _in_each_group(view: BinaryView, columns: NDArray[np.int32]) -> NDArray[np.int64]:
    """How many of the columns lie in each group that has some."""
    return np.asarray(np.unique(view.group_of_column()[columns], return_counts=True)[1], dtype=np.int64)


def _random_sets(
    view: BinaryView, columns: NDArray[np.int32], count: int, size: int, available: int, generator: np.random.Generator
) -> NDArray[np.int32]:
    """``count`` distinct sets of ``size`` columns from different groups, int32 [count, size]; all are as likely."""
    if 2 * count > available:
        chosen = generator.choice(available, size=count, replace=False)
        return _all_sets(view, columns, size, available)[chosen]
    rows, groups = DistinctRows(count, size), view.group_of_column()
    while len(rows) < count:  # At least half of all sets are new in each draw.
        wanted = count - len(rows)
        drawn = generator.choice(columns, size=(wanted + wanted // 8 + 16, size))
        rows.offer(_legal(drawn, groups))
    return rows.rows


def _all_sets(view: BinaryView, columns: NDArray[np.int32], size: int, available: int) -> NDArray[np.int32]:
    """Every set of ``size`` columns from different groups, in lexicographic order, int32 [available, size]."""
    groups = view.group_of_column()[columns]
    sets = np.empty((available, size), dtype=np.int32)
    _list_sets(sets, columns, np.searchsorted(groups, groups, side="right"))
    return sets


def _stacked(parts: list[NDArray[np.int32]], width: int) -> NDArray[np.int32]:
    """Sets of several sizes as rows of one width."""
    return np.concatenate([np.pad(part, ((0, 0), (0, width - part.shape[1])), constant_values=NONE) for part in parts])


@compiled
def _legal(drawn: NDArray[np.int32], groups: NDArray[np.int32]) -> NDArray[np.int32]:
    """The rows whose columns lie in different groups, each ascending; in their order."""
    kept = np.empty_like(drawn)
    rows = 0
    for row in range(drawn.shape[0]):
        legal = True
        for index in range(drawn.shape[1]):
            column, behind = drawn[row, index], index
            for earlier in range(index):
                legal = legal and groups[drawn[row, earlier]] != groups[column]
            while behind > 0 and kept[rows, behind - 1] > column:
                kept[rows, behind] = kept[rows, behind - 1]
                behind -= 1
            kept[rows, behind] = column
        rows += legal
    return kept[:rows].copy()


@compiled
def _list_sets(sets: NDArray[np.int32], columns: NDArray[np.int32], first_behind: NDArray[np.int64]) -> None:
    """Fills ``sets``, int32 [sets, 1 to 3]. first_behind: For each column the place where the next groups start."""
    size, row = sets.shape[1], 0
    for first in range(columns.size):
        if size == 1:
            sets[row, 0] = columns[first]
            row += 1
            continue
        for second in range(first_behind[first], columns.size):
            if size == 2:
                sets[row, 0], sets[row, 1] = columns[first], columns[second]
                row += 1
                continue
            for third in range(first_behind[second], columns.size):
                sets[row, 0], sets[row, 1], sets[row, 2] = columns[first], columns[second], columns[third]
                row += 1
