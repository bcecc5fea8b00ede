"""Objectives from weighted clauses and gains, for query classes that are no conjunctions as they are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import BinaryView
from dpcore.oracles.clauses import SignedClauses


def net_weights(samples: NDArray[np.int64], size: int) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """What the samples weigh together: distinct queries, ascending, their weights, none of them 0, and the constant.

    A query drawn a times and its complement b times contribute b + (a - b) q.

    samples: int64 [s]; i < size is query i, size + i its complement.
    """
    complemented = samples >= size
    drawn, position = np.unique(samples % size, return_inverse=True)
    weights = np.bincount(position, weights=np.where(complemented, -1.0, 1.0), minlength=drawn.size).astype(np.int64)
    return drawn[weights != 0], weights[weights != 0], int(complemented.sum())


def assembled(
    view: BinaryView,
    codes: NDArray[np.int32],
    weights: NDArray[np.int64],
    constant: int,
    gain_columns: NDArray[np.int32],
    gains: NDArray[np.int64],
) -> SignedClauses:
    """An objective from its parts; clauses that are equal as sets are merged, and what cancels is dropped.

    codes: int32 [c, k], the literals 2 * column + negated. weights: int64 [c].
    gain_columns, gains: int32 [g] and int64 [g], what a 1 in a column adds; columns may repeat.
    """
    codes, weights = _merged(codes, weights)
    raised, position = np.unique(gain_columns, return_inverse=True)
    added = np.zeros(raised.size, dtype=np.int64)
    np.add.at(added, position, gains)
    raised, added = raised[added != 0], added[added != 0]
    columns = np.union1d(codes >> 1, raised).astype(np.int32)
    all_gains = np.zeros(columns.size, dtype=np.int64)
    all_gains[np.searchsorted(columns, raised)] = added
    literals = np.searchsorted(columns, codes >> 1).astype(np.int32)
    return SignedClauses(view, columns, literals, (codes & 1).astype(np.bool_), weights, constant, all_gains)


def _merged(codes: NDArray[np.int32], weights: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Rows of literals, distinct as sets, with their weights added and without those of weight 0."""
    ordered = np.sort(codes, axis=1)
    if len(ordered) == 0:
        return ordered, weights
    order = np.lexsort(ordered.T)
    ordered = ordered[order]
    starts = np.append(0, np.flatnonzero((ordered[1:] != ordered[:-1]).any(axis=1)) + 1)
    sums = np.add.reduceat(weights[order], starts)
    return np.ascontiguousarray(ordered[starts][sums != 0]), sums[sums != 0]
