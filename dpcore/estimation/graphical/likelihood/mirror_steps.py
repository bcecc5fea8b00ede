"""Steps in log-potentials, how long they may be, and when they end.

With the relative entropy of the joint as distance, theta - s g is the minimum of <g, mu> + (N / s) KL(p | p_theta), by
the derivation of Algorithm 2 of the thesis. It is taken to lower a convex loss L of marginals mu, in counts, when

    L(mu') <= L(mu) + <g, mu' - mu> + (N / s) KL(p' | p).

As <g, mu - mu'> = (N / s) (KL(p' | p) + KL(p | p')), the right side is L(mu) - (N / s) KL(p | p'). Once g is shifted
by a constant for each clique so that <g, mu> = 0, which moves no distribution, KL(p | p') = log Z' - log Z.
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
_SLOW_GROWTH: Final = 1.1  # After a first refusal: doubling throughout would waste every second call.
_MOST_HALVINGS: Final = 40
_ROUNDING: Final = 1e-13
_EPSILON: Final = 1e-15
_FIRST_SLACK: Final = 1 / 16


@dataclass(frozen=True, eq=False)
class Point:
    """A member of the exponential family.

    potentials, marginals: float64 [queries.size]; marginals in counts.
    log_partition: Times the number of records.
    """

    potentials: Vector
    marginals: Vector
    log_partition: float


@final
class Pace:
    """The length of a step: it doubles until one is refused, then grows slowly, and halves when refused."""

    def __init__(self, step: float) -> None:
        self.step = step
        self._growth = 2.0
        self._refused = 0

    def grow(self) -> None:
        self._refused = 0
        self.step *= self._growth

    def refuse(self) -> bool:
        """Halves the step. False where no length helps, and rounding is all that is left; the step is then restored."""
        self._growth = _SLOW_GROWTH
        self.step /= 2
        self._refused += 1
        if self._refused == _MOST_HALVINGS:
            self.step *= 2.0**_MOST_HALVINGS
            return False
        return True


@final
class Patience:
    """Ends when a window of calls lowers the loss by less than a fraction of itself.

    A loss whose gradient jumps may rise in a step, by a slack that is quartered instead, until it is as small.
    """

    def __init__(self, tolerance: float, window: int, smooth: bool) -> None:
        self._tolerance = tolerance
        self._window = window
        self._slack = 0.0 if smooth else _FIRST_SLACK
        self._calls = 0
        self._value = math.inf

    def ended(self, calls: int, value: float) -> bool:
        """value: The smallest loss so far, after this many calls."""
        if calls - self._calls < self._window and self._value < math.inf:
            return False
        stalled = self._value - value <= self._tolerance * abs(value)
        self._calls, self._value = calls, value
        if stalled and self._slack > self._tolerance:
            self._slack /= 4
            return False
        return stalled

    def slack(self, value: float) -> float:
        """How far above its bound a step may end."""
        return self._slack * abs(value)


@final
class Walk:
    """One fit: the oracle, the loss, and the calls that are left.

    Raises ValueError for an oracle of other cliques than those of the loss, or a total that is not positive.
    """

    def __init__(self, oracle: MarginalOracle, loss: Loss, total: float, most: int) -> None:
        if oracle.queries.cliques != loss.queries.cliques:
            raise ValueError("the oracle and the loss have other cliques; want an oracle of the cliques of the loss")
        if not 0 < total < math.inf:
            raise ValueError("the number of records of a fit is not a positive finite number")
        self.oracle, self.loss, self.total, self.most = oracle, loss, total, most
        self.calls = 0
        self._starts = np.cumsum([0, *loss.queries.sizes])[:-1]
        self._sizes = loss.queries.sizes

    def at(self, potentials: Vector) -> Point:
        """One call of the oracle. Raises ValueError where the potentials exclude every record."""
        self.calls += 1
        marginals = self.total * self.oracle.marginals(potentials)
        if not math.isfinite(self.oracle.log_partition):
            raise ValueError("the log-potentials exclude every record; want some that are possible together")
        return Point(potentials, marginals, self.total * self.oracle.log_partition)

    def value(self, point: Point) -> float:
        return self.loss(point.marginals)[0]

    def centred(self, gradient: Vector, point: Point) -> Vector:
        """The gradient less its mean over each clique's marginal: the same direction for distributions."""
        means = np.add.reduceat(gradient * point.marginals, self._starts) / self.total
        return gradient - np.repeat(means, self._sizes)

    def first_step(self, point: Point) -> float:
        """A length that a smooth loss allows everywhere; else one that moves no potential by more than 1."""
        if 0 < self.loss.curvature < math.inf:
            return 1 / (self.loss.curvature * self.total)
        largest = float(np.abs(self.centred(self.loss(point.marginals)[1], point)).max())
        return 1 / largest if largest > 0 else 1.0

    def bound(self, value: float, before: Point, after: Point, length: float) -> float:
        """value - KL(before | after) / length in counts, and what rounding may add to it."""
        fallen = value - (after.log_partition - before.log_partition) / length
        return fallen + _ROUNDING * abs(value) + _EPSILON * (self.total + abs(after.log_partition)) / length

    def stepped(self, point: Point, pace: Pace, slack: float) -> tuple[Point, float] | None:
        """A step of mirror descent that its loss allows, and that loss; None where calls or lengths are used up."""
        value, gradient = self.loss(point.marginals)
        gradient = self.centred(gradient, point)
        pace.grow()
        while True:
            after = self.at(point.potentials - pace.step * gradient)
            value_after = self.value(after)
            if value_after <= self.bound(value, point, after, pace.step) + slack / 2:
                return after, value_after
            if self.calls >= self.most or not pace.refuse():
                return None

    def descended(self, point: Point, pace: Pace, patience: Patience, target: float = -math.inf) -> Point:
        """The lowest point of mirror descent (thesis, Algorithm 2) that ends when the loss is down to ``target``."""
        best, lowest = point, self.value(point)
        while lowest > target and self.calls < self.most and not patience.ended(self.calls, lowest):
            stepped = self.stepped(point, pace, patience.slack(lowest))
            if stepped is None:
                break
            point, value = stepped
            if value < lowest:
                best, lowest = point, value
        return best


def between(one: Vector, other: Vector, share: float) -> Vector:
    """(1 - share) one + share other."""
    return one + share * (other - one)
