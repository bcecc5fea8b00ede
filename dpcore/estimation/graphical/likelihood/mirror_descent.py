"""Fits of a graphical model to any smooth convex loss of its marginals, by mirror descent with momentum."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from dpcore.estimation.graphical.inference.belief_propagation import MarginalOracle
from dpcore.estimation.graphical.likelihood.losses import Loss
from dpcore.estimation.graphical.likelihood.mirror_steps import Descent, Point, StepLength, StoppingRule

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LikelihoodFit:
    """The result of a descent: a member of the exponential family.

    potentials: Its log-potentials, float64 [oracle.queries.size].
    marginals: Its marginals in counts, float64 [oracle.queries.size].
    loss: The loss at these marginals, never above that of the start.
    iterations: Number of calls of the marginal oracle that the descent made.
    step: Length of the last step, from which a fit to a larger problem can start.
    """

    potentials: Vector
    marginals: Vector
    loss: float
    iterations: int
    step: float

    @classmethod
    def of(cls, descent: Descent, first: Point, last: Point, length: StepLength) -> LikelihoodFit:
        """The one of two points of a descent that has the lower loss."""
        first_loss, last_loss = descent.loss_at(first), descent.loss_at(last)
        lowest = last if last_loss < first_loss else first
        return cls(lowest.potentials, lowest.marginals, min(first_loss, last_loss), descent.calls, length.step)


@final
@dataclass(frozen=True)
class AcceleratedMirrorDescent:
    """Mirror descent with momentum and a line search that adapts to the curvature of the loss.

    Each step starts ahead of the current log-potentials, on the line through the last two points, and is about as long
    as the observed curvature allows. If the loss rises, the momentum is reset to 1, and the next step is one of plain
    mirror descent. The momentum is that of Nesterov's method, which is accelerated where the relative entropy is nearly
    quadratic. The potentials are extrapolated, not the marginals, so every point is a model. A step takes two calls of
    the marginal oracle.

    iterations: The largest number of calls of the marginal oracle.
    tolerance: The descent stops when ``window`` calls lower the loss by less than this fraction of itself.
    window: Number of calls of the oracle after which the progress of the loss is checked.

    Source: Nesterov, "Universal gradient methods for convex optimization problems" (2015), for steps from ahead with a
    search for the curvature; O'Donoghue and Candes, "Adaptive restart for accelerated gradient schemes" (2015), section
    3.2, for the restarts.
    """

    iterations: int = 1000
    tolerance: float = 1e-4
    window: int = 50

    def estimate(
        self, oracle: MarginalOracle, loss: Loss, total: float, start: Vector, step: float | None = None
    ) -> LikelihoodFit:
        """Fits a model of ``total`` records to the loss.

        oracle: The marginal oracle of the cliques of the loss.
        loss: The loss, which is minimised over all models with potentials on its cliques.
        total: Number of records of the model, > 0.
        start: First log-potentials, float64 [oracle.queries.size]; cells at -inf stay excluded.
        step: Length of the first step; by default it follows from the curvature of the loss.

        Raises: ValueError for an oracle of other cliques, a total that is not positive and finite, or potentials that
            exclude every record.
        """
        descent = Descent(oracle, loss, total, self.iterations)
        first = descent.evaluate(start)
        length = StepLength(descent.initial_step(first) if step is None else step)
        stopping = StoppingRule(self.tolerance, self.window)
        possible = np.isfinite(start)
        point = best = ahead = first
        value = lowest = descent.loss_at(first)
        momentum = 1.0
        while descent.calls < self.iterations and not stopping.reached(descent.calls, lowest):
            step_taken = descent.take_step(ahead, length)
            if step_taken is None:
                break
            after, value_after = step_taken
            if value_after < lowest:
                best, lowest = after, value_after
            if value_after > value and momentum > 1:
                momentum, ahead = 1.0, point
                continue
            next_momentum = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
            share, momentum = (momentum - 1) / next_momentum, next_momentum
            extrapolates = share > 0 and descent.calls < self.iterations
            ahead = descent.evaluate(_extrapolate(point, after, share, possible)) if extrapolates else after
            point, value = after, value_after
        return LikelihoodFit.of(descent, first, best, length)


def _extrapolate(before: Point, after: Point, share: float, possible: NDArray[np.bool_]) -> Vector:
    """The log-potentials after + share * (after - before); excluded cells stay at -inf."""
    potentials = after.potentials.copy()
    potentials[possible] += share * (after.potentials[possible] - before.potentials[possible])
    return potentials
