"""Public facts about a dataset: what its rows are and how much of it one unit can be."""

from __future__ import annotations

from dataclasses import dataclass

from dpcore.domain import BinaryView
from dpcore.errors import ConfigError
from dpcore.exact_statistics import Contribution, Shape
from pipelines.schema import Schema

_MOST_ITEMS = 2**31 - 1


@dataclass(frozen=True)
class TableLayout:
    """Rows over a categorical domain.

    unit: Column that names the person or thing whose privacy is protected.
    max_rows_per_unit: A unit with more rows keeps this many, chosen by keyed hash.
    clustered_by_unit: The claim that all rows of a unit lie in one file; a unit that breaks it is dropped.
    """

    unit: str
    schema: Schema
    max_rows_per_unit: int = 1
    clustered_by_unit: bool = False

    def __post_init__(self) -> None:
        if self.max_rows_per_unit < 1:
            raise ConfigError(f"max_rows_per_unit is {self.max_rows_per_unit}; want >= 1")

    @property
    def columns(self) -> tuple[str, ...]:
        """Parquet columns to read, the unit's first, each once."""
        return tuple(dict.fromkeys((self.unit, *(attribute.column for attribute in self.schema.attributes))))

    @property
    def contribution(self) -> Contribution:
        return Contribution(Shape.TABLE, self.max_rows_per_unit)

    @property
    def view(self) -> BinaryView:
        """One column for each code of each attribute."""
        return BinaryView.one_hot(self.schema.domain)


@dataclass(frozen=True)
class BasketLayout:
    """(unit, item) pairs; the record of a unit is its set of items.

    items: Number of item ids, which are 0 .. items - 1.
    max_items_per_unit: A unit with more distinct items keeps this many, chosen by keyed hash; None for no bound.
    clustered_by_unit: The claim that all pairs of a unit lie in one file; a unit that breaks it is dropped.
    """

    unit: str
    item: str
    items: int
    max_items_per_unit: int | None = None
    clustered_by_unit: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.items <= _MOST_ITEMS:
            raise ConfigError(f"items is {self.items}; want 1 .. {_MOST_ITEMS}")
        if self.max_items_per_unit is not None and self.max_items_per_unit < 1:
            raise ConfigError(f"max_items_per_unit is {self.max_items_per_unit}; want >= 1")
        if self.unit == self.item:
            raise ConfigError(f"unit and item are both column {self.unit!r}; want two columns")

    @property
    def columns(self) -> tuple[str, ...]:
        """Parquet columns to read, the unit's first."""
        return (self.unit, self.item)

    @property
    def contribution(self) -> Contribution:
        bound = self.items if self.max_items_per_unit is None else min(self.max_items_per_unit, self.items)
        return Contribution(Shape.BASKETS, bound)

    @property
    def view(self) -> BinaryView:
        """One column for each item, in no group."""
        return BinaryView(self.items)


Layout = TableLayout | BasketLayout
