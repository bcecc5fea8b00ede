"""Random conjunctions and parities, chosen from public facts alone, never from exact counts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.domain import BinaryView
from dpcore.queries.conjunctions import Conjunctions
from dpcore.queries.distinct import DistinctRows
from dpcore.queries.enumeration import all_conjunctions, group_sizes, number_of_conjunctions
from dpcore.queries.parities import LARGEST_ORDER, NONE, Parities

_ROUNDS = 200  # Maximum number of batches of random proposals.


def random_conjunctions(
    view: BinaryView,
    count: int,
    order: int,
    generator: np.random.Generator,
    *,
    weights: NDArray[np.float64] | None = None,
    negate: bool = False,
) -> Conjunctions:
    """Distinct random conjunctions of ``order`` literals, each literal from a different one-hot group.

    view: The 0/1 columns.
    count: The number of conjunctions. If fewer exist, all of them are taken.
    order: The number of literals of each conjunction.
    generator: The source of randomness, which need not be secret.
    weights: float64 [view.columns], relative frequencies with which columns are proposed, public or already noisy. By
        default all columns are equally likely.
    negate: Whether to negate each literal with probability 1/2.

    Columns of an attribute with one value are never used, because their literals always hold or never hold.

    Raises ValueError if the weights propose too few different conjunctions.
    """
    groups = view.group_of_column()
    probabilities = _proposal_probabilities(weights, view)
    usable = np.ones(view.columns, dtype=np.bool_) if probabilities is None else probabilities > 0
    if order < 1 or order > group_sizes(view, usable).total():
        columns = int(np.count_nonzero(usable))
        raise ValueError(f"order {order} over {columns} usable columns; want 1 .. the number of usable groups")
    existing = number_of_conjunctions(view, order, usable=usable, negate=negate)
    count = min(count, existing)
    rows = DistinctRows(count, order)
    for _ in range(_ROUNDS):
        missing = count - len(rows)
        if missing <= 0:
            break
        drawn = generator.choice(view.columns, size=(missing + missing // 8 + 16, order), p=probabilities)
        valid = _rows_of_distinct_groups(drawn.astype(np.int32), groups)
        signs = generator.integers(0, 2, size=valid.shape) if negate else 0
        # A literal is coded as 2 * column + sign, so that one row of integers identifies a conjunction.
        rows.offer(np.asarray(2 * valid + signs, dtype=np.int32))
    if len(rows) < count and existing < 2 * count:  # Random proposals hardly ever name the last ones.
        rows.offer(generator.permutation(all_conjunctions(view, order, usable, negate=negate)))
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
    """Distinct random parities of 1 to ``order`` columns, each column from a different one-hot group.

    view: The 0/1 columns.
    count: The number of parities.
    order: The largest number of columns of a parity, 1 to 3.
    generator: The source of randomness, which need not be secret.
    columns: The columns that parities may use. By default all of them.

    The numbers of parities of 1, 2, ... columns are proportional to those that ``all_parities`` would list.

    Raises ValueError if fewer than ``count`` parities exist.
    """
    columns, available = _informative_columns(view, columns), parity_counts(view, order, columns)
    total = sum(available)
    if not 1 <= count <= total:
        raise ValueError(f"{count} parities of at most {order} columns; want 1 .. {total}")
    parts = [count * sets // total for sets in available]
    for index in sorted(range(order), key=lambda index: parts[index] - available[index]):
        # Distribute what rounding down left over.
        parts[index] = min(available[index], parts[index] + count - sum(parts))
    drawn = [
        _random_sets(view, columns, part, size, sets, generator)
        for size, (part, sets) in enumerate(zip(parts, available, strict=True), 1)
        if part
    ]
    return Parities(view, _stacked(drawn, order))


def all_parities(view: BinaryView, order: int, columns: NDArray[np.integer] | None = None) -> Parities:
    """Every parity of 1 to ``order`` columns from different one-hot groups, short ones first.

    view: The 0/1 columns.
    order: The largest number of columns of a parity.
    columns: The columns that parities may use. By default all of them.

    Of an attribute with two values only the column of the second value is used, because parities of the first are
    complements of its parities. Attributes of one value are not used.

    Raises ValueError if ``order`` is not 1, 2 or 3, and if there are no parities.
    """
    available = parity_counts(view, order, columns)
    if not sum(available):
        raise ValueError("every attribute has one value; want a column that tells rows apart")
    columns = _informative_columns(view, columns)
    listed = [_all_sets(view, columns, size, sets) for size, sets in enumerate(available, 1)]
    return Parities(view, _stacked(listed, order))


def parity_counts(view: BinaryView, order: int, columns: NDArray[np.integer] | None = None) -> tuple[int, ...]:
    """The numbers of parities of 1, 2, ... ``order`` columns that ``all_parities`` lists, without listing them."""
    if not 1 <= order <= LARGEST_ORDER:
        raise ValueError(f"order {order}; want parities of 1 .. {LARGEST_ORDER} columns")
    columns_per_group = _columns_per_group(view, _informative_columns(view, columns))
    sizes, multiplicities = np.unique(columns_per_group, return_counts=True)
    pairs = list(zip(sizes.tolist(), multiplicities.tolist(), strict=True))
    power_sums = [sum(multiplicity * size**power for size, multiplicity in pairs) for power in (1, 2, 3)]
    p1, p2, p3 = power_sums
    # Elementary symmetric polynomials of the group sizes from their power sums (Newton's identities).
    polynomials = (p1, (p1**2 - p2) // 2, (p1**3 - 3 * p1 * p2 + 2 * p3) // 6)
    return polynomials[:order]


def _proposal_probabilities(weights: NDArray[np.float64] | None, view: BinaryView) -> NDArray[np.float64] | None:
    """The probability that each column is proposed (0 for attributes of one value); None if all are equal."""
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


def _informative_columns(view: BinaryView, columns: NDArray[np.integer] | None) -> NDArray[np.int32]:
    """The columns, ascending, without the first of a group of two values and without groups of one value."""
    kept = np.ones(view.columns, dtype=np.bool_)
    for start, stop in view.groups:
        if stop - start <= 2:
            kept[start] = False
    informative = np.flatnonzero(kept)
    return (informative if columns is None else np.intersect1d(informative, columns)).astype(np.int32)


def _columns_per_group(view: BinaryView, columns: NDArray[np.int32]) -> NDArray[np.int64]:
    """The number of columns in each group that has at least one of them."""
    return np.asarray(np.unique(view.group_of_column()[columns], return_counts=True)[1], dtype=np.int64)


def _random_sets(
    view: BinaryView, columns: NDArray[np.int32], count: int, size: int, available: int, generator: np.random.Generator
) -> NDArray[np.int32]:
    """``count`` distinct sets of ``size`` columns from different groups, uniformly at random: int32 [count, size]."""
    if 2 * count > available:
        chosen = generator.choice(available, size=count, replace=False)
        return _all_sets(view, columns, size, available)[chosen]
    rows, groups = DistinctRows(count, size), view.group_of_column()
    while len(rows) < count:  # At least half of all sets are still new, so few draws are wasted.
        missing = count - len(rows)
        drawn = generator.choice(columns, size=(missing + missing // 8 + 16, size))
        rows.offer(_rows_of_distinct_groups(drawn, groups))
    return rows.rows


def _all_sets(view: BinaryView, columns: NDArray[np.int32], size: int, available: int) -> NDArray[np.int32]:
    """Every set of ``size`` columns from different groups, in lexicographic order, int32 [available, size]."""
    groups = view.group_of_column()[columns]
    sets = np.empty((available, size), dtype=np.int32)
    _list_sets(sets, columns, np.searchsorted(groups, groups, side="right"))
    return sets


def _stacked(parts: list[NDArray[np.int32]], width: int) -> NDArray[np.int32]:
    """Sets of several sizes as rows of one width, padded with NONE."""
    return np.concatenate([np.pad(part, ((0, 0), (0, width - part.shape[1])), constant_values=NONE) for part in parts])


@compiled
def _rows_of_distinct_groups(drawn: NDArray[np.int32], groups: NDArray[np.int32]) -> NDArray[np.int32]:
    """The rows whose columns lie in different groups, in their order; columns within a row are sorted."""
    kept = np.empty_like(drawn)
    rows = 0
    for row in range(drawn.shape[0]):
        distinct = True
        for index in range(drawn.shape[1]):
            column, position = drawn[row, index], index
            for earlier in range(index):
                distinct = distinct and groups[drawn[row, earlier]] != groups[column]
            while position > 0 and kept[rows, position - 1] > column:
                kept[rows, position] = kept[rows, position - 1]
                position -= 1
            kept[rows, position] = column
        rows += distinct
    return kept[:rows].copy()


@compiled
def _list_sets(sets: NDArray[np.int32], columns: NDArray[np.int32], next_group: NDArray[np.int64]) -> None:
    """Fills ``sets``, int32 [sets, 1 to 3]; ``next_group`` is where the group after each column's group starts."""
    size, row = sets.shape[1], 0
    for first in range(columns.size):
        if size == 1:
            sets[row, 0] = columns[first]
            row += 1
            continue
        for second in range(next_group[first], columns.size):
            if size == 2:
                sets[row, 0], sets[row, 1] = columns[first], columns[second]
                row += 1
                continue
            for third in range(next_group[second], columns.size):
                sets[row, 0], sets[row, 1], sets[row, 2] = columns[first], columns[second], columns[third]
                row += 1
