"""Layouts: public facts about a dataset, namely the form and the filter of its rows, and the contribution bound."""

from __future__ import annotations

from dataclasses import dataclass

from dpcore.domain import BinaryView
from dpcore.errors import ConfigError
from dpcore.exact_statistics import Contribution, Shape
from pipelines.row_filter import ALL_ROWS, RowFilter
from pipelines.schema import Schema

_MAX_ITEMS = 2**31 - 1


@dataclass(frozen=True)
class TableLayout:
    """Rows over a categorical domain.

    unit: Column that names the privacy unit: the person or thing whose presence is protected.
    schema: Attributes of the table.
    max_rows_per_unit: Contribution bound, at least 1. A unit with more rows keeps this many, chosen by a keyed hash.
    clustered_by_unit: Whether all rows of a unit are claimed to be in one file. Units with rows in several files are
        then dropped.
    where: The rows that the release is about; all by default.
    earliest: An attribute by which a unit's rows are kept first: those with its smallest codes, and among equal codes
        those that the hash chooses. Which rows with codes up to c are kept then does not depend on rows with larger
        codes. By default the hash alone chooses.

    Raises: ConfigError when the bound is below 1, or ``earliest`` is no attribute.
    """

    unit: str
    schema: Schema
    max_rows_per_unit: int = 1
    clustered_by_unit: bool = False
    where: RowFilter = ALL_ROWS
    earliest: str | None = None

    def __post_init__(self) -> None:
        if self.max_rows_per_unit < 1:
            raise ConfigError(f"max_rows_per_unit is {self.max_rows_per_unit}; want >= 1")
        if self.earliest is not None and self.earliest not in self.schema.domain:
            raise ConfigError(f"attribute {self.earliest!r} is not in the schema; want one of its attributes")

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the rows, each once, starting with the unit's."""
        return tuple(dict.fromkeys((self.unit, *(attribute.column for attribute in self.schema.attributes))))

    @property
    def columns_to_read(self) -> tuple[str, ...]:
        """``columns``, and then those that only the filter needs."""
        return tuple(dict.fromkeys((*self.columns, *self.where.columns)))

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
    item: Column of item ids.
    items: Number of item ids, which are 0 .. items - 1.
    max_items_per_unit: Contribution bound, at least 1. A unit with more distinct items keeps this many, chosen by a
        keyed hash. None means ``items``.
    clustered_by_unit: Whether all pairs of a unit are claimed to be in one file. Units with pairs in several files are
        then dropped.
    where: The rows that the release is about; all by default.

    Raises: ConfigError when a number is out of range, or unit and item are the same column.
    """

    unit: str
    item: str
    items: int
    max_items_per_unit: int | None = None
    clustered_by_unit: bool = False
    where: RowFilter = ALL_ROWS

    def __post_init__(self) -> None:
        if not 1 <= self.items <= _MAX_ITEMS:
            raise ConfigError(f"items is {self.items}; want 1 .. {_MAX_ITEMS}")
        if self.max_items_per_unit is not None and self.max_items_per_unit < 1:
            raise ConfigError(f"max_items_per_unit is {self.max_items_per_unit}; want >= 1")
        if self.unit == self.item:
            raise ConfigError(f"unit and item are both column {self.unit!r}; want two different columns")

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the pairs, starting with the unit's."""
        return (self.unit, self.item)

    @property
    def columns_to_read(self) -> tuple[str, ...]:
        """``columns``, and then those that only the filter needs."""
        return tuple(dict.fromkeys((*self.columns, *self.where.columns)))

    @property
    def contribution(self) -> Contribution:
        """What one unit may contribute."""
        bound = self.items if self.max_items_per_unit is None else min(self.max_items_per_unit, self.items)
        return Contribution(Shape.BASKETS, bound)

    @property
    def view(self) -> BinaryView:
        """The binary view: one column per item, without groups."""
        return BinaryView(self.items)


Layout = TableLayout | BasketLayout
