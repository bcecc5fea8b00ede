"""An upper bound on a core's optimum, and option choices that often reach it, by block-coordinate dual ascent.

The linear relaxation of a core (see ``dpcore.oracles.exact.mip``) has z <= each literal where a weight is positive, and
z >= their sum - (k - 1) where it is negative. It is the local polytope of a graphical model whose factors are the
clauses. For any numbers delta, one per literal,

    objective(x) = sum over blocks of (gain + sum of delta of the literals that hold)(x)
                 + sum over clauses of (weight * [all literals hold] - sum of delta of those that hold)(x),

so the sum of the separate maxima bounds every record. Each step sets the deltas of one clause to their optimum given
all others. The ascent reaches the relaxation's bound or stops a little above it, at a small fraction of the cost of a
simplex.

Source: Globerson and Jaakkola, "Fixing max-product: convergent message passing algorithms for MAP LP-relaxations"
(NIPS 2007), algorithm MPLP.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.oracles.exact.core import Core

_EXTRA_BITS = 16
_SUM_BITS = 60


def started(core: Core) -> NDArray[np.float64]:
    """Deltas to begin with, float64 [l]."""
    return np.zeros(len(core.literals))


def ascended(
    core: Core, deltas: NDArray[np.float64], sweeps: int
) -> tuple[int, NDArray[np.int64], NDArray[np.float64]]:
    """A bound on the core's value, the best option of each block under the deltas (int64 [b]), and the deltas after so
    many further sweeps over the clauses.

    The bound is computed in integers from rounded deltas, so it holds whatever the floats lost.
    """
    moved = deltas.copy()
    _ascend(
        core.bounds,
        core.block_of_option(),
        core.gains,
        core.clause_bounds,
        core.literals,
        core.negated,
        core.weights,
        moved,
        sweeps,
    )
    size = float(np.abs(core.gains).sum()) + float(np.abs(core.weights).sum()) + 2 * float(np.abs(moved).sum()) + 1
    scale = 1 << max(0, min(_EXTRA_BITS, _SUM_BITS - math.frexp(size)[1]))
    fixed = np.rint(moved * scale).astype(np.int64)
    picks, bound = _bound(
        core.bounds, core.gains * scale, core.clause_bounds, core.literals, core.negated, core.weights * scale, fixed
    )
    return int(bound) // scale, picks, moved


@compiled
def _best_but(beliefs: NDArray[np.float64], start: int, stop: int, option: int) -> float:
    """The largest belief of a block, one option excepted."""
    best = -np.inf
    for other in range(start, stop):
        if other != option and beliefs[other] > best:
            best = beliefs[other]
    return best


@compiled
def _ascend(
    bounds: NDArray[np.int64],
    block_of: NDArray[np.int64],
    gains: NDArray[np.int64],
    clause_bounds: NDArray[np.int64],
    literals: NDArray[np.int32],
    negated: NDArray[np.bool_],
    weights: NDArray[np.int64],
    deltas: NDArray[np.float64],
    sweeps: int,
) -> None:
    # A negated literal holds for every option but its own: -delta there is +delta elsewhere, up to a constant.
    beliefs = gains.astype(np.float64)
    for literal in range(literals.size):
        beliefs[literals[literal]] += -deltas[literal] if negated[literal] else deltas[literal]
    margins = np.empty(literals.size)  # What holding is worth to the block of each literal of the clause in hand.
    for _ in range(sweeps):
        for clause in range(weights.size):
            start, stop = clause_bounds[clause], clause_bounds[clause + 1]
            weight = float(weights[clause])
            total, positive, least, second, small = 0.0, 0.0, np.inf, np.inf, -1
            for literal in range(start, stop):
                option = literals[literal]
                block = block_of[option]
                others = _best_but(beliefs, bounds[block], bounds[block + 1], option)
                if negated[literal]:
                    margin = others - (beliefs[option] + deltas[literal])
                else:
                    margin = beliefs[option] - deltas[literal] - others
                margins[literal] = margin
                total += margin
                positive += max(0.0, margin)
                if margin < least:
                    least, second, small = margin, least, literal
                elif margin < second:
                    second = margin
            for literal in range(start, stop):
                margin = margins[literal]
                rest = positive - max(0.0, margin)  # Best of the other literals, whatever becomes of this one.
                lowest = second if literal == small else least
                not_all = rest - max(0.0, lowest)  # The same where not all of them may hold.
                holds = margin + max(weight + total - margin, not_all)
                moved = (holds - rest) / (stop - start) - margin
                beliefs[literals[literal]] += (deltas[literal] - moved) * (1.0 if negated[literal] else -1.0)
                deltas[literal] = moved


@compiled
def _bound(
    bounds: NDArray[np.int64],
    gains: NDArray[np.int64],
    clause_bounds: NDArray[np.int64],
    literals: NDArray[np.int32],
    negated: NDArray[np.bool_],
    weights: NDArray[np.int64],
    deltas: NDArray[np.int64],
) -> tuple[NDArray[np.int64], int]:
    """The first best option of each block, and the sum of the separate maxima, all in integers."""
    picks, beliefs = np.empty(bounds.size - 1, dtype=np.int64), gains.copy()
    bound = 0
    for literal in range(literals.size):
        beliefs[literals[literal]] += -deltas[literal] if negated[literal] else deltas[literal]
        bound += deltas[literal] if negated[literal] else 0
    for block in range(picks.size):
        best = bounds[block]
        for option in range(bounds[block] + 1, bounds[block + 1]):
            if beliefs[option] > beliefs[best]:
                best = option
        picks[block] = best
        bound += beliefs[best]
    for clause in range(weights.size):
        all_hold, positive, least = weights[clause], 0, -deltas[clause_bounds[clause]]
        for literal in range(clause_bounds[clause], clause_bounds[clause + 1]):
            all_hold -= deltas[literal]
            positive += max(0, -deltas[literal])
            least = min(least, -deltas[literal])
        bound += max(all_hold, positive - max(0, least))
    return picks, bound
