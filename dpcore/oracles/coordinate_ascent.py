"""Coordinate ascent to a record that no single change improves; preferences break ties and fill free columns.

The objective often leaves columns undecided: no sampled query names them, or a change costs nothing. Their values
matter more for the error of DualQuery than the last per cent of the objective, so the rule for them is explicit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.domain import BinaryView
from dpcore.oracles.clauses import SignedClauses

NONE = -1


@dataclass(frozen=True, eq=False)
class Blocks:
    """The choices of an objective: in each block at most one of its columns is 1.

    A block is the columns of a one-hot group that occur, or one column outside the groups. The choice "none" means that
    the record has its 1 in a column of the group that does not occur (``spare``), or a 0 outside the groups.

    bounds: int64 [b + 1], the bounds of the blocks in ``clauses.columns``.
    spare: int64 [b], the preferred column among those of the group that do not occur; NONE if the whole group occurs,
        and outside the groups.
    none_allowed: bool [b], whether all columns of the block can be 0.
    none_preference: float64 [b], the preference of "none".
    """

    bounds: NDArray[np.int64]
    spare: NDArray[np.int64]
    none_allowed: NDArray[np.bool_]
    none_preference: NDArray[np.float64]


def blocks_of(clauses: SignedClauses, preferences: NDArray[np.float64]) -> Blocks:
    """The choices of an objective.

    clauses: The objective.
    preferences: float64 [view.columns], as for ``Oracle.respond``.
    """
    bounds = clauses.blocks()
    count = len(bounds) - 1
    if not clauses.view.groups:
        return Blocks(bounds, np.full(count, NONE), clauses.none_allowed(bounds), np.zeros(count))
    unused = np.ones(clauses.view.columns, dtype=np.bool_)
    unused[clauses.columns] = False
    spare = _preferred_columns(clauses.view, preferences, unused)
    spare = spare[clauses.view.group_of_column()[clauses.columns[bounds[:-1]]]]
    return Blocks(bounds, spare, spare != NONE, np.where(spare != NONE, preferences[spare], -np.inf))


def improved_record(
    clauses: SignedClauses, blocks: Blocks, chosen: NDArray[np.int64], preferences: NDArray[np.float64]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Improves choices until no single one can be improved, first by objective, then by preference.

    clauses: The objective.
    blocks: Its choices, from ``blocks_of``.
    chosen: int64 [b], for each block a position in ``clauses.columns`` or NONE.
    preferences: float64 [view.columns], as for ``Oracle.respond``.

    Returns the values of the columns that occur, bool [n], and the whole record, bool [view.columns]. Each step raises
    the objective, or keeps it and raises a preference, so the ascent ends.
    """
    best = chosen.copy()
    offsets, clause_of, wants_zero = clauses.incidence()
    _ascend(
        best,
        blocks.bounds,
        blocks.none_allowed,
        blocks.none_preference,
        preferences[clauses.columns],
        clauses.literals,
        clauses.negated,
        clauses.weights,
        clauses.gains,
        offsets,
        clause_of,
        wants_zero,
    )
    used = np.zeros(len(clauses.columns), dtype=np.bool_)
    used[best[best != NONE]] = True
    record = preferred_record(clauses.view, preferences)
    _clear(record, clauses)
    record[clauses.columns[used]] = True
    record[blocks.spare[(best == NONE) & (blocks.spare != NONE)]] = True
    return used, record


def preferred_record(view: BinaryView, preferences: NDArray[np.float64]) -> NDArray[np.bool_]:
    """The record that the preferences alone decide: bool [view.columns].

    view: The columns of a record.
    preferences: float64 [view.columns], as for ``Oracle.respond``.
    """
    if not view.groups:
        return preferences > 0
    record = np.zeros(view.columns, dtype=np.bool_)
    record[_preferred_columns(view, preferences, np.ones(view.columns, dtype=np.bool_))] = True
    return record


def _clear(record: NDArray[np.bool_], clauses: SignedClauses) -> None:
    """Sets every column of the groups that occur to 0."""
    if not clauses.view.groups:
        record[clauses.columns] = False
        return
    groups = clauses.view.group_of_column()
    occurs = np.zeros(groups[-1] + 1, dtype=np.bool_)
    occurs[groups[clauses.columns]] = True
    record[occurs[groups]] = False


def _preferred_columns(
    view: BinaryView, preferences: NDArray[np.float64], allowed: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """The allowed column of largest preference in each group, the first of equals; NONE where none is allowed."""
    columns = np.flatnonzero(allowed)
    groups = view.group_of_column()[columns]
    order = np.lexsort((-columns, preferences[columns], groups))  # The last column of each group is its best.
    last = np.ones(len(order), dtype=np.bool_)
    last[:-1] = groups[order][1:] != groups[order][:-1]
    best = np.full(len(view.groups), NONE)
    best[groups[order][last]] = columns[order][last]
    return best


@compiled
def _gain_of_one(
    current: int,
    column: int,
    open_literals: NDArray[np.int32],
    weights: NDArray[np.int64],
    gains: NDArray[np.int64],
    offsets: NDArray[np.int64],
    clause_of: NDArray[np.int32],
    wants_zero: NDArray[np.bool_],
) -> int:
    """The difference of the objective between a 1 and a 0 in a column.

    current: The current choice of its block: ``column`` itself or none.
    """
    gain, is_one = int(gains[column]), current == column
    for entry in range(offsets[column], offsets[column + 1]):
        clause = clause_of[entry]
        if open_literals[clause] == (wants_zero[entry] == is_one):  # All other literals hold.
            gain += -weights[clause] if wants_zero[entry] else weights[clause]
    return gain


@compiled
def _set(
    column: int,
    value: bool,
    open_literals: NDArray[np.int32],
    offsets: NDArray[np.int64],
    clause_of: NDArray[np.int32],
    wants_zero: NDArray[np.bool_],
) -> None:
    """Updates the counts of open literals after a column was changed to ``value``."""
    for entry in range(offsets[column], offsets[column + 1]):
        open_literals[clause_of[entry]] += 1 if wants_zero[entry] == value else -1


@compiled
def _ascend(
    chosen: NDArray[np.int64],
    bounds: NDArray[np.int64],
    none_allowed: NDArray[np.bool_],
    none_preference: NDArray[np.float64],
    preferences: NDArray[np.float64],
    literals: NDArray[np.int32],
    negated: NDArray[np.bool_],
    weights: NDArray[np.int64],
    gains: NDArray[np.int64],
    offsets: NDArray[np.int64],
    clause_of: NDArray[np.int32],
    wants_zero: NDArray[np.bool_],
) -> None:
    """Takes the best choice of each block in turn; a change in a clause returns its blocks to the queue."""
    block_of = np.empty(preferences.size, dtype=np.int32)
    used = np.zeros(preferences.size, dtype=np.bool_)
    for block in range(chosen.size):
        block_of[bounds[block] : bounds[block + 1]] = block
        if chosen[block] >= 0:
            used[chosen[block]] = True
    open_literals = np.zeros(weights.size, dtype=np.int32)  # Literals of each clause that do not hold.
    gain_of_one = gains.copy()  # The difference of the objective between a 1 and a 0 in each column.
    for clause in range(weights.size):
        open_position = -1
        for literal in range(literals.shape[1]):
            if used[literals[clause, literal]] == negated[clause, literal]:
                open_literals[clause] += 1
                open_position = literal
        for literal in range(literals.shape[1]):
            if open_literals[clause] == 0 or (open_literals[clause] == 1 and literal == open_position):
                gain = -weights[clause] if negated[clause, literal] else weights[clause]
                gain_of_one[literals[clause, literal]] += gain
    grouped = preferences.size > chosen.size
    waits = np.ones(chosen.size, dtype=np.bool_)
    for block in range(chosen.size):
        column = bounds[block]
        if none_allowed[block] and bounds[block + 1] == column + 1:
            gain = gain_of_one[column]
            improves = gain > 0 or (gain == 0 and preferences[column] > none_preference[block])
            waits[block] = improves != used[column]
    first_slot, count = 0, waits.sum()
    waiting = np.zeros(chosen.size, dtype=np.int64)  # A ring buffer of the blocks that may be improved.
    waiting[:count] = np.flatnonzero(waits)
    while count > 0:
        block = waiting[first_slot]
        first_slot = first_slot + 1 if first_slot + 1 < chosen.size else 0
        count -= 1
        waits[block] = False
        before, column = chosen[block], bounds[block]
        best, best_gain, best_preference = -2, 0, 0.0
        if none_allowed[block]:
            best, best_preference = -1, none_preference[block]
        if none_allowed[block] and bounds[block + 1] == column + 1:  # Most blocks of baskets: nothing to clear.
            gain = _gain_of_one(before, column, open_literals, weights, gains, offsets, clause_of, wants_zero)
            if gain > 0 or (gain == 0 and preferences[column] > best_preference):
                best = column
            if best != before:
                _set(column, best >= 0, open_literals, offsets, clause_of, wants_zero)
        else:
            if before >= 0:
                _set(before, False, open_literals, offsets, clause_of, wants_zero)
            for column in range(bounds[block], bounds[block + 1]):
                gain = _gain_of_one(-1, column, open_literals, weights, gains, offsets, clause_of, wants_zero)
                preference = preferences[column]
                if best == -2 or gain > best_gain or (gain == best_gain and preference > best_preference):
                    best, best_gain, best_preference = column, gain, preference
            if best >= 0:
                _set(best, True, open_literals, offsets, clause_of, wants_zero)
        if best == before:
            continue
        chosen[block] = best
        for changed in (before, best):
            if changed < 0:
                continue
            used[changed] = changed == best
            for entry in range(offsets[changed], offsets[changed + 1]):
                clause = clause_of[entry]
                open_count = open_literals[clause]
                reopened = wants_zero[entry] == used[changed]
                for literal in range(literals.shape[1] if open_count <= 1 or reopened or grouped else 0):
                    # A change matters to a literal that was or is the only open one, and to all if none is open.
                    column = literals[clause, literal]
                    holds = used[column] != negated[clause, literal]
                    neighbour = block_of[column]
                    if (
                        neighbour == block
                        or waits[neighbour]
                        or not (grouped or open_count == 0 or (reopened and open_count == 1) or not holds)
                    ):
                        continue
                    waits[neighbour] = True
                    slot = first_slot + count
                    waiting[slot if slot < chosen.size else slot - chosen.size] = neighbour
                    count += 1
