"""Sampled queries as signed clauses: the objective of a best response."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import BinaryView
from dpcore.queries import Conjunctions


@dataclass(frozen=True, eq=False)
class SignedClauses:
    """The objective: constant + sum over clauses c of weights[c] * [a record satisfies all literals of c], plus
    gains[i] for each used column i that is 1.

    view: The columns of a record.
    columns: int32 [n], ascending: the columns that occur in a clause.
    literals: int32 [c, k], positions in ``columns``.
    negated: bool [c, k]; True where the literal wants a 0.
    weights: int64 [c], none of them 0.
    constant: Value of a record that satisfies no clause.
    gains: int64 [n], what a 1 in each of ``columns`` adds: the perturbation of FEM. Zeros for DualQuery.
    """

    view: BinaryView
    columns: NDArray[np.int32]
    literals: NDArray[np.int32]
    negated: NDArray[np.bool_]
    weights: NDArray[np.int64]
    constant: int
    gains: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def __post_init__(self) -> None:
        if self.gains.size == 0:
            object.__setattr__(self, "gains", np.zeros(len(self.columns), dtype=np.int64))

    def value(self, used: NDArray[np.bool_]) -> int:
        """Objective of a record given by its values in ``columns``, bool [n]."""
        satisfied = (used[self.literals] != self.negated).all(axis=1)
        return self.constant + int(self.weights[satisfied].sum()) + int(self.gains[used].sum())

    def largest(self) -> int:
        """Objective of a record that would satisfy every clause of positive weight and no other."""
        return self.constant + int(self.weights[self.weights > 0].sum())

    def blocks(self) -> NDArray[np.int64]:
        """Bounds in ``columns`` of the one-hot groups that occur, int64 [blocks + 1]; a column in no group is alone."""
        groups = self.view.group_of_column()[self.columns]
        return np.append(np.flatnonzero(np.diff(groups, prepend=-1)), groups.size).astype(np.int64)


def signed_clauses(queries: Conjunctions, samples: NDArray[np.int64]) -> SignedClauses:
    """The sum of the sampled queries as one objective, to be maximised over records.

    A complement is 1 - q, so a query drawn a times and its complement b times contribute b + (a - b) q; equal
    conjunctions are merged and those whose weights cancel are dropped.

    samples: int64 [s]; i < m is query i, m + i its complement.

    Source: full DualQuery paper, Algorithm 2 and section 5.1 (the best response to the average sampled query).
    """
    complemented = samples >= queries.size
    drawn, position = np.unique(samples % queries.size, return_inverse=True)
    weights = np.bincount(position, weights=np.where(complemented, -1.0, 1.0), minlength=drawn.size).astype(np.int64)
    kept = drawn[weights != 0]
    codes, weights = _merged(2 * queries.columns[kept] + queries.negated[kept], weights[weights != 0])
    columns, literals = np.unique(codes >> 1, return_inverse=True)
    return SignedClauses(
        queries.view,
        columns.astype(np.int32),
        np.ascontiguousarray(literals.reshape(codes.shape), dtype=np.int32),
        (codes & 1).astype(np.bool_),
        weights,
        int(complemented.sum()),
    )


def _merged(codes: NDArray[np.int32], weights: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Rows of literals, distinct as sets, with their weights added and without those of weight 0."""
    ordered = np.sort(codes, axis=1)
    if len(ordered) == 0:
        return ordered, weights
    order = np.lexsort(ordered.T)
    ordered = ordered[order]
    starts = np.append(0, np.flatnonzero((ordered[1:] != ordered[:-1]).any(axis=1)) + 1)
    sums = np.add.reduceat(weights[order], starts)
    return ordered[starts][sums != 0], sums[sums != 0]
