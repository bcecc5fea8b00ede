"""The constants of ``basket_mixture``. ``dpcore/decisions/baskets.md`` has the measurements that chose them."""

from __future__ import annotations

from dataclasses import dataclass, field

from dpcore.estimation.baskets.mixture_fit import FitSettings


@dataclass(frozen=True)
class BasketMixtureConstants:
    """How ``BasketMixture`` divides its budget, in parts of the whole, what it measures, and how it fits the model.

    units_share: Share of the number of units, where it is private.
    sizes_share: Share of the histogram of basket sizes.
    counts_share: Share of the clipped item counts.
    pair_histogram_share: Share of the histogram of pairs of popular items in a basket. The clipped pairs get the rest.
    kept_units: Fraction of the units that clipping of item counts must not change.
    kept_pair_units: Fraction of the units that clipping of pairs need not change: an upper bound of the norm.
    noise_factor: Predicted largest error from noise after the fit, in standard deviations.
    max_popular, min_popular: Maximum and minimum number of popular items, whose pairs are measured.
    popular_deviations: Items with a noisy count above this many standard deviations are popular.
    fit: Bounds and candidates of the fit.
    """

    units_share: float = 0.01
    sizes_share: float = 0.08
    counts_share: float = 0.22
    pair_histogram_share: float = 0.02
    kept_units: float = 0.97
    kept_pair_units: float = 0.95
    noise_factor: float = 3.0
    max_popular: int = 300
    min_popular: int = 10
    popular_deviations: float = 2.0
    fit: FitSettings = field(default=FitSettings())
