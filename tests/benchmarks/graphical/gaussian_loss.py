"""The loss by which fits are compared, in NumPy alone, so that every environment can compute it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def gaussian_loss(answers: NDArray[np.floating | np.integer], values: NDArray[np.floating], stddev: float) -> float:
    """Half the sum of squared residuals in standard deviations: minus the log-likelihood of the noise, less a constant.

    answers, values: Of the model and measured, [cells of all measured marginals], in counts.

    It is what mbi 2.0.0 minimises (``marginal_loss.from_linear_measurements`` with its defaults), so that its published
    figures compare.
    """
    residuals = (answers.astype(np.float64) - values.astype(np.float64)) / stddev
    return float(residuals @ residuals / 2)
