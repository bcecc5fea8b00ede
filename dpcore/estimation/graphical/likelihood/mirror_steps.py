"""Steps of mirror descent in log-potentials: the length of a step, and when to stop.

With the relative entropy of the joint distribution as distance, the potentials theta - s g minimise
<g, mu> + (N / s) KL(p | p_theta), by the derivation of Algorithm 2 of the thesis. Here g is the gradient of a convex
loss L of the marginals mu in counts, and N the number of records. A step of length s is accepted if L stays below its
linear model plus the distance:

    L(mu') <= L(mu) + <g, mu' - mu> + (N / s) KL(p' | p).

As <g, mu - mu'> = (N / s) (KL(p' | p) + KL(p | p')), the right side is L(mu) - (N / s) KL(p | p'). Shifting g by a
constant for each clique changes no distribution; once it is shifted so that <g, mu> = 0, KL(p | p') = log Z' - log Z.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.estimation.graphical.inference.belief_propagation import MarginalOracle
from dpcore.estimation.graphical.likelihood.losses import Loss

Vector = NDArray[np.float64]
_SLOW_GROWTH: Final = 1.1  # Growth after the first rejection: doubling would have every second step rejected.
_MAX_HALVINGS: Final = 40
_ROUNDING: Final = 1e-13  # Relative rounding error of a loss.
_EPSILON: Final = 1e-15  # Relative rounding error of a log-partition.


@dataclass(frozen=True, eq=False)
class Point:
    """A member of the exponential family.

    potentials: Log-potentials, float64 [queries.size].
    marginals: Marginals in counts, float64 [queries.size].
    log_partition: ln Z times the number of records.
    """

    potentials: Vector
    marginals: Vector
    log_partition: float


@final
class StepLength:
    """The length of the next step: doubled until a step is rejected, then grown slowly, and halved by each rejection.

    step: The length, > 0.
    """

    def __init__(self, step: float) -> None:
        self.step = step
        self._growth = 2.0
        self._rejections = 0

    def grow(self) -> None:
        """Lengthens the step; to be called before a step is tried."""
        self._rejections = 0
        self.step *= self._growth

    def halve(self) -> bool:
        """Halves the step after a rejection.

        Returns: False after too many rejections, because then only rounding errors remain; the step is restored.
        """
        self._growth = _SLOW_GROWTH
        self.step /= 2
        self._rejections += 1
        if self._rejections == _MAX_HALVINGS:
            self.step *= 2.0**_MAX_HALVINGS
            return False
        return True


@final
class StoppingRule:
    """Stops when a window of calls of the oracle lowers the loss by less than a fraction of itself."""

    def __init__(self, tolerance: float, window: int) -> None:
        self._tolerance = tolerance
        self._window = window
        self._calls = 0
        self._value = math.inf

    def reached(self, calls: int, value: float) -> bool:
        """Whether to stop.

        calls: Number of calls of the oracle so far.
        value: The smallest loss so far.
        """
        if calls - self._calls < self._window and self._value < math.inf:
            return False
        stalled = self._value - value <= self._tolerance * abs(value)
        self._calls, self._value = calls, value
        return stalled


@final
class Descent:
    """One fit: the marginal oracle, the loss, and the number of calls that remain.

    oracle: Its cliques are those of the loss.
    loss: The loss to lower.
    total: Number of records of the model, > 0.
    max_calls: The largest number of calls of the oracle.

    Raises: ValueError for an oracle of other cliques than those of the loss, or a total that is not positive and
        finite.
    """

    def __init__(self, oracle: MarginalOracle, loss: Loss, total: float, max_calls: int) -> None:
        if oracle.queries.cliques != loss.queries.cliques:
            raise ValueError("the oracle and the loss have other cliques; want an oracle of the cliques of the loss")
        if not 0 < total < math.inf:
            raise ValueError("the number of records of a fit is not a positive finite number")
        self.oracle, self.loss, self.total, self.max_calls = oracle, loss, total, max_calls
        self.calls = 0
        self._starts = np.cumsum([0, *loss.queries.sizes])[:-1]
        self._sizes = loss.queries.sizes

    def evaluate(self, potentials: Vector) -> Point:
        """Calls the oracle once. Raises: ValueError if the potentials exclude every record."""
        self.calls += 1
        marginals = self.total * self.oracle.marginals(potentials)
        if not math.isfinite(self.oracle.log_partition):
            raise ValueError("the log-potentials exclude every record; want some that are possible together")
        return Point(potentials, marginals, self.total * self.oracle.log_partition)

    def loss_at(self, point: Point) -> float:
        """The loss of a point."""
        return self.loss(point.marginals)[0]

    def initial_step(self, point: Point) -> float:
        """A length that the curvature allows everywhere; for curvature 0, one that moves potentials by at most 1."""
        if self.loss.curvature > 0:
            return 1 / (self.loss.curvature * self.total)
        largest = float(np.abs(self._centred(self.loss(point.marginals)[1], point)).max())
        return 1 / largest if largest > 0 else 1.0

    def take_step(self, point: Point, length: StepLength) -> tuple[Point, float] | None:
        """Takes a step of mirror descent that its loss allows.

        Returns: The point after the step and its loss; None if the calls or the step lengths are exhausted.
        """
        value, gradient = self.loss(point.marginals)
        gradient = self._centred(gradient, point)
        length.grow()
        while True:
            after = self.evaluate(point.potentials - length.step * gradient)
            value_after = self.loss_at(after)
            if value_after <= self._upper_bound(value, point, after, length.step):
                return after, value_after
            if self.calls >= self.max_calls or not length.halve():
                return None

    def _centred(self, gradient: Vector, point: Point) -> Vector:
        """The gradient less its mean over each clique's marginal: the same direction for distributions."""
        means = np.add.reduceat(gradient * point.marginals, self._starts) / self.total
        return gradient - np.repeat(means, self._sizes)

    def _upper_bound(self, value: float, before: Point, after: Point, length: float) -> float:
        """value - KL(before | after) / length in counts, and what rounding may add to it."""
        fallen = value - (after.log_partition - before.log_partition) / length
        return fallen + _ROUNDING * abs(value) + _EPSILON * (self.total + abs(after.log_partition)) / length
