"""The claim that all rows of a unit are in one file, for files that were read in different runs. TRUSTED.

It is checked as ``pipelines.engines.claim`` checks it: first the ranges of units, and the units themselves only where
ranges overlap. A unit in several files is left out of all of them. Digests stand for the units, so that files which
were counted before need not be read again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from pipelines.engines.claim import UnitRange
from pipelines.statistics_store.unit_digests import Digests, are_repeated

Halves = NDArray[np.uint64]
"""One half of each digest of a file, uint64 [units], in the order of the digests. SENSITIVE."""

_SPANS = 256  # First halves are compared span by span, so that sorting takes little memory and stays in the caches.


def overlapping(ranges: Mapping[int, UnitRange | None]) -> list[list[int]]:
    """Groups of files whose ranges of units overlap, of two files or more. Files of different groups share no unit.

    ranges: The range of each file by its number; None for a file without units.
    """
    ranged = sorted((unit_range, number) for number, unit_range in ranges.items() if unit_range is not None)
    groups: list[list[int]] = []
    reach = None
    for (low, high), number in ranged:
        if reach is None or low > reach:
            groups.append([])
            reach = high
        groups[-1].append(number)
        reach = max(reach, high)
    return [group for group in groups if len(group) > 1]


def with_repeated_halves(first: Mapping[int, Halves]) -> dict[int, NDArray[np.int64]]:
    """Where first halves are that occur more than once, in one file or in several. SENSITIVE.

    first: The first halves of each file by its number, sorted.

    Returns: For each file with such halves, their positions, int64, ascending.
    """
    repeated = _repeated(list(first.values()))
    if not repeated.size:
        return {}
    places = {number: np.flatnonzero(np.isin(halves, repeated)) for number, halves in first.items()}
    return {number: positions for number, positions in places.items() if positions.size}


def in_several_files(candidates: Mapping[int, Digests]) -> dict[int, Digests]:
    """For each file with such units, the digests of its units that other files have as well. SENSITIVE.

    candidates: Digests of each file by its number, each once: at least those whose first halves are repeated.
    """
    if not candidates:
        return {}
    repeated = are_repeated(np.concatenate(list(candidates.values())))
    stops = np.cumsum([len(digests) for digests in candidates.values()])
    flags = np.split(repeated, stops[:-1])
    broken = {number: digests[flag] for (number, digests), flag in zip(candidates.items(), flags, strict=True)}
    return {number: digests for number, digests in broken.items() if len(digests)}


def _repeated(sorted_halves: Sequence[Halves]) -> Halves:
    """The values that occur more than once in all arrays together, without repetition."""
    ends = np.arange(1, _SPANS, dtype=np.uint64) << np.uint64(56)
    cuts = [np.concatenate([[0], np.searchsorted(halves, ends), [halves.size]]) for halves in sorted_halves]
    repeated = []
    for span in range(_SPANS):
        pieces = [halves[cut[span] : cut[span + 1]] for halves, cut in zip(sorted_halves, cuts, strict=True)]
        values = np.concatenate(pieces) if pieces else np.empty(0, dtype=np.uint64)
        values.sort()
        repeated.append(np.unique(values[1:][values[1:] == values[:-1]]))
    return np.concatenate(repeated)
