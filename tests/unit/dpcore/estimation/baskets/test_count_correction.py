"""The correction of item counts against sums over classes and items, one at a time."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.estimation.baskets.count_correction import ItemLogits, corrected_items
from dpcore.estimation.baskets.mixture import Nodes, Parameters

ITEMS, POPULAR = 30, np.array([2, 5, 11])
NODES = Nodes(np.array([1.0, 3.0, 9.0]), np.array([0.4, 0.4, 0.2]), np.array([1.0, 0.9, 0.5]), 1.2)
DRAW = np.random.default_rng(0)
PARAMETERS = Parameters(
    np.zeros(3), DRAW.normal(0, 0.3, 3), DRAW.normal(0, 1.0, (2, 3)), np.array([0.0, 0.7]), np.array([0.2, -0.1])
)


def by_sums(logits: ItemLogits) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Clipped counts of the items and sizes of the classes, with a loop over everything."""
    counts, sizes = np.zeros(ITEMS), np.zeros((3, 2))
    shares = PARAMETERS.taste_shares(NODES.logs)
    for node in range(3):
        for taste in range(2):
            for item in range(ITEMS):
                logit = logits.base[item] + logits.levels[node, taste]
                for position in np.flatnonzero(item == POPULAR):
                    tilt = NODES.logs[node] * PARAMETERS.tilts[position]
                    logit += tilt + PARAMETERS.tastes[taste, position]
                p = 1 / (1 + np.exp(-logit))
                counts[item] += NODES.masses[node] * shares[node, taste] * NODES.count_weights[node] * p
                sizes[node, taste] += p
    return counts, sizes


def targets() -> NDArray[np.float64]:
    """Counts of very different items with the sum that the sizes imply."""
    wanted = np.geomspace(0.001, 0.4, ITEMS)[DRAW.permutation(ITEMS)]
    return np.asarray(wanted * (NODES.masses @ (NODES.sizes * NODES.count_weights)) / wanted.sum())


def test_counts_and_sizes_are_met() -> None:
    wanted = targets()
    start = ItemLogits(np.log(wanted) + DRAW.normal(0, 0.2, ITEMS), np.zeros((3, 2)))
    corrected = corrected_items(start, PARAMETERS, POPULAR, NODES, wanted, 1e-4)
    counts, sizes = by_sums(corrected)
    assert counts == pytest.approx(wanted, abs=1e-6)
    assert sizes == pytest.approx(np.repeat(NODES.sizes[:, None], 2, axis=1), rel=1e-3)


def test_what_is_met_already_stays() -> None:
    wanted = targets()
    start = ItemLogits(np.log(wanted), np.zeros((3, 2)))
    once = corrected_items(start, PARAMETERS, POPULAR, NODES, wanted, 1e-4)
    again = corrected_items(once, PARAMETERS, POPULAR, NODES, wanted, 1e-4)
    assert np.array_equal(again.base, once.base)
    assert np.array_equal(again.levels, once.levels)
    assert not np.array_equal(once.base, start.base)


def test_a_sum_that_no_sizes_have_ends_with_the_sizes_nearly_met() -> None:
    start = ItemLogits(np.log(targets()), np.zeros((3, 2)))
    corrected = corrected_items(start, PARAMETERS, POPULAR, NODES, 1.1 * targets(), 1e-4)
    assert np.isfinite(corrected.base).all()
    assert by_sums(corrected)[1] == pytest.approx(np.repeat(NODES.sizes[:, None], 2, axis=1), rel=0.15)
