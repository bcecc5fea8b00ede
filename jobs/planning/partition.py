"""From the section ``dataset.partition`` of a config to the partitions that the pipelines count."""

from __future__ import annotations

import re
from datetime import date

from dpcore.errors import ConfigError
from jobs.config import Dataset, Privacy
from jobs.config.partition import PartitionChoice, Span
from pipelines.attributes import days_since_epoch
from pipelines.partition import MAX_CHOSEN, Partition, UnitsIn, Values
from pipelines.source.listing import partition_values
from pipelines.source.stores import without_settings

_WILDCARD = re.compile(r"[*?\[]")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def partition_of(dataset: Dataset) -> Partition | None:
    """The partitions that a release is about; None for the whole dataset.

    Raises: ConfigError when the values are of no type, or the path leaves out partitions that must be seen.
    """
    if dataset.partition is None:
        return None
    partition = partition_from(dataset.partition)
    if partition.is_checked and dataset.path is not None:
        path = without_settings(dataset.path)
        if _WILDCARD.search(path) or partition.column in partition_values(f"{path}/"):
            raise ConfigError(
                "dataset.path has a wildcard or is a folder of one partition, so that units in other partitions might "
                "not be seen; want the folder of all partitions, of which dataset.partition chooses some"
            )
    return partition


def partition_from(choice: PartitionChoice) -> Partition:
    """The partitions that a section ``dataset.partition`` names. Raises ConfigError for values of no type."""
    values = _type_of(choice)
    limit = choice.max_partitions_per_unit
    return Partition(choice.column, values, _chosen(choice, values), UnitsIn(choice.units_in), limit)


def check_neighbours(dataset: Dataset, privacy: Privacy) -> None:
    """Raises ConfigError for a release of partitions under replace-one."""
    if dataset.partition is not None and privacy.neighbours != "add_remove_unit":
        raise ConfigError(
            "dataset.partition needs privacy.neighbours: add_remove_unit, because a unit that replaces another one may "
            "be in another partition; want that, or no dataset.partition"
        )


def _type_of(choice: PartitionChoice) -> Values:
    if choice.type != "auto":
        return Values(choice.type)
    listed = _listed(choice)
    if all(isinstance(value, int) for value in listed):
        return Values.INTEGER
    dates = all(isinstance(value, str) and _DATE.fullmatch(value) for value in listed)
    return Values.DATE if dates or isinstance(choice.values, Span) else Values.TEXT


def _listed(choice: PartitionChoice) -> tuple[str | int, ...]:
    values = choice.values
    return (values.min, values.max) if isinstance(values, Span) else values


def _chosen(choice: PartitionChoice, values: Values) -> tuple[str, ...] | tuple[int, ...]:
    listed = _listed(choice)
    if values is Values.TEXT:
        if isinstance(choice.values, Span) or not all(isinstance(value, str) for value in listed):
            raise ConfigError(f"dataset.partition.values is {listed!r}; want texts, or dates or integers for a range")
        return tuple(str(value) for value in listed)
    numbers = tuple(_number(choice.column, value, values) for value in listed)
    if not isinstance(choice.values, Span):
        return numbers
    first, last = numbers
    if not first <= last < first + MAX_CHOSEN:
        raise ConfigError(f"dataset.partition.values has {last - first + 1:,} partitions; want 1 .. {MAX_CHOSEN:,}")
    return tuple(range(first, last + 1))


def _number(column: str, value: str | int, values: Values) -> int:
    if values is Values.INTEGER:
        if isinstance(value, int):
            return value
        raise ConfigError(f"partition {value!r} of column {column!r} is no integer; want integers, or another type")
    try:
        if isinstance(value, str) and _DATE.fullmatch(value):
            return days_since_epoch(date.fromisoformat(value))
    except ValueError:
        pass
    raise ConfigError(f"partition {value!r} of column {column!r} is no date; want dates such as 2026-01-31")
