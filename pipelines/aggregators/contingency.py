"""Counts marginals: many contingency tables in one pass over the codes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.domain import Domain
from dpcore.errors import EngineError, IntegrityError
from dpcore.queries import Marginals
from pipelines.aggregators.protocol import SLOTS, Block, TableBlock, enter_block, extract_counts, merge_counts

_CHUNK = 2048  # Rows per chunk, so that the codes of a chunk stay in the L1 cache while every clique reads them.


@dataclass(frozen=True, eq=False)
class Contingency:
    """Counts the kept rows in each cell of each clique, in the order of ``Marginals``.

    size: Total number of cells of all cliques.
    offsets: First cell of each clique, int64 [cliques].
    starts: Start of each clique in ``attributes`` and ``strides``, int64 [cliques + 1].
    attributes: For each attribute of each clique, the row of its codes, int64.
    strides: For each attribute of each clique, the distance in cells between neighbouring codes, int64.
    max_rows: Maximum number of rows of a unit.
    """

    size: int
    offsets: NDArray[np.int64]
    starts: NDArray[np.int64]
    attributes: NDArray[np.int64]
    strides: NDArray[np.int64]
    max_rows: int

    @classmethod
    def of(cls, queries: Marginals, domain: Domain, max_rows: int) -> Contingency:
        """The aggregator of these marginals.

        queries: The marginals.
        domain: All attributes in the order of the codes.
        max_rows: Maximum number of rows of a unit.
        """
        strides: list[int] = []
        for clique in queries.cliques:
            shape = queries.domain.shape(clique)
            strides.extend(int(np.prod(shape[axis + 1 :], dtype=np.int64)) for axis in range(len(shape)))
        return cls(
            queries.size,
            np.cumsum([0, *queries.sizes[:-1]], dtype=np.int64),
            np.cumsum([0, *map(len, queries.cliques)], dtype=np.int64),
            np.array([axis for clique in queries.cliques for axis in domain.axes(clique)], dtype=np.int64),
            np.array(strides, dtype=np.int64),
            max_rows,
        )

    def create(self) -> NDArray[np.int64]:
        """Zeros, the neutral element of ``merge``."""
        return np.zeros(self.size + SLOTS, dtype=np.int64)

    def add(self, accumulator: NDArray[np.int64], block: Block) -> NDArray[np.int64]:
        """Counts a block of whole units; returns the accumulator, changed in place."""
        if not isinstance(block, TableBlock):
            raise EngineError("contingency tables do not fit baskets; want blocks of a table")
        enter_block(accumulator, block, self.max_rows)
        _count(accumulator, block.codes, self.offsets, self.starts, self.attributes, self.strides, _CHUNK)
        return accumulator

    def merge(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
        """Adds two accumulators, or the same slice of both; returns ``left``, changed in place."""
        return merge_counts(left, right, self.size + SLOTS, self.max_rows)

    def extract(self, accumulator: NDArray[np.int64]) -> NDArray[np.int64]:
        """The counts of a whole accumulator, checked against its totals."""
        counts, rows = extract_counts(accumulator, self.size + SLOTS, self.max_rows)
        if (np.add.reduceat(counts, self.offsets) != rows).any():
            raise IntegrityError("a contingency table does not count every row once; want every slice exactly once")
        return counts


@compiled
def _count(
    counts: NDArray[np.int64],
    codes: NDArray[np.integer],
    offsets: NDArray[np.int64],
    starts: NDArray[np.int64],
    attributes: NDArray[np.int64],
    strides: NDArray[np.int64],
    chunk: int,
) -> None:
    rows = codes.shape[1]
    cell = np.empty(min(chunk, rows), dtype=np.int64)
    for first in range(0, rows, chunk):
        width = min(chunk, rows - first)
        for clique in range(offsets.size):
            cell[:width] = offsets[clique]
            for axis in range(starts[clique], starts[clique + 1]):
                code, stride = codes[attributes[axis], first : first + width], strides[axis]
                for row in range(width):
                    cell[row] += code[row] * stride
            for row in range(width):
                counts[cell[row]] += 1
