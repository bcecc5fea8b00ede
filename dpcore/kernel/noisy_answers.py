"""Turns the noisy integers of a call into a measurement, and refuses those that may have been clipped. TRUSTED."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.errors import CutOffError
from dpcore.kernel.budget import CostBasis
from dpcore.measurement import GRID_BITS, Measurement, Noise
from dpcore.queries import Measurable

_LARGEST_STEPS: Final = 1 << 61  # Noise steps from which a noisy answer is refused.


def measurement_of(queries: Measurable, basis: CostBasis, noise: Noise, steps: NDArray[np.int64]) -> Measurement:
    """The measurement of an answer in noise steps. Raises CutOffError when it may have been clipped."""
    _check_range(steps, noise)
    steps_per_count = 1 << GRID_BITS if noise is Noise.ROUNDED_GAUSSIAN else 1
    return Measurement(queries, steps / (steps_per_count * basis.denominator), noise, basis.scale / basis.denominator)


def _check_range(steps: NDArray[np.int64], noise: Noise) -> None:
    """Raises CutOffError when a noisy answer is at least 2^61 noise steps in size, because it may have been clipped.

    Exact answers are clipped at 2^62, noisy ones at 2^63 steps. A clipped value is still at least 2^61 steps after
    noise is added. The check reads noisy answers alone, which are public. Counts never come near the limit; products
    with large entries over very many rows may.
    """
    if steps.size and max(int(steps.max()), -int(steps.min())) >= _LARGEST_STEPS:
        finer = "; zCDP leaves 10 more bits" if noise is Noise.ROUNDED_GAUSSIAN else ""
        raise CutOffError(
            "a noisy answer reached 2^61 steps of its noise and may have been clipped; want a strategy of smaller "
            f"integers, such as strategy: parts of mechanism hdmm{finer}"
        )
