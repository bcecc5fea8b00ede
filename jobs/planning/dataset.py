"""From the section ``dataset`` of a config to what the pipelines read: location, filter of rows, and layout."""

from __future__ import annotations

from datetime import date

from dpcore.errors import ConfigError
from jobs.config import Dataset, EngineChoice
from jobs.config.dataset import Limits
from jobs.config.items import discovery_of
from jobs.planning.partition import partition_of
from pipelines.attributes import days_since_epoch
from pipelines.item_names import ItemNames
from pipelines.layout import BasketLayout, Layout, TableLayout
from pipelines.row_filter import Condition, RowFilter
from pipelines.schema import Schema
from pipelines.source import FileFormat, FileLocation, Location, TableFormat, TableVersion
from pipelines.source.catalog import CatalogTable, catalog_table
from pipelines.unit_names import parts_of


def location_of(dataset: Dataset) -> Location:
    """Where the data are: a path, or a version of a table."""
    table = dataset.table
    if table is None:
        kind = None if dataset.format is None else FileFormat(dataset.format)
        if dataset.csv is None:
            return FileLocation(dataset.root, kind)
        return FileLocation(dataset.root, FileFormat.CSV, dataset.csv.options)
    number = table.version if table.snapshot_id is None else table.snapshot_id
    return TableVersion(TableFormat(table.format), table.uri, number or 0)


def catalog_table_of(dataset: Dataset) -> CatalogTable | None:
    """The table of Spark's catalog that holds the data; None if a path, a table's folder or a frame does."""
    choice = dataset.catalog
    if choice is None:
        return None
    return catalog_table(choice.table, choice.version if choice.snapshot_id is None else choice.snapshot_id)


def check_readable(dataset: Dataset, engine: EngineChoice) -> None:
    """Checks that the engine of a config can read its data.

    Raises: ConfigError when it can not.
    """
    if dataset.csv is not None:
        _ = dataset.csv.options
    if dataset.catalog is not None and engine.name != "spark":
        raise ConfigError(
            f"dataset.catalog is {dataset.catalog.table}, which engine {engine.name} cannot read; want engine: {{name: "
            "spark}, or the path of its files in dataset.path (dataset.table for a Delta or Iceberg table)"
        )
    if dataset.frame is not None and engine.name == "beam":
        raise ConfigError(
            f"dataset.frame is {dataset.frame!r}, which engine beam cannot read; want engine: {{name: spark}} for a "
            "Spark DataFrame, engine: {name: local} for any other frame, or dataset.path"
        )


def layout_of(dataset: Dataset, schema: Schema | None, names: ItemNames | None = None) -> Layout:
    """The public layout of the data.

    dataset: The section ``dataset`` of a config.
    schema: The schema of a table; None for baskets.
    names: The public names of the items of baskets; None if items are numbers.

    Raises: ConfigError when there are more items than fit in memory, or the filter of rows or the partitions contradict
        themselves.
    """
    facts = (dataset.clustered_by_unit, _row_filter(dataset), partition_of(dataset))
    unit, parts = dataset.unit, parts_of(dataset.unit)
    if schema is not None:
        return TableLayout(unit, schema, dataset.max_rows_per_unit or 1, *facts, unit_parts=parts)
    items, bound = _number_of_items(dataset, names), dataset.max_items_per_unit
    discovered = discovery_of(dataset.items) is not None
    return BasketLayout(
        unit, dataset.item or "", items, bound, *facts, unit_parts=parts, names=names, any_items=discovered
    )


def _number_of_items(dataset: Dataset, names: ItemNames | None) -> int:
    discover = discovery_of(dataset.items)
    known = dataset.items if isinstance(dataset.items, int) else 0
    return names.size if names is not None else known if discover is None else discover.at_most


def _row_filter(dataset: Dataset) -> RowFilter:
    return RowFilter(tuple(_condition(column, passing) for column, passing in (dataset.where or {}).items()))


def _condition(column: str, passing: tuple[str | int | bool, ...] | Limits) -> Condition:
    if isinstance(passing, tuple):
        return Condition(column, passing)
    if isinstance(passing.min, str) or isinstance(passing.max, str):
        return Condition(column, low=_day(column, passing.min), high=_day(column, passing.max), dates=True)
    return Condition(column, low=passing.min, high=passing.max)


def _day(column: str, limit: int | float | str | None) -> int | None:
    if limit is None:
        return None
    try:
        return days_since_epoch(date.fromisoformat(str(limit)))
    except ValueError:
        raise ConfigError(f"the filter of column {column!r} has {limit!r}; want a date such as 2026-01-31") from None
