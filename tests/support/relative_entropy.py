"""The relative entropy by which Hardt, Ligett and McSherry (2012) compare whole tables."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def relative_entropy(exact: NDArray[np.int64], model: NDArray[np.float64]) -> float:
    """Relative entropy of an exact table with respect to a model, in nats; infinite if the model excludes a record.

    exact: Counts of the cells, int64. SENSITIVE.
    model: Estimated counts of the same cells, float64. Both tables are scaled to sum 1.

    Source: Hardt, Ligett and McSherry (2012), section 3.2.
    """
    present = exact > 0
    b = exact[present] / exact.sum()
    a = model[present] / model.sum()
    with np.errstate(divide="ignore"):  # The result is infinite where the model has 0 and the data do not.
        return float((b * np.log(b / a)).sum())
