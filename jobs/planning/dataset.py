"""From the section ``dataset`` of a config to what the pipelines read: location, filter of rows, and layout."""

from __future__ import annotations

from datetime import date

from dpcore.errors import ConfigError
from jobs.config import Dataset
from jobs.config.dataset import Limits
from jobs.planning.partition import partition_of
from pipelines.attributes import days_since_epoch
from pipelines.layout import BasketLayout, Layout, TableLayout
from pipelines.row_filter import Condition, RowFilter
from pipelines.schema import Schema
from pipelines.source import Location, TableFormat, TableVersion


def location_of(dataset: Dataset) -> Location:
    """Where the data are: a path, or a version of a table."""
    table = dataset.table
    if table is None:
        return dataset.root
    number = table.version if table.snapshot_id is None else table.snapshot_id
    return TableVersion(TableFormat(table.format), table.uri, number or 0)


def layout_of(dataset: Dataset, schema: Schema | None) -> Layout:
    """The public layout of the data.

    dataset: The section ``dataset`` of a config.
    schema: The schema of a table; None for baskets.

    Raises: ConfigError when the filter of rows or the partitions contradict themselves.
    """
    facts = (dataset.clustered_by_unit, _row_filter(dataset), partition_of(dataset))
    if schema is not None:
        return TableLayout(dataset.unit, schema, dataset.max_rows_per_unit or 1, *facts)
    return BasketLayout(dataset.unit, dataset.item or "", dataset.items or 0, dataset.max_items_per_unit, *facts)


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
