"""The constants of ``frequent_itemsets``. ``dpcore/decisions/itemsets.md`` has the measurements that chose them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# Probability that an interval of a group fails: by its noise, and by its bound on what clipping took. The groups are
# items, pairs, triples, and the number of units: 3 (.0125 + .0025) + .005 = .05.
NOISE_FAILURE: Final = 0.0125
LOSS_FAILURE: Final = 0.0025
UNITS_FAILURE: Final = 0.005

LARGEST_PAIRS: Final = 10_000_000  # Pairs that are measured together.
LARGEST_TRIPLES: Final = 200_000  # Triples that are measured together: two passes of 100 ns a triple and 1,000 units.


@dataclass(frozen=True)
class FrequentItemsetsConstants:
    """How ``FrequentItemsets`` divides its budget, in parts of the whole, and how it chooses candidates.

    items_share: Share of the basket sizes and the clipped popularity of items.
    pairs_share: Share of all pairs if triples are measured too. Without triples the pairs have all that remains.
    histogram_part: Part of the share of pairs, and of triples, that measures how many of them each unit holds.
    margin: Items whose noisy count is this many standard deviations below the threshold are paired.
    pairs_per_listed: Maximum number of measured pairs per listed one, if ``top`` says how many are listed. More pairs
        would raise the noise of all of them in dense data, where units hold most pairs of popular items.
    triples_part: Triples of a predicted count of this part of the threshold are measured.
    triples_per_listed: Maximum number of measured triples per listed one, if ``top`` says how many are listed.
    max_shift: Maximum move of an estimate towards its prediction, in standard deviations of the noise.
    noise_factor: Predicted largest error from noise, in standard deviations, when a clip is chosen.
    loss_deviations: Histogram cells below this many standard deviations do not count towards the expected loss.
    allowed_deviations: The same for the loss that intervals allow for.
    loss_factor: Intervals allow for this many times the expected loss.
    """

    items_share: float = 0.12
    pairs_share: float = 0.42
    histogram_part: float = 0.05
    margin: float = 1.0
    pairs_per_listed: int = 40
    triples_part: float = 0.5
    triples_per_listed: int = 5
    max_shift: float = 0.5
    noise_factor: float = 2.5
    loss_deviations: float = 4.0
    allowed_deviations: float = 1.0
    loss_factor: float = 2.0
