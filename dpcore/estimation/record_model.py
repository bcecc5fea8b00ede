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
from dpcore.estimation.row_partitions import LARGEST_UNITS, half_of_counts
from dpcore.queries import Conjunctions, Marginals, Parities, Products, Queries

_WORD_BITS = 64  # Bits per word of a bitmap.
_MAX_UNPACKED = 1 << 26  # Entries of the 0/1 matrix that are unpacked at a time: 64 MiB.


@final
@dataclass(frozen=True, eq=False)
class RecordModel:
    """The uniform distribution over T records, scaled to ``total`` units. Implements Model.

    view: The columns of a record. With one-hot groups it is a model of a table, without them a model of baskets.
    records: uint8 [T, ceil(columns / 8)], the bits of each record in the order of ``numpy.packbits``.
    total: The number of units, >= 0.

    Raises ValueError for no records, records of another width, and a negative total.
    """

    view: BinaryView
    records: NDArray[np.uint8]
    total: float

    def __post_init__(self) -> None:
        width = -(-self.view.columns // 8)
        if self.records.ndim != 2 or len(self.records) == 0 or self.records.shape[1] != width:
            raise ValueError(f"records of shape {self.records.shape}; want (at least 1, {width}) bytes")
        if not self.total >= 0:
            raise ValueError(f"total is {self.total}; want >= 0")

    @classmethod
    def of_rows(cls, view: BinaryView, rows: NDArray[np.bool_], total: float) -> RecordModel:
        """The model of records that are given as 0/1 rows.

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
        """Rows in random order. All records occur equally often, except that a random part of them occurs once more."""
        records = len(self.records)
        whole_copies, permuted = np.repeat(np.arange(records), units // records), generator.permutation(records)
        record_of_unit = np.concatenate([whole_copies, permuted[: units % records]])
        generator.shuffle(record_of_unit)
        return self.copies(record_of_unit)

    def rounded(self, units: int, generator: np.random.Generator) -> RoundedRecords:
        """The number of copies of each record, by the rule of ``sample``; see ``Model``.

        Raises: ValueError for more than ``LARGEST_UNITS`` units.
        """
        if units > LARGEST_UNITS:
            raise ValueError(f"units is {units}; want at most {LARGEST_UNITS}")
        records = len(self.records)
        copies = np.full(records, units // records, dtype=np.int32)
        copies[generator.permutation(records)[: units % records]] += 1
        return RoundedRecords(self, copies)

    def copies(self, record_of_unit: NDArray[np.int64]) -> SyntheticRows:
        """Rows that are copies of records, of which unit u has number record_of_unit[u]; int64 [units]."""
        domain = self.view.domain
        if domain is not None:
            return TableRows(domain, self._codes()[record_of_unit])
        return _baskets(self._rows(), record_of_unit)

    def _rows(self) -> NDArray[np.bool_]:
        """The records as bits, bool [T, columns]."""
        return np.unpackbits(self.records, axis=1, count=self.view.columns).view(np.bool_)

    def _codes(self) -> NDArray[np.int32]:
        """The code of each record in each one-hot group, int32 [T, groups]."""
        rows = self._rows()
        codes = [rows[:, start:stop].argmax(axis=1) for start, stop in self.view.groups]
        return np.stack(codes, axis=1).astype(np.int32)

    def _count_cells(self, queries: Marginals) -> NDArray[np.int64]:
        """The number of records in each cell of the marginals."""
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
        """The number of records that satisfy each query."""
        if queries.view != self.view:
            raise ConfigError("conjunctions or parities over other columns than the model's; want its own view")
        counts = np.empty(queries.size, dtype=np.int64)
        if isinstance(queries, Parities):
            _count_parities(self._bitmaps(), len(self.records), queries.columns, counts)
        else:
            _count_conjunctions(self._bitmaps(), len(self.records), queries.columns, queries.negated, counts)
        return counts

    def _bitmaps(self) -> NDArray[np.uint64]:
        """A bitmap over the records for each column, uint64 [columns, ceil(T / 64)]; bit t belongs to record t."""
        words = -(-len(self.records) // _WORD_BITS)
        bitmaps = np.zeros((self.view.columns, words * 8), dtype=np.uint8)
        step = max(8, _MAX_UNPACKED // len(self.records) // 8 * 8)
        for start in range(0, self.view.columns, step):
            stop = min(start + step, self.view.columns)
            rows = np.unpackbits(self.records[:, start // 8 : -(-stop // 8)], axis=1, count=stop - start)
            packed = np.packbits(rows.T, axis=1, bitorder="little")
            bitmaps[start:stop, : packed.shape[1]] = packed
        return bitmaps.view(np.dtype("<u8"))


@final
@dataclass(frozen=True, eq=False)
class RoundedRecords:
    """How many units are copies of each record. Implements ``RoundedRows``.

    model: The records.
    copies: int32 [T].
    """

    model: RecordModel
    copies: NDArray[np.int32]

    @property
    def units(self) -> int:
        """Number of units."""
        return int(self.copies.sum(dtype=np.int64))

    def half(self, units: int, generator: np.random.Generator, *, first: bool) -> RoundedRecords:
        """The copies among the first ``units`` units, or among the others; see ``half_of_counts``."""
        totals = np.array([units], dtype=np.int64)
        return RoundedRecords(self.model, half_of_counts(self.copies[None, :], totals, generator, first=first)[0])

    def rows(self, generator: np.random.Generator) -> SyntheticRows:
        """The copies in random order."""
        record_of_unit = np.repeat(np.arange(len(self.copies)), self.copies)
        generator.shuffle(record_of_unit)
        return self.model.copies(record_of_unit)


@compiled
def _count_conjunctions(
    bitmaps: NDArray[np.uint64],
    records: int,
    columns: NDArray[np.int32],
    negated: NDArray[np.bool_],
    counts: NDArray[np.int64],
) -> None:
    """Counts the records that satisfy each conjunction: the AND of its literals' bitmaps, 64 records at a time."""
    words = bitmaps.shape[1]
    ones = np.uint64(0xFFFFFFFFFFFFFFFF)
    last_word = ones if records % 64 == 0 else (np.uint64(1) << np.uint64(records % 64)) - np.uint64(1)
    for query in range(columns.shape[0]):
        count = 0
        for word in range(words):
            bits = last_word if word == words - 1 else ones
            for literal in range(columns.shape[1]):
                column = bitmaps[columns[query, literal], word]
                bits &= ~column if negated[query, literal] else column
            count += _bit_count(bits)
        counts[query] = count


@compiled
def _count_parities(
    bitmaps: NDArray[np.uint64], records: int, columns: NDArray[np.int32], counts: NDArray[np.int64]
) -> None:
    """Counts the records in which an even number of a parity's columns is 1; column -1 and padding bits count as 0."""
    for query in range(columns.shape[0]):
        odd = 0
        for word in range(bitmaps.shape[1]):
            bits = np.uint64(0)
            for index in range(columns.shape[1]):
                if columns[query, index] >= 0:
                    bits ^= bitmaps[columns[query, index], word]
            odd += _bit_count(bits)
        counts[query] = records - odd


@compiled
def _bit_count(bits: np.uint64) -> int:
    """The number of 1 bits of a word."""
    bits = bits - ((bits >> np.uint64(1)) & np.uint64(0x5555555555555555))
    bits = (bits & np.uint64(0x3333333333333333)) + ((bits >> np.uint64(2)) & np.uint64(0x3333333333333333))
    bits = (bits + (bits >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return int((bits * np.uint64(0x0101010101010101)) >> np.uint64(56))


def _baskets(rows: NDArray[np.bool_], record_of_unit: NDArray[np.int64]) -> BasketRows:
    """Baskets in which unit u has the items of record record_of_unit[u]."""
    record, item = np.nonzero(rows)
    starts = np.searchsorted(record, np.arange(len(rows) + 1))
    sizes = np.diff(starts)[record_of_unit]
    unit = np.repeat(np.arange(len(record_of_unit), dtype=np.int32), sizes)
    offset = np.arange(len(unit)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    items = item[np.repeat(starts[record_of_unit], sizes) + offset].astype(np.int32)
    return BasketRows(len(record_of_unit), unit, items)
