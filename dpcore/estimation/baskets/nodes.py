"""Ranges of basket sizes that share their classes."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.estimation.baskets.mixture import Nodes
from dpcore.estimation.baskets.size_law import SizeLaw

FIT_RATIO: Final = 2**0.5  # Of the ends of a range of sizes, in a fit.
_OWN_SIZES: Final = 8  # Sizes below this one have a node each, unless few units have them.
_LARGEST_CLASSES: Final = 1 << 25  # Classes times items: 128 MiB of counts of holders.


def max_nodes(items: int, tastes: int) -> int:
    """How many nodes a model may have, so that arrays of classes by items stay small; at least 1."""
    return max(1, _LARGEST_CLASSES // (items * tastes))


def most_nodes(largest: int) -> int:
    """The number of nodes that a fit has for all sizes up to the largest, before light ones are merged; at least 1."""
    return int(_ranges(np.array([float(max(1, largest))]), FIT_RATIO)[0])


def node_of_sizes(law: SizeLaw, ratio: float, min_mass: float, max_nodes: int | None = None) -> NDArray[np.int64]:
    """The node of each size, int64 [S], ascending from 0; -1 for size 0.

    law: The law of sizes.
    ratio: Quotient of the ends of a range of sizes, > 1.
    min_mass: Ranges with less than this mass are merged with the lighter neighbour. The mass of a range is the mean of
        its fraction of the units and its fraction of their items, because the largest baskets are few but count much.
    max_nodes: More ranges than this are merged likewise; None for any number.
    """
    sizes = law.sizes.astype(np.float64)
    held = sizes > 0
    _, nodes = np.unique(_ranges(sizes[held], ratio), return_inverse=True)
    p = law.probabilities[held]
    items = p * sizes[held]
    while True:
        masses = np.bincount(nodes, weights=(p + items / max(float(items.sum()), 1e-300)) / 2)
        lightest = int(masses.argmin()) if masses.size else 0
        few = max_nodes is None or masses.size <= max_nodes
        if masses.size <= 1 or (few and masses[lightest] >= min_mass):
            break
        neighbours = [n for n in (lightest - 1, lightest + 1) if 0 <= n < masses.size]
        lower = min(lightest, min(neighbours, key=lambda n: masses[n]))
        nodes = nodes - (nodes > lower)
    result = np.full(len(sizes), -1, dtype=np.int64)
    result[held] = nodes
    return result


def _ranges(sizes: NDArray[np.float64], ratio: float) -> NDArray[np.float64]:
    """The number of the range of each positive size, from 1 on."""
    logs = np.log(np.maximum(sizes / _OWN_SIZES, 1.0))
    return np.asarray(np.minimum(sizes, _OWN_SIZES) + np.floor(logs / np.log(ratio) + 1e-9))


def nodes_of(law: SizeLaw, node: NDArray[np.int64], weights: NDArray[np.float64], centre: float | None = None) -> Nodes:
    """The nodes of a law.

    node: int64 [S]; ``node_of_sizes``.
    weights: float64 [S], the fraction of each item of a basket of each size that clipped counts keep.
    centre: What is subtracted from log(size); by default its mean over all items of all units.
    """
    held = node >= 0
    node, sizes = node[held], law.sizes[held].astype(np.float64)
    p, kept = law.probabilities[held], weights[held]
    masses, pairs = np.bincount(node, weights=p), np.bincount(node, weights=p * sizes)
    if centre is None:
        centre = float(np.average(np.log(sizes), weights=p * sizes))
    return Nodes(
        np.asarray(pairs / masses), np.asarray(masses), np.bincount(node, weights=p * sizes * kept) / pairs, centre
    )
