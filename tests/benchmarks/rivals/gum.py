"""GUM, the gradual update of synthetic rows towards noisy marginals (Zhang and others 2021, section 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

_DECAY, _DECAYED_EVERY = 0.84, 20  # The step falls by this factor after so many iterations, as published.
_BISECTIONS: Final = 40

Codes = NDArray[np.int32]
Counts = NDArray[np.float64]
Cells = NDArray[np.uint16] | NDArray[np.int64]


@final
@dataclass(frozen=True, eq=False)
class Target:
    """A marginal that the rows shall have.

    axes: Positions of its attributes.
    shape: Their sizes.
    counts: float64 [cells], >= 0; their sum is the number of rows.
    """

    axes: tuple[int, ...]
    shape: tuple[int, ...]
    counts: Counts

    def cells(self, columns: Codes) -> Cells:
        """The cell of each row, in a type that numpy sorts in linear time where there are few cells.

        columns: int32 [attributes, rows].
        """
        cells: NDArray[np.int64] = np.ravel_multi_index(tuple(columns[axis] for axis in self.axes), self.shape)
        return cells.astype(np.uint16) if len(self.counts) <= 1 << 16 else cells


def updated(codes: Codes, targets: Sequence[Target], iterations: int, generator: Generator) -> Codes:
    """Rows whose marginals come close to the targets.

    codes: int32 [rows, attributes], the rows to start from.
    """
    columns = np.ascontiguousarray(codes.T)
    for iteration in range(iterations):
        step = _DECAY ** (iteration // _DECAYED_EVERY)
        columns = columns[:, generator.permutation(columns.shape[1])]  # So that the first of a cell are random ones.
        for target in targets:
            _update(columns, target, step, generator)
    return np.ascontiguousarray(columns.T)


def moves(counts: Counts, wanted: Counts, step: float) -> tuple[Counts, Counts]:
    """How many rows each cell gains, and how many it loses; both have the same sum.

    A cell below its target gains the gap, but at most ``step`` times its rows; a cell without rows gains ``step`` times
    the gap. A cell above its target loses the gap, but at most beta times its rows, with beta so that the sums agree.
    """
    gap = wanted - counts
    gains = np.where(gap > 0, np.minimum(gap, step * np.where(counts > 0, counts, gap)), 0.0)
    excess = np.maximum(-gap, 0.0)
    gained, lost = gains.sum(), excess.sum()
    if gained >= lost:
        return gains * (lost / gained if gained else 0.0), excess
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        beta = (low + high) / 2
        low, high = (beta, high) if np.minimum(excess, beta * counts).sum() < gained else (low, beta)
    losses = np.minimum(excess, high * counts)
    return gains, losses * (gained / losses.sum() if gained else 0.0)


def _update(columns: Codes, target: Target, step: float, generator: Generator) -> None:
    """Moves rows from the cells that are too full to those that are not full enough.

    Half of them get the values of their new cell in this marginal's attributes alone; the others become copies of a row
    that lies in the new cell, if there is one.
    """
    cells = target.cells(columns)
    counts = np.bincount(cells, minlength=len(target.counts))
    gains, losses = moves(counts.astype(np.float64), target.counts, step)
    given, taken = rounded(gains, generator), rounded(losses, generator)
    by_cell = np.argsort(cells, kind="stable")
    starts = np.cumsum(counts) - counts
    ranks = np.arange(len(cells)) - np.repeat(starts, counts)
    sources = generator.permutation(by_cell[ranks < np.repeat(taken, counts)])
    destinations = np.repeat(np.arange(len(given)), given)
    size = min(len(sources), len(destinations))
    sources, destinations = sources[:size], generator.permutation(destinations)[:size]
    copied = (generator.random(size) < 0.5) & (counts[destinations] > 0)
    offsets = (generator.random(int(copied.sum())) * counts[destinations[copied]]).astype(np.int64)
    copies = columns[:, by_cell[starts[destinations[copied]] + offsets]]
    edited = np.unravel_index(destinations[~copied], target.shape)
    for axis, values in zip(target.axes, edited, strict=True):
        columns[axis, sources[~copied]] = values
    columns[:, sources[copied]] = copies


def rounded(values: Counts, generator: Generator) -> NDArray[np.int64]:
    """Integers whose expectations are the values, and whose sum is that of the values, rounded up or down."""
    sums = np.floor(np.concatenate([[0.0], np.cumsum(values)]) + generator.random())
    return np.diff(sums).astype(np.int64)
