"""Penalised maximum entropy: the model close to a base that explains the measurements, by its smooth dual.

Primal: minimise over distributions p   P(p) = N KL(p || base) + 1/2 sum_j (tau_j / kappa_j) (A_j N p - y_j)^2.
Its solution is p proportional to base * exp(A^T lambda) with lambda_j = -tau_j (A_j N p - y_j) / kappa_j, and lambda
minimises

    f(lambda) = N log Z(A^T lambda) - y . lambda + 1/2 sum_j kappa_j lambda_j^2 / tau_j
    grad f    = A N p - y + kappa lambda / tau.

Hence a certificate at any lambda:

    P(p_lambda) - min P <= P(p_lambda) + f(lambda) = 1/2 sum_j (tau_j / kappa_j) (grad_j f)^2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.estimation.graphical.fitting.measurement_matrix import MeasurementMatrix
from dpcore.estimation.graphical.fitting.quasi_newton import descend
from dpcore.estimation.graphical.fitting.work import FitWork, without_limit
from dpcore.estimation.graphical.inference.belief_propagation import MarginalOracle

Vector = NDArray[np.float64]
_MIN_COUNT: Final = 1.0  # In counts: curvatures are at least this.
_POWER: Final = 0.6  # Of the expected count of a row, as its curvature: the power that took the fewest calls.
_FIRST_SWEEPS: Final = 2  # Number of sweeps before the gap is first checked.
_WORTH_A_CALL: Final = 0.5  # Relative gap from which on an earlier point is worth another call of the oracle.
_CALLS_PER_SWEEP: Final = 3  # A sweep takes about as long as this many calls of the marginal oracle.


@dataclass(frozen=True, eq=False)
class DualFit:
    """Dual variables of the rows, and the model that they define.

    multipliers: lambda, float64 [rows].
    potentials: Log-potentials of base and multipliers together, float64 [matrix.queries.size].
    loss: 1/2 sum tau (A mu - y)^2.
    gap: 1/2 sum tau (grad f)^2, in units of the noise. With one kappa for all rows it is at least kappa times the
        distance of the primal from its minimum.
    evaluations: Number of evaluations of f; a sweep counts as ``_CALLS_PER_SWEEP``.
    """

    multipliers: Vector
    potentials: Vector
    loss: float
    gap: float
    evaluations: int


@dataclass
class _Closest:
    """The point with the smallest gap so far: f falls at every step, but the gap of a badly scaled f jumps.

    gap: Its gap.
    multipliers: The point, float64 [rows].
    """

    gap: float
    multipliers: Vector

    def update(self, gap: float, multipliers: Vector) -> None:
        """Keeps the point if its gap is smaller."""
        if gap < self.gap:
            self.gap, self.multipliers = gap, multipliers


@final
@dataclass(frozen=True)
class MaximumEntropy:
    """Penalised maximum entropy.

    strength: kappa, the weight of N KL(p || base) against the log-likelihood of the noise: one number, or one for each
        row.
    tolerance: The fit stops when the gap is at most this many units for each row; the noise of a row is worth 1/2 unit.
    iterations: The largest number of calls of the marginal oracle. If they do not reach the tolerance, the fit is the
        point with the smallest gap, not the last one, which takes one more call.
    """

    strength: float | Vector
    tolerance: float = 1e-3
    iterations: int = 1000

    def estimate(
        self,
        oracle: MarginalOracle,
        matrix: MeasurementMatrix,
        total: float,
        base: Vector,
        start: Vector,
        counts: Vector | None = None,
        sweeps: Callable[[Vector, int], Vector] | None = None,
        work: FitWork | None = None,
    ) -> DualFit:
        """Fits the multipliers of all rows.

        oracle: The marginal oracle of the cliques of the matrix.
        matrix: The measurements.
        total: N, the number of rows of the model, > 0.
        base: Log-potentials of the base, float64 [matrix.queries.size].
        start: First multipliers, float64 [rows].
        counts: ``matrix.expected_counts`` under the base if known; by default they are computed.
        sweeps: sweeps(multipliers, times) lowers f clique by clique (``BlockDescent.sweep``). The fit starts with
            sweeps, and doubles their number as long as they halve the gap. By default there are none.
        work: Counts all calls and sweeps. The fit stops early at its limit. By default there is none.

        The last call of the oracle is for the potentials of the fit.
        """
        kappa, work = self.strength / matrix.precisions, work or without_limit()

        def potentials(multipliers: Vector) -> Vector:
            return base + matrix.apply_transpose(multipliers)

        def dual(multipliers: Vector) -> tuple[float, Vector]:
            answers = matrix.apply(total * oracle.marginals(potentials(multipliers)))
            work.called()
            penalty = kappa * multipliers
            value = total * oracle.log_partition - float(matrix.values @ multipliers)
            return value + 0.5 * float(penalty @ multipliers), answers - matrix.values + penalty

        def gap(gradient: Vector) -> float:
            return 0.5 * float((matrix.precisions * gradient) @ gradient)

        allowed_gap = self.tolerance * matrix.values.size
        # The curvature along one row alone is its expected count, but other rows explain a part of each step.
        if counts is None:
            counts = matrix.expected_counts(total * oracle.marginals(base))
        scales = 1 / np.sqrt(np.maximum(counts, _MIN_COUNT) ** _POWER + kappa)
        used = 0
        if sweeps is not None:
            start, used = self._sweep(sweeps, start, lambda point: gap(dual(point)[1]), allowed_gap, work)
        closest = _Closest(np.inf, start)

        def recorded_dual(multipliers: Vector) -> tuple[float, Vector]:
            value, gradient = dual(multipliers)
            closest.update(gap(gradient), multipliers)
            return value, gradient

        def is_over(_: float, slope: Vector) -> bool:
            return work.is_spent or gap(slope) <= allowed_gap

        multipliers, gradient, evaluations = descend(recorded_dual, start, scales, is_over, self.iterations - used)
        if closest.gap < _WORTH_A_CALL * gap(gradient):
            multipliers, evaluations = closest.multipliers, evaluations + 1
            gradient = dual(multipliers)[1]
        residual = gradient - kappa * multipliers
        loss = 0.5 * float((matrix.precisions * residual) @ residual)
        return DualFit(multipliers, potentials(multipliers), loss, gap(gradient), used + evaluations)

    def _sweep(
        self,
        sweeps: Callable[[Vector, int], Vector],
        point: Vector,
        gap: Callable[[Vector], float],
        allowed_gap: float,
        work: FitWork,
    ) -> tuple[Vector, int]:
        """Sweeps as long as the gap halves. Returns the multipliers and the equivalent number of oracle calls."""
        times, last_gap, used = _FIRST_SWEEPS, np.inf, 0
        while used + _CALLS_PER_SWEEP * times < self.iterations and work.allows_sweeps(times):
            point, used = sweeps(point, times), used + _CALLS_PER_SWEEP * times
            work.swept(times)
            new_gap = gap(point)
            if new_gap <= allowed_gap or new_gap > last_gap / 2:
                break
            times, last_gap = 2 * times, new_gap
        return point, used
