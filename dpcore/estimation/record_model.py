"""The model of a list of records: every unit is a copy of one of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.domain import BinaryView, Domain
from dpcore.errors import ConfigError
from dpcore.estimation.linear_answers import answers_of_products
from dpcore.estimation.model import BasketRows, SyntheticRows, TableRows
from dpcore.queries import Conjunctions, Marginals, Parities, Products, Queries

_WORD_BITS = 64
_MAX_UNPACKED = 1 << 26  # Cells of the 0/1 matrix that are unpacked at a time: 64 MiB.


@final
@dataclass(frozen=True, eq=False)
class RecordModel:
    """The uniform distribution over T records, scaled to ``total`` units. Implements Model.

    view: The columns of a record. With one-hot groups the model is of a table, without them of baskets.
    records: uint8 [T, ceil(columns / 8)], the bits of each record in the order of ``numpy.packbits``.
    total: The number of units, >= 0.

    Raises ValueError for no records, records of another width, and a negative total.
    """

    view: BinaryView
    records: NDArray[np.uint8]
    total: float

    def __post_init__(self) -> None:
        wanted = -(-self.view.columns // 8)
        if self.records.ndim != 2 or len(self.records) == 0 or self.records.shape[1] != wanted:
            raise ValueError(f"records of shape {self.records.shape}; want (at least 1, {wanted}) bytes")
        if not self.total >= 0:
            raise ValueError(f"total is {self.total}; want >= 0")

    @classmethod
    def of_rows(cls, view: BinaryView, rows: NDArray[np.bool_], total: float) -> RecordModel:
        """The model of records as bits.

        view: The columns of a record.
        rows: bool [T, view.columns], the records.
        total: The number of units, >= 0.
        """
        return cls(view, np.packbits(rows, axis=1), total)

    def answer(self, queries: Queries) -> NDArray[np.float64]:
        """Counts over the records, scaled to ``total``: float64 [queries.size]; see ``Model``."""
        if isinstance(queries, Products):
            return answers_of_products(queries, self.answer)
        counts = self._count_cells(queries) if isinstance(queries, Marginals) else self._count_satisfied(queries)
        return np.asarray(counts * (self.total / len(self.records)), dtype=np.float64)

    def sample(self, units: int, generator: np.random.Generator) -> SyntheticRows:
        """Rows in random order that hold every record equally often, up to one; which come once more is random."""
        records = len(self.records)
        every, once_more = np.repeat(np.arange(records), units // records), generator.permutation(records)
        chosen = np.concatenate([every, once_more[: units % records]])
        generator.shuffle(chosen)
        domain = self.view.domain
        if domain is not None:
            return TableRows(domain, self._codes()[chosen])
        return _baskets(self._rows(), chosen)

    def _rows(self) -> NDArray[np.bool_]:
        """The records as bits, bool [T, columns]."""
        return np.unpackbits(self.records, axis=1, count=self.view.columns).view(np.bool_)

    def _codes(self) -> NDArray[np.int32]:
        """The code of each one-hot group, int32 [T, groups]."""
        rows = self._rows()
        codes = [rows[:, start:stop].argmax(axis=1) for start, stop in self.view.groups]
        return np.stack(codes, axis=1).astype(np.int32)

    def _count_cells(self, queries: Marginals) -> NDArray[np.int64]:
        self._check_domain(queries.domain)
        codes = self._codes()
        tables = []
        for clique in queries.cliques:
            shape = queries.domain.shape(clique)
            strides = np.array([math.prod(shape[axis + 1 :]) for axis in range(len(shape))], dtype=np.int64)
            cells = codes[:, list(queries.domain.axes(clique))] @ strides
            tables.append(np.bincount(cells, minlength=math.prod(shape)))
        return np.concatenate(tables)

    def _check_domain(self, domain: Domain) -> None:
        own = self.view.domain
        if own is None or own.sizes != domain.sizes or (self.view.names and own.names != domain.names):
            raise ConfigError("marginals over other attributes than the model's; want its own domain, and a table")

    def _count_satisfied(self, queries: Conjunctions | Parities) -> NDArray[np.int64]:
        if queries.view != self.view:
            raise ConfigError("conjunctions or parities over other columns than the model's; want its own view")
        counts = np.empty(queries.size, dtype=np.int64)
        if isinstance(queries, Parities):
            _count_even(self._bitmaps(), len(self.records), queries.columns, counts)
        else:
            _count(self._bitmaps(), len(self.records), queries.columns, queries.negated, counts)
        return counts

    def _bitmaps(self) -> NDArray[np.uint64]:
        """Each column as bits over the records, uint64 [columns, ceil(T / 64)]; bit t is that of record t."""
        words = -(-len(self.records) // _WORD_BITS)
        bitmaps = np.zeros((self.view.columns, words * 8), dtype=np.uint8)
        step = max(8, _MAX_UNPACKED // len(self.records) // 8 * 8)
        for start in range(0, self.view.columns, step):
            stop = min(start + step, self.view.columns)
            rows = np.unpackbits(self.records[:, start // 8 : -(-stop // 8)], axis=1, count=stop - start)
            packed = np.packbits(rows.T, axis=1, bitorder="little")
            bitmaps[start:stop, : packed.shape[1]] = packed
        return bitmaps.view(np.dtype("<u8"))


@compiled
def _count(
    bitmaps: NDArray[np.uint64],
    records: int,
    columns: NDArray[np.int32],
    negated: NDArray[np.bool_],
    counts: NDArray[np.int64],
) -> None:
    """Counts the records that satisfy each conjunction: the AND of its literals' bitmaps, 64 records at a time."""
    words = bitmaps.shape[1]
    ones = np.uint64(0xFFFFFFFFFFFFFFFF)
    last = ones if records % 64 == 0 else (np.uint64(1) << np.uint64(records % 64)) - np.uint64(1)
    for query in range(columns.shape[0]):
        count = 0
        for word in range(words):
            bits = last if word == words - 1 else ones
            for literal in range(columns.shape[1]):
                column = bitmaps[columns[query, literal], word]
                bits &= ~column if negated[query, literal] else column
            count += _ones(bits)
        counts[query] = count


@compiled
def _count_even(
    bitmaps: NDArray[np.uint64], records: int, columns: NDArray[np.int32], counts: NDArray[np.int64]
) -> None:
    """Counts the records in which an even number of a parity's columns is 1; -1 is no column. Padding bits are 0."""
    for query in range(columns.shape[0]):
        odd = 0
        for word in range(bitmaps.shape[1]):
            bits = np.uint64(0)
            for index in range(columns.shape[1]):
                if columns[query, index] >= 0:
                    bits ^= bitmaps[columns[query, index], word]
            odd += _ones(bits)
        counts[query] = records - odd


@compiled
def _ones(bits: np.uint64) -> int:
    """The number of 1 bits of a word."""
    bits = bits - ((bits >> np.uint64(1)) & np.uint64(0x5555555555555555))
    bits = (bits & np.uint64(0x3333333333333333)) + ((bits >> np.uint64(2)) & np.uint64(0x3333333333333333))
    bits = (bits + (bits >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return int((bits * np.uint64(0x0101010101010101)) >> np.uint64(56))


def _baskets(rows: NDArray[np.bool_], chosen: NDArray[np.int64]) -> BasketRows:
    """Baskets in which unit u has the items of record chosen[u]."""
    record, item = np.nonzero(rows)
    starts = np.searchsorted(record, np.arange(len(rows) + 1))
    sizes = np.diff(starts)[chosen]
    unit = np.repeat(np.arange(len(chosen), dtype=np.int32), sizes)
    within = np.arange(len(unit)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return BasketRows(len(chosen), unit, item[np.repeat(starts[chosen], sizes) + within].astype(np.int32))
