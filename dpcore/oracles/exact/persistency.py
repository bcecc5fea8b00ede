"""Exact reduction of an objective by dominance: choices that no optimum needs are dropped, until a fixpoint.

The choice of a block (a one-hot group, or a column outside the groups) is one of its columns that occur, or none of
them. Given all other choices, what choice i adds to the objective is, up to a term that is the same for every choice,

    f(i) = gain(i) + sum over clauses with a positive literal on i of w r - sum over clauses with a negated one of w r

and f(none) = 0, where r is 1 if the other literals of the clause hold and 0 if not; clauses are added because at most
one column of a block is 1. As r is unknown, f(i) lies between low(i), with min(0, .) of each term, and high(i), with
max(0, .). **If high(i) <= low(j), changing i to j never lowers the objective**, whatever the other choices are: some
optimum does not choose i. Dropping i decides literals; clauses that cannot hold any more are removed, and literals that
always hold are removed from their clauses. A clause of one literal is a gain, for which low and high are equal. Every
step keeps the optimum, and the intervals only shrink, so the order of the steps does not matter for validity.

Outside the groups this is the rule of pure literals (a column that occurs with one sign only takes the value of that
sign: high <= 0 or low >= 0) together with gains. Inside a group it also keeps one of the values that no clause names,
which dominates all values that occur in negative terms only.

Source: dominance in pseudo-Boolean optimisation (Boros and Hammer 2002, "Pseudo-Boolean optimization", section 4.1) and
dead-end elimination of values (Desmet, De Maeyer, Hazes and Lasters 1992), for clauses.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.oracles.clauses import SignedClauses
from dpcore.oracles.exact.core import Core
from dpcore.oracles.exact.reduced_problem import core_parts

OPEN = -2


@dataclass(frozen=True, eq=False)
class Reduction:
    """An objective whose optimum is constant + the optimum of ``core``.

    chosen: int64 [blocks], a position in ``columns`` or NONE for each block of the objective; OPEN where the core
        decides. Any optimum of the core completes it to an optimum of the objective.
    open_blocks: int64 [core.blocks], the numbers of the open blocks.
    constant: The objective of the decided choices.
    core: The remaining problem.
    """

    chosen: NDArray[np.int64]
    open_blocks: NDArray[np.int64]
    constant: int
    core: Core

    def completed(self, picks: NDArray[np.int64]) -> NDArray[np.int64]:
        """The choice of every block of the objective, int64 [blocks].

        picks: int64 [core.blocks], the picked option of each block of the core.
        """
        chosen = self.chosen.copy()
        chosen[self.open_blocks] = self.core.columns[picks]
        return chosen


def reduce_by_dominance(clauses: SignedClauses) -> Reduction:
    """Drops dominated choices until none is left, in time linear in the literals (times the values of a group).

    clauses: The objective.
    """
    bounds = clauses.blocks()
    gains = clauses.gains.copy()
    constant, chosen, dropped, remaining, implied = _fixpoint(
        bounds,
        clauses.none_allowed(bounds),
        clauses.literals,
        clauses.negated,
        clauses.weights,
        gains,
        bool(clauses.view.groups),
    )
    constant += clauses.constant
    parts = core_parts(
        chosen, bounds, dropped, remaining, implied, clauses.literals, clauses.negated, clauses.weights, gains
    )
    core = Core(*parts)
    return Reduction(chosen, np.flatnonzero(chosen == OPEN), constant, core)


@compiled
def _fixpoint(
    bounds: NDArray[np.int64],
    none_allowed: NDArray[np.bool_],
    literals: NDArray[np.int32],
    negated: NDArray[np.bool_],
    weights: NDArray[np.int64],
    gains: NDArray[np.int64],
    grouped: bool,
) -> tuple[int, NDArray[np.int64], NDArray[np.bool_], NDArray[np.int32], NDArray[np.bool_]]:
    """Drops dominated choices until none is left; clauses of one literal are added to ``gains`` in place.

    Returns
        the constant;
        the choice of each block, int64 [blocks];
        the dropped choices, bool [n + blocks], with "none" of each block behind the columns;
        the number of remaining literals of each clause, int32 [c], 0 where the clause is decided;
        the literals that other literals of their clause imply, bool [c, k], or [1, 1] without groups.
    """
    clauses, order = literals.shape
    columns, blocks = gains.size, bounds.size - 1
    block_of = np.empty(columns, dtype=np.int32)
    for block in range(blocks):
        block_of[bounds[block] : bounds[block + 1]] = block
    remaining = np.full(clauses, order, dtype=np.int32)
    implied = np.zeros((clauses, order) if grouped else (1, 1), dtype=np.bool_)
    low, high = gains.copy(), gains.copy()
    constant = 0
    for clause in range(clauses):
        if grouped:
            _drop_implied(clause, implied, remaining, literals, negated, block_of)
        if remaining[clause] == 0:
            continue
        for literal in range(order):
            if grouped and implied[clause, literal]:
                continue
            column = literals[clause, literal]
            worth = -weights[clause] if negated[clause, literal] else weights[clause]
            if remaining[clause] == 1:
                low[column] += worth
                high[column] += worth
                gains[column] += worth
                constant += weights[clause] if negated[clause, literal] else 0
            else:
                low[column] += min(0, worth)
                high[column] += max(0, worth)
        if remaining[clause] == 1:
            remaining[clause] = 0

    dropped = np.zeros(columns + blocks, dtype=np.bool_)
    options = np.empty(blocks, dtype=np.int32)
    chosen = np.full(blocks, -2, dtype=np.int64)
    for block in range(blocks):
        options[block] = bounds[block + 1] - bounds[block] + none_allowed[block]
        dropped[columns + block] = not none_allowed[block]
    if not grouped:
        constant += _sweep(chosen, dropped, remaining, low, high, gains, literals, negated, weights)
    offsets, clause_of, wants_zero = _open_incidence(columns, dropped, remaining, implied, literals, negated)
    waits = chosen == -2
    waiting = np.zeros(blocks, dtype=np.int64)  # A ring buffer of the blocks to be processed.
    waiting[: waits.sum()] = np.flatnonzero(waits)
    ends = np.array([0, waits.sum()])  # The first slot of the ring buffer, and the number of waiting blocks.
    while ends[1] > 0:
        block = waiting[ends[0]]
        ends[0] = ends[0] + 1 if ends[0] + 1 < blocks else 0
        ends[1] -= 1
        waits[block] = False
        if chosen[block] != -2:
            continue
        none = columns + block
        best, best_low, best_high = none, 0, 0
        if dropped[none]:
            best = -1
        for column in range(bounds[block], bounds[block + 1]):
            if dropped[column]:
                continue
            if best == -1 or low[column] > best_low or (low[column] == best_low and high[column] > best_high):
                best, best_low, best_high = column, low[column], high[column]
        if best != none and not dropped[none] and best_low >= 0:
            dropped[none] = True
            options[block] -= 1
        for column in range(bounds[block], bounds[block + 1]):
            if column == best or dropped[column] or high[column] > (0 if best == none else low[best]):
                continue
            options[block] -= 1
            constant += _decide(
                column, False, dropped, remaining, low, high, gains, literals, negated, implied, weights, offsets,
                clause_of, wants_zero, block_of, waiting, waits, ends,
            )  # fmt: skip
        if options[block] == 1:
            chosen[block] = -1 if best == none else best
        if chosen[block] >= 0:
            constant += gains[best]
            constant += _decide(
                best, True, dropped, remaining, low, high, gains, literals, negated, implied, weights, offsets,
                clause_of, wants_zero, block_of, waiting, waits, ends,
            )  # fmt: skip
    return constant, chosen, dropped, remaining, implied


@compiled
def _sweep(
    chosen: NDArray[np.int64],
    dropped: NDArray[np.bool_],
    remaining: NDArray[np.int32],
    low: NDArray[np.int64],
    high: NDArray[np.int64],
    gains: NDArray[np.int64],
    literals: NDArray[np.int32],
    negated: NDArray[np.bool_],
    weights: NDArray[np.int64],
) -> int:
    """The same steps outside the groups, in passes over all columns and then all clauses while many are decided.

    Decisions from the same intervals are valid together, because each only shrinks the others' intervals. Reading
    clauses in sequence is several times faster than following a queue.

    Returns the amount that is added to the constant.
    """
    columns, order = chosen.size, literals.shape[1]
    decided = np.zeros(columns, dtype=np.int8)  # 1: the column is 1; -1: it is 0.
    constant, decisions = 0, columns
    while decisions > columns >> 7:
        decisions = 0
        for column in range(columns):
            if decided[column] != 0 or not (low[column] >= 0 or high[column] <= 0):
                continue
            decisions += 1
            dropped[column] = True
            if low[column] >= 0 and high[column] > 0:
                decided[column], chosen[column] = 1, column
                constant += gains[column]
            else:
                decided[column], chosen[column] = -1, -1
        for clause in range(remaining.size if decisions > 0 else 0):
            if remaining[clause] == 0:
                continue
            still_open, fails = 0, False
            for literal in range(order):
                sign = decided[literals[clause, literal]]
                still_open += sign == 0
                fails = fails or sign == (1 if negated[clause, literal] else -1)
            if not fails and still_open == remaining[clause]:
                continue
            remaining[clause] = 0 if fails or still_open == 1 else still_open
            if not fails and still_open == 0:
                constant += weights[clause]
            for literal in range(order if fails or still_open == 1 else 0):
                column = literals[clause, literal]
                if decided[column] != 0:
                    continue
                worth = -weights[clause] if negated[clause, literal] else weights[clause]
                low[column] -= min(0, worth)
                high[column] -= max(0, worth)
                if not fails:
                    low[column] += worth
                    high[column] += worth
                    gains[column] += worth
                    constant += weights[clause] if negated[clause, literal] else 0
    return constant


@compiled
def _open_incidence(
    columns: int,
    dropped: NDArray[np.bool_],
    remaining: NDArray[np.int32],
    implied: NDArray[np.bool_],
    literals: NDArray[np.int32],
    negated: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.bool_]]:
    """The open literals sorted by column: offsets, and for each literal its clause and whether it is negated.

    The literals of column i are at offsets[i]:offsets[i + 1].
    """
    offsets = np.zeros(columns + 2, dtype=np.int64)
    for clause in range(remaining.size):
        for literal in range(literals.shape[1] if remaining[clause] > 0 else 0):
            if not dropped[literals[clause, literal]] and not (implied.size > 1 and implied[clause, literal]):
                offsets[literals[clause, literal] + 2] += 1
    for column in range(columns):
        offsets[column + 2] += offsets[column + 1]
    clause_of = np.empty(offsets[columns + 1], dtype=np.int32)
    wants_zero = np.empty(clause_of.size, dtype=np.bool_)
    for clause in range(remaining.size):
        for literal in range(literals.shape[1] if remaining[clause] > 0 else 0):
            column = literals[clause, literal]
            if dropped[column] or (implied.size > 1 and implied[clause, literal]):
                continue
            clause_of[offsets[column + 1]], wants_zero[offsets[column + 1]] = clause, negated[clause, literal]
            offsets[column + 1] += 1
    return offsets[:-1], clause_of, wants_zero


@compiled
def _decide(
    column: int,
    taken: bool,
    dropped: NDArray[np.bool_],
    remaining: NDArray[np.int32],
    low: NDArray[np.int64],
    high: NDArray[np.int64],
    gains: NDArray[np.int64],
    literals: NDArray[np.int32],
    negated: NDArray[np.bool_],
    implied: NDArray[np.bool_],
    weights: NDArray[np.int64],
    offsets: NDArray[np.int64],
    clause_of: NDArray[np.int32],
    wants_zero: NDArray[np.bool_],
    block_of: NDArray[np.int32],
    waiting: NDArray[np.int64],
    waits: NDArray[np.bool_],
    ends: NDArray[np.int64],
) -> int:
    """Takes or drops a column: its clauses are removed or get shorter, and their blocks return to the queue.

    Returns the amount that is added to the constant: the weight of each clause with one negated literal left, which its
    column's gain then loses.
    """
    dropped[column] = True
    constant = 0
    for entry in range(offsets[column], offsets[column + 1]):
        clause = clause_of[entry]
        if remaining[clause] == 0:
            continue
        fails = wants_zero[entry] == taken
        if not fails and remaining[clause] > 2:
            remaining[clause] -= 1
            continue
        remaining[clause] = 0
        for literal in range(literals.shape[1]):
            neighbour = literals[clause, literal]
            if dropped[neighbour] or (implied.size > 1 and implied[clause, literal]):
                continue
            worth = -weights[clause] if negated[clause, literal] else weights[clause]
            low[neighbour] -= min(0, worth)
            high[neighbour] -= max(0, worth)
            if not fails:
                low[neighbour] += worth
                high[neighbour] += worth
                gains[neighbour] += worth
                constant += weights[clause] if negated[clause, literal] else 0
            block = block_of[neighbour]
            if not waits[block]:
                waits[block] = True
                slot = ends[0] + ends[1]
                waiting[slot if slot < waiting.size else slot - waiting.size] = block
                ends[1] += 1
    return constant


@compiled
def _drop_implied(
    clause: int,
    implied: NDArray[np.bool_],
    remaining: NDArray[np.int32],
    literals: NDArray[np.int32],
    negated: NDArray[np.bool_],
    block_of: NDArray[np.int32],
) -> None:
    """Drops literals that a positive literal of the same group implies, and clauses with two such positive literals."""
    for literal in range(literals.shape[1]):
        if negated[clause, literal]:
            continue
        for second in range(literals.shape[1]):
            if second == literal or block_of[literals[clause, second]] != block_of[literals[clause, literal]]:
                continue
            if not negated[clause, second]:
                remaining[clause] = 0
                return
            if not implied[clause, second]:
                implied[clause, second] = True
                remaining[clause] -= 1
