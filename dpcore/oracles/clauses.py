"""Sampled queries as signed clauses: the objective of a best response."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.domain import BinaryView
from dpcore.queries import Conjunctions


@dataclass(frozen=True, eq=False)
class SignedClauses:
    """The objective: constant + sum over clauses c of weights[c] * [a record satisfies all literals of c], plus
    gains[i] for each used column i that is 1.

    view: The columns of a record.
    columns: int32 [n], ascending: the columns that occur in a clause or have a gain; with gains that may be all.
    literals: int32 [c, k], positions in ``columns``, distinct within a row.
    negated: bool [c, k]; True where the literal wants a 0.
    weights: int64 [c], none of them 0.
    constant: Value of a record that satisfies no clause and takes no gain.
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
        return self.constant + int(self.gains[used].sum()) + _satisfied(used, self.literals, self.negated, self.weights)

    def with_gains(self, gains: NDArray[np.int64]) -> SignedClauses:
        """The objective with further gains; a column that has one and occurs in no clause is added.

        gains: int64 [view.columns].
        """
        columns = np.union1d(self.columns, np.flatnonzero(gains)).astype(np.int32)
        position = np.searchsorted(columns, self.columns).astype(np.int32)
        summed = gains[columns].astype(np.int64)
        summed[position] += self.gains
        literals = position[self.literals] if self.literals.size else self.literals
        return SignedClauses(self.view, columns, literals, self.negated, self.weights, self.constant, summed)

    def largest(self) -> int:
        """Objective of a record that would satisfy every clause of positive weight and no other, with the largest gain
        of each block: no record has more."""
        bounds = self.blocks()
        best = np.maximum.reduceat(self.gains, bounds[:-1]) if len(bounds) > 1 else self.gains
        none = self.none_allowed(bounds)
        gained = int(np.where(none, np.maximum(best, 0), best).sum())
        return self.constant + int(self.weights[self.weights > 0].sum()) + gained

    def blocks(self) -> NDArray[np.int64]:
        """Bounds in ``columns`` of the one-hot groups that occur, int64 [blocks + 1]; a column in no group is alone."""
        if not self.view.groups:
            return np.arange(len(self.columns) + 1)
        groups = self.view.group_of_column()[self.columns]
        return np.append(np.flatnonzero(np.diff(groups, prepend=-1)), groups.size).astype(np.int64)

    def none_allowed(self, bounds: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether all columns of a block can be 0: not where the whole of a one-hot group occurs; bool [blocks].

        bounds: As ``blocks()`` gives them.
        """
        if not self.view.groups:
            return np.ones(len(bounds) - 1, dtype=np.bool_)
        sizes = np.array([stop - start for start, stop in self.view.groups])
        present = self.view.group_of_column()[self.columns[bounds[:-1]]]
        return np.asarray(np.diff(bounds) < sizes[present])

    def incidence(self) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.bool_]]:
        """Literals by column: those of column i are offsets[i]:offsets[i + 1] of (clause, wants a zero)."""
        return _incidence(self.literals, self.negated, len(self.columns))


def signed_clauses(queries: Conjunctions, samples: NDArray[np.int64]) -> SignedClauses:
    """The sum of the sampled queries as one objective, to be maximised over records.

    A complement is 1 - q, so a query drawn a times and its complement b times contribute b + (a - b) q; equal
    conjunctions are merged and those whose weights cancel are dropped. Clauses stand in the order in which they were
    first drawn, their literals by column.

    samples: int64 [s]; i < m is query i, m + i its complement.

    Source: full DualQuery paper, Algorithm 2 and section 5.1 (the best response to the average sampled query).
    """
    codes, weights, complements = _drawn(samples, queries.columns, queries.negated)
    nothing = np.empty(0, dtype=np.int64)
    return assembled(queries.view, codes, weights, complements, nothing.astype(np.int32), nothing)


def assembled(
    view: BinaryView,
    codes: NDArray[np.int32],
    weights: NDArray[np.int64],
    constant: int,
    columns: NDArray[np.int32],
    gains: NDArray[np.int64],
) -> SignedClauses:
    """An objective from its parts: equal clauses are merged, what cancels is dropped.

    codes: int32 [c, k], literals 2 * column + negated, distinct columns within a row. weights: int64 [c].
    columns, gains: int32 and int64 [j], what a 1 in a column adds; a column may come several times.
    """
    codes, weights = _merged(codes, weights)
    gained, position = np.unique(columns, return_inverse=True)
    sums = np.zeros(gained.size, dtype=np.int64)
    np.add.at(sums, position, gains)
    gained, sums = gained[sums != 0], sums[sums != 0]
    used, literals = _relabelled(codes, view.columns, gained)
    of_used = np.zeros(used.size, dtype=np.int64)
    of_used[np.searchsorted(used, gained)] = sums
    return SignedClauses(view, used, literals, (codes & 1).astype(np.bool_), weights, constant, of_used)


@compiled
def _drawn(
    samples: NDArray[np.int64], columns: NDArray[np.int32], negated: NDArray[np.bool_]
) -> tuple[NDArray[np.int32], NDArray[np.int64], int]:
    """Literals of each sample, its sign, and the number of complements."""
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
    """Rows of literals, ordered and distinct, with their weights added and without those of weight 0.

    Equal rows meet in a hash table of open addressing.
    """
    rows, sums = np.empty(codes.shape, dtype=np.int32), np.zeros(weights.size, dtype=np.int64)
    order = codes.shape[1]
    room = 16
    while room < 2 * weights.size:
        room *= 2
    slots = np.zeros(room, dtype=np.int32)  # Number of the row + 1.
    distinct = 0
    for given in range(weights.size):
        row = rows[distinct]
        for literal in range(order):
            code = codes[given, literal]
            place = literal
            while place > 0 and row[place - 1] > code:
                row[place] = row[place - 1]
                place -= 1
            row[place] = code
        mixed = np.uint64(0)
        for literal in range(order):
            mixed = (mixed ^ np.uint64(row[literal])) * np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(29)
        slot = np.int64(mixed & np.uint64(room - 1))
        while slots[slot] > 0:
            other = rows[slots[slot] - 1]
            equal = True
            for literal in range(order):
                equal = equal and other[literal] == row[literal]
            if equal:
                break
            slot = (slot + 1) & (room - 1)
        if slots[slot] == 0:
            distinct += 1
            slots[slot] = distinct
        sums[slots[slot] - 1] += weights[given]
    kept = 0
    for index in range(distinct):
        if sums[index] != 0:
            rows[kept], sums[kept] = rows[index], sums[index]
            kept += 1
    return rows[:kept].copy(), sums[:kept].copy()


@compiled
def _relabelled(
    codes: NDArray[np.int32], columns: int, gained: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The columns that occur or have a gain, ascending, and each literal's position among them."""
    occurs = np.zeros(columns, dtype=np.bool_)
    for column in gained:
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
    """Sum of the weights of the clauses that hold."""
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
    place = offsets[:-1].copy()
    clause_of = np.empty(literals.size, dtype=np.int32)
    wants_zero = np.empty(literals.size, dtype=np.bool_)
    for clause in range(literals.shape[0]):
        for literal in range(literals.shape[1]):
            column = literals[clause, literal]
            clause_of[place[column]] = clause
            wants_zero[place[column]] = negated[clause, literal]
            place[column] += 1
    return offsets, clause_of, wants_zero
