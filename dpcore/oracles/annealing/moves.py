"""The compiled part of simulated annealing: heat-bath moves of one block, and moves that satisfy a whole clause.

An option is a choice of a block: one of its columns, or none. Exactly one option of each block is taken. The functions
share these arrays (as separate arguments, because reference counting of arrays in tuples takes ten times the time):

bounds, block_of: int64 [b + 1] and [m], the options of each block are bounds[b]:bounds[b + 1].
literals: int64 [c, k], 2 * option + 1 if the literal is negated (holds when the option is not taken), else 2 * option.
offsets, entries: int64 [m + 1] and [c k], the literals by option: 2 * clause + 1 if the literal is negated, else
    2 * clause.
clauses: int64 [c, 2]; first the number of literals that do not hold, which moves update, then the weight.
gains: int64 [m], what an option adds to the objective by itself.
state: int64 [b], the option that each block takes.
random: uint64 [1], the counter behind the random numbers.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled

Ints = NDArray[np.int64]

# Gumbel noise from 12 random bits: the argmax of value + temperature * noise has the Boltzmann distribution.
_GUMBEL = -np.log(-np.log((np.arange(4096) + 0.5) / 4096))
_GUMBEL.setflags(write=False)


@compiled
def anneal(
    chosen: Ints,
    option_gains: Ints,
    bounds: Ints,
    block_of: Ints,
    literals: Ints,
    weights: Ints,
    offsets: Ints,
    entries: Ints,
    temperatures: NDArray[np.float64],
    restarts: int,
    seed: int,
    first: int,
) -> None:
    """Fills chosen[j] with the best state found for the objective of the clauses and option_gains[j].

    chosen: int64 [s, b], the option of each block, for each sample.
    option_gains: int64 [s, m], the gains of each sample.
    bounds, block_of, literals, offsets, entries: See the module docstring.
    weights: int64 [c], the weight of each clause.
    temperatures: float64 [sweeps], one per sweep.
    restarts: The number of runs, of which the best is kept.
    seed: The seed of the random numbers, 0 <= seed < 2^63.
    first: The index of the first row among all samples; together with ``seed`` it selects the random numbers.
    """
    state, best_state = np.empty(bounds.size - 1, dtype=np.int64), np.empty(bounds.size - 1, dtype=np.int64)
    clauses, undo = np.empty((weights.size, 2), dtype=np.int64), np.empty(2 * literals.shape[1], dtype=np.int64)
    clauses[:, 1] = weights
    positive = np.flatnonzero(weights > 0)
    random = np.zeros(1, dtype=np.uint64)
    for row in range(chosen.shape[0]):
        gains, largest = option_gains[row], 0
        for restart in range(restarts):
            random[0] = np.uint64(seed)
            random[0] = _bits(random) ^ np.uint64(first + row)
            random[0] = _bits(random) ^ np.uint64(restart)
            random[0] = _bits(random)
            value = _start(state, clauses, gains, bounds, block_of, literals, random, restart > 0)
            best = value
            best_state[:] = state
            for temperature in temperatures:
                for block in range(state.size):
                    value += _heat_bath(block, -1, temperature, state, clauses, gains, bounds, offsets, entries, random)
                for _ in range(min(state.size, positive.size)):
                    value += _satisfy(
                        positive[_below(random, positive.size)], temperature, undo, state, clauses, gains, bounds,
                        block_of, literals, offsets, entries, random,
                    )  # fmt: skip
                if value > best:
                    best = value
                    best_state[:] = state
            for block in range(state.size):
                _set_option(block, best_state[block], state, clauses, gains, offsets, entries)
            best += _ascend(positive, undo, state, clauses, gains, bounds, block_of, literals, offsets, entries, random)
            if restart == 0 or best > largest:
                largest = best
                chosen[row] = state


@compiled
def _ascend(
    positive: Ints,
    undo: Ints,
    state: Ints,
    clauses: Ints,
    gains: Ints,
    bounds: Ints,
    block_of: Ints,
    literals: Ints,
    offsets: Ints,
    entries: Ints,
    random: NDArray[np.uint64],
) -> int:
    """Makes both kinds of moves at temperature 0 until neither raises the objective; returns the total increase."""
    change, before = 0, -1
    while change > before:
        before = change
        for block in range(state.size):
            change += _heat_bath(block, -1, 0.0, state, clauses, gains, bounds, offsets, entries, random)
        for clause in positive:
            change += _satisfy(
                clause, 0.0, undo, state, clauses, gains, bounds, block_of, literals, offsets, entries, random
            )
    return change


@compiled
def _bits(random: NDArray[np.uint64]) -> np.uint64:
    """64 random bits from a counter, mixed by SplitMix64 (Steele, Lea and Flood 2014)."""
    random[0] += np.uint64(0x9E3779B97F4A7C15)
    z = random[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.uint64(z ^ (z >> np.uint64(31)))


@compiled
def _below(random: NDArray[np.uint64], bound: int) -> int:
    """An integer in [0, bound), uniform up to 2^-32."""
    return int(((_bits(random) >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32))


@compiled
def _uniform(random: NDArray[np.uint64]) -> float:
    """Uniform in [0, 1)."""
    return float(_bits(random) >> np.uint64(11)) * 2.0**-53


@compiled
def _start(
    state: Ints,
    clauses: Ints,
    gains: Ints,
    bounds: Ints,
    block_of: Ints,
    literals: Ints,
    random: NDArray[np.uint64],
    randomly: bool,
) -> int:
    """Starts from the option of largest gain in each block, or from random ones; returns the objective."""
    value = 0
    for block in range(state.size):
        best = bounds[block]
        if randomly:
            best += _below(random, bounds[block + 1] - best)
        else:
            for option in range(best, bounds[block + 1]):
                if gains[option] > gains[best]:
                    best = option
        state[block] = best
        value += gains[best]
    for clause in range(literals.shape[0]):
        clauses[clause, 0] = 0
        for position in range(literals.shape[1]):
            literal = literals[clause, position]
            clauses[clause, 0] += (state[block_of[literal >> 1]] == literal >> 1) == (literal & 1)
        if clauses[clause, 0] == 0:
            value += clauses[clause, 1]
    return value


@compiled
def _worth(option: int, clauses: Ints, gains: Ints, offsets: Ints, entries: Ints) -> int:
    """The change of the objective when a block without an option takes this one."""
    worth = gains[option]
    for position in range(offsets[option], offsets[option + 1]):
        clause, inverted = entries[position] >> 1, entries[position] & 1
        if clauses[clause, 0] == 1 - inverted:
            worth += clauses[clause, 1] * (1 - 2 * inverted)
    return int(worth)


@compiled
def _take(option: int, step: int, clauses: Ints, offsets: Ints, entries: Ints) -> None:
    """Updates the counts of open literals after an option was taken (step -1) or released (step 1)."""
    for position in range(offsets[option], offsets[option + 1]):
        entry = entries[position]
        clauses[entry >> 1, 0] += step * (1 - 2 * (entry & 1))


@compiled
def _set_option(block: int, option: int, state: Ints, clauses: Ints, gains: Ints, offsets: Ints, entries: Ints) -> int:
    """Sets the option of a block; returns the change of the objective."""
    before = state[block]
    if before == option:
        return 0
    _take(before, 1, clauses, offsets, entries)
    change = _worth(option, clauses, gains, offsets, entries) - _worth(before, clauses, gains, offsets, entries)
    _take(option, -1, clauses, offsets, entries)
    state[block] = option
    return change


@compiled
def _heat_bath(
    block: int,
    excluded: int,
    temperature: float,
    state: Ints,
    clauses: Ints,
    gains: Ints,
    bounds: Ints,
    offsets: Ints,
    entries: Ints,
    random: NDArray[np.uint64],
) -> int:
    """Draws a block's option, other than ``excluded``, from the Boltzmann distribution; returns the objective's change.

    At temperature 0 it takes the best option, and keeps the current one if it is among the best.
    """
    before = state[block]
    _take(before, 1, clauses, offsets, entries)
    worth_before = _worth(before, clauses, gains, offsets, entries)
    best, best_worth, best_score = before, worth_before, -math.inf
    bits, remaining_draws = np.uint64(0), 0
    for option in range(bounds[block], bounds[block + 1]):
        if option == excluded:
            continue
        worth = worth_before if option == before else _worth(option, clauses, gains, offsets, entries)
        score = worth + 0.5 * (option == before)
        if temperature > 0.0:
            if remaining_draws == 0:
                bits, remaining_draws = _bits(random), 5
            score = worth + temperature * _GUMBEL[np.int64(bits & np.uint64(4095))]
            bits, remaining_draws = bits >> np.uint64(12), remaining_draws - 1
        if score > best_score:
            best, best_worth, best_score = option, worth, score
    state[block] = best
    _take(best, -1, clauses, offsets, entries)
    return best_worth - worth_before


@compiled
def _satisfy(
    clause: int,
    temperature: float,
    undo: Ints,
    state: Ints,
    clauses: Ints,
    gains: Ints,
    bounds: Ints,
    block_of: Ints,
    literals: Ints,
    offsets: Ints,
    entries: Ints,
    random: NDArray[np.uint64],
) -> int:
    """Satisfies a clause and accepts the change by the Metropolis rule; returns the change of the objective.

    undo: int64 [2 k], a buffer for the changed blocks and their previous options.
    """
    if clauses[clause, 0] == 0:
        return 0
    change, changed = 0, 0
    for position in range(literals.shape[1]):
        literal = literals[clause, position]
        option = literal >> 1
        block = block_of[option]
        if (state[block] == option) == (literal & 1):
            undo[2 * changed], undo[2 * changed + 1] = block, state[block]
            changed += 1
            if literal & 1:
                change += _heat_bath(
                    block, option, temperature, state, clauses, gains, bounds, offsets, entries, random
                )
            else:
                change += _set_option(block, option, state, clauses, gains, offsets, entries)
    if change > 0:
        return change
    if temperature > 0.0 and _uniform(random) < math.exp(max(-99.0, change / temperature)):
        return change
    while changed > 0:
        changed -= 1
        _set_option(undo[2 * changed], undo[2 * changed + 1], state, clauses, gains, offsets, entries)
    return 0
