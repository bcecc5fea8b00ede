"""The files of a version of a Delta table, as the library ``deltalake`` reads them from its log."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from dpcore.errors import InputError
from pipelines.arrow import numbers_of
from pipelines.foreign_errors import cause_of
from pipelines.source.data_file import DataFile, packed_deletions
from pipelines.source.footers import TableColumns
from pipelines.source.stores import delta_options, settings_of, without_settings
from pipelines.source.tables import TableVersion, text_of_value, unreadable_feature

# What a reader must know of a table, and this one does. Columns of type variant can be no attribute.
_KNOWN_FEATURES = {
    "deletionVectors", "timestampNtz", "timestampNanos", "v2Checkpoint", "vacuumProtocolCheck", "variantType",
    "variantType-preview",
}  # fmt: skip
_RENAMED = "delta.columnMapping.mode"


def delta_files(table: TableVersion) -> tuple[list[DataFile], TableColumns]:
    """The live files of a version with their partition values and deleted rows, and the columns of the version.

    Raises: InputError when there is no such version, or it cannot be read.
    """
    opened = _opened(table)
    try:
        live = _live_rows(opened)  # SENSITIVE
        actions = pa.table(opened.get_add_actions())
        files = [
            DataFile(
                uri + settings_of(table.uri),
                tuple((column, text_of_value(value)) for column, value in (partition or {}).items()),
                deleted=live.pop(uri, b""),
            )
            for uri, partition in zip(opened.file_uris(), _partitions(actions), strict=True)
        ]
        if live or len({file.path for file in files}) != len(files):  # Rows that were deleted would be counted.
            raise InputError(
                f"{table} has deleted rows that cannot be matched with its files; want a copy of the table's present "
                "rows as plain Parquet"
            )
    except DeltaError as error:
        raise InputError(f"{table} cannot be read; its log or a list of deleted rows is damaged") from cause_of(error)
    return files, TableColumns(str(table), {column.name: None for column in opened.schema().fields})


def _opened(table: TableVersion) -> DeltaTable:
    try:
        opened = DeltaTable(
            without_settings(table.uri), version=table.version, storage_options=delta_options(table.uri)
        )
    except TableNotFoundError as error:
        raise InputError(f"there is no {table}; want the folder of a Delta table") from cause_of(error)
    except DeltaError as error:
        raise InputError(f"{table} cannot be opened; want a version that exists and whose log is whole") from cause_of(
            error
        )
    protocol = opened.protocol()
    unknown = set(protocol.reader_features or ()) - _KNOWN_FEATURES - {"columnMapping"}
    if (opened.metadata().configuration.get(_RENAMED) or "none") != "none":
        unknown.add("columnMapping")
    if unknown:
        raise unreadable_feature(table, sorted(unknown))
    return opened


def _partitions(actions: pa.Table) -> list[Any]:
    """The partition values of each file, by column."""
    if "partition" not in actions.column_names:
        return [None] * actions.num_rows
    partitions: list[Any] = actions.column("partition").to_pylist()
    return partitions


def _live_rows(opened: DeltaTable) -> dict[str, bytes]:
    """``DataFile.deleted`` of every file with deleted rows, by path. SENSITIVE.

    The library escapes the names here once more than those of all files.
    """
    reader = pa.RecordBatchReader.from_stream(opened.deletion_vectors())
    packed = {}
    for batch in reader:
        for row, uri in enumerate(batch.column("filepath").to_pylist()):
            kept = batch.column("selection_vector")[row].values
            path = unquote(uri.removeprefix("file://"))
            packed[path] = packed_deletions(np.asarray(numbers_of(kept), dtype=np.bool_))
    return packed
