"""The mean of two estimates of the same marginals: shrunken residuals, and one graphical model of all measurements.

Both read the same noisy values and err in different ways. Shrinking (``shrunken``) looks at one marginal and those
below it; the model joins what all of them say. Where noise prevails, the mean of both has less error than either.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.estimation.graphical.fitting.fit import FitSettings, fit_model
from dpcore.estimation.graphical.fitting.work import WorkMeter
from dpcore.measurement import Measurement
from dpcore.queries import Marginals

Real = NDArray[np.float64]
# The prior is learnt, as is sound for marginals that no answer selected.
_SETTINGS: Final = FitSettings(prior_scale=None, tolerance=1e-2, iterations=500)


def mean_with_model(values: Real, measured: Sequence[Measurement], queries: Marginals, meter: WorkMeter) -> Real:
    """Non-negative, consistent estimates of the answers of marginals, float64 [queries.size], in counts.

    values: float64 [queries.size], other such estimates, which all have the same number of rows.
    measured: The measurements, on the domain of the queries.
    queries: At least one marginal. The junction tree holds all of them.
    meter: Counts the work of the fit.
    """
    rows = max(1.0, float(values[: queries.sizes[0]].sum()))
    model = fit_model(queries.domain, measured, rows, _SETTINGS, cliques=queries.cliques, meter=meter).model
    return (values + model.answer(queries)) / 2
