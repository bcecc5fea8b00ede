"""Plain mirror descent on the squared loss, as the thesis prints PrivatePGM: slow, and what faster fits must equal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from dpcore.estimation.graphical.inference.belief_propagation import MarginalOracle
from dpcore.estimation.graphical.likelihood.losses import Loss
from dpcore.estimation.graphical.likelihood.mirror_descent import LikelihoodFit
from dpcore.estimation.graphical.likelihood.mirror_steps import Descent, StepLength, StoppingRule


@final
@dataclass(frozen=True)
class MirrorDescent:
    """Entropic mirror descent with the arguments and results of ``AcceleratedMirrorDescent``, without momentum.

    Source: thesis, Algorithm 2.
    """

    iterations: int = 1000
    tolerance: float = 1e-4
    window: int = 50

    def estimate(
        self,
        oracle: MarginalOracle,
        loss: Loss,
        total: float,
        start: NDArray[np.float64],
        step: float | None = None,
    ) -> LikelihoodFit:
        descent = Descent(oracle, loss, total, self.iterations)
        first = point = best = descent.evaluate(start)
        length = StepLength(descent.initial_step(first) if step is None else step)
        stopping = StoppingRule(self.tolerance, self.window)
        lowest = descent.loss_at(first)
        while descent.calls < self.iterations and not stopping.reached(descent.calls, lowest):
            step_taken = descent.take_step(point, length)
            if step_taken is None:
                break
            point, value = step_taken
            if value < lowest:
                best, lowest = point, value
        return LikelihoodFit.of(descent, first, best, length)
