"""How ``clipped_gaussian`` measures a lattice: a group of clipped sums per order, each with its own clip and factor."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.measurement import Measurement
from dpcore.mechanisms.clipping.clip_choice import choose_clip, largest_clip, significant
from dpcore.mechanisms.clipping.constants import ClippedGaussianConstants
from dpcore.mechanisms.clipping.marginals import OneWay, norm_of, unit_scale, unit_stddev
from dpcore.mechanisms.clipping.query_sets import independent_products
from dpcore.queries import ClippedSums, SatisfactionHistogram
from dpcore.queries.clipped import WEIGHT_BITS
from dpcore.queries.lattice import Lattice

MIN_PART: Final = 0.02  # Smallest part of the budget of the sums that one group gets.
_PER_LITERAL = 0.4
_ROUNDS = 4  # Clips and parts depend on each other; later rounds change neither.


@final
@dataclass(frozen=True, eq=False)
class Groups:
    """The members of a lattice by their order.

    lattice: The lattice.
    orders: The order of each group, int64 [groups], ascending.
    of_member: The group of each member, int32 [members].
    importance: The mean number of terms of a query in each group, times 0.4 for each literal after the first, float64
        [groups]: estimates of long conjunctions shed more of their noise.
    """

    lattice: Lattice
    orders: NDArray[np.int64]
    of_member: NDArray[np.int32]
    importance: NDArray[np.float64]

    @classmethod
    def of(cls, lattice: Lattice) -> Groups:
        """The groups of a lattice."""
        orders, group = np.unique(lattice.members.orders, return_inverse=True)
        counted = group[lattice.terms[lattice.terms < lattice.members.size]]
        mean_terms = np.bincount(counted, minlength=orders.size) / lattice.size
        return cls(lattice, orders, group.astype(np.int32), mean_terms * _PER_LITERAL ** (orders - 1))

    @property
    def count(self) -> int:
        """The number of groups."""
        return self.orders.size

    def histogram(self) -> SatisfactionHistogram:
        """The histogram of how many members of each group a unit satisfies."""
        return SatisfactionHistogram(self.lattice.members, self.of_member)


@final
@dataclass(frozen=True, eq=False)
class GroupedSums:
    """The clipped sums to measure.

    groups: The groups.
    cells: Noisy numbers of units by how many members of the group a unit satisfies, float64 [groups, cells].
    sums: The sums. The group's factor divides what one count is in its answers.
    """

    groups: Groups
    cells: NDArray[np.float64]
    sums: ClippedSums

    @property
    def full_weights(self) -> NDArray[np.float64]:
        """What a unit that is not clipped adds to the answers of each group, in counts, float64 [groups]."""
        return np.asarray(self.sums.weights.max(axis=1) / self.sums.denominator)

    @property
    def lost(self) -> NDArray[np.float64]:
        """The fraction of each count that a unit loses by the number of members that it satisfies, [groups, k + 1]."""
        full = self.sums.weights.max(axis=1, keepdims=True)
        lost = 1.0 - self.sums.weights / full
        lost[:, 0] = 0.0
        return np.asarray(lost)


def choose_sums(
    terms: PrivacyTerms,
    groups: Groups,
    histogram: Measurement,
    one_way: OneWay | None,
    share: Fraction,
    constants: ClippedGaussianConstants,
) -> GroupedSums:
    """The clips and factors with the smallest predicted error.

    A group that gets a part of the budget of the sums has noise of C x ``unit_stddev`` / part^(1/2) under Gaussian
    noise, C x ``unit_stddev`` / part under Laplace noise. The parts minimise the sum over the groups of their
    importance times the variance; each clip balances noise and loss of its group, as for one group.
    """
    norm = norm_of(terms)
    cells = histogram.values.reshape(groups.count, -1)
    sizes = np.bincount(groups.of_member)
    parts, clips = np.full(groups.count, 1.0 / groups.count), np.ones(groups.count)
    for _ in range(_ROUNDS):
        for group in range(groups.count):
            clips[group] = choose_clip(
                significant(cells[group], histogram.stddev),
                int(sizes[group]),
                unit_stddev(terms, share) / parts[group] ** (1 / norm),
                constants.noise_factor if one_way is None else constants.shrunk_noise_factor,
                _top_part(groups, group, one_way),
                norm,
                completed=one_way is not None,
            ).clip
        parts = _parts(groups.importance, clips, norm)
    factors = parts ** (1 / norm) / clips
    factors /= factors.min()
    sums = ClippedSums.of(groups.lattice.members, clips.tolist(), groups.of_member, factors=factors.tolist(), norm=norm)
    return GroupedSums(groups, cells, sums)


def check_grouped_noise(terms: PrivacyTerms, share: Fraction, groups: Groups) -> None:
    """Checks that the noise of the sums can be drawn for all clips and parts that a histogram may choose.

    Raises: ScaleError when the largest noise is too large.
    """
    clip = largest_clip(int(np.bincount(groups.of_member).max()), norm_of(terms))
    terms.check_scale(unit_scale(terms, share) * clip * (2 / MIN_PART) * 2.0**WEIGHT_BITS)


def _parts(importance: NDArray[np.float64], clips: NDArray[np.float64], norm: int) -> NDArray[np.float64]:
    """The parts that minimise the sum of importance x (clip / part^(1/norm))^2, but about ``MIN_PART`` or more each."""
    wanted = (importance * clips**2) ** (norm / (norm + 2))
    parts = wanted / wanted.sum()
    parts = np.maximum(parts, MIN_PART)
    return np.asarray(parts / parts.sum())


def _top_part(groups: Groups, group: int, one_way: OneWay | None) -> float:
    """The largest predicted fraction that one member has of the answers of its group; 1 without one-way marginals."""
    if one_way is None:
        return 1.0
    products = independent_products(groups.lattice.members.only(np.flatnonzero(groups.of_member == group)), one_way)
    return float(products.max() / products.sum())
