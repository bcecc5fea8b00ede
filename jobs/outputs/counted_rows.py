"""Which rows a release counts, in words, from the section ``dataset`` of its config as a JSON object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def table_text(dataset: Mapping[str, Any]) -> str | None:
    """The table, its version, or the frame that holds the data; None for plain files."""
    if (named := dataset.get("catalog")) is not None:
        versions = {"version": named["version"], "snapshot": named["snapshot_id"]}
        at = [f", {word} {number}" for word, number in versions.items() if number is not None]
        return f"{named['table']} in Spark's catalog{''.join(at)}"
    if (frame := dataset.get("frame")) is not None:
        return f"frame {frame!r} of a program"
    table = dataset.get("table")
    if table is None:
        return None
    if table["version"] is not None:
        return f"{table['format']}, version {table['version']}"
    return f"{table['format']}, snapshot {table['snapshot_id']}"


def filter_text(dataset: Mapping[str, Any]) -> str | None:
    """The filter of rows in one sentence, with what it means for the guarantee; None without a filter."""
    where = dataset.get("where")
    if where is None:
        return None
    conditions = ", and ".join(f"{column} is {_passing(passing)}" for column, passing in where.items())
    return (
        f"The release counts the rows in which {conditions}. Whether a row is counted depends on its own values alone, "
        "so the guarantee protects the units with such rows and also whether a unit has any."
    )


def partition_text(dataset: Mapping[str, Any]) -> str | None:
    """The partitions of a release in words, with what they mean for the guarantee; None for the whole dataset."""
    partition = dataset.get("partition")
    if partition is None:
        return None
    column, values, bound = partition["column"], partition["values"], partition["max_partitions_per_unit"]
    counted = f"The release counts the rows in which {column} is {_passing(values)}, and is charged to these partitions"
    if dataset.get("frame") is not None:
        counted += ". The guarantee rests on a frame that holds all partitions"
    if partition["units_in"] == "one_partition":
        return (
            f"{counted}. A unit with rows in several partitions, these or others, is not counted. The dataset's total "
            "bounds what a unit of one partition loses; one whose rows move to another partition between snapshots "
            "loses what both are charged."
        )
    if bound is None:
        return f"{counted}. A unit is counted in each of its partitions, and loses what all of them are charged."
    return (
        f"{counted}. A unit is counted in the first {bound} of all its partitions, in the order of {column}. The "
        f"dataset's total bounds what it loses in {bound} partitions, as long as later snapshots only add partitions "
        "after these; a unit with rows that appear in an earlier one, or move, may lose more."
    )


def _passing(passing: Any) -> str:
    if isinstance(passing, Mapping):
        low, high = passing["min"], passing["max"]
        ends = [f"at least {low}"] if low is not None else []
        ends += [f"at most {high}"] if high is not None else []
        return " and ".join(ends)
    values = [repr(value) if isinstance(value, str) else str(value).lower() for value in passing]
    return values[0] if len(values) == 1 else f"{', '.join(values[:-1])} or {values[-1]}"
