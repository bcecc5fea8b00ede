"""Fits of a graphical model to any convex loss of its marginals, by first-order methods in its log-potentials."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Protocol, final

import numpy as np
from numpy.typing import NDArray

from dpcore.estimation.graphical.inference.belief_propagation import MarginalOracle
from dpcore.estimation.graphical.likelihood.losses import Loss
from dpcore.estimation.graphical.likelihood.mirror_steps import Pace, Patience, Point, Walk, between

Vector = NDArray[np.float64]
_SHARE_OF_LAST: Final = 0.1  # Of the calls, for potentials as good as the averaged marginals.
_LAST_WINDOW: Final = 10


@dataclass(frozen=True, eq=False)
class Fit:
    """A member of the exponential family.

    potentials: float64 [oracle.queries.size], its log-potentials.
    marginals: float64 [oracle.queries.size], its marginals, in counts.
    loss: At these marginals; never above that of the start.
    iterations: Calls of the marginal oracle.
    step: What to hand to the next fit of a problem that has grown.
    """

    potentials: Vector
    marginals: Vector
    loss: float
    iterations: int
    step: float


class Estimator(Protocol):
    """Lowers a convex loss of marginals over the graphical models with potentials on the cliques of the loss."""

    def estimate(
        self, oracle: MarginalOracle, loss: Loss, total: float, start: Vector, step: float | None = None
    ) -> Fit:
        """The fit of ``total`` records, from the log-potentials ``start``; -inf there stays.

        oracle: Its cliques are those of the loss.
        step: First length of a step; None for one that the loss suggests.

        Raises ValueError for an oracle of other cliques, a total that is not positive, or potentials that exclude
        every record.
        """
        ...


@final
@dataclass(frozen=True)
class MirrorDescent:
    """Entropic mirror descent whose step doubles until one is refused, then grows slowly, and halves when refused.

    A loss whose gradient jumps may rise in a step, by a slack that shrinks as progress ends; the lowest point counts.

    iterations: Most calls of the marginal oracle.
    tolerance: Ends when ``window`` calls lower the loss by less than this fraction of itself.

    Source: thesis, Algorithm 2. Slack: Nesterov, "Universal gradient methods for convex optimization problems" (2015),
    the primal method.
    """

    iterations: int = 1000
    tolerance: float = 1e-4
    window: int = 50

    def estimate(
        self, oracle: MarginalOracle, loss: Loss, total: float, start: Vector, step: float | None = None
    ) -> Fit:
        walk = Walk(oracle, loss, total, self.iterations)
        first = walk.at(start)
        pace = Pace(walk.first_step(first) if step is None else step)
        patience = Patience(self.tolerance, self.window, math.isfinite(loss.curvature))
        return _fit(walk, first, walk.descended(first, pace, patience), pace)


@final
@dataclass(frozen=True)
class DualAveraging:
    """Accelerated dual averaging, with a step from the curvature of the loss: no line search, and usually too short.

    With N KL(p' | p) as distance, which is at least |N p' - N p|_1^2 / (2 N) (Pinsker), the constant K of the algorithm
    is N ``loss.curvature``. Its marginals are an average that belongs to no potentials; mirror descent from the last
    potentials brings these as low, or as low as a tenth of the calls allows.

    iterations, tolerance, window: As for ``MirrorDescent``.

    Raises ValueError for a loss whose gradient jumps.

    Source: thesis, Algorithm 3.
    """

    iterations: int = 1000
    tolerance: float = 1e-4
    window: int = 50

    def estimate(
        self, oracle: MarginalOracle, loss: Loss, total: float, start: Vector, step: float | None = None
    ) -> Fit:
        if not math.isfinite(loss.curvature):
            raise ValueError("the gradient of the loss jumps; want mirror descent, or the universal method")
        walk = Walk(oracle, loss, total, self.iterations)
        first = point = walk.at(start)
        length = walk.first_step(first) if step is None else step
        average, slope = first.marginals, np.zeros(start.size)
        value, t = walk.value(first), 0
        patience = Patience(self.tolerance, self.window, smooth=True)
        while walk.calls < _but_last(self.iterations) and not patience.ended(walk.calls, value):
            t += 1
            share = 2 / (t + 1)
            _, gradient = loss(between(average, point.marginals, share))
            slope = between(slope, walk.centred(gradient, first), share)
            point = walk.at(start - 0.25 * t * (t + 1) * length * slope)
            average = between(average, point.marginals, share)
            value = min(value, loss(average)[0])
        return _fit(walk, first, _caught_up(walk, point, Pace(length), value, self.tolerance), Pace(length))


@final
@dataclass(frozen=True)
class UniversalAccelerated:
    """Mirror descent with momentum that finds the curvature as it goes, for losses with or without a smooth gradient.

    Each step starts ahead of the current log-potentials, on the line from those before it, and is as long as the
    curvature met on the way allows; where the loss rises, momentum begins anew, and the next step is one of mirror
    descent. Momentum is that of Nesterov's method where the relative entropy is nearly quadratic: potentials stand for
    marginals, so that every point is a model. A step takes two calls of the oracle.

    iterations, tolerance, window: As for ``MirrorDescent``; so is the slack.

    Source: Nesterov, "Universal gradient methods for convex optimization problems" (2015), for steps from ahead with a
    search for the curvature. New beginnings: O'Donoghue and Candes, "Adaptive restart for accelerated gradient schemes"
    (2015), section 3.2.
    """

    iterations: int = 1000
    tolerance: float = 1e-4
    window: int = 50

    def estimate(
        self, oracle: MarginalOracle, loss: Loss, total: float, start: Vector, step: float | None = None
    ) -> Fit:
        walk = Walk(oracle, loss, total, self.iterations)
        first = walk.at(start)
        pace = Pace(walk.first_step(first) if step is None else step)
        patience = Patience(self.tolerance, self.window, math.isfinite(loss.curvature))
        possible = np.isfinite(start)
        point = best = ahead = first
        value = lowest = walk.value(first)
        momentum = 1.0
        while walk.calls < self.iterations and not patience.ended(walk.calls, lowest):
            slack = patience.slack(lowest)
            stepped = walk.stepped(ahead, pace, slack)
            if stepped is None:
                break
            after, value_after = stepped
            if value_after < lowest:
                best, lowest = after, value_after
            if value_after > value + slack and momentum > 1:
                momentum, ahead = 1.0, point
                continue
            larger = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
            share, momentum = (momentum - 1) / larger, larger
            far = share > 0 and walk.calls < self.iterations
            ahead = walk.at(_beyond(point, after, share, possible)) if far else after
            point, value = after, value_after
        return _fit(walk, first, best, pace)


def _beyond(before: Point, after: Point, share: float, possible: NDArray[np.bool_]) -> Vector:
    """Log-potentials of ``after``, moved on by a share of the way from ``before``; -inf has no way."""
    found = after.potentials.copy()
    found[possible] += share * (after.potentials[possible] - before.potentials[possible])
    return found


def _but_last(iterations: int) -> int:
    return iterations - int(_SHARE_OF_LAST * iterations)


def _caught_up(walk: Walk, point: Point, pace: Pace, value: float, tolerance: float) -> Point:
    """Mirror descent until the loss is about as low as ``value``."""
    patience = Patience(tolerance, _LAST_WINDOW, math.isfinite(walk.loss.curvature))
    return walk.descended(point, Pace(pace.step), patience, value + tolerance * abs(value))


def _fit(walk: Walk, first: Point, last: Point, pace: Pace) -> Fit:
    """The lower one of two points."""
    low, high = walk.value(first), walk.value(last)
    found = last if high < low else first
    return Fit(found.potentials, found.marginals, min(low, high), walk.calls, pace.step)
