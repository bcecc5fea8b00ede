"""Layouts: public facts about a dataset, namely the form and the filter of its rows, and the contribution bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dpcore.domain import BinaryView
from dpcore.errors import ConfigError
from dpcore.exact_statistics import Contribution, Shape
from pipelines.item_names import ItemNames
from pipelines.partition import Partition
from pipelines.row_filter import ALL_ROWS, RowFilter
from pipelines.schema import Schema

LARGEST_ITEMS: Final = 1 << 26
"""Maximum number of items: 67 million, because the driver keeps some 160 bytes of each."""


@dataclass(frozen=True)
class TableLayout:
    """Rows over a categorical domain.

    unit: Column that names the privacy unit: the person or thing whose presence is protected.
    schema: Attributes of the table.
    max_rows_per_unit: Contribution bound, at least 1. A unit with more rows keeps this many, chosen by a keyed hash.
    clustered_by_unit: Whether all rows of a unit are claimed to be in one file. Units with rows in several files are
        then dropped.
    where: The rows that the release is about; all by default.
    partition: The partitions that the release is about; None for the whole dataset.
    earliest: An attribute by which a unit's rows are kept first: those with its smallest codes, and among equal codes
        those that the hash chooses. Which rows with codes up to c are kept then does not depend on rows with larger
        codes. By default the hash alone chooses.
    unit_parts: Columns that name the unit together, in the order of their names; ``unit`` is then the name of the
        combined column, which no file holds. By default ``unit`` is a column of the files.

    Raises: ConfigError when the bound is below 1, the partition column is one of the unit, ``earliest`` is no
        attribute, or the names of the unit's columns contradict each other.
    """

    unit: str
    schema: Schema
    max_rows_per_unit: int = 1
    clustered_by_unit: bool = False
    where: RowFilter = ALL_ROWS
    partition: Partition | None = None
    earliest: str | None = None
    unit_parts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_unit(self)
        if self.max_rows_per_unit < 1:
            raise ConfigError(f"max_rows_per_unit is {self.max_rows_per_unit}; want >= 1")
        if self.earliest is not None and self.earliest not in self.schema.domain:
            raise ConfigError(f"attribute {self.earliest!r} is not in the schema; want one of its attributes")

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the rows, each once, starting with the unit's."""
        of_attributes = (column for attribute in self.schema.attributes for column in attribute.columns)
        return tuple(dict.fromkeys((self.unit, *of_attributes)))

    @property
    def unit_columns(self) -> tuple[str, ...]:
        """The columns of the files that name the unit."""
        return self.unit_parts or (self.unit,)

    @property
    def stored_columns(self) -> tuple[str, ...]:
        """``columns`` as files hold them, with each of the unit's columns."""
        return stored(self, self.columns)

    @property
    def columns_to_read(self) -> tuple[str, ...]:
        """``stored_columns``, and then those that only the filters need."""
        return stored(self, (*self.columns, *self.filter_columns))

    @property
    def filter_columns(self) -> tuple[str, ...]:
        """The columns that the filters need."""
        return _of_filters(self.where, self.partition)

    @property
    def counted_by_file(self) -> bool:
        """Whether files are counted one by one: a bound on partitions needs the rows of a unit in all of them."""
        return _by_file(self.clustered_by_unit, self.partition)

    @property
    def contribution(self) -> Contribution:
        """What one unit may contribute."""
        return Contribution(Shape.TABLE, self.max_rows_per_unit)

    @property
    def view(self) -> BinaryView:
        """The one-hot view: one binary column per code of each attribute."""
        return BinaryView.one_hot(self.schema.domain)


@dataclass(frozen=True)
class BasketLayout:
    """(unit, item) pairs. The record of a unit is its set of items.

    unit: Column that names the privacy unit: the person or thing whose presence is protected.
    item: Column of item ids or, with ``names``, of names.
    items: Number of items, whose codes are 0 .. items - 1.
    max_items_per_unit: Contribution bound, at least 1. A unit with more distinct items keeps this many, chosen by a
        keyed hash. None means ``items``.
    clustered_by_unit: Whether all pairs of a unit are claimed to be in one file. Units with pairs in several files are
        then dropped.
    where: The rows that the release is about; all by default.
    partition: The partitions that the release is about; None for the whole dataset.
    unit_parts: Columns that name the unit together, in the order of their names; ``unit`` is then the name of the
        combined column, which no file holds. By default ``unit`` is a column of the files.
    names: The name of each item, in the order of the codes; None if the column holds the codes themselves.
    any_items: Whether a unit's bound holds for all items that occur, of any name, because the names are to be, or were,
        discovered. Only sums of named items can be counted before the names are known. It needs ``max_items_per_unit``.

    Raises: ConfigError when a number is out of range, there is not one name for each item, unit and item or partition
        are the same column, or the names of the unit's columns contradict each other.
    """

    unit: str
    item: str
    items: int
    max_items_per_unit: int | None = None
    clustered_by_unit: bool = False
    where: RowFilter = ALL_ROWS
    partition: Partition | None = None
    unit_parts: tuple[str, ...] = ()
    names: ItemNames | None = None
    any_items: bool = False

    def __post_init__(self) -> None:
        _check_unit(self)
        if not 1 <= self.items <= LARGEST_ITEMS:
            raise ConfigError(
                f"items is {self.items:,}; want 1 .. {LARGEST_ITEMS:,}, because the driver keeps some numbers of each "
                "item: number the items that can occur from 0, or list those that matter in items: {file: items.csv}"
            )
        if self.names is not None and self.names.size != self.items:
            raise ConfigError(f"items is {self.items} for {self.names.size} names; want as many")
        if self.max_items_per_unit is not None and self.max_items_per_unit < 1:
            raise ConfigError(f"max_items_per_unit is {self.max_items_per_unit}; want >= 1")
        if self.any_items and self.max_items_per_unit is None:
            raise ConfigError("items are to be discovered without max_items_per_unit; want a bound, such as 50")
        if self.item in self.unit_columns:
            raise ConfigError(f"unit and item are both column {self.item!r}; want two different columns")

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the pairs, starting with the unit's."""
        return (self.unit, self.item)

    @property
    def unit_columns(self) -> tuple[str, ...]:
        """The columns of the files that name the unit."""
        return self.unit_parts or (self.unit,)

    @property
    def stored_columns(self) -> tuple[str, ...]:
        """``columns`` as files hold them, with each of the unit's columns."""
        return stored(self, self.columns)

    @property
    def columns_to_read(self) -> tuple[str, ...]:
        """``stored_columns``, and then those that only the filters need."""
        return stored(self, (*self.columns, *self.filter_columns))

    @property
    def filter_columns(self) -> tuple[str, ...]:
        """The columns that the filters need."""
        return _of_filters(self.where, self.partition)

    @property
    def counted_by_file(self) -> bool:
        """Whether files are counted one by one: a bound on partitions needs the rows of a unit in all of them."""
        return _by_file(self.clustered_by_unit, self.partition)

    @property
    def contribution(self) -> Contribution:
        """What one unit may contribute."""
        bound = self.items if self.max_items_per_unit is None else self.max_items_per_unit
        bound = bound if self.any_items else min(bound, self.items)
        return Contribution(Shape.BASKETS, bound)

    @property
    def view(self) -> BinaryView:
        """The binary view: one column per item, without groups."""
        return BinaryView(self.items)


Layout = TableLayout | BasketLayout


def stored(layout: Layout, columns: Sequence[str]) -> tuple[str, ...]:
    """Columns as files hold them, each once: in place of a combined column, the unit's columns.

    layout: The public layout.
    columns: Some of its columns, and of those that its filters need.
    """
    each = (layout.unit_columns if column == layout.unit else (column,) for column in columns)
    return tuple(dict.fromkeys(name for names in each for name in names))


def _of_filters(where: RowFilter, partition: Partition | None) -> tuple[str, ...]:
    return where.columns if partition is None else (*where.columns, partition.column)


def _by_file(clustered: bool, partition: Partition | None) -> bool:
    return clustered and (partition is None or not partition.is_checked)


def _check_unit(layout: Layout) -> None:
    partition, parts = layout.partition, layout.unit_parts
    if partition is not None and partition.column in layout.unit_columns:
        raise ConfigError(f"the partition column {partition.column!r} is that of the unit; want another column")
    if parts and (len(parts) < 2 or list(parts) != sorted(set(parts))):
        raise ConfigError(f"the unit's columns are {list(parts)!r}; want several, each once, in the order of names")
    others = (*layout.columns[1:], *layout.filter_columns)
    named = isinstance(layout, TableLayout) and any(
        layout.unit in attribute.columns for attribute in layout.schema.attributes
    )
    if parts and (named or layout.unit in others):
        raise ConfigError(f"column {layout.unit!r} has the name of the combined unit; want another name for it")
