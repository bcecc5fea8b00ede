"""Truncates each unit to the contribution bound before anything is counted. TRUSTED.

A unit with more rows than the bound keeps the rows with the smallest keyed hashes of (unit, encoded row). A layout may
keep those with the smallest codes of one attribute first, so that rows of later steps never displace rows of earlier
ones. The choice depends only on the unit's own rows and the secret salt, and not on files, order or other units. Before
a block is made, separate code counts the kept rows again, and raises IntegrityError if a unit is over the bound or was
lost.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.errors import IntegrityError
from pipelines.aggregators.item_sums import NamedPairs
from pipelines.aggregators.protocol import BasketBlock, TableBlock
from pipelines.arrow import integers, numbers_of
from pipelines.encode import EncodedRows
from pipelines.hashing import hash_texts, hash_words, key_of
from pipelines.layout import BasketLayout, TableLayout


@dataclass(frozen=True, eq=False)
class Groups:
    """Rows grouped by unit: unit u has the rows order[starts[u] : starts[u + 1]].

    order: Row numbers, int64 [rows]; None stands for 0, 1, 2, ...
    starts: First position of each unit in ``order``, followed by the number of rows, int64 [units + 1].
    """

    order: NDArray[np.int64] | None
    starts: NDArray[np.int64]

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of rows of each unit, int64 [units]."""
        return np.diff(self.starts)

    def rows_of(self, units: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The rows of some units, one unit after the other, and the start of each unit among these rows.

        units: Numbers of the units, int64.

        Returns: Row numbers, int64; and starts, int64 [units + 1].
        """
        sizes = self.sizes[units]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        positions = np.arange(starts[-1]) + np.repeat(self.starts[units] - starts[:-1], sizes)
        return (positions if self.order is None else self.order[positions]), starts


def table_block(rows: EncodedRows, layout: TableLayout, salt: bytes) -> TableBlock:
    """Truncates each unit of a table to at most ``max_rows_per_unit`` rows. SENSITIVE.

    rows: All valid rows of whole units.
    layout: The public layout, with the bound.
    salt: Secret key of the hash, 16 bytes.

    Raises: IntegrityError when a unit of the result is over the bound, or was lost.
    """
    groups = group_by_unit(rows.units)
    bound = layout.contribution.bound
    over = np.flatnonzero(groups.sizes > bound)
    codes, sizes = rows.rows, groups.sizes
    if over.size:
        candidates, starts = groups.rows_of(over)
        kept = np.ones(codes.shape[1], dtype=np.bool_)
        hashes = _hashes(rows, candidates, salt)
        if layout.earliest is None:
            kept[candidates] = _smallest(hashes, starts, bound)
        else:
            steps = rows.rows[layout.schema.domain.index(layout.earliest), candidates]
            kept[candidates] = _earliest(steps, hashes, starts, bound)
        codes = codes[:, kept]
        sizes[over] = np.add.reduceat(kept[candidates], starts[:-1], dtype=np.int64)
    if sizes.size and not 1 <= sizes.min() <= sizes.max() <= bound:
        raise IntegrityError(f"a unit keeps no row, or more rows than declared; want 1 .. {bound}")
    return TableBlock(codes, groups.starts.size - 1)


def basket_block(rows: EncodedRows, layout: BasketLayout, salt: bytes) -> BasketBlock:
    """Truncates each basket to at most ``max_items_per_unit`` distinct items. SENSITIVE.

    Repetitions of a kept item may stay. The arguments and exceptions are those of ``table_block``.
    """
    groups = group_by_unit(rows.units)
    items: NDArray[np.int32] = rows.rows[0].astype(np.int32, copy=False)
    bound = layout.contribution.bound
    over = np.flatnonzero(groups.sizes > bound) if bound < layout.items else np.empty(0, dtype=np.int64)
    if over.size:
        candidates, starts = groups.rows_of(over)
        kept = np.ones(items.size, dtype=np.bool_)
        kept[candidates] = _smallest_distinct(_hashes(rows, candidates, salt), starts, bound)
        if _max_distinct(items[candidates], kept[candidates], starts, layout.items) > bound:
            raise IntegrityError(f"a unit keeps more distinct items than declared; want at most {bound}")
        return _kept_pairs(items, groups, kept)
    return BasketBlock(groups.starts, items if groups.order is None else items[groups.order])


def named_block(units: pa.Array, items: NDArray[np.int32], names: pa.Array, bound: int, salt: bytes) -> NamedPairs:
    """Truncates each basket to at most ``bound`` distinct items, whatever their names. SENSITIVE.

    units, items, names: What ``encode.named_pairs`` returns.
    bound: Maximum number of distinct items of a unit. The choice depends on units and names, and not on positions.
    salt: Secret key of the hash, 16 bytes.

    Raises: IntegrityError when a unit of the result is over the bound.
    """
    groups = group_by_unit(units)
    kept = np.ones(items.size, dtype=np.bool_)
    over = np.flatnonzero(groups.sizes > bound)
    if over.size:
        candidates, starts = groups.rows_of(over)
        words = np.empty((2, candidates.size), dtype=np.uint64)
        words[0] = unit_words(units.take(integers(candidates)), salt)
        words[1] = unit_words(names, salt)[items[candidates]]
        kept[candidates] = _smallest_distinct(hash_words(words, key_of(salt)), starts, bound)
        if _max_distinct(items[candidates], kept[candidates], starts, len(names)) > bound:
            raise IntegrityError(f"a unit keeps more distinct items than declared; want at most {bound}")
    block = _kept_pairs(items, groups, kept) if items.size else BasketBlock(groups.starts, items)
    return NamedPairs(block.starts, block.items, names)


def group_by_unit(units: pa.Array) -> Groups:
    """Groups rows by unit. No sort is needed if the rows of each unit are already contiguous.

    units: Unit of each row, an Arrow array [rows] of integers or strings without nulls.
    """
    if not pa.types.is_integer(units.type):
        units = units.dictionary_encode().indices
    keys = numbers_of(units)
    starts = _run_starts(keys)
    heads = keys[starts[:-1]]
    if bool((heads[1:] > heads[:-1]).all()):
        return Groups(None, starts)
    runs = integers(heads).dictionary_encode()
    distinct = len(runs.dictionary)
    if distinct == heads.size:
        return Groups(None, starts)
    return _counting_sort(numbers_of(runs.indices), starts, distinct)


def shard_numbers(units: pa.Array, shards: int, salt: bytes) -> NDArray[np.int64]:
    """Shard of each row, int64 [rows] in 0 .. shards - 1. It depends only on the unit and the salt."""
    hashes = hash_words(unit_words(units, salt)[None, :], key_of(salt))
    return (hashes % np.uint64(shards)).astype(np.int64)


def unit_words(units: pa.Array, salt: bytes) -> NDArray[np.uint64]:
    """One word per row, uint64 [rows]: the unit itself if it is an integer, otherwise the keyed hash of its text."""
    if pa.types.is_integer(units.type):
        words: NDArray[np.uint64] = numbers_of(units).view(np.uint64)
        return words
    offsets = np.frombuffer(units.buffers()[1], dtype=np.int64)[units.offset : units.offset + len(units) + 1]
    texts = units.buffers()[2]
    data = np.frombuffer(texts, dtype=np.uint8) if texts is not None and texts.size else np.empty(0, dtype=np.uint8)
    return hash_texts(data, offsets, key_of(salt))


def _hashes(rows: EncodedRows, candidates: NDArray[np.int64], salt: bytes) -> NDArray[np.uint64]:
    """Keyed hashes of (unit, encoded row) of the candidate rows. SENSITIVE."""
    words = np.empty((len(rows.rows) + 1, candidates.size), dtype=np.uint64)
    words[0] = unit_words(rows.units.take(integers(candidates)), salt)
    words[1:] = rows.rows[:, candidates]
    return hash_words(words, key_of(salt))


def _kept_pairs(items: NDArray[np.int32], groups: Groups, kept: NDArray[np.bool_]) -> BasketBlock:
    if groups.order is not None:
        items, kept = items[groups.order], kept[groups.order]
    # Every unit keeps at least one pair, so no segment of reduceat is empty.
    sizes = np.add.reduceat(kept, groups.starts[:-1], dtype=np.int64)
    return BasketBlock(np.concatenate([[0], np.cumsum(sizes)]), items[kept])


@compiled
def _run_starts(keys: NDArray[np.integer]) -> NDArray[np.int64]:
    """Start of each run of equal keys, followed by the number of keys, int64 [runs + 1]."""
    runs = np.int64(keys.size > 0)
    for row in range(1, keys.size):
        runs += keys[row] != keys[row - 1]
    starts = np.empty(runs + 1, dtype=np.int64)
    starts[0] = 0
    run = 0
    for row in range(1, keys.size):
        if keys[row] != keys[row - 1]:
            run += 1
            starts[run] = row
    starts[runs] = keys.size
    return starts


def _counting_sort(unit_of_run: NDArray[np.integer], runs: NDArray[np.int64], units: int) -> Groups:
    sizes = np.zeros(units, dtype=np.int64)
    np.add.at(sizes, unit_of_run, np.diff(runs))
    starts = np.concatenate([[0], np.cumsum(sizes)])
    return Groups(_ordered(unit_of_run, runs, starts[:-1].copy()), starts)


@compiled
def _ordered(unit_of_run: NDArray[np.integer], runs: NDArray[np.int64], free: NDArray[np.int64]) -> NDArray[np.int64]:
    """Row numbers ordered by unit. ``free`` holds the next free position of each unit, and is overwritten."""
    order = np.empty(runs[-1], dtype=np.int64)
    for run in range(unit_of_run.size):
        unit = unit_of_run[run]
        for row in range(runs[run], runs[run + 1]):
            order[free[unit]] = row
            free[unit] += 1
    return order


@compiled
def _smallest(hashes: NDArray[np.uint64], starts: NDArray[np.int64], bound: int) -> NDArray[np.bool_]:
    """Which rows have one of the ``bound`` smallest hashes of their unit. Rows of equal hash are interchangeable."""
    kept = np.zeros(hashes.size, dtype=np.bool_)
    for unit in range(starts.size - 1):
        order = np.argsort(hashes[starts[unit] : starts[unit + 1]])
        for rank in range(min(bound, order.size)):
            kept[starts[unit] + order[rank]] = True
    return kept


def _earliest(
    steps: NDArray[np.integer], hashes: NDArray[np.uint64], starts: NDArray[np.int64], bound: int
) -> NDArray[np.bool_]:
    """Which rows are among the first ``bound`` of their unit, ordered by step and then by hash.

    For every step, the kept rows up to it are the first ``bound`` rows up to it: a row of a later step comes after all
    of them, and takes the place of none.
    """
    sizes = np.diff(starts)
    order = np.lexsort((hashes, steps, np.repeat(np.arange(sizes.size), sizes)))
    ranks = np.arange(hashes.size) - np.repeat(starts[:-1], sizes)
    kept = np.zeros(hashes.size, dtype=np.bool_)
    kept[order[ranks < bound]] = True
    return kept


def units_over_bound(rows: EncodedRows, layout: TableLayout | BasketLayout) -> tuple[int, int]:
    """The number of units, and the number of units over the bound on rows (baskets: distinct items). SENSITIVE."""
    groups = group_by_unit(rows.units)
    over = np.flatnonzero(groups.sizes > layout.contribution.bound)
    if not over.size or isinstance(layout, TableLayout):
        return groups.starts.size - 1, over.size
    candidates, starts = groups.rows_of(over)
    return groups.starts.size - 1, _units_with_more(rows.rows[0, candidates], starts, layout.contribution.bound)


@compiled
def _units_with_more(items: NDArray[np.integer], starts: NDArray[np.int64], bound: int) -> int:
    over = 0
    for unit in range(starts.size - 1):
        over += np.unique(items[starts[unit] : starts[unit + 1]]).size > bound
    return over


@compiled
def _max_distinct(items: NDArray[np.int32], kept: NDArray[np.bool_], starts: NDArray[np.int64], catalogue: int) -> int:
    """The largest number of distinct kept items of a unit. Items are 0 .. catalogue - 1."""
    last_unit = np.full(catalogue, -1, dtype=np.int64)
    max_distinct = 0
    for unit in range(starts.size - 1):
        distinct = 0
        for row in range(starts[unit], starts[unit + 1]):
            if kept[row] and last_unit[items[row]] != unit:
                last_unit[items[row]] = unit
                distinct += 1
        max_distinct = max(max_distinct, distinct)
    return max_distinct


@compiled
def _smallest_distinct(hashes: NDArray[np.uint64], starts: NDArray[np.int64], bound: int) -> NDArray[np.bool_]:
    """Which rows have one of the ``bound`` smallest distinct hashes of their unit."""
    kept = np.zeros(hashes.size, dtype=np.bool_)
    for unit in range(starts.size - 1):
        unit_hashes = hashes[starts[unit] : starts[unit + 1]]
        order = np.argsort(unit_hashes)
        distinct = 0
        for rank in range(order.size):
            distinct += rank == 0 or unit_hashes[order[rank]] != unit_hashes[order[rank - 1]]
            if distinct > bound:
                break
            kept[starts[unit] + order[rank]] = True
    return kept
