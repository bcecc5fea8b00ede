"""Bounds on the errors of a model from noisy errors, measured for all candidates at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.estimation.graphical.confidence.noise_tails import signed_gaussians, signed_laplaces
from dpcore.measurement import ERROR_STEPS, Noise, NoisyErrors
from dpcore.queries import Marginals

_HALF_STEP: Final = 0.5 / ERROR_STEPS  # In counts: the largest rounding error of one cell.


@final
@dataclass(frozen=True, eq=False)
class ErrorRound:
    """Noisy L1 errors of a model's marginals, each with fresh noise; public. Implements ``bounds.Round``.

    before: The model.
    errors: Noisy L1 errors of its marginals, in counts.
    """

    before: GraphicalModel
    errors: NoisyErrors

    @property
    def candidates(self) -> Marginals:
        """The marginals whose errors were measured."""
        return self.errors.queries

    def errors_before(self, tail: float) -> NDArray[np.float64]:
        """Upper bounds on |M_r(D) - M_r(before)|_1, float64 [cliques]; with probability 1 - tail all of them hold.

        tail: Probability that some bound fails, in (0, 1).

        A noisy error is smaller than the error by x or more with probability P(z >= x), and each candidate gets an
        equal part of the tail. Rounding the model's cells to 1 / 256 changes an error by at most half a step for each
        cell, and rounding the noise by another half step.
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
