"""The values of a lattice that are nearest to noisy ones, among those that some data could have: Frechet bounds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.queries.lattice import Lattice

_SWEEPS = 60  # Of Hildreth's method. More change the answers by less than a hundredth of their noise.
_TOLERANCE = 0.01


def projected(
    lattice: Lattice,
    values: NDArray[np.float64],
    variances: NDArray[np.float64],
    *,
    sweeps: int = _SWEEPS,
    tolerance: float = _TOLERANCE,
) -> NDArray[np.float64]:
    """Weighted least squares under the constraints of the lattice, float64 [members + 2].

    lattice: The members and the queries.
    values: float64 [members + 2], noisy answers of the members, the number of units, and 0.
    variances: float64 [members + 2], of their noise; a value without variance stays what it is.
    sweeps: The largest number of passes over all constraints.
    tolerance: Stops after a pass in which no constraint moves a value by more than this many standard deviations.

    Minimises the sum of (x - value)^2 / variance over all x with

        * count(P, S and not the other literals of N) >= 0 for each query with positive literals P and negated literals
          N, and each subset S of N: the cells of the query's own table, among them the query itself;
        * x <= the value of each parent.

    These are the bounds of Frechet on a conjunction from those of fewer literals, as far as the lattice has them.
    Constraints hold in the limit; after the last sweep some may be missed by a little.

    Source: Hildreth (1957), a quadratic programming procedure: cyclic projections with a multiplier per constraint.
    """
    nearest = values.astype(np.float64)
    cells, below = np.zeros(lattice.terms.size), np.zeros(lattice.parents.shape)
    for _ in range(sweeps):
        moved = _sweep(nearest, variances, lattice.starts, lattice.terms, lattice.parents, cells, below)
        if moved <= tolerance:
            break
    return nearest


@compiled
def _sweep(
    values: NDArray[np.float64],
    variances: NDArray[np.float64],
    starts: NDArray[np.int64],
    terms: NDArray[np.int64],
    parents: NDArray[np.int64],
    cells: NDArray[np.float64],
    below: NDArray[np.float64],
) -> float:
    """Projects onto each constraint in turn; values and multipliers are changed in place.

    cells, below: The multipliers of the constraints, float64 [terms] and [members, order], >= 0.

    Returns: The largest move of a value by one constraint, in its standard deviations.
    """
    moved = 0.0
    for query in range(starts.size - 1):
        first, patterns = starts[query], starts[query + 1] - starts[query]
        for mask in range(patterns):
            total, variance = 0.0, 0.0
            outside = patterns - 1 - mask
            subset = outside
            while True:
                term = terms[first + (mask | subset)]
                total += values[term] if _is_even(subset) else -values[term]
                variance += variances[term]
                if subset == 0:
                    break
                subset = (subset - 1) & outside
            before = cells[first + mask]
            if variance == 0.0 or (before == 0.0 and total >= 0.0):
                continue
            cells[first + mask] = max(0.0, before - total / variance)
            step = cells[first + mask] - before
            subset = outside
            while True:
                term = terms[first + (mask | subset)]
                values[term] += step * variances[term] if _is_even(subset) else -step * variances[term]
                moved = max(moved, abs(step) * np.sqrt(variances[term]))
                if subset == 0:
                    break
                subset = (subset - 1) & outside
    nothing = values.size - 1
    for member in range(parents.shape[0]):
        for literal in range(parents.shape[1]):
            parent = parents[member, literal]
            if parent == nothing:
                continue
            variance, gap = variances[member] + variances[parent], values[parent] - values[member]
            before = below[member, literal]
            if variance == 0.0 or (before == 0.0 and gap >= 0.0):
                continue
            below[member, literal] = max(0.0, before - gap / variance)
            step = below[member, literal] - before
            values[parent] += step * variances[parent]
            values[member] -= step * variances[member]
            moved = max(moved, abs(step) * np.sqrt(max(variances[member], variances[parent])))
    return moved


@compiled
def _is_even(bits: int) -> bool:
    """Whether an even number of bits is set."""
    even = True
    while bits:
        even = not even
        bits &= bits - 1
    return even
