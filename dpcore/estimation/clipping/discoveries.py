"""Which answers are not 0: q-values that control the false discovery rate, whatever the data contain."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpcore.estimation.clipping.noise_law import NoiseLaw


def q_values(values: NDArray[np.float64], noise: NoiseLaw) -> NDArray[np.float64]:
    """The q-value of "the exact answer is not 0" for each of m measured queries, float64 [m], in [0, 1].

    values: float64 [m], clipped answers with independent noise, in counts. Clipping never moves an answer of 0.
    noise: Its law.

    Formal guarantee: take the queries with a q-value of at most q, for a q that was fixed in advance. The expected
    fraction of them whose exact answer is 0 (0 if there are none) is at most q, over the noise alone, for all data.
    The p-value of a query is the probability that noise alone is at least as large as its value, so that it is uniform
    or larger if the answer is 0; and the noise in different values is independent.

    Source: Benjamini and Hochberg (1995).
    """
    p_values = noise.upper_tail(values)
    order = np.argsort(p_values, kind="stable")
    adjusted = p_values[order] * (values.size / np.arange(1, values.size + 1))
    result = np.empty(values.size)
    result[order] = np.minimum(np.minimum.accumulate(adjusted[::-1])[::-1], 1.0)
    return result
