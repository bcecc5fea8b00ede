"""Synthetic rows in partitions: any worker makes one partition alone, and together they are one randomised rounding.

A model first rounds the counts of all rows to integers, once (``Model.rounded``). The partitions are the leaves of a
binary tree: ``RoundedRows.half`` splits integer counts between the first and the second half of a range of partitions,
with a random generator that depends on the public seed and the range alone. A worker therefore follows the path to its
partition, in a time that grows with the logarithm of their number, and never makes the rows of another partition.
The counts of two halves are integers that sum to the counts of the whole, so nothing is lost or counted twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.estimation.model import RoundedRows, SyntheticRows

LARGEST_UNITS = (1 << 31) - 1
"""The largest number of units that ``Model.rounded`` accepts. Counts are int32, and their products fit in int64."""


def partition_rows(rounded: RoundedRows, size: int, seed: int, first: int, end: int) -> Iterator[SyntheticRows]:
    """Yields the rows of the partitions ``first`` .. ``end`` - 1, each in random order.

    rounded: The counts of all rows.
    size: Number of units of each partition but the last, >= 1.
    seed: Public seed, >= 0.
    first, end: Numbers of partitions, from 0. Each partition is a function of the other arguments and its number; a run
        of several partitions takes less time, because their paths share ranges.

    The rows of all partitions together have exactly the counts of ``rounded``. The counts of a partition are its share
    of them, up to a few counts. Memory holds one partition, two copies of the counts, and one more for each doubling of
    the length of the run.

    Raises: ValueError for partitions that do not exist.
    """
    partitions = -(-rounded.units // size)
    if not 0 <= first <= end <= partitions:
        raise ValueError(f"partitions are {first} .. {end}; want a range within 0 .. {partitions}")
    if first == end:
        return
    for number, share in _shares(rounded, size, seed, range(first, end), (0, partitions)):
        yield share.rows(np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number,))))


def _shares(
    rounded: RoundedRows, size: int, seed: int, wanted: range, limits: tuple[int, int]
) -> Iterator[tuple[int, RoundedRows]]:
    """Yields the counts of the wanted partitions with their numbers.

    wanted: At least one partition within the limits.
    limits: The range of partitions that ``rounded`` is the counts of: its first, and the one after its last.
    """
    first, end = limits
    while end - first > 1:
        middle = (first + end) // 2
        half = partial(_half, rounded, (middle - first) * size, seed, limits)
        if wanted.start < middle < wanted.stop:
            # Counts of a range are kept only as long as both of its halves are wanted.
            yield from _shares(half(first=True), size, seed, range(wanted.start, middle), (first, middle))
            wanted = range(middle, wanted.stop)
        is_first = wanted.stop <= middle
        rounded = half(first=is_first)
        del half
        first, end = limits = (first, middle) if is_first else (middle, end)
    yield first, rounded


def _half(rounded: RoundedRows, units: int, seed: int, limits: tuple[int, int], *, first: bool) -> RoundedRows:
    """One half of the counts of a range of partitions, by the random generator of this range."""
    return rounded.half(units, np.random.default_rng(np.random.SeedSequence(seed, spawn_key=limits)), first=first)


def half_of_counts(
    counts: NDArray[np.int32], first_totals: NDArray[np.int64], generator: np.random.Generator, *, first: bool
) -> NDArray[np.int32]:
    """Splits every row of counts in two, and returns one of the two parts: int32, of the shape of ``counts``.

    counts: int32 [rows, columns], >= 0.
    first_totals: Sum of the first part of each row, int64 [rows], from 0 to the sum of the row.
    generator: Algorithmic randomness. Both parts are computed from a generator in the same state.
    first: Whether to return the first part; the second part is the rest.

    The first part of a count is count * first_total / total, rounded up or down, and this is also its mean over the
    generator. Only integers are divided, so that every machine gets the same parts. Fractions compete in the order of
    the columns, by the pivotal method: the sum over any range of columns is rounded to within two counts as well.

    Source: Deville and Tille (1998), "Unequal probability sampling without replacement through a splitting method".
    """
    half = np.empty_like(counts)
    _split_rows(counts, first_totals, first, half, generator)
    return half


@compiled
def _split_rows(
    counts: NDArray[np.int32],
    first_totals: NDArray[np.int64],
    first: bool,
    half: NDArray[np.int32],
    generator: np.random.Generator,
) -> None:
    """The loop of ``half_of_counts``."""
    step = 1 if first else -1
    for i in range(counts.shape[0]):
        total = 0
        for j in range(counts.shape[1]):
            total += counts[i, j]
        wanted = first_totals[i]
        if wanted == 0 or wanted == total:
            if first == (wanted == 0):
                half[i] = 0
            else:
                half[i] = counts[i]
            continue
        waiting, fraction = -1, 0  # The column whose fraction is not decided yet, as a numerator over ``total``.
        for j in range(counts.shape[1]):
            count = np.int64(counts[i, j])
            whole = count * wanted // total
            half[i, j] = whole if first else count - whole
            rest = count * wanted - whole * total
            if rest == 0:
                continue
            if waiting < 0:
                waiting, fraction = j, rest
                continue
            both = fraction + rest
            if both < total:  # One column gets the sum of the fractions, the other one 0.
                if generator.random() * both >= fraction:
                    waiting = j
                fraction = both
            else:  # One column is rounded up, the other one gets what remains of the sum.
                if generator.random() * (2 * total - both) < total - rest:
                    half[i, waiting] += step
                    waiting = j
                else:
                    half[i, j] += step
                fraction = both - total
                if fraction == 0:
                    waiting = -1
