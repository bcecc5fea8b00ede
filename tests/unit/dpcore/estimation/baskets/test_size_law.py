"""The law of sizes: exact without noise, smooth under noise, and never with units where there are none."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.estimation.baskets.nodes import node_of_sizes, nodes_of
from dpcore.estimation.baskets.size_law import SizeLaw, size_law, size_starts


def cells_of(sizes: NDArray[np.int64], starts: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.bincount(np.searchsorted(starts, sizes, side="right") - 1, minlength=len(starts)).astype(float)


def distance(law: SizeLaw, sizes: NDArray[np.int64], starts: NDArray[np.int64]) -> float:
    own = np.zeros(len(starts))
    np.add.at(own, np.searchsorted(starts, law.sizes, side="right") - 1, law.probabilities)
    return float(np.abs(own - cells_of(sizes, starts) / sizes.size).sum() / 2)


@pytest.mark.parametrize("items", [1, 2, 63, 64, 65, 300, 16_470, 140_000])
def test_cells_ascend_from_0_and_cover_every_size(items: int) -> None:
    starts = size_starts(items)
    assert starts[0] == 0
    assert (np.diff(starts) > 0).all()
    assert starts[-1] <= items < max(2 * starts[-1], 2)
    assert np.array_equal(starts[: min(64, items) + 1], np.arange(min(64, items) + 1))


def test_without_noise_every_cell_has_its_units() -> None:
    sizes = np.random.default_rng(0).geometric(0.02, 5000)
    starts = size_starts(2000)
    law = size_law(cells_of(sizes, starts), starts, 2000, 1e-9)
    assert distance(law, sizes, starts) < 1e-9
    assert law.probabilities.sum() == pytest.approx(1)
    assert (law.probabilities > 0).all()


@pytest.mark.parametrize("name", ["one size", "geometric", "log-normal"])
def test_under_noise_the_law_is_near(name: str) -> None:
    draw = np.random.default_rng(1)
    sizes = {
        "one size": np.full(8000, 23),
        "geometric": draw.geometric(0.25, 8000),
        "log-normal": np.clip(np.exp(draw.normal(3.5, 1.1, 8000)), 1, 1000).astype(np.int64),
    }[name]
    starts = size_starts(1000)
    noisy = cells_of(sizes, starts) + draw.normal(0, 15, len(starts))
    law = size_law(noisy, starts, 1000, 15.0)
    coarse = np.concatenate([np.arange(17), (16 * 2 ** (np.arange(1, 24) / 4)).astype(np.int64)])
    assert distance(law, sizes, coarse) < 0.04
    assert law.sizes.max() < 2 * sizes.max()


def test_noise_alone_makes_no_large_baskets() -> None:
    starts = size_starts(4000)
    law = size_law(np.random.default_rng(2).normal(0, 10, len(starts)), starts, 4000, 10.0)
    assert law.sizes.max() < 200
    assert law.probabilities.sum() == pytest.approx(1)


def test_a_law_is_tilted_to_a_mean() -> None:
    law = SizeLaw(np.arange(1, 6), np.array([0.4, 0.3, 0.15, 0.1, 0.05]))
    weights = np.minimum(law.sizes, 3).astype(float)
    tilted = law.tilted(weights, 1.8)
    assert tilted.probabilities @ weights == pytest.approx(1.8)
    ratios = np.log(tilted.probabilities / law.probabilities)
    assert np.allclose(np.diff(ratios)[2:], 0)  # Sizes of equal weight keep their ratios.
    far = law.tilted(weights, 1e9)
    assert far.probabilities @ weights <= law.probabilities @ weights * np.exp(0.5) + 1e-9
    assert law.tilted(weights, -1.0) is law


def test_nodes_are_ranges_of_enough_units_and_keep_all_pairs() -> None:
    law = SizeLaw(np.arange(101), np.full(101, 1 / 101))
    node = node_of_sizes(law, 2**0.5, 0.03)
    assert node[0] == -1
    assert (np.diff(node[1:]) >= 0).all()
    assert (np.diff(node[1:]) <= 1).all()
    nodes = nodes_of(law, node, np.minimum(1.0, 8 / np.maximum(law.sizes, 1)))
    assert nodes.masses.min() >= 0.03
    assert nodes.masses @ nodes.sizes == pytest.approx(law.probabilities @ law.sizes)
    kept = law.probabilities @ np.minimum(law.sizes, 8)
    assert nodes.masses @ (nodes.sizes * nodes.count_weights) == pytest.approx(kept)
    assert nodes_of(law, node, np.ones(101), 1.5).logs[0] == pytest.approx(np.log(nodes.sizes[0]) - 1.5)


def test_ranges_are_merged_down_to_a_number_and_large_sizes_count_by_their_items() -> None:
    sizes = np.array([1, 2, 3, 100, 1000])
    law = SizeLaw(sizes, np.array([0.55, 0.3, 0.1, 0.045, 0.005]))
    assert node_of_sizes(law, 2**0.5, 0.01).tolist() == [0, 1, 2, 3, 4]  # 0.5 % of the units hold 45 % of the items.
    assert node_of_sizes(law, 2**0.5, 0.235).tolist() == [0, 1, 1, 2, 2]
    assert node_of_sizes(law, 2**0.5, 0.0, 2).max() == 1
    assert node_of_sizes(law, 2**0.5, 0.0, 1).tolist() == [0] * 5
