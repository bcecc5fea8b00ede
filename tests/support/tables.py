"""Tables of Delta and Iceberg whose rows are deleted by lists beside the files, which their libraries cannot write."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
)
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles
from pyiceberg.types import LongType, NestedField, StringType
from pyroaring import BitMap64

_MAGIC = 1681511377
# Ids of the columns of a list of deleted rows, from the specification of Iceberg.
_POSITION_SCHEMA = Schema(
    NestedField(2147483546, "file_path", StringType(), required=True),
    NestedField(2147483545, "pos", LongType(), required=True),
)
_EQUALITY = "equality"


def delete_by_vector(folder: Path, place: int, rows: Sequence[int]) -> None:
    """Commits a deletion vector for one file of a Delta table: the specification's format 'p', in a file of its own.

    folder: The table's folder.
    place: Which of the files of the first commit.
    rows: Positions of the deleted rows.
    """
    version = DeltaTable(folder).version() + 1
    first = [json.loads(line) for line in (folder / "_delta_log" / f"{0:020}.json").read_text().splitlines()]
    add = [entry["add"] for entry in first if "add" in entry][place]
    bitmap = struct.pack("<i", _MAGIC) + BitMap64(rows).serialize()
    vector = folder / f"deletion_vector_{uuid4()}.bin"
    vector.write_bytes(b"\x01" + struct.pack(">i", len(bitmap)) + bitmap + struct.pack(">I", zlib.crc32(bitmap)))
    described = {
        "storageType": "p",
        "pathOrInlineDv": vector.as_uri(),
        "offset": 1,
        "sizeInBytes": len(bitmap),
        "cardinality": len(rows),
    }
    removed = {key: add[key] for key in ("path", "partitionValues", "size")}
    entries: list[dict[str, Any]] = [
        {"commitInfo": {"timestamp": 1, "operation": "DELETE"}},
        {"remove": {**removed, "deletionTimestamp": 1, "dataChange": True, "extendedFileMetadata": True}},
        {"add": {**add, "dataChange": True, "deletionVector": described}},
    ]
    text = "".join(json.dumps(entry) + "\n" for entry in entries)
    (folder / "_delta_log" / f"{version:020}.json").write_text(text)


class _DeletesWriter(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class _AppendDeletes(_FastAppendFiles):
    """A snapshot that adds one list of deleted rows and keeps all files."""

    deletes: DataFile

    def _existing_manifests(self) -> list[ManifestFile]:
        spec = self._transaction.table_metadata.spec()
        with _DeletesWriter(
            spec, self._transaction.table_metadata.schema(), self.new_manifest_output(), self._snapshot_id, "null"
        ) as writer:
            writer.add(
                ManifestEntry.from_args(
                    status=ManifestEntryStatus.ADDED,
                    snapshot_id=self._snapshot_id,
                    sequence_number=None,
                    file_sequence_number=None,
                    data_file=self.deletes,
                )
            )
        return [writer.to_manifest_file(), *super()._existing_manifests()]


def delete_by_list(table: Table, rows: dict[str, Sequence[int]], *, equality: bool = False) -> None:
    """Commits a list of deleted rows to an Iceberg table of format version 2.

    table: The table.
    rows: Positions of the deleted rows, by the path of their file.
    equality: Whether the list says of itself that it names deleted values, which cannot be read.
    """
    path = f"{table.location()}/data/deletes-{uuid4()}.parquet"
    names = [name for name, positions in rows.items() for _ in positions]
    positions = [position for given in rows.values() for position in given]
    listed = pa.Table.from_pydict(
        {"file_path": names, "pos": positions}, schema=schema_to_pyarrow(_POSITION_SCHEMA, include_field_ids=True)
    )
    inner = path.removeprefix("file://")
    pq.write_table(listed, inner)
    content = DataFileContent.EQUALITY_DELETES if equality else DataFileContent.POSITION_DELETES
    file = DataFile.from_args(
        content=content,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=_no_partition(table),
        record_count=len(positions),
        file_size_in_bytes=Path(inner).stat().st_size,
        equality_ids=[1] if equality else None,
    )
    file.spec_id = table.metadata.default_spec_id
    with table.transaction() as transaction:
        producer = _AppendDeletes(Operation.DELETE, transaction, table.io)
        producer.deletes = file
        producer.commit()


def _no_partition(table: Table) -> Any:
    from pyiceberg.typedef import Record

    assert table.spec().is_unpartitioned()
    return Record()
