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


def initial_deltas(core: Core) -> NDArray[np.float64]:
    """The deltas that the ascent starts from: zeros, float64 [l]."""
    return np.zeros(len(core.literals))


def dual_ascent(
    core: Core, deltas: NDArray[np.float64], sweeps: int
) -> tuple[int, NDArray[np.int64], NDArray[np.float64]]:
    """Continues the ascent from given deltas.

    core: The core.
    deltas: float64 [l], from ``initial_deltas`` or an earlier call.
    sweeps: The number of sweeps over all clauses, >= 0.

    Returns an upper bound on the core's optimum, the best option of each block under the new deltas, int64 [b], and
    those deltas. The bound is computed in integers from rounded deltas, so it holds despite rounding errors.
    """
    new_deltas = deltas.copy()
    _ascend(
        core.bounds,
        core.block_of_option(),
        core.gains,
        core.clause_bounds,
        core.literals,
        core.negated,
        core.weights,
        new_deltas,
        sweeps,
    )
    size = float(np.abs(core.gains).sum()) + float(np.abs(core.weights).sum()) + 2 * float(np.abs(new_deltas).sum()) + 1
    scale = 1 << max(0, min(_EXTRA_BITS, _SUM_BITS - math.frexp(size)[1]))
    fixed = np.rint(new_deltas * scale).astype(np.int64)
    picks, bound = _bound(
        core.bounds, core.gains * scale, core.clause_bounds, core.literals, core.negated, core.weights * scale, fixed
    )
    return int(bound) // scale, picks, new_deltas


@compiled
def _best_other(beliefs: NDArray[np.float64], start: int, stop: int, option: int) -> float:
    """The largest belief of a block, except that of one option."""
    best = -np.inf
    for candidate in range(start, stop):
        if candidate != option and beliefs[candidate] > best:
            best = beliefs[candidate]
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
    """Sets the deltas of each clause to their optimum, clause by clause, in place."""
    # A negated literal holds for every option but its own: subtracting delta from its own option is adding it to all
    # others, up to a constant.
    beliefs = gains.astype(np.float64)
    for literal in range(literals.size):
        beliefs[literals[literal]] += -deltas[literal] if negated[literal] else deltas[literal]
    margins = np.empty(literals.size)  # For each literal of the clause, what its block gains if the literal holds.
    for _ in range(sweeps):
        for clause in range(weights.size):
            start, stop = clause_bounds[clause], clause_bounds[clause + 1]
            weight = float(weights[clause])
            total, positive, lowest_margin, second_margin, lowest_literal = 0.0, 0.0, np.inf, np.inf, -1
            for literal in range(start, stop):
                option = literals[literal]
                block = block_of[option]
                best_other = _best_other(beliefs, bounds[block], bounds[block + 1], option)
                if negated[literal]:
                    margin = best_other - (beliefs[option] + deltas[literal])
                else:
                    margin = beliefs[option] - deltas[literal] - best_other
                margins[literal] = margin
                total += margin
                positive += max(0.0, margin)
                if margin < lowest_margin:
                    lowest_margin, second_margin, lowest_literal = margin, lowest_margin, literal
                elif margin < second_margin:
                    second_margin = margin
            for literal in range(start, stop):
                margin = margins[literal]
                others_best = positive - max(0.0, margin)  # The best of the other literals, unconstrained.
                lowest_other = second_margin if literal == lowest_literal else lowest_margin
                others_not_all = others_best - max(0.0, lowest_other)  # The best if at least one of them must not hold.
                holds = margin + max(weight + total - margin, others_not_all)
                new_delta = (holds - others_best) / (stop - start) - margin
                beliefs[literals[literal]] += (deltas[literal] - new_delta) * (1.0 if negated[literal] else -1.0)
                deltas[literal] = new_delta


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
