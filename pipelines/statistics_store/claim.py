"""The claim that all rows of a unit are in one file, for files that were read in different runs. TRUSTED.

It is checked as ``pipelines.engines.claim`` checks it: first the ranges of units, and the units themselves only where
ranges overlap. A unit in several files is left out of all of them. Digests stand for the units, so that files which
were counted before need not be read again.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pipelines.engines.claim import UnitRange
from pipelines.statistics_store.counting import NO_UNITS, Digests


def overlapping(ranges: Mapping[int, UnitRange | None]) -> list[list[int]]:
    """Groups of files whose ranges of units overlap, of two files or more. Files of different groups share no unit.

    ranges: The range of each file by its number; None for a file without units.
    """
    ranged = sorted((found, number) for number, found in ranges.items() if found is not None)
    groups: list[list[int]] = []
    reach = None
    for (low, high), number in ranged:
        if reach is None or low > reach:
            groups.append([])
            reach = high
        groups[-1].append(number)
        reach = max(reach, high)
    return [group for group in groups if len(group) > 1]


def in_several_files(digests: Mapping[int, Digests]) -> dict[int, Digests]:
    """For each file with such units, the digests of its units that other files have as well. SENSITIVE.

    digests: The units of each file by its number.
    """
    repeated = _repeated(np.concatenate([units[:, 0] for units in digests.values()] or [NO_UNITS[:, 0]]))
    if not repeated.size:
        return {}
    # Few hashes are repeated, so the second halves of these alone are compared.
    candidates = {number: units[np.isin(units[:, 0], repeated)] for number, units in digests.items()}
    pairs, counts = np.unique(np.concatenate(list(candidates.values())), axis=0, return_counts=True)
    broken = {(int(first), int(second)) for first, second in pairs[counts > 1]}
    kept = {
        number: units[[(int(first), int(second)) in broken for first, second in units]]
        for number, units in candidates.items()
        if len(units)
    }
    return {number: units for number, units in kept.items() if len(units)}


def _repeated(values: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """The values that occur more than once, without repetition."""
    values = np.sort(values)
    return np.unique(values[1:][values[1:] == values[:-1]])
