"""Counts what a release would map, drop or truncate. SENSITIVE: for the operator only, never to be released."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipelines.arrow import nulls_of
from pipelines.attributes import Attribute
from pipelines.column_codes import NOT_FINITE, NULL, UNKNOWN, marked_codes, numbers
from pipelines.contribution import units_over_bound
from pipelines.encode import EncodedRows, encode_batch, items_inside, named_pairs, unit_column
from pipelines.engines.failures import without_values
from pipelines.engines.local import LocalEngine
from pipelines.item_names import UNKNOWN as UNKNOWN_ITEM
from pipelines.layout import BasketLayout, Layout
from pipelines.partition_rows import counted_rows, units_left_out
from pipelines.source import AnySource
from pipelines.weighted_sums import column_of

_FIGURES = 7  # Counts that are not of one attribute.
MARK = "SENSITIVE: exact counts, for the operator only"


@dataclass(frozen=True)
class ColumnFindings:
    """Numbers of rows by the value of one attribute. SENSITIVE.

    attribute: Name of the attribute.
    nulls: Rows with null, which get the code of null.
    not_finite: Rows with NaN or infinity, which get the code of null.
    unknown: Rows with a value that is not listed, which get the code of ``other``.
    out_of_range: Rows with a number or date outside the bins, which is clamped into an end bin.
    """

    attribute: str
    nulls: int
    not_finite: int
    unknown: int
    out_of_range: int


@dataclass(frozen=True)
class Findings:
    """Counts over a whole dataset. SENSITIVE.

    sensitive: The mark that the counts are exact.
    rows: Rows in the files.
    units: Units with at least one valid row. With ``clustered_by_unit``, a unit counts once per file that contains it.
    null_units: Rows without a unit, which are dropped.
    null_items: Pairs without an item, which are dropped; 0 for tables.
    items_out_of_range: Pairs whose item is not in 0 .. items - 1 or, with names, not listed, which are dropped; 0 for
        tables.
    units_over_bound: Units that are truncated to the contribution bound.
    units_in_many_files: Units that contradict ``clustered_by_unit`` and are dropped; 0 without this claim.
    columns: One entry per attribute of a table, in the order of the schema.
    units_in_many_partitions: Units with rows in a partition of the release in which they are not counted, because they
        have rows in others; 0 for a release about the whole dataset. All other counts leave these rows out.
    """

    sensitive: str = field(default=MARK, init=False)
    rows: int
    units: int
    null_units: int
    null_items: int
    items_out_of_range: int
    units_over_bound: int
    units_in_many_files: int
    columns: tuple[ColumnFindings, ...]
    units_in_many_partitions: int = 0

    @property
    def clean(self) -> bool:
        """Whether a release would count every row unchanged. Nulls are allowed: the schema gives them a code."""
        dropped = self.null_units, self.null_items, self.items_out_of_range
        if any(dropped) or self.units_over_bound or self.units_in_many_files or self.units_in_many_partitions:
            return False
        return not any(column.not_finite or column.unknown or column.out_of_range for column in self.columns)


class Reader(Protocol):
    """What an engine needs for an inspection."""

    def over_whole_units(
        self, source: AnySource, task: Callable[[Iterable[pa.RecordBatch]], NDArray[np.int64]]
    ) -> Iterator[NDArray[np.int64]]:
        """Yields the results of ``task`` over groups of batches. A group holds whole units, each row once."""
        ...

    def broken_units(self, source: AnySource) -> pa.Array:
        """The units that contradict ``clustered_by_unit``; empty without this claim. SENSITIVE."""
        ...


def inspect_source(source: AnySource, engine: Reader | None = None) -> Findings:
    """Counts everything in one pass over the data. Clustered data need another pass over the units. SENSITIVE.

    source: The checked files or frame.
    engine: The engine that reads it; None for one thread per core.

    Raises: InputError when a file cannot be read; EngineError when the pass fails otherwise.
    """
    engine = LocalEngine() if engine is None else engine
    with without_values("the inspection"):
        task = partial(_counts, layout=source.layout)
        counts = sum(engine.over_whole_units(source, task), _zeros(source.layout))
        split = len(engine.broken_units(source))  # SENSITIVE
    rows, units, null_units, null_items, outside, over, left_out = counts[:_FIGURES].tolist()
    columns = [
        ColumnFindings(attribute.name, *figures)
        for attribute, figures in zip(
            _attributes(source.layout), counts[_FIGURES:].reshape(-1, 4).tolist(), strict=True
        )
    ]
    return Findings(rows, units, null_units, null_items, outside, over, split, tuple(columns), left_out)


def _attributes(layout: Layout) -> tuple[Attribute, ...]:
    return () if isinstance(layout, BasketLayout) else layout.schema.attributes


def _zeros(layout: Layout) -> NDArray[np.int64]:
    return np.zeros(_FIGURES + 4 * len(_attributes(layout)), dtype=np.int64)


def _counts(batches: Iterable[pa.RecordBatch], layout: Layout) -> NDArray[np.int64]:
    """Counts of rows, units, null units, null items, items out of range, units over the bound, units that are left out
    for their partitions, and 4 per attribute.
    """
    counts = _zeros(layout)
    parts, batches = [], list(batches)
    counts[6] = units_left_out(batches, layout)
    for batch in counted_rows(batches, layout):
        if not _is_unnamed(layout):
            parts.append(encode_batch(batch, layout))
        counts[0] += batch.num_rows
        counts[2] += unit_column(batch.column(layout.unit)).null_count
        if isinstance(layout, BasketLayout):
            counts[3:5] += _item_counts(batch.column(layout.item), layout)
        for axis, attribute in enumerate(_attributes(layout)):
            counts[_FIGURES + 4 * axis : _FIGURES + 4 * axis + 4] += _column_counts(
                column_of(batch, attribute), attribute
            )
    if isinstance(layout, BasketLayout) and _is_unnamed(layout):
        units, items, _ = named_pairs(counted_rows(batches, layout), layout)
        parts.append(EncodedRows(units, items[None, :]))
    counts[1], counts[5] = units_over_bound(EncodedRows.join(parts, layout), layout)
    return counts


def _is_unnamed(layout: Layout) -> bool:
    """Whether the items of baskets are still to be discovered: any item counts."""
    return isinstance(layout, BasketLayout) and layout.any_items and layout.names is None


def _item_counts(items: pa.Array, layout: BasketLayout) -> tuple[int, int]:
    """Pairs without an item, and pairs with an item that is not one of the layout's."""
    if _is_unnamed(layout):
        valid = len(items) - int(np.count_nonzero(nulls_of(items)))
    elif layout.names is not None:
        valid = int(np.count_nonzero(layout.names.codes_of(items) != UNKNOWN_ITEM))
    else:
        inside = items_inside(items, layout.items)
        valid = len(items) if inside is None else pc.sum(inside).as_py() or 0
    nulls = int(np.count_nonzero(nulls_of(items)))
    return nulls, len(items) - nulls - valid


def _column_counts(column: pa.Array, attribute: Attribute) -> tuple[int, int, int, int]:
    marked = marked_codes(column, attribute)
    nulls, not_finite, unknown = (int(np.count_nonzero(marked == mark)) for mark in (NULL, NOT_FINITE, UNKNOWN))
    if attribute.values:
        return nulls, not_finite, unknown, 0
    values = numbers(column, attribute.kind)[0][marked >= 0]
    outside = (values < attribute.edges[0]) | (values > attribute.edges[-1])
    return nulls, not_finite, unknown, int(np.count_nonzero(outside))
