"""Classes of baskets: a basket's size and one of some tastes; given the class, nearly independent items.

In the class of size s and taste t, a unit holds item i with probability

    p = 1 / (1 + exp(-(base_i + x_s tilt_i + taste_ti + level_st))),    x_s = log(s) - centre,

where ``level_st`` makes the probabilities of all items sum to s. A basket of the class has exactly s items; how
its items depend on each other is in ``fixed_size``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Vector = NDArray[np.float64]

_LARGEST_STEP: Final = 1.0  # Of one Newton step of a level.
_LARGEST_LOGIT: Final = 30.0


@final
@dataclass(frozen=True, eq=False)
class Nodes:
    """Basket sizes, or ranges of sizes that share their classes.

    sizes: float64 [J], positive, the mean size of each node.
    masses: float64 [J], the fraction of the units in each node.
    count_weights: float64 [J], the fraction of each item of such a unit that clipped counts keep.
    centre: What is subtracted from log(size).
    """

    sizes: Vector
    masses: Vector
    count_weights: Vector
    centre: float

    @property
    def logs(self) -> Vector:
        """x = log(size) - centre, float64 [J]."""
        return np.asarray(np.log(self.sizes) - self.centre)


@final
@dataclass(frozen=True, eq=False)
class Parameters:
    """The logits of M items, and the tastes.

    base, tilts: float64 [M]. tastes: float64 [T, M].
    shares, share_tilts: float64 [T]: the logit of taste t in a node is shares_t + x share_tilts_t.
    """

    base: Vector
    tilts: Vector
    tastes: Vector
    shares: Vector
    share_tilts: Vector

    def logits(self, logs: Vector) -> Vector:
        """Logits of the items without levels, float64 [J, T, M]."""
        return np.asarray((self.base + logs[:, None] * self.tilts)[:, None, :] + self.tastes[None])

    def taste_shares(self, logs: Vector) -> Vector:
        """The probability of each taste in each node, float64 [J, T]."""
        logits = self.shares + logs[:, None] * self.share_tilts
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def with_tastes(self, tastes: Vector, shares: Vector) -> Parameters:
        """These parameters with further tastes, float64 [extra, M], whose shares are given, float64 [extra]."""
        own = np.exp(self.shares - np.logaddexp.reduce(self.shares)) * max(0.05, 1.0 - float(shares.sum()))
        return replace(
            self,
            tastes=np.concatenate([self.tastes, tastes]),
            shares=np.log(np.concatenate([own, shares])),
            share_tilts=np.concatenate([self.share_tilts, np.zeros(len(shares))]),
        )


@final
@dataclass(frozen=True, eq=False)
class RareItems:
    """Items without parameters of their own, in groups of equal logits that tastes and tilts do not move.

    logits: float64 [R]. numbers: float64 [R], the number of items of each group.
    """

    logits: Vector
    numbers: Vector


@final
@dataclass(frozen=True, eq=False)
class Classes:
    """The classes of all nodes and tastes.

    levels: float64 [J, T]. p: float64 [J, T, M], the probabilities of the M items. rare_p: float64 [J, T, R].
    spread: float64 [J, T], the sum of p (1 - p) over all items.
    """

    levels: Vector
    p: Vector
    rare_p: Vector
    spread: Vector


def classes_at(parameters: Parameters, rare: RareItems, nodes: Nodes, levels: Vector) -> tuple[Classes, Vector]:
    """The classes at some levels, and the levels after one Newton step towards the sizes of the nodes."""
    p = expit(parameters.logits(nodes.logs) + levels[:, :, None])
    rare_p = expit(rare.logits + levels[:, :, None])
    spread = (p * (1 - p)).sum(axis=2) + (rare_p * (1 - rare_p)) @ rare.numbers
    excess = p.sum(axis=2) + rare_p @ rare.numbers - nodes.sizes[:, None]
    step = np.clip(excess / np.maximum(spread, 1e-9), -_LARGEST_STEP, _LARGEST_STEP)
    classes = Classes(levels, p, rare_p, np.maximum(spread, 1e-6))
    return classes, np.clip(levels - step, -_LARGEST_LOGIT, _LARGEST_LOGIT)


def solved(
    parameters: Parameters, rare: RareItems, nodes: Nodes, levels: Vector | None = None, steps: int = 60
) -> Classes:
    """The classes at the levels for which probabilities sum to the sizes."""
    now = np.zeros((len(nodes.sizes), len(parameters.shares))) if levels is None else levels
    for _ in range(steps):
        classes, following = classes_at(parameters, rare, nodes, now)
        if np.abs(following - now).max() < 1e-9:
            break
        now = following
    return classes
