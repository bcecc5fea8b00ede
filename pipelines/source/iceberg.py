"""The files of a snapshot of an Iceberg table, as the library ``pyiceberg`` reads them from its manifests."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyarrow import fs
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.manifest import DataFileContent, FileFormat, ManifestContent
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.transforms import IdentityTransform

from dpcore.errors import InputError
from pipelines.arrow import numbers_of
from pipelines.foreign_errors import cause_of
from pipelines.source.data_file import DataFile, packed_deletions
from pipelines.source.footers import TableColumns
from pipelines.source.stores import (
    ALIASES,
    filesystem_of,
    iceberg_options,
    reading,
    settings_of,
    url_inside,
    without_settings,
)
from pipelines.source.tables import TableVersion, text_of_value, unreadable_feature

_METADATA = re.compile(r"v?(\d+)(-[^/]*)?(\.gz)?\.metadata\.json(\.gz)?")

Deletes = dict[str, list[NDArray[np.int64]]]
"""Positions of deleted rows, by the path of their file. SENSITIVE."""


def iceberg_files(table: TableVersion) -> tuple[list[DataFile], TableColumns]:
    """The files of a snapshot with their partition values and deleted rows, and the columns of the snapshot.

    Raises: InputError when there is no such snapshot, or it cannot be read.
    """
    opened = _opened(table)
    try:
        scan = opened.scan(snapshot_id=table.version)
        schema = scan.projection()
        deletes = _deletes(table, opened)  # SENSITIVE
        tasks = list(scan.plan_files())
    except ValueError as error:
        raise InputError(f"{table} cannot be read; its manifests are damaged") from cause_of(error)
    except OSError as error:
        raise InputError(f"{table} cannot be read; one of its manifests is missing") from cause_of(error)
    files = [_data_file(table, opened, schema, task.file, deletes) for task in tasks]
    return files, TableColumns(str(table), {field.name: field.field_id for field in schema.fields})


def _opened(table: TableVersion) -> StaticTable:
    metadata = table.uri if without_settings(table.uri).endswith(".json") else _newest_metadata(table)
    try:
        opened = StaticTable.from_metadata(without_settings(metadata), iceberg_options(table.uri))
    except (NoSuchTableError, OSError, ValueError) as error:
        raise InputError(f"{metadata} cannot be read as metadata of an Iceberg table") from cause_of(error)
    if opened.snapshot_by_id(table.version) is None:
        raise InputError(f"there is no {table}; want the id of a snapshot that has not expired")
    return opened


def _newest_metadata(table: TableVersion) -> str:
    """The metadata file with the largest number, which knows every snapshot that has not expired."""

    def newest() -> str:
        filesystem, inner = filesystem_of(table.uri)
        listing = filesystem.get_file_info(fs.FileSelector(f"{inner.rstrip('/')}/metadata", allow_not_found=True))
        numbered = [(match, info.path) for info in listing if (match := _METADATA.fullmatch(info.base_name))]
        if not numbered:
            raise InputError(f"there is no {table}; want the folder of an Iceberg table, or a file *.metadata.json")
        return url_inside(table.uri, max(numbered, key=lambda entry: (int(entry[0][1]), entry[1]))[1])

    return reading(table.uri, newest)


def _data_file(
    table: TableVersion, opened: StaticTable, schema: Schema, file: IcebergFile, deletes: Deletes
) -> DataFile:
    defaults = {field.name: field.initial_default for field in schema.fields if field.initial_default is not None}
    if file.file_format is not FileFormat.PARQUET:
        raise unreadable_feature(table, [f"files of format {file.file_format}"])
    values = {**defaults, **_partition(opened.metadata.specs()[file.spec_id], schema, file)}
    constants = tuple((column, text_of_value(value)) for column, value in values.items())
    deleted = b""
    if positions := deletes.get(_normal(file.file_path)):
        live = np.ones(file.record_count, dtype=np.bool_)
        listed = np.concatenate(positions)
        if listed.size and not 0 <= listed.min() <= listed.max() < live.size:
            raise InputError(f"{table} has a list of deleted rows with positions outside its file; it is damaged")
        live[listed] = False
        deleted = packed_deletions(live)
    return DataFile(_local(file.file_path, table), constants, deleted=deleted)


def _partition(spec: PartitionSpec, schema: Schema, file: IcebergFile) -> dict[str, Any]:
    """The values of columns that the table is partitioned by, which files that were added to it may lack."""
    names = {field.field_id: field.name for field in schema.fields}
    return {
        names[field.source_id]: file.partition[number]
        for number, field in enumerate(spec.fields)
        if isinstance(field.transform, IdentityTransform) and field.source_id in names
    }


def _deletes(table: TableVersion, opened: StaticTable) -> Deletes:
    """The deleted positions in all files of the snapshot. SENSITIVE.

    Every list of the snapshot is read, because the library passes over lists that spell the path of a file differently.
    """
    snapshot = opened.snapshot_by_id(table.version)
    manifests = [] if snapshot is None else snapshot.manifests(opened.io)
    deletes: Deletes = defaultdict(list)
    for manifest in manifests:
        if manifest.content is not ManifestContent.DELETES:
            continue
        for entry in manifest.fetch_manifest_entry(opened.io, discard_deleted=True):
            file = entry.data_file
            if file.content is DataFileContent.EQUALITY_DELETES:
                raise unreadable_feature(table, ["equality deletes"])
            if file.file_format is not FileFormat.PARQUET:
                raise unreadable_feature(table, [f"lists of deleted rows in format {file.file_format}"])
            path = _local(file.file_path, table)
            for name, positions in reading(path, partial(_positions, path)).items():
                deletes[_normal(name)].append(positions)
    return deletes


def _positions(path: str) -> dict[str, NDArray[np.int64]]:
    """The content of one list of deleted rows."""
    filesystem, inner = filesystem_of(path)
    rows = pq.read_table(inner, filesystem=filesystem, columns=["file_path", "pos"])
    names, positions = (pa.concat_arrays([pa.nulls(0, column.type), *column.chunks]) for column in rows.columns)
    if names.null_count or positions.null_count:
        raise InputError(f"{path} is no list of deleted rows: it has nulls; want a table that is not damaged")
    encoded = names.dictionary_encode()
    file_of_row = numbers_of(encoded.indices)
    by_file = numbers_of(positions)[np.argsort(file_of_row, kind="stable")]
    stops = np.cumsum(np.bincount(file_of_row, minlength=len(encoded.dictionary)))[:-1]
    return dict(zip(encoded.dictionary.to_pylist(), np.split(by_file, stops), strict=True)) if len(names) else {}


def _normal(path: str) -> str:
    """One spelling of a path, because the engines that write a table may spell it in several ways."""
    scheme, _, rest = path.partition(":")
    if scheme == "file" or not rest.startswith("//"):
        return "/" + (rest if scheme == "file" else path).lstrip("/")
    return f"{ALIASES.get(scheme, scheme)}:{rest}"


def _local(path: str, table: TableVersion) -> str:
    """The path with the settings that the URL of the table has."""
    normal = _normal(path)
    return normal + settings_of(table.uri) if "://" in normal else normal
