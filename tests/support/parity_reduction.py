"""Conjunctions as sums of parities.

For 0/1 columns let chi_T = 1 - 2 (sum of T mod 2), which is 1 where an even number of the columns of T is 1. A literal
that wants a 0 in column i is (1 + chi_i) / 2 and one that wants a 1 is (1 - chi_i) / 2; chi of a union of distinct
columns is the product. Multiplying out k literals,

    [all literals hold] = 2^-k sum over T of s_T chi_T,  s_T = -1 to the number of literals of T that want a 1.

So q = 2^-k (n + sum over non-empty T of s_T (2 E_T - n)) for counts q and E_T among n records. The sizes of the
coefficients of the chi_T sum to 1, so the error of q is at most the largest error of an answer 2 E_T - n of the paper's
-1/1 parities, and at most 2 (1 - 2^-k) times the largest error of an even count E_T.

Source: full DualQuery paper, Theorem A.2 (Barak et al. 2007). As printed, every sign is +1: that counts the records in
which all columns are 0; the positive conjunction has the signs above.
"""

from __future__ import annotations

from itertools import chain, combinations

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import BinaryView
from dpcore.queries.conjunctions import Conjunctions
from dpcore.queries.distinct import DistinctRows
from dpcore.queries.parities import LARGEST_ORDER, NONE, Parities

_BITS = 21  # Of a column + 1 in a key of three: 2^21 - 1 columns.


def parities_for(queries: Conjunctions) -> Parities:
    """The parities that ``conjunctions_from_parities`` needs, each once.

    Raises ValueError for more than 3 literals.
    """
    columns, _ = _literals(queries)
    subsets = [_subset(columns, places) for places in _subsets(queries.order)]
    found = DistinctRows(queries.size * len(subsets), LARGEST_ORDER)
    for subset in subsets:
        found.offer(np.sort(subset + 1, axis=1).astype(np.int32))  # From 1, because NONE is -1.
    return Parities(queries.view, found.rows - 1)


def conjunctions_from_parities(
    queries: Conjunctions, parities: Parities, answers: NDArray[np.float64], total: float
) -> NDArray[np.float64]:
    """Answers of conjunctions from answers of parities; float64 [queries.size]. Post-processing.

    parities: Over the same view; all of ``parities_for(queries)`` are among them.
    answers: float64 [parities.size], counts of records with an even number of ones; may be noisy.
    total: n, the number of records. Where it is noisy, its error adds at most that error to each answer.

    Raises ValueError when a parity is missing.
    """
    if parities.view != queries.view or answers.shape != (parities.size,):
        raise ValueError(f"{answers.shape} answers; want one for each of {parities.size} parities of the same view")
    columns, wants_1 = _literals(queries)
    named, flipped = _telling(parities.view, parities.columns)
    even = np.where(flipped.sum(axis=1) % 2 == 1, total - answers, answers)
    keys = _keys(named, parities.view)
    order = np.argsort(keys, kind="stable")
    result = np.full(queries.size, total, dtype=np.float64)
    for places in _subsets(queries.order):
        wanted = _keys(_subset(columns, places), queries.view)
        found = np.minimum(np.searchsorted(keys[order], wanted), keys.size - 1)
        missing = keys[order[found]] != wanted
        if missing.any():
            lacking = columns[int(missing.argmax()), list(places)].tolist()
            raise ValueError(f"the parity of columns {lacking} is missing; want all of parities_for(queries)")
        signs = 1.0 - 2.0 * (wants_1[:, list(places)].sum(axis=1) % 2)
        result += signs * (2.0 * even[order[found]] - total)
    return np.asarray(result / 2**queries.order, dtype=np.float64)


def _subsets(order: int) -> list[tuple[int, ...]]:
    """Non-empty sets of literals, by position."""
    return list(chain.from_iterable(combinations(range(order), size) for size in range(1, order + 1)))


def _subset(columns: NDArray[np.int32], places: tuple[int, ...]) -> NDArray[np.int32]:
    """Those columns of each row, int32 [m, 3], then NONE."""
    chosen = np.full((len(columns), LARGEST_ORDER), NONE, dtype=np.int32)
    chosen[:, : len(places)] = columns[:, list(places)]
    return chosen


def _literals(queries: Conjunctions) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Columns of each conjunction, int32 [m, k], and whether each shall be 1."""
    if queries.order > LARGEST_ORDER:
        raise ValueError(f"conjunctions of {queries.order} literals; want at most {LARGEST_ORDER} for parities")
    columns, flipped = _telling(queries.view, queries.columns)
    ordered = np.sort(columns, axis=1)
    if (ordered[:, 1:] == ordered[:, :-1]).any():
        raise ValueError("a conjunction names both values of one attribute; want literals of different attributes")
    return columns, queries.negated == flipped


def _telling(view: BinaryView, columns: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """The second column of a group of two in place of its first, which is its negation; and where that was done."""
    is_first = np.zeros(view.columns + 1, dtype=np.bool_)  # The last place stands for NONE.
    is_first[[start for start, stop in view.groups if stop - start == 2]] = True
    flipped = is_first[columns]
    return (columns + flipped).astype(np.int32), flipped


def _keys(columns: NDArray[np.int32], view: BinaryView) -> NDArray[np.int64]:
    """One number a set of columns, int64 [m]; NONE is no column."""
    if view.columns >= 1 << _BITS:
        raise ValueError(f"{view.columns:,} columns; want fewer than 2^{_BITS} for parities")
    ordered = -np.sort(-(columns.astype(np.int64) + 1), axis=1)  # What is no column, 0, comes last.
    return np.asarray(ordered @ (np.int64(1) << _BITS * np.arange(ordered.shape[1])), dtype=np.int64)
