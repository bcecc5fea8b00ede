"""The constants of ``clipped_gaussian``. ``dpcore/decisions/clipping.md`` has the measurements that chose them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# Whether a query is measured depends on the noise of the first two measurements. The interval of the third measurement
# and the two bounds that follow from the first two therefore have to hold together: 0.04 + 0.005 + 0.005 = 0.05.
NOISE_CONFIDENCE: Final = 0.96
BOUND_CONFIDENCE: Final = 0.995


@dataclass(frozen=True)
class ClippedGaussianConstants:
    """How ``ClippedGaussian`` divides its budget, in parts of the whole, and how it chooses what to measure.

    marginals_share: Share of the basket sizes and the clipped one-way marginals.
    histogram_share: Share of the histogram of how many queries each unit satisfies.
    units_share: Share of the number of units, if it is private and a query has negated literals alone.
    min_predicted_queries: Minimum number of queries for which one-way marginals are measured and answers are predicted
        from each other. From 100 on, fewer queries are still estimated, as exchangeable.
    set_fractions: Fractions of the queries, the most popular ones, that may be measured without the others.
    max_set_noise: Maximum noise of a histogram cell, as a fraction of the units, at which subsets of the queries are
        counted; above it the histogram covers all queries alone.
    max_to_mean: Assumed ratio of the largest answer to the mean answer in a slice of queries that is not measured. It
        was 3.5 to 8 on four datasets.
    shrunk_noise_factor: Predicted largest error from noise of estimates, in standard deviations. It was 2.5 to 3.5
        on five datasets.
    noise_factor: The same of measured values: the largest of about 100,000 standard normal variables.
    loss_deviations: For queries with negations, histogram cells below this many standard deviations do not count
        towards the expected loss, because an empty cell that noise filled would add to every answer.
    """

    marginals_share: float = 0.04
    histogram_share: float = 0.03
    units_share: float = 0.04
    min_predicted_queries: int = 500
    set_fractions: tuple[float, ...] = (1.0, 0.3, 0.1, 0.03, 0.01)
    max_set_noise: float = 0.0005
    max_to_mean: float = 4.0
    shrunk_noise_factor: float = 3.0
    noise_factor: float = 4.5
    loss_deviations: float = 4.0
