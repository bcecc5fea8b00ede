"""Sampled queries as signed clauses: the objective of a best response."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.domain import BinaryView
from dpcore.oracles.pad_clauses import pad_clauses
from dpcore.queries import Conjunctions


@dataclass(frozen=True, eq=False)
class SignedClauses:
    """An objective over records: constant + weights of the satisfied clauses + gains of the columns that are 1.

    view: The columns of a record.
    columns: int32 [n], ascending: the columns that occur in a clause or have a gain.
    literals: int32 [c, k], positions in ``columns``, distinct within a clause. A clause holds if all its literals do.
    negated: bool [c, k], True where the literal holds for a 0.
    weights: int64 [c], none of them 0.
    constant: The objective of a record that satisfies no clause and has no gain.
    gains: int64 [n], what a 1 in each of ``columns`` adds: the perturbation of FEM; zeros for DualQuery.
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
        """The objective of a record.

        used: bool [n], the record's values in ``columns``.
        """
        return self.constant + int(self.gains[used].sum()) + _satisfied(used, self.literals, self.negated, self.weights)

    def upper_bound(self) -> int:
        """An upper bound on the objective: all positive weights, and the largest gain of each block."""
        bounds = self.blocks()
        best = np.maximum.reduceat(self.gains, bounds[:-1]) if len(bounds) > 1 else self.gains
        none = self.none_allowed(bounds)
        total_gain = int(np.where(none, np.maximum(best, 0), best).sum())
        return self.constant + int(self.weights[self.weights > 0].sum()) + total_gain

    def blocks(self) -> NDArray[np.int64]:
        """The bounds of the blocks in ``columns``, int64 [blocks + 1].

        A block is the columns of one one-hot group that occur, or one column outside the groups.
        """
        if not self.view.groups:
            return np.arange(len(self.columns) + 1)
        groups = self.view.group_of_column()[self.columns]
        return np.append(np.flatnonzero(np.diff(groups, prepend=-1)), groups.size).astype(np.int64)

    def none_allowed(self, bounds: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether all columns of a block can be 0, bool [blocks]: not if every column of a one-hot group occurs.

        bounds: The bounds from ``blocks()``.
        """
        if not self.view.groups:
            return np.ones(len(bounds) - 1, dtype=np.bool_)
        sizes = np.array([stop - start for start, stop in self.view.groups])
        present = self.view.group_of_column()[self.columns[bounds[:-1]]]
        return np.asarray(np.diff(bounds) < sizes[present])

    def incidence(self) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.bool_]]:
        """The literals sorted by column: offsets, and for each literal its clause and whether it is negated.

        The literals of column i are at offsets[i]:offsets[i + 1].
        """
        return _incidence(self.literals, self.negated, len(self.columns))


def signed_clauses(queries: Conjunctions, samples: NDArray[np.int64]) -> SignedClauses:
    """The sum of the sampled queries as one objective, to be maximised over records.

    queries: The m conjunctions.
    samples: int64 [s]; i < m stands for query i, and m + i for its complement.

    A complement is 1 - q, so that a query drawn a times and its complement b times contribute b + (a - b) q. Equal
    conjunctions are merged, and those whose weights cancel are dropped. Clauses are in the order in which they were
    first drawn, and their literals are sorted by column. In mixed orders, single literals become gains, and other short
    conjunctions are padded.

    Source: full DualQuery paper, Algorithm 2 and section 5.1 (the best response to the average sampled query).
    """
    codes, weights, complements = _sample_clauses(samples, queries.columns, queries.negated)
    if queries.is_mixed:
        return _mixed_clauses(queries.view, codes, weights, complements, queries.orders[samples % queries.size])
    no_columns, no_gains = np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int64)
    return merge_clauses(queries.view, codes, weights, complements, no_columns, no_gains)


def _mixed_clauses(
    view: BinaryView, codes: NDArray[np.int32], weights: NDArray[np.int64], constant: int, orders: NDArray[np.int64]
) -> SignedClauses:
    """An objective from clauses that repeat their last literal: int64 [c] orders say how many literals count.

    Where there are longer clauses, a single negated literal of weight w becomes w - w x.
    """
    longest = int(orders.max(initial=1))
    single = (orders == 1) & (longest > 1)
    codes_of_gains, gains = codes[single, 0], weights[single]
    negated = (codes_of_gains & 1).astype(np.bool_)
    none = np.empty((0, longest), dtype=np.int32), np.empty(0, dtype=np.int64)
    padded = (
        pad_clauses(view, codes[orders == order, :order], weights[orders == order], longest)
        for order in np.unique(orders[~single])
    )
    all_codes, all_weights = (np.concatenate(pieces) for pieces in zip(none, *padded, strict=True))
    constant += int(gains[negated].sum())
    return merge_clauses(view, all_codes, all_weights, constant, codes_of_gains >> 1, np.where(negated, -gains, gains))


def merge_clauses(
    view: BinaryView,
    codes: NDArray[np.int32],
    weights: NDArray[np.int64],
    constant: int,
    columns: NDArray[np.int32],
    gains: NDArray[np.int64],
) -> SignedClauses:
    """An objective from its parts: equal clauses are merged, and those whose weights cancel are dropped.

    view: The columns of a record.
    codes: int32 [c, k], literals 2 * column + negated, with distinct columns within a clause.
    weights: int64 [c], the weight of each clause.
    constant: The objective of a record that satisfies no clause and has no gain.
    columns: int32 [j], columns with a gain; a column may occur more than once.
    gains: int64 [j], what a 1 in each of them adds.
    """
    codes, weights = _merged(codes, weights)
    gain_columns, position = np.unique(columns, return_inverse=True)
    sums = np.zeros(gain_columns.size, dtype=np.int64)
    np.add.at(sums, position, gains)
    gain_columns, sums = gain_columns[sums != 0], sums[sums != 0]
    used, literals = _relabelled(codes, view.columns, gain_columns)
    used_gains = np.zeros(used.size, dtype=np.int64)
    used_gains[np.searchsorted(used, gain_columns)] = sums
    return SignedClauses(view, used, literals, (codes & 1).astype(np.bool_), weights, constant, used_gains)


@compiled
def _sample_clauses(
    samples: NDArray[np.int64], columns: NDArray[np.int32], negated: NDArray[np.bool_]
) -> tuple[NDArray[np.int32], NDArray[np.int64], int]:
    """The literals of each sample, its sign, and the number of complements."""
    queries, order = columns.shape
    codes, signs = np.empty((samples.size, order), dtype=np.int32), np.ones(samples.size, dtype=np.int64)
    complements = 0
    for row in range(samples.size):
        query = samples[row]
        if query >= queries:
            query -= queries
            signs[row] = -1
            complements += 1
        for literal in range(order):
            codes[row, literal] = 2 * columns[query, literal] + negated[query, literal]
    return codes, signs, complements


@compiled
def _merged(codes: NDArray[np.int32], weights: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The distinct clauses with their summed weights, without those of weight 0; literals are in ascending order.

    Equal clauses are found by a hash table with open addressing.
    """
    rows, sums = np.empty(codes.shape, dtype=np.int32), np.zeros(weights.size, dtype=np.int64)
    order = codes.shape[1]
    capacity = 16
    while capacity < 2 * weights.size:
        capacity *= 2
    slots = np.zeros(capacity, dtype=np.int32)  # The index of the row plus 1; 0 in an empty slot.
    distinct = 0
    for clause in range(weights.size):
        row = rows[distinct]
        for literal in range(order):
            code = codes[clause, literal]
            position = literal
            while position > 0 and row[position - 1] > code:
                row[position] = row[position - 1]
                position -= 1
            row[position] = code
        hashed = np.uint64(0)
        for literal in range(order):
            hashed = (hashed ^ np.uint64(row[literal])) * np.uint64(0x9E3779B97F4A7C15)
            hashed ^= hashed >> np.uint64(29)
        slot = np.int64(hashed & np.uint64(capacity - 1))
        while slots[slot] > 0:
            stored = rows[slots[slot] - 1]
            equal = True
            for literal in range(order):
                equal = equal and stored[literal] == row[literal]
            if equal:
                break
            slot = (slot + 1) & (capacity - 1)
        if slots[slot] == 0:
            distinct += 1
            slots[slot] = distinct
        sums[slots[slot] - 1] += weights[clause]
    kept = 0
    for index in range(distinct):
        if sums[index] != 0:
            rows[kept], sums[kept] = rows[index], sums[index]
            kept += 1
    return rows[:kept].copy(), sums[:kept].copy()


@compiled
def _relabelled(
    codes: NDArray[np.int32], columns: int, gain_columns: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The columns that occur in a clause or have a gain, ascending, and each literal's position among them."""
    occurs = np.zeros(columns, dtype=np.bool_)
    for column in gain_columns:
        occurs[column] = True
    for row in range(codes.shape[0]):
        for literal in range(codes.shape[1]):
            occurs[codes[row, literal] >> 1] = True
    used = np.flatnonzero(occurs).astype(np.int32)
    position = np.empty(columns, dtype=np.int32)
    for index in range(used.size):
        position[used[index]] = index
    literals = np.empty(codes.shape, dtype=np.int32)
    for row in range(codes.shape[0]):
        for literal in range(codes.shape[1]):
            literals[row, literal] = position[codes[row, literal] >> 1]
    return used, literals


@compiled
def _satisfied(
    used: NDArray[np.bool_], literals: NDArray[np.int32], negated: NDArray[np.bool_], weights: NDArray[np.int64]
) -> int:
    """The sum of the weights of the clauses that hold."""
    total = 0
    for clause in range(weights.size):
        holds = True
        for literal in range(literals.shape[1]):
            if used[literals[clause, literal]] == negated[clause, literal]:
                holds = False
                break
        if holds:
            total += weights[clause]
    return total


@compiled
def _incidence(
    literals: NDArray[np.int32], negated: NDArray[np.bool_], columns: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.bool_]]:
    """A counting sort of the literals by column; within a column by clause."""
    offsets = np.zeros(columns + 1, dtype=np.int64)
    for clause in range(literals.shape[0]):
        for literal in range(literals.shape[1]):
            offsets[literals[clause, literal] + 1] += 1
    for column in range(columns):
        offsets[column + 1] += offsets[column]
    next_entry = offsets[:-1].copy()
    clause_of = np.empty(literals.size, dtype=np.int32)
    wants_zero = np.empty(literals.size, dtype=np.bool_)
    for clause in range(literals.shape[0]):
        for literal in range(literals.shape[1]):
            column = literals[clause, literal]
            clause_of[next_entry[column]] = clause
            wants_zero[next_entry[column]] = negated[clause, literal]
            next_entry[column] += 1
    return offsets, clause_of, wants_zero
