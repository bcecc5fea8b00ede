"""The law of basket sizes from a noisy histogram."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

_EXACT_SIZES: Final = 64  # Sizes below this one have a cell each.
_CELLS_PER_OCTAVE: Final = 4
_TAIL_DEVIATIONS: Final = 2.0  # Cells above the largest size whose tail is this significant count as empty.
_SPLIT_DEVIATIONS: Final = 1.5  # Splits that are within this many standard deviations of the expected one are not real.
_MAX_TILT: Final = 0.5  # Largest correction of the logarithm of the mean size.
_BISECTIONS: Final = 60


@final
@dataclass(frozen=True, eq=False)
class SizeLaw:
    """A distribution of basket sizes.

    sizes: int64 [S], ascending, >= 0.
    probabilities: float64 [S], positive, with sum 1.
    """

    sizes: NDArray[np.int64]
    probabilities: NDArray[np.float64]

    def tilted(self, weights: NDArray[np.float64], mean: float) -> SizeLaw:
        """The law closest in relative entropy to this one for which the mean of ``weights`` is ``mean``.

        weights: float64 [S], one number for each size, >= 0.
        mean: The mean to attain. The correction is bounded, so that a mean made of noise cannot change much.
        """
        scale = float(weights @ self.probabilities)
        if scale <= 0 or mean <= 0:
            return self
        target = float(np.clip(mean, scale * np.exp(-_MAX_TILT), scale * np.exp(_MAX_TILT)))
        low, high = -1.0, 1.0
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            p = self._exponential(weights / scale, middle)
            low, high = (middle, high) if float(weights @ p) < target else (low, middle)
        return SizeLaw(self.sizes, self._exponential(weights / scale, (low + high) / 2))

    def _exponential(self, weights: NDArray[np.float64], tilt: float) -> NDArray[np.float64]:
        logarithms = np.log(self.probabilities) + tilt * weights
        p = np.exp(logarithms - logarithms.max())
        return np.asarray(p / p.sum())


def size_starts(items: int) -> NDArray[np.int64]:
    """The smallest size of each cell of the histogram, int64 [cells]: one cell a size, then four an octave.

    items: The largest possible size, >= 1.
    """
    octaves = max(0, items.bit_length() - _EXACT_SIZES.bit_length() + 1)
    wide = np.ceil(_EXACT_SIZES * 2.0 ** (np.arange(1, _CELLS_PER_OCTAVE * octaves + 1) / _CELLS_PER_OCTAVE))
    starts = np.concatenate([np.arange(_EXACT_SIZES + 1), wide.astype(np.int64)])
    return np.asarray(starts[starts <= items], dtype=np.int64)


def size_law(cells: NDArray[np.float64], starts: NDArray[np.int64], items: int, stddev: float) -> SizeLaw:
    """Estimates the law of sizes.

    cells: float64 [cells], noisy numbers of units by size.
    starts: int64 [cells], the smallest size of each cell; ``size_starts``.
    items: The largest possible size.
    stddev: Standard deviation of the noise in each cell, independent, in counts.

    Large sizes beyond the last significant tail sum have no units. Then cells are split in halves again and again. A
    split follows the noisy counts as far as they differ significantly from the split that is expected if sizes are
    spread evenly over their logarithms (positive-part James-Stein in each split, as in wavelet shrinkage). Within a
    cell, all sizes are equally likely.

    Source: Donoho and Johnstone (1994), wavelet shrinkage on a Haar tree with unequal widths.
    """
    ends = np.append(starts[1:], items + 1)
    stop = max(2, _significant_end(cells, stddev))
    counts = np.zeros(stop)
    total = max(1.0, float(cells[:stop].sum()))
    logarithms = np.log(ends[:stop] + 0.5) - np.log(starts[:stop] + 0.5)
    _split(cells, logarithms, 0, stop, total, stddev, counts)
    counts[1] = max(counts[1], 1.0) if not counts[1:].any() else counts[1]  # Not all baskets are empty.
    held = [(int(starts[c]), int(ends[c]), counts[c]) for c in range(stop) if counts[c] > 0]
    sizes = np.concatenate([np.arange(start, end) for start, end, _ in held])
    p = np.concatenate([np.full(end - start, count / (end - start)) for start, end, count in held])
    return SizeLaw(sizes, p / p.sum())


def _significant_end(cells: NDArray[np.float64], stddev: float) -> int:
    """The end of the cells that have units: no sum of all cells from a later one on is significant."""
    tails = np.cumsum(cells[::-1])[::-1]
    noise = stddev * np.sqrt(np.arange(len(cells), 0, -1))
    significant = np.flatnonzero((tails > _TAIL_DEVIATIONS * noise) | (cells > (_TAIL_DEVIATIONS + 1) * stddev))
    return int(significant[-1]) + 1 if significant.size else 1


def _split(
    cells: NDArray[np.float64],
    widths: NDArray[np.float64],
    start: int,
    stop: int,
    total: float,
    stddev: float,
    counts: NDArray[np.float64],
) -> None:
    """Divides ``total`` units among the cells ``start`` .. ``stop`` - 1, and stores their numbers in ``counts``."""
    if stop - start == 1:
        counts[start] = total
        return
    middle = (start + stop) // 2
    low_sum, high_sum = float(cells[start:middle].sum()), float(cells[middle:stop].sum())
    low_part = (middle - start) / (stop - start)
    measured = low_sum + (total - low_sum - high_sum) * low_part
    expected = total * float(widths[start:middle].sum() / widths[start:stop].sum())
    variance = stddev**2 * (stop - start) * low_part * (1 - low_part)
    change = measured - expected
    kept = max(0.0, 1.0 - _SPLIT_DEVIATIONS**2 * variance / max(change**2, 1e-300))
    share = float(np.clip(expected + kept * change, 0.0, total))
    _split(cells, widths, start, middle, share, stddev, counts)
    _split(cells, widths, middle, stop, total - share, stddev, counts)
