"""Queries about how many conjunctions each unit satisfies, and clipped sums to which no unit can contribute much."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.frozen import frozen
from dpcore.queries.conjunctions import Conjunctions

WEIGHT_BITS: Final = 16  # Weights are multiples of 2^-16.
_LARGEST_WEIGHT: Final = 1 << 40
# Largest contribution of one unit to a group, so that sums over a few units cannot wrap around before they are checked.
_LARGEST_CONTRIBUTION: Final = 1 << 61


@dataclass(frozen=True, eq=False)
class SatisfactionHistogram:
    """For each group of queries, a histogram of units by k, the number of the group's queries that a unit satisfies.

    The answer vector is int64 [groups * cells], one group after another. Cell j counts the units with starts[j] <= k <
    starts[j + 1], and the last cell those with k >= starts[-1]. Each unit is in exactly one cell of each group.

    queries: Conjunctions without negated literals; nearly every unit would satisfy a large part of negated ones.
    groups: int32 [m], the group of each query, numbered from 0 without gaps. By default all queries are one group.
    starts: int64 [cells], public, the smallest k of each cell: 0 first, then ascending, at most the size of the largest
        group. By default 0 and the powers of two.

    Raises ValueError for negated literals, for groups with a gap, and for starts that are not ascending from 0.
    """

    queries: Conjunctions
    groups: NDArray[np.int32] | None = None
    starts: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", _checked_groups(self.queries, self.groups))
        if self.starts is not None:
            object.__setattr__(self, "starts", _checked_starts(self.starts, int(self.group_sizes.max())))

    @property
    def group_sizes(self) -> NDArray[np.int64]:
        """The number of queries in each group, int64 [groups]."""
        return _group_sizes(self.queries, self.groups)

    @property
    def cells(self) -> int:
        """The number of cells of each group: enough for every k up to the size of the largest group."""
        return 1 + int(self.group_sizes.max()).bit_length() if self.starts is None else self.starts.size

    @property
    def cell_starts(self) -> NDArray[np.int64]:
        """The smallest k of each cell, int64 [cells]."""
        if self.starts is not None:
            return self.starts
        return np.array([0, *(1 << cell for cell in range(self.cells - 1))], dtype=np.int64)

    @property
    def size(self) -> int:
        """Length of the answer vector."""
        return self.group_sizes.size * self.cells

    @property
    def description(self) -> str:
        """A short description for plans and certificates."""
        return f"units by how many of {self.queries.size:,} conjunctions they satisfy"

    def split(self, answers: NDArray[np.generic]) -> NDArray[np.generic]:
        """The answer vector by group, as a view of shape [groups, cells]."""
        return answers.reshape(self.group_sizes.size, self.cells)

    def digest(self) -> str:
        cells = () if self.starts is None else (self.starts,)
        return _digest("satisfaction_histogram", self.queries, self.groups, *cells)


@dataclass(frozen=True, eq=False)
class ClippedSums:
    """Clipped answers of conjunctions: a unit that satisfies many of them adds less than 1 to each.

    The answer to query q of group g is the sum of weights[g, k] over the units that satisfy q, where k is the number of
    queries of g that the unit satisfies. The answer vector is int64 [m]; an answer in counts is its integer / 2^16.

    queries: Conjunctions without negated literals; nearly every unit would satisfy a large part of negated ones.
    weights: int64 [groups, largest k + 1 or more], a public table of weights in 0 .. 2^40; 2^16 counts a unit in full.
    groups: int32 [m], the group of each query, numbered from 0 without gaps. By default all queries are one group.

    Raises ValueError for negated literals, and for a table that does not fit the groups.
    """

    queries: Conjunctions
    weights: NDArray[np.int64]
    groups: NDArray[np.int32] | None = None

    def __post_init__(self) -> None:
        groups = _checked_groups(self.queries, self.groups)
        if not np.issubdtype(np.asarray(self.weights).dtype, np.signedinteger):  # Floats would be truncated.
            raise ValueError(f"weights of {np.asarray(self.weights).dtype}; want signed integers")
        weights = frozen(self.weights, np.int64)
        sizes = _group_sizes(self.queries, groups)
        if weights.ndim != 2 or weights.shape[0] != sizes.size or weights.shape[1] <= sizes.max():
            raise ValueError(f"weights {weights.shape}; want [{sizes.size}, {sizes.max() + 1} or more]")
        if weights.min() < 0 or weights.max() > _LARGEST_WEIGHT:
            raise ValueError("a weight is negative or above 2^40; want 0 .. 2^40")
        if int(weights.max()) * int(sizes.max()) > _LARGEST_CONTRIBUTION:
            raise ValueError("a unit may add more than 2^61 to a group; want smaller weights, or fewer queries in one")
        if not all(row[1 : size + 1].any() for row, size in zip(weights, sizes, strict=True)):
            raise ValueError("the weights of a group are all 0; want a group that counts something")
        object.__setattr__(self, "groups", groups)
        object.__setattr__(self, "weights", weights)

    @classmethod
    def of(
        cls,
        queries: Conjunctions,
        clips: Sequence[Fraction | float],
        groups: NDArray[np.int32] | None = None,
        *,
        factors: Sequence[Fraction | float] | None = None,
        norm: int = 2,
    ) -> ClippedSums:
        """The sums that scale each unit's 0/1 answers in group g to a norm of at most clips[g], and then by factors[g].

        queries: Conjunctions without negated literals.
        clips: The clipping norm C of each group, positive.
        groups: int32 [m], the group of each query. By default all queries are one group.
        factors: A public positive factor per group. A larger factor gives the group less noise relative to its answers.
            By default all factors are 1.
        norm: 2 for the Euclidean norm, with the weight min(1, C / k^(1/2)); 1 for the L1 norm, with min(1, C / k).

        Weights are rounded down to multiples of 2^-16 by exact integer arithmetic.

        Raises ValueError for arguments of the wrong length, and for a clip or a factor that is not positive and finite.
        """
        sizes = _group_sizes(queries, _checked_groups(queries, groups))
        scales = [1] * len(clips) if factors is None else factors
        if norm not in (1, 2) or not len(clips) == len(scales) == sizes.size:
            raise ValueError(f"{len(clips)} clips, {len(scales)} factors, norm {norm}; want {sizes.size}, norm 1 or 2")
        if not all(math.isfinite(number) and number > 0 for number in (*clips, *scales)):
            raise ValueError("a clip or a factor is not a positive finite number; want > 0")
        weights = np.zeros((sizes.size, int(sizes.max()) + 1), dtype=np.int64)
        for group, (clip, scale) in enumerate(zip(clips, scales, strict=True)):
            weights[group, 1 : sizes[group] + 1] = _weights(Fraction(clip), Fraction(scale), int(sizes[group]), norm)
        return cls(queries, weights, groups)

    @property
    def denominator(self) -> int:
        """The integer that stands for 1 count in an answer."""
        return 1 << WEIGHT_BITS

    @property
    def group_sizes(self) -> NDArray[np.int64]:
        """The number of queries in each group, int64 [groups]."""
        return _group_sizes(self.queries, self.groups)

    @property
    def size(self) -> int:
        """Length of the answer vector."""
        return self.queries.size

    @property
    def description(self) -> str:
        """A short description for plans and certificates."""
        return f"{self.queries.description}, clipped"

    def digest(self) -> str:
        return _digest("clipped_sums", self.queries, self.groups, self.weights)


def _weights(clip: Fraction, scale: Fraction, size: int, norm: int) -> list[int]:
    """floor(2^16 scale min(1, clip / k^(1/norm))) for k = 1 .. size, exact as floor(floor(x) / k) = floor(x / k)."""
    full_weight = math.floor(scale * (1 << WEIGHT_BITS))
    if norm == 1:
        clipped = math.floor(scale * clip * (1 << WEIGHT_BITS))
        return [min(full_weight, clipped // k) for k in range(1, size + 1)]
    square = math.floor((scale * clip * (1 << WEIGHT_BITS)) ** 2)
    return [min(full_weight, math.isqrt(square // k)) for k in range(1, size + 1)]


def _checked_groups(queries: Conjunctions, groups: NDArray[np.int32] | None) -> NDArray[np.int32] | None:
    if queries.negated.any():
        raise ValueError("a query has a negated literal, which most units satisfy; want positive literals alone")
    if groups is None:
        return None
    checked = frozen(groups, np.int32)
    if (
        checked.shape != (queries.size,)
        or (checked != groups).any()
        or not 0 <= checked.min() <= checked.max() < queries.size
    ):
        raise ValueError(f"groups {checked.shape}; want ({queries.size},) numbers from 0")
    if not np.bincount(checked).all():
        raise ValueError("a group without a query; want groups numbered from 0 without a gap")
    return checked


def _checked_starts(starts: NDArray[np.int64], largest: int) -> NDArray[np.int64]:
    if not np.issubdtype(np.asarray(starts).dtype, np.signedinteger):  # Floats would be truncated.
        raise ValueError(f"starts of {np.asarray(starts).dtype}; want signed integers")
    checked: NDArray[np.int64] = frozen(starts, np.int64)
    if checked.ndim != 1 or not checked.size or checked[0] != 0 or (np.diff(checked) <= 0).any():
        raise ValueError("starts of cells are not ascending from 0; want 0 first")
    if checked[-1] > largest:
        raise ValueError(f"a cell starts at {checked[-1]:,} queries; want at most {largest:,}, the largest group")
    return checked


def _group_sizes(queries: Conjunctions, groups: NDArray[np.int32] | None) -> NDArray[np.int64]:
    return np.array([queries.size]) if groups is None else np.bincount(groups).astype(np.int64)


def _digest(kind: str, queries: Conjunctions, *arrays: NDArray[np.generic] | None) -> str:
    shapes = [None if array is None else [array.shape, array.dtype.str] for array in arrays]
    content = hashlib.sha256(json.dumps([kind, queries.digest(), shapes]).encode())
    for array in arrays:
        if array is not None:
            content.update(np.ascontiguousarray(array).tobytes())
    return content.hexdigest()
