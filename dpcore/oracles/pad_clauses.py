"""Padding of clauses to the same number of literals, without changing the objective of any record."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.domain import BinaryView


def pad_clauses(
    view: BinaryView, codes: NDArray[np.int32], weights: NDArray[np.int64], order: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Clauses of ``order`` literals whose weighted sum is that of the given ones on every legal record.

    view: The columns of a record.
    codes: int32 [c, j], literals 2 * column + negated, with distinct columns within a clause; j <= order.
    weights: int64 [c], the weight of each clause.
    order: The number of literals, at most the number of columns.

    A positive literal of a one-hot group implies the negation of every other column of the group, so adding one of
    these changes nothing. If there is no such column, the clause is split on a further column z:
    [a] = [a z] + [a not z].

    Returns the literals, int32 [clauses, order], and the weights, int64 [clauses].
    """
    while codes.shape[1] < order:
        used = np.unique(codes >> 1)
        starts = np.array([start for start, _ in view.groups], dtype=np.int64)
        stops = np.array([stop for _, stop in view.groups], dtype=np.int64)
        extra, splits = _further_columns(codes.astype(np.int64), starts, stops, used.astype(np.int64), view.columns)
        with_negated = np.column_stack([codes, 2 * extra + 1])
        with_positive = np.column_stack([codes[splits], 2 * extra[splits]])
        codes = np.concatenate([with_negated, with_positive]).astype(np.int32)
        weights = np.concatenate([weights, weights[splits]])
    return codes, weights


@compiled
def _further_columns(
    codes: NDArray[np.int64], starts: NDArray[np.int64], stops: NDArray[np.int64], used: NDArray[np.int64], columns: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """For each clause a column that it does not name yet, and whether the clause must be split on it.

    Columns that other clauses use come before those that would be new to the objective, and differ among clauses.
    """
    extra, splits = np.full(codes.shape[0], -1, dtype=np.int64), np.zeros(codes.shape[0], dtype=np.bool_)
    for clause in range(codes.shape[0]):
        named = codes[clause] >> 1
        for literal in range(named.size if starts.size else 0):
            if codes[clause, literal] & 1 or extra[clause] >= 0:
                continue
            group = np.searchsorted(starts, named[literal], side="right") - 1
            for column in range(starts[group], stops[group]):
                if not (named == column).any():
                    extra[clause] = column
                    break
        if extra[clause] >= 0:
            continue
        splits[clause] = True
        start = np.searchsorted(used, named[0]) if named.size else 0
        for step in range(used.size):
            column = used[(start + step) % used.size]
            if not (named == column).any():
                extra[clause] = column
                break
        for column in range(columns if extra[clause] < 0 else 0):
            if not (named == column).any():
                extra[clause] = column
                break
    return extra, splits
