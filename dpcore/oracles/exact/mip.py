"""The best response by a mixed-integer program, solved by HiGHS.

Strong linearisation: z_c stands for "clause c holds" and lies in [0, 1];
    weight > 0:  z_c <= l for each literal l of c (a value x_i, or 1 - x_i where it is negated);
    weight < 0:  z_c >= sum of the literals - (k - 1).
It is much tighter than the paper's k z_c <= sum of the literals: with about as many samples as columns its linear
relaxation is mostly integral. For integral x every z is integral at an optimum, so only x is declared integral.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import highspy
import numpy as np
from numpy.typing import NDArray

from dpcore.errors import EngineError
from dpcore.oracles.clauses import SignedClauses
from dpcore.oracles.coordinate_ascent import NONE, Blocks, blocks_of, improved_record
from dpcore.oracles.protocol import BestResponse

# Because of its tolerances, HiGHS may report a bound that is this much below the true bound, which is an integer.
_SLACK = 1e-4
_CHECKS_PER_NODE = 50  # HiGHS's own interruption checks, which bound the work before the first branching.
_DEFAULT_NODES = 1000  # Enough for every program that is worth solving exactly.
_USABLE = (
    highspy.HighsModelStatus.kOptimal,
    highspy.HighsModelStatus.kSolutionLimit,
    highspy.HighsModelStatus.kInterrupt,
)


@final
@dataclass(frozen=True)
class Highs:
    """Linear relaxation, rounding and coordinate ascent, then branch and bound if a gap remains.

    node_limit: The largest number of nodes of branch and bound; 0 for no branch and bound. It counts work, never
        seconds, so that responses can be reproduced; the work before the first branching is limited in proportion. With
        more samples than columns and weights of similar size a node can take seconds.
    tolerance: The gap at which the search ends, as a fraction of the sum of absolute clause weights. DualQuery needs no
        exact response: alpha / 4 of the average sampled query suffices (full paper, Algorithm 2).
    """

    node_limit: int = _DEFAULT_NODES
    tolerance: float = 0.0

    def respond(self, clauses: SignedClauses, preferences: NDArray[np.float64]) -> BestResponse:
        """The response; see ``Oracle``."""
        return self.respond_from(clauses, preferences, None)

    def respond_from(
        self, clauses: SignedClauses, preferences: NDArray[np.float64], start: NDArray[np.bool_] | None
    ) -> BestResponse:
        """The response, no worse than a known record.

        clauses: The objective, as for ``Oracle.respond``.
        preferences: float64 [view.columns], as for ``Oracle.respond``.
        start: bool [n], the values of the known record in ``clauses.columns``; None for no record.

        Raises EngineError if HiGHS ends without a solution.
        """
        blocks = blocks_of(clauses, preferences)
        if clauses.weights.size == 0:
            chosen = np.full(len(blocks.spare), NONE, dtype=np.int64)
            # Without clauses each block takes its largest gain.
            used, record = improved_record(clauses, blocks, chosen, preferences)
            return BestResponse(record, clauses.value(used), clauses.value(used))
        model = _model(clauses, blocks)
        relaxation, bound = _solve_relaxation(model, clauses)
        used, record = improved_record(clauses, blocks, _rounded(relaxation, blocks), preferences)
        if start is not None and clauses.value(start) > clauses.value(used):
            used, record = improved_record(clauses, blocks, _rounded(start.astype(np.float64), blocks), preferences)
        gap = bound - clauses.value(used)
        if self.node_limit and gap > self.tolerance * float(np.abs(clauses.weights).sum()):
            solution, proved_bound = _branch_and_bound(model, clauses, used, self.node_limit)
            bound = min(bound, proved_bound)
            better = improved_record(clauses, blocks, _rounded(solution, blocks), preferences)
            if clauses.value(better[0]) > clauses.value(used):
                used, record = better
        return BestResponse(record, clauses.value(used), bound)


def _branch_and_bound(
    model: highspy.HighsLp, clauses: SignedClauses, start: NDArray[np.bool_], node_limit: int
) -> tuple[NDArray[np.float64], int]:
    """The best x found, float64 [n], and a bound; the search starts from the record ``start``."""
    columns = len(clauses.columns)
    continuous = [highspy.HighsVarType.kContinuous] * len(clauses.weights)
    model.integrality_ = [highspy.HighsVarType.kInteger] * columns + continuous
    solver = _solver()
    solver.setOptionValue("mip_max_nodes", node_limit)
    solver.setOptionValue("mip_rel_gap", 0.0)
    solver.setOptionValue("mip_abs_gap", 1 - 2 * _SLACK)  # Two integers that are closer than this are equal.
    solver.passModel(model)
    satisfied = (start[clauses.literals] != clauses.negated).all(axis=1)
    point = highspy.HighsSolution()
    point.col_value = np.concatenate([start, satisfied]).astype(np.float64).tolist()
    solver.setSolution(point)
    solver.cbMipInterrupt += _stop_after(_CHECKS_PER_NODE * node_limit)
    _run(solver)
    return _values(solver, columns), math.floor(clauses.constant - solver.getInfo().mip_dual_bound + _SLACK)


def _stop_after(checks: int) -> Callable[[highspy.HighsCallbackEvent], None]:
    """A callback that interrupts after a number of HiGHS's own checks, which one thread makes at the same points.

    Nodes alone do not bound the work: cuts at the root can take seconds.
    """
    remaining_checks = iter(range(checks))

    def check(event: highspy.HighsCallbackEvent) -> None:
        if next(remaining_checks, None) is None:
            event.interrupt()

    return check


def _model(clauses: SignedClauses, blocks: Blocks) -> highspy.HighsLp:
    """Minimises -gains . x - weights . z over x (columns) and z (clauses), with the rows of the module docstring."""
    columns, order = len(clauses.columns), clauses.literals.shape[1]
    signs = np.where(clauses.negated, -1.0, 1.0)
    positive, negative_clauses = np.flatnonzero(clauses.weights > 0), np.flatnonzero(clauses.weights < 0)
    negated_literals = clauses.negated.sum(axis=1)
    groups = np.diff(blocks.bounds) if clauses.view.groups else np.empty(0, dtype=np.int64)
    # Row by row: z - sign x <= [negated]; z - sum of sign x >= negated - (k - 1); sum of a group = 1, or <= 1.
    indices = [
        np.stack([np.repeat(columns + positive, order), clauses.literals[positive].ravel()], axis=1).ravel(),
        np.concatenate([columns + negative_clauses[:, None], clauses.literals[negative_clauses]], axis=1).ravel(),
        np.arange(columns if len(groups) else 0),
    ]
    values = [
        np.stack([np.ones(positive.size * order), -signs[positive].ravel()], axis=1).ravel(),
        np.concatenate([np.ones((negative_clauses.size, 1)), -signs[negative_clauses]], axis=1).ravel(),
        np.ones(columns if len(groups) else 0),
    ]
    lengths = np.concatenate([np.full(positive.size * order, 2), np.full(negative_clauses.size, order + 1), groups])
    lower = [
        np.full(positive.size * order, -highspy.kHighsInf),
        negated_literals[negative_clauses] - (order - 1.0),
        np.where(blocks.none_allowed, 0.0, 1.0)[: len(groups)],
    ]
    upper = [
        clauses.negated[positive].ravel().astype(np.float64),
        np.full(negative_clauses.size, highspy.kHighsInf),
        np.ones(len(groups)),
    ]
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = columns + len(clauses.weights), len(lengths)
    model.col_cost_ = -np.concatenate([clauses.gains, clauses.weights]).astype(np.float64)
    model.col_lower_, model.col_upper_ = np.zeros(model.num_col_), np.ones(model.num_col_)
    model.row_lower_, model.row_upper_ = np.concatenate(lower), np.concatenate(upper)
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.num_col_, model.a_matrix_.num_row_ = model.num_col_, model.num_row_
    model.a_matrix_.start_ = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    model.a_matrix_.index_ = np.concatenate(indices).astype(np.int32)
    model.a_matrix_.value_ = np.concatenate(values)
    return model


def _solve_relaxation(model: highspy.HighsLp, clauses: SignedClauses) -> tuple[NDArray[np.float64], int]:
    """The values of x at an optimum of the linear relaxation, and the bound that its value proves."""
    solver = _solver()
    solver.passModel(model)
    _run(solver)
    bound = math.floor(clauses.constant - solver.getInfo().objective_function_value + _SLACK)
    return _values(solver, len(clauses.columns)), min(bound, clauses.upper_bound())


def _solver() -> highspy.Highs:
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.silent()
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("random_seed", 0)
    return solver


def _run(solver: highspy.Highs) -> None:
    """Runs the solver. Raises EngineError if it ends without a solution."""
    solver.run()
    if solver.getModelStatus() == highspy.HighsModelStatus.kNotset:
        # HiGHS keeps one scheduler per process: after a run with another number of threads it returns no solution.
        highspy.Highs.resetGlobalScheduler(True)
        solver.run()
    status = solver.getModelStatus()
    if status not in _USABLE:
        raise EngineError(f"HiGHS ended with {solver.modelStatusToString(status)!r}; want a solution")


def _values(solver: highspy.Highs, columns: int) -> NDArray[np.float64]:
    return np.asarray(solver.getSolution().col_value[:columns], dtype=np.float64)


def _rounded(values: NDArray[np.float64], blocks: Blocks) -> NDArray[np.int64]:
    """The choice of largest value in each block; the value of "none" is 1 minus the sum of the block's columns."""
    starts = blocks.bounds[:-1]
    block_of = np.repeat(np.arange(len(starts)), np.diff(blocks.bounds))
    order = np.lexsort((-np.arange(len(values)), values, block_of))
    best = order[np.append(np.flatnonzero(np.diff(block_of)), len(values) - 1)]
    missing = 1.0 - np.add.reduceat(values, starts)
    return np.where(blocks.none_allowed & (missing >= values[best]), NONE, best)
