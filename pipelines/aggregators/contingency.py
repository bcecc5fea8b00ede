"""Many contingency tables in one pass over the codes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.domain import Domain
from dpcore.errors import EngineError, IntegrityError
from dpcore.queries import Marginals
from pipelines.aggregators.protocol import SLOTS, Block, TableBlock, entered, extracted, merge_counts

# Rows whose codes stay in the first cache level while every clique passes over them.
_CHUNK = 2048


@dataclass(frozen=True, eq=False)
class Contingency:
    """Counts kept rows in each cell of each clique, in the order of ``Marginals``.

    size: Cells of all cliques.
    offsets: int64 [cliques], first cell of each clique.
    starts: int64 [cliques + 1]; clique c uses attributes[starts[c] : starts[c + 1]].
    attributes, strides: int64, row of the codes and step in cells, for each attribute of each clique.
    most: Rows that a unit may hold.
    """

    size: int
    offsets: NDArray[np.int64]
    starts: NDArray[np.int64]
    attributes: NDArray[np.int64]
    strides: NDArray[np.int64]
    most: int

    @classmethod
    def of(cls, queries: Marginals, domain: Domain, most: int) -> Contingency:
        """domain: Attributes in the order of the codes; it holds those of the queries."""
        strides: list[int] = []
        for clique in queries.cliques:
            shape = queries.domain.shape(clique)
            strides.extend(int(np.prod(shape[place + 1 :], dtype=np.int64)) for place in range(len(shape)))
        return cls(
            queries.size,
            np.cumsum([0, *queries.sizes[:-1]], dtype=np.int64),
            np.cumsum([0, *map(len, queries.cliques)], dtype=np.int64),
            np.array([axis for clique in queries.cliques for axis in domain.axes(clique)], dtype=np.int64),
            np.array(strides, dtype=np.int64),
            most,
        )

    def create(self) -> NDArray[np.int64]:
        return np.zeros(self.size + SLOTS, dtype=np.int64)

    def add(self, accumulator: NDArray[np.int64], block: Block) -> NDArray[np.int64]:
        if not isinstance(block, TableBlock):
            raise EngineError("contingency tables were asked of baskets")
        entered(accumulator, block, self.most)
        _count(accumulator, block.codes, self.offsets, self.starts, self.attributes, self.strides, _CHUNK)
        return accumulator

    def merge(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
        return merge_counts(left, right, self.size + SLOTS, self.most)

    def extract(self, accumulator: NDArray[np.int64]) -> NDArray[np.int64]:
        counts, rows = extracted(accumulator, self.size + SLOTS, self.most)
        if (np.add.reduceat(counts, self.offsets) != rows).any():
            raise IntegrityError("a contingency table does not hold every row once; want all slices once each")
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
        here = min(chunk, rows - first)
        for clique in range(offsets.size):
            cell[:here] = offsets[clique]
            for place in range(starts[clique], starts[clique + 1]):
                code, stride = codes[attributes[place], first : first + here], strides[place]
                for row in range(here):
                    cell[row] += code[row] * stride
            for row in range(here):
                counts[cell[row]] += 1
