"""Exact sampling with chances proportional to integer weights close to exp(score), also used as chances. TRUSTED.

A slot is a query or a complement. Its score in powers of two is x = slope * count + offset, computed in doubles. The
slot gets the integer weight w = floor(2^30 * p(f)) * 2^e with e = floor(x), f = x - e in [0, 1), and p(f) a table and
polynomial for 2^f that uses only correctly rounded operations.

Proved relative error of w against 2^x:
    * rounding of x: slope * count + offset with |slope * count|, |offset| <= 2^12 has absolute error below 2^-39, hence
      2^-39 ln 2 relative; rounding of x - e adds at most 2^-54;
    * p(f): table entries and the polynomial of degree 4 on [0, 2^-8) are off by less than 2^-45 together;
    * the floor: below 2^-30, because 2^30 p(f) >= 2^30 (1 - 2^-45).
Together below 2^-30 + 2^-38, so XI = 2^-29 also covers a public slope and offsets that were rounded to doubles in
powers of two (an error of x below 2^-38). The draw itself is exact: first the exponent class (integers of any size),
then a uniform integer below the class total (64 bits).
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.kernel import entropy

XI = Fraction(1, 1 << 29)
LARGEST_SCORE = 4096.0
LARGEST_SLOTS = 1 << 32  # Mantissas are below 2^31, class totals below 2^63.

_TABLE = np.array([2.0 ** (step / 256) for step in range(256)])
_TABLE.setflags(write=False)
_LN2 = math.log(2.0)


def split_weights(
    slope: float, counts: NDArray[np.float64], offsets: NDArray[np.float64]
) -> tuple[NDArray[np.int32], NDArray[np.uint32]]:
    """Exponent e and mantissa in [2^30, 2^31) of the weight mantissa * 2^(e - 30) of each slot (module docstring)."""
    return _split(slope, counts, offsets, _TABLE, _LN2)


@compiled
def _split(
    slope: float, counts: NDArray[np.float64], offsets: NDArray[np.float64], table: NDArray[np.float64], ln2: float
) -> tuple[NDArray[np.int32], NDArray[np.uint32]]:
    exponents = np.empty(counts.size, dtype=np.int32)
    mantissas = np.empty(counts.size, dtype=np.uint32)
    for slot in range(counts.size):
        x = slope * counts[slot] + offsets[slot]
        floor = math.floor(x)
        part = x - floor
        if part >= 1.0:  # x lies in (-2^-53, 0), and the difference was rounded up to 1: the score is taken as 0.
            floor, part = floor + 1, 0.0
        fraction = part * 256.0
        step = int(fraction)
        y = (fraction - step) * 0.00390625 * ln2
        power = 1.0 + y * (1.0 + y * (0.5 + y * (1.0 / 6.0 + y * (1.0 / 24.0))))
        exponents[slot] = int(floor)
        mantissas[slot] = np.uint32(math.floor(table[step] * power * 1073741824.0))
    return exponents, mantissas


@compiled
def _class_totals(
    exponents: NDArray[np.int32], mantissas: NDArray[np.uint32], lowest: int, classes: int
) -> NDArray[np.uint64]:
    totals = np.zeros(classes, dtype=np.uint64)
    for slot in range(exponents.size):
        totals[exponents[slot] - lowest] += np.uint64(mantissas[slot])
    return totals


@compiled
def _locate(
    exponents: NDArray[np.int32],
    mantissas: NDArray[np.uint32],
    lowest: int,
    targets: NDArray[np.uint64],
    starts: NDArray[np.int64],
    found: NDArray[np.int64],
) -> None:
    """Finds the slot of each target; targets are sorted within the range starts[c]:starts[c + 1] of each class."""
    reached = np.zeros(starts.size - 1, dtype=np.uint64)
    cursor = starts[:-1].copy()
    for slot in range(exponents.size):
        group = exponents[slot] - lowest
        reached[group] += np.uint64(mantissas[slot])
        while cursor[group] < starts[group + 1] and targets[cursor[group]] < reached[group]:
            found[cursor[group]] = slot
            cursor[group] += 1


def draw(slope: float, counts: NDArray[np.float64], offsets: NDArray[np.float64], size: int) -> NDArray[np.int64]:
    """``size`` independent slots, in random order, with chances proportional to w (module docstring).

    slope: Score in powers of two per count.
    counts: float64 [slots]; SENSITIVE, integers in all but type.
    offsets: float64 [slots], scores in powers of two; public.

    Raises ValueError when a score may pass 2^12 in size: then the error bound would not hold.
    """
    if counts.size > LARGEST_SLOTS:
        raise ValueError(f"{counts.size:,} slots; want at most {LARGEST_SLOTS:,}")
    exponents, mantissas = split_weights(slope, counts, offsets)
    lowest = int(exponents.min())
    totals = _class_totals(exponents, mantissas, lowest, int(exponents.max()) - lowest + 1)
    groups = _draw_classes(totals, size)
    targets = entropy.each_below(totals[groups])
    order = np.lexsort((targets, groups))
    starts = np.concatenate([[0], np.cumsum(np.bincount(groups, minlength=totals.size))])
    found = np.empty(size, dtype=np.int64)
    _locate(exponents, mantissas, lowest, targets[order], starts, found)
    drawn = np.empty(size, dtype=np.int64)
    drawn[order] = found
    return drawn


def check_scores(slope: float, largest_count: float, offsets: NDArray[np.float64]) -> None:
    """Refuses scores for which the error bound would not hold; looks at public values only."""
    # Each is compared on its own: the maximum of a number and NaN can be the number.
    for part in (abs(slope) * largest_count, float(np.abs(offsets).max())):
        if not part <= LARGEST_SCORE:
            raise ValueError(f"a score reaches 2^{part:.3g}; want at most 2^{LARGEST_SCORE:.0f}: lower eta or rounds")


def _draw_classes(totals: NDArray[np.uint64], size: int) -> NDArray[np.int64]:
    """Exponent classes with chances proportional to totals[c] * 2^c, exactly.

    A uniform real in [0, 1) is revealed 64 bits at a time. Its first word decides the class unless it falls on a
    threshold; then more bits are drawn and compared as integers until the class is certain.
    """
    cumulative = _cumulative(totals)
    thresholds = np.array([(bound << 64) // cumulative[-1] for bound in cumulative[:-1]], dtype=np.uint64)
    revealed = entropy.words(size)
    groups = np.searchsorted(thresholds, revealed, side="right").astype(np.int64)
    for draw_index in np.flatnonzero(np.isin(revealed, thresholds)):
        groups[draw_index] = _decide(int(revealed[draw_index]), cumulative)
    return groups


def _cumulative(totals: NDArray[np.uint64]) -> list[int]:
    sums, running = [], 0
    for group, total in enumerate(totals.tolist()):
        running += total << group
        sums.append(running)
    return sums


def _decide(revealed: int, cumulative: list[int]) -> int:
    """The class of the real 0.revealed..., drawing further words while an interval of reals straddles a bound."""
    bits = 64
    while True:
        low, high = revealed * cumulative[-1], (revealed + 1) * cumulative[-1]
        first = next(group for group, bound in enumerate(cumulative) if low < bound << bits)
        if high <= cumulative[first] << bits:
            return first
        revealed, bits = (revealed << 64) | entropy.below(1 << 64), bits + 64
