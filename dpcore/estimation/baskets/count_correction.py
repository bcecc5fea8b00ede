"""Makes the clipped item counts of a fitted mixture equal to their targets, item by item.

A fit has few ranges of sizes, and rare items share groups of similar frequencies. Where an item's count is a hundred
standard deviations of the noise, one per cent of it is more than the noise. This last step has the classes of the
model itself, and a base of its own for every item.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from dpcore.estimation.baskets.mixture import Nodes, Parameters, Vector

_PASSES: Final = 25  # Five to ten suffice on the datasets of ``dpcore/decisions/baskets.md``.
_ITEMS_AT_ONCE: Final = 1 << 21  # Probabilities that are computed at a time.
_LARGEST_STEP: Final = 1.0  # Of a logit, in one pass.
_TOLERANCE: Final = 1e-3  # Of a count, relative to the largest error that is allowed; and of a level.


@final
@dataclass(frozen=True, eq=False)
class ItemLogits:
    """The logits of all items in the classes of a mixture, and the levels that meet the sizes.

    base: float64 [items]. levels: float64 [J, T].
    """

    base: Vector
    levels: Vector


def corrected_items(
    start: ItemLogits,
    parameters: Parameters,
    popular: NDArray[np.int64],
    nodes: Nodes,
    targets: Vector,
    tolerance: float,
) -> ItemLogits:
    """Moves bases and levels until clipped counts meet their targets and classes meet their sizes.

    start: Where to begin. The bases of popular items stand for those of ``parameters``.
    parameters: Tilts, tastes and shares, which stay.
    popular: int64 [M], the items of the parameters.
    nodes: The ranges of sizes.
    targets: float64 [items], positive, clipped counts as fractions of the units. Their sum must be about that of the
        clipped counts of the sizes, because the sizes are met first.
    tolerance: Errors far below this fraction of the units do not matter.

    Each pass is a Newton step of every base and every level by its own derivative. Steps of the bases keep the sum of
    the counts, which the sizes determine.
    """
    base, levels = start.base, start.levels
    for _ in range(_PASSES):
        counts, slopes, sizes, spreads = _sums(ItemLogits(base, levels), parameters, popular, nodes)
        excess = sizes - nodes.sizes[:, None]
        errors = counts - targets
        errors -= slopes * (errors.sum() / slopes.sum())  # The sum belongs to the levels: both steps would be twice it.
        level_steps = np.clip(excess / np.maximum(spreads, 1e-9), -_LARGEST_STEP, _LARGEST_STEP)
        if np.abs(errors).max() < _TOLERANCE * tolerance and np.abs(level_steps).max() < _TOLERANCE:
            break
        base = base - np.clip(errors / np.maximum(slopes, 1e-12), -_LARGEST_STEP, _LARGEST_STEP)
        levels = levels - level_steps
    return ItemLogits(base, levels)


def _sums(
    logits: ItemLogits, parameters: Parameters, popular: NDArray[np.int64], nodes: Nodes
) -> tuple[Vector, Vector, Vector, Vector]:
    """Clipped counts of the items and their derivatives by the base; the sizes of the classes and theirs by the level.

    The first two are float64 [items] and the others float64 [J, T].
    """
    tastes, items = len(parameters.shares), len(logits.base)
    masses = (nodes.masses[:, None] * parameters.taste_shares(nodes.logs) * nodes.count_weights[:, None]).ravel()
    counts, slopes = np.zeros(items), np.zeros(items)
    sizes, spreads = np.empty(masses.size), np.empty(masses.size)
    step = max(1, _ITEMS_AT_ONCE // items)
    for start in range(0, masses.size, step):
        classes = np.arange(start, min(start + step, masses.size))
        rows = logits.base + logits.levels.ravel()[classes][:, None]
        rows[:, popular] += nodes.logs[classes // tastes][:, None] * parameters.tilts
        rows[:, popular] += parameters.tastes[classes % tastes]
        p = expit(rows, out=rows)
        sizes[classes] = p.sum(axis=1)
        counts += masses[classes] @ p
        p *= 1 - p
        spreads[classes] = p.sum(axis=1)
        slopes += masses[classes] @ p
    return counts, slopes, sizes.reshape(logits.levels.shape), spreads.reshape(logits.levels.shape)
