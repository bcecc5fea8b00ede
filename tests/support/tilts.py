"""Tilts that tests begin from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpcore.kernel.log_weights import LogWeights


def flat(size: int, constant: float = 0.0) -> LogWeights:
    """No records yet and no prior: all queries and complements alike."""
    return LogWeights(0.0, np.zeros(size, dtype=np.int32), 0, None, constant)


def with_prior(prior: Sequence[float], constant: float = 0.0) -> LogWeights:
    """No records yet."""
    return LogWeights(0.0, np.zeros(len(prior), dtype=np.int32), 0, np.array(prior), constant)
