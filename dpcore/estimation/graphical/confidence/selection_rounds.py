"""Rounds of an adaptive run, and the bounds that a noisy selection proves for all of its candidates."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique
from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.estimation.graphical.confidence.noise_tails import root_of_squares, signed_gaussians, signed_laplaces
from dpcore.measurement import ERROR_STEPS, GRID_BITS, Measurement, Noise
from dpcore.queries import Marginals

_HALF_STEP: Final = 0.5 / ERROR_STEPS  # In counts: estimates and penalties enter a score rounded to 1 / ERROR_STEPS.


@final
@dataclass(frozen=True, eq=False)
class SelectionRound:
    """One round of select, measure, estimate; public. Implements ``bounds.Round``.

    The scores of the selection are weight * (|M_r(D) - M_r(before)|_1 - penalty).

    candidates: The marginals C_t among which one was selected.
    chosen: Position of the selected marginal r_t among the candidates.
    weights: w_r as the score used them, after their rounding; float64 [cliques], positive.
    penalties: Penalties in counts, before or after their rounding to 1 / 256; float64 [cliques].
    before: The model that was scored, p_(theta_(t-1)).
    select_scale: Scale of the exponential or Gumbel noise of the selection, in units of the scores: counts times
        weight.
    measurement: Measurement of r_t with fresh noise.

    Raises: ValueError for fields that do not fit together.
    """

    candidates: Marginals
    chosen: int
    weights: NDArray[np.float64]
    penalties: NDArray[np.float64]
    before: GraphicalModel
    select_scale: float
    measurement: Measurement

    def __post_init__(self) -> None:
        count = len(self.candidates.cliques)
        for name in ("weights", "penalties"):
            if getattr(self, name).shape != (count,):
                raise ValueError(f"{name} of a round have shape {getattr(self, name).shape}; want {(count,)}")
        if not 0 <= self.chosen < count:
            raise ValueError(f"round chose candidate {self.chosen}; want 0 .. {count - 1}")
        if not (self.weights > 0).all() or self.select_scale < 0:
            raise ValueError("a round has a weight <= 0 or a selection scale < 0; want weights > 0 and a scale >= 0")
        measured = self.measurement.queries
        if not isinstance(measured, Marginals) or measured.cliques != (self.clique,):
            raise ValueError(f"round measured other queries than its choice; want the marginal {self.clique} alone")

    @property
    def clique(self) -> Clique:
        """The selected marginal, r_t."""
        return self.candidates.cliques[self.chosen]

    def errors_before(self, tail: float) -> NDArray[np.float64]:
        """Upper bounds on |M_r(D) - M_r(before)|_1, float64 [cliques]; with probability 1 - tail all of them hold.

        tail: Probability that some bound fails, in (0, 1).

        With E_r for that error and c for the chosen candidate, the noisy maximum and the measurement of c give

            E_r <= (w_c (E_c - penalty_c) + scale (ln(|C| - 1) + ln((1 - a) / a))) / w_r + penalty_r,

        with a = tail / 2. The other half of the tail is for E_c <= ``chosen_error``. Half a step of the score's grid is
        added for each cell and penalty. Proof of the term in the scale: under Gumbel noise, the probability that any of
        the candidates is selected whose score is below the best by x or more is at most m e / (1 + m e), where
        m = |C| - 1 and e = exp(-x / scale). Under exponential noise it is at most m e / 2, which is less if m e <= 1.

        Source: McKenna (2022), Theorem 16, whose term in lambda_1 lacks the factor w_c.
        """
        cells = np.array(self.candidates.sizes, dtype=np.float64)
        others, odds = len(cells) - 1, min(tail / 2, 0.5)
        noise = self.select_scale * (math.log(others) + math.log((1 - odds) / odds)) if others else 0.0
        rounded = self.penalties + (cells + 1) * _HALF_STEP
        error = self.chosen_error(tail / 2)
        best = self.weights[self.chosen] * (error - self.penalties[self.chosen] + (cells[self.chosen] + 1) * _HALF_STEP)
        errors = np.asarray((best + max(0.0, noise)) / self.weights + rounded)
        errors[self.chosen] = error
        return np.asarray(np.maximum(0.0, errors))

    def chosen_error(self, tail: float) -> float:
        """x with P(|M_c(D) - M_c(before)|_1 > x) <= tail for the measured candidate: the smaller of two bounds.

        Let d be the difference and z the noise. The noise was drawn after ``before`` was fixed, so sign(d) is
        independent of z.

            |d|_1 <= |d + z|_1 - <sign(d), z>             one signed sum of noise (Lemma 2)
            |d|_1 <= n^(1/2) |d|_2                        and |d + z|_2^2, less the n sigma^2 that is noise

        The first is sharper for large errors. The second holds for Gaussian noise only, and is sharper if noise
        dominates.
        """
        return min(self._by_signs(tail / 2), self._by_squares(tail / 2))

    @cached_property
    def _noisy_difference(self) -> NDArray[np.float64]:
        """d + z, float64 [cells], up to the sign."""
        before = replace(self.before)  # A copy, whose cache is freed with it.
        return before.answer(Marginals(before.domain, (self.clique,))) - self.measurement.values

    def _by_signs(self, tail: float) -> float:
        """The first bound of ``chosen_error``."""
        cells, noise, scale = self._noisy_difference.size, self.measurement.noise, self.measurement.scale
        observed = float(np.abs(self._noisy_difference).sum())
        if noise is Noise.LAPLACE:
            return observed + signed_laplaces(cells, scale, tail)
        return observed + scale * signed_gaussians(cells, tail) + cells * self._step

    def _by_squares(self, tail: float) -> float:
        """The second bound of ``chosen_error``; inf for Laplace noise."""
        noise, cells = self.measurement.noise, self._noisy_difference.size
        if noise is Noise.LAPLACE:
            return math.inf
        root = math.sqrt(cells)
        observed = (float(np.linalg.norm(self._noisy_difference)) + root * self._step) ** 2
        return root * root_of_squares(cells, observed, self.measurement.scale, tail, noise is Noise.GAUSSIAN)

    @property
    def _step(self) -> float:
        """The largest rounding error of the rounded Gaussian law; 0 for laws that are sub-Gaussian themselves."""
        return 2.0 ** -(GRID_BITS + 1) if self.measurement.noise is Noise.ROUNDED_GAUSSIAN else 0.0
