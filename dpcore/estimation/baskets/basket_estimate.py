"""From noisy sizes, item counts and pair counts to the model of baskets. All of it is post-processing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import logit

from dpcore.domain import BinaryView
from dpcore.estimation.baskets.basket_model import BasketMixture
from dpcore.estimation.baskets.count_correction import ItemLogits, corrected_items
from dpcore.estimation.baskets.item_counts import estimated_counts
from dpcore.estimation.baskets.mixture import RareItems, solved
from dpcore.estimation.baskets.mixture_fit import FitSettings, clipped_counts, fit_mixture
from dpcore.estimation.baskets.mixture_loss import Evidence
from dpcore.estimation.baskets.nodes import FIT_RATIO, max_nodes, node_of_sizes, nodes_of
from dpcore.estimation.baskets.size_law import SizeLaw

# Ranges of sizes: their ratio, and their smallest fraction of the units. A fit needs few, because logits are smooth.
_FIT_MASS: Final = 0.01  # With the ratio FIT_RATIO.
_MODEL_RATIO, _MODEL_MASS = 2**0.25, 0.003
_MODEL_ERROR: Final = 1e-4  # Frequencies are fitted no closer than this, because the model is no exact law of baskets.
_GROUPS_PER_OCTAVE: Final = 6.0  # Rare items with counts in the same range share a group.
_SMALLEST_COUNT, _LARGEST_FREQUENCY = 1e-3, 0.98  # Of clipped counts, so that every item has a logit.


@final
@dataclass(frozen=True, eq=False)
class BasketMeasurements:
    """Noisy measurements of baskets, in counts.

    view: The items.
    units: Number of units, >= 1.
    law: The law of sizes, before it is corrected so that the clipped item counts that it implies sum to those below.
    counts: float64 [items], clipped item counts. count_stddev: standard deviation of their noise.
    count_weights: float64, by basket size, the fraction of each item that the clipped counts keep.
    popular: int64 [M], the items whose pairs were measured.
    pairs: float64 [M, M], symmetric, clipped pair counts. pair_stddev: standard deviation of their noise.
    pair_weights: float64, by the number of pairs in a basket, the fraction of each that the clipped counts keep.
    """

    view: BinaryView
    units: float
    law: SizeLaw
    counts: NDArray[np.float64]
    count_stddev: float
    count_weights: NDArray[np.float64]
    popular: NDArray[np.int64]
    pairs: NDArray[np.float64]
    pair_stddev: float
    pair_weights: NDArray[np.float64]


def estimated_model(
    measured: BasketMeasurements,
    settings: FitSettings,
    generator: Generator,
    progress: Callable[[], None] = lambda: None,
) -> BasketMixture:
    """Fits the model of baskets.

    generator: For starting values and held-out pairs; the model is a function of the measurements and its state.
    progress: Called after each stage of the fit.
    """
    units, items = measured.units, measured.view.columns
    targets = _targets(measured)
    by_size = measured.count_weights[np.minimum(measured.law.sizes, len(measured.count_weights) - 1)]
    law = measured.law.tilted(measured.law.sizes * by_size, float(targets.sum()))
    nodes = nodes_of(law, node_of_sizes(law, FIT_RATIO, _FIT_MASS), by_size)
    evidence = Evidence(
        nodes,
        measured.counts[measured.popular] / units,
        max(measured.count_stddev / units, _MODEL_ERROR),
        measured.pairs / units,
        max(measured.pair_stddev / units, _MODEL_ERROR),
        measured.pair_weights,
    )
    outside = np.setdiff1d(np.arange(items), measured.popular)
    groups, numbers, means = _grouped(targets[outside])
    fitted = fit_mixture(evidence, RareItems(logit(means), numbers), means, settings, generator, progress)
    targets[measured.popular] = clipped_counts(fitted, nodes)
    base = np.empty(items)
    base[measured.popular] = fitted.parameters.base
    base[outside] = fitted.rare.logits[groups] + logit(targets[outside]) - logit(means[groups])
    fine = node_of_sizes(law, _MODEL_RATIO, _MODEL_MASS, max_nodes(items, len(fitted.parameters.shares)))
    fine_nodes = nodes_of(law, fine, by_size, nodes.centre)
    start = ItemLogits(base, solved(fitted.parameters, fitted.rare, fine_nodes).levels)
    error = measured.count_stddev / units
    logits = corrected_items(start, fitted.parameters, measured.popular, fine_nodes, targets, error)
    parameters = replace(fitted.parameters, base=logits.base[measured.popular])
    return BasketMixture(
        measured.view, units, law, fine, fine_nodes.logs, measured.popular, parameters, logits.base, logits.levels
    )


def _targets(measured: BasketMeasurements) -> NDArray[np.float64]:
    """Estimates of the clipped frequencies of all items, float64 [items], positive."""
    counts = estimated_counts(measured.counts, measured.count_stddev, measured.popular)
    return np.clip(counts / measured.units, _SMALLEST_COUNT / measured.units, _LARGEST_FREQUENCY)


def _grouped(targets: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Groups of items with similar frequencies: the group of each item, and the number and mean of each group."""
    ranges = np.floor(_GROUPS_PER_OCTAVE * np.log2(targets))
    _, groups = np.unique(ranges, return_inverse=True)
    numbers = np.bincount(groups).astype(np.float64) if groups.size else np.zeros(0)
    means = np.bincount(groups, weights=targets) / numbers if groups.size else np.zeros(0)
    return groups.astype(np.int64), numbers, means
