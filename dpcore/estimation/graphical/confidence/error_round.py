"""What noisy errors of a model, asked of all candidates at once, prove about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.estimation.graphical.confidence.noise_tails import signed_gaussians, signed_laplaces
from dpcore.measurement import ERROR_STEPS, Noise, NoisyErrors
from dpcore.queries import Marginals

_HALF_STEP: Final = 0.5 / ERROR_STEPS


@final
@dataclass(frozen=True, eq=False)
class ErrorRound:
    """L1 errors of a model, each with fresh noise; public. Stands among the rounds of ``bounds``.

    before: The model.
    errors: Of its marginals.
    """

    before: GraphicalModel
    errors: NoisyErrors

    @property
    def candidates(self) -> Marginals:
        return self.errors.queries

    def errors_before(self, tail: float) -> NDArray[np.float64]:
        """Upper bounds on |M_r(D) - M_r(before)|_1 for all candidates, float64 [cliques]: all hold with 1 - tail.

        A noisy error is below the error by more than x with a chance of P(z >= x), each candidate has an equal part of
        the tail, and rounding the model's cells to 1 / 256 moves an error by at most half a step a cell, as rounding
        the noise does once.
        """
        cells = np.array(self.candidates.sizes, dtype=np.float64)
        return np.asarray(
            np.maximum(0.0, self.errors.values + self._noise(tail / cells.size) + (cells + 1) * _HALF_STEP)
        )

    def _noise(self, tail: float) -> float:
        """x with P(z >= x) <= tail for the noise of one error, in counts."""
        if self.errors.noise is Noise.LAPLACE:
            return signed_laplaces(1, self.errors.scale * ERROR_STEPS, tail) / ERROR_STEPS
        return self.errors.scale * signed_gaussians(1, tail)
