"""The model closest to a base among those that explain the measurements, by its dual: smooth, and with a certificate.

Primal: minimise over distributions p   P(p) = N KL(p || base) + 1/2 sum_j (tau_j / kappa_j) (A_j N p - y_j)^2.
Its solution is p proportional to base * exp(A^T lambda) with lambda_j = -tau_j (A_j N p - y_j) / kappa_j, and lambda
minimises

    f(lambda) = N log Z(A^T lambda) - y . lambda + 1/2 sum_j kappa_j lambda_j^2 / tau_j
    grad f    = A N p - y + kappa lambda / tau.

At any lambda   P(p_lambda) - min P <= P(p_lambda) + f(lambda) = 1/2 sum_j (tau_j / kappa_j) (grad_j f)^2:  it is known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.estimation.graphical.fitting.measurement_matrix import MeasurementMatrix
from dpcore.estimation.graphical.fitting.quasi_newton import descend
from dpcore.estimation.graphical.inference.belief_propagation import MarginalOracle

Vector = NDArray[np.float64]
_LEAST_COUNT: Final = 1.0
_FEWEST: Final = 2  # Sweeps at a time.
_CALLS: Final = 3  # Of the marginal oracle take about as long as a sweep.


@dataclass(frozen=True, eq=False)
class DualFit:
    """Multipliers of the rows, and what they give.

    potentials: float64 [rows.queries.size], of base and multipliers together.
    loss: 1/2 sum tau (A mu - y)^2.
    gap: 1/2 sum tau (grad f)^2, in units of the noise: with one kappa, at least kappa times the distance of the primal
        from its minimum.
    evaluations: Of f, sweeps among them for what they take.
    """

    multipliers: Vector
    potentials: Vector
    loss: float
    gap: float
    evaluations: int


@final
@dataclass(frozen=True)
class MaximumEntropy:
    """Penalised maximum entropy.

    strength: kappa, the weight of N KL(p || base) against the log-likelihood of the noise; one number, or one a row.
    tolerance: Stops when the gap is at most this many units a row of measurements; a row's own noise is worth 1/2.
    iterations: Most calls of the marginal oracle.
    """

    strength: float | Vector
    tolerance: float = 1e-3
    iterations: int = 1000

    def estimate(
        self,
        oracle: MarginalOracle,
        rows: MeasurementMatrix,
        total: float,
        base: Vector,
        start: Vector,
        counts: Vector | None = None,
        sweeps: Callable[[Vector, int], Vector] | None = None,
    ) -> DualFit:
        """The multipliers for ``rows``, from the log-potentials ``base`` and first multipliers ``start``.

        counts: ``rows.expected`` under the base, where that is known.
        sweeps: sweeps(multipliers, times) lowers f clique by clique (``BlockDescent.swept``). They come first, twice as
            many each time, as long as they halve the gap.

        The last call of the oracle is the one for the potentials of the fit.
        """
        kappa = self.strength / rows.precisions

        def potentials(multipliers: Vector) -> Vector:
            return base + rows.apply_transpose(multipliers)

        def dual(multipliers: Vector) -> tuple[float, Vector]:
            answers = rows.apply(total * oracle.marginals(potentials(multipliers)))
            penalty = kappa * multipliers
            value = total * oracle.log_partition - float(rows.values @ multipliers) + 0.5 * float(penalty @ multipliers)
            return value, answers - rows.values + penalty

        def gap(gradient: Vector) -> float:
            return 0.5 * float((rows.precisions * gradient) @ gradient)

        enough = self.tolerance * rows.values.size
        # The curvature along a row of a marginal is its expected count; that under the base stands for it.
        if counts is None:
            counts = rows.expected_counts(total * oracle.marginals(base))
        scales = 1 / np.sqrt(np.maximum(counts, _LEAST_COUNT) + kappa)
        used = 0
        if sweeps is not None:
            start, used = self._swept(sweeps, start, lambda point: gap(dual(point)[1]), enough)
        found, gradient, evaluations = descend(
            dual, start, scales, lambda _, slope: gap(slope) <= enough, self.iterations - used
        )
        residual = gradient - kappa * found
        loss = 0.5 * float((rows.precisions * residual) @ residual)
        return DualFit(found, potentials(found), loss, gap(gradient), used + evaluations)

    def _swept(
        self,
        sweeps: Callable[[Vector, int], Vector],
        point: Vector,
        gap: Callable[[Vector], float],
        enough: float,
    ) -> tuple[Vector, int]:
        """Where sweeps lead as long as they pay, and how many calls of the oracle they were worth."""
        times, before, used = _FEWEST, np.inf, 0
        while used + _CALLS * times < self.iterations:
            point, used = sweeps(point, times), used + _CALLS * times
            now = gap(point)
            if now <= enough or now > before / 2:
                break
            times, before = 2 * times, now
        return point, used
