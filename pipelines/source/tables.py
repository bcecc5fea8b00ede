"""Versions of tables in the formats Delta and Iceberg: their files, without what the table has deleted.

The libraries ``deltalake`` and ``pyiceberg`` say which files a version consists of; the engines then read these files
as they read any other. A table that changes in the meantime changes nothing about the version.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum

from dpcore.errors import ConfigError, InputError
from pipelines.source.data_file import DataFile
from pipelines.source.footers import TableColumns


class TableFormat(StrEnum):
    """A table format, as it is written in configs."""

    DELTA = "delta"
    ICEBERG = "iceberg"


@dataclass(frozen=True)
class TableVersion:
    """One version of a table.

    format: The format of the table.
    uri: Path or URL of the table's folder; for Iceberg, also of one of its ``*.metadata.json`` files.
    version: Version of a Delta table, or id of a snapshot of an Iceberg table.
    """

    format: TableFormat
    uri: str
    version: int

    def __str__(self) -> str:
        what = "version" if self.format is TableFormat.DELTA else "snapshot"
        return f"{self.format} table {self.uri} ({what} {self.version})"


def table_files(table: TableVersion) -> tuple[tuple[DataFile, ...], TableColumns]:
    """The files of a version of a table, sorted by path, and its columns. No rows are read, but lists of deleted rows.

    Raises: InputError when there is no such table or version, it has no files, or it uses a feature that cannot be
        read; ConfigError when the format's library is not installed.
    """
    try:
        if table.format is TableFormat.DELTA:
            from pipelines.source.delta import delta_files as files_of
        else:
            from pipelines.source.iceberg import iceberg_files as files_of
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"dataset.table.format is {table.format}, which needs {error.name!r}; install marquee[{table.format}]"
        ) from error
    files, columns = files_of(table)
    if not files:
        raise InputError(f"{table} has no files; want a version with rows")
    return tuple(sorted(files, key=lambda file: file.path)), columns


def text_of_value(value: object) -> str | None:
    """A value of a partition column as text, in the form that ``constant_column`` reads; None for null."""
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if isinstance(value, date) else str(value)


def unreadable_feature(table: TableVersion, features: Sequence[str]) -> InputError:
    """The error for a table that cannot be read without a feature that this version does not know."""
    return InputError(
        f"{table} needs {', '.join(sorted(features))} to be read, which is not supported; want a version without it, "
        "or a copy of the table's present rows as plain Parquet"
    )
