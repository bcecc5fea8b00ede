"""Frames as sources: a Spark DataFrame for the Spark engine, and any stream of Arrow batches for the local engine."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import pyarrow as pa

from dpcore.errors import ConfigError
from pipelines.arrow import without_views
from pipelines.layout import Layout
from pipelines.partition_rows import rows_and_pairs
from pipelines.source.columns import check_schemas
from pipelines.source.data_file import DataFile
from pipelines.source.opening import SALT_BYTES


class ArrowStream(Protocol):
    """Anything that gives its rows as Arrow batches: tables of pyarrow, frames of pandas, Polars and DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The stream of the Arrow PyCapsule interface."""
        ...


@dataclass(frozen=True, eq=False)
class FrameSource:
    """A frame with the layout of its rows.

    frame: A Spark DataFrame, or an ``ArrowStream`` that gives the same rows each time it is read.
    layout: The public layout of the rows, which are never taken to be clustered by unit.
    salt: Secret key of the hash that truncates units, 16 bytes. SENSITIVE: it is never logged.
    rows: Number of rows, or a number near it, if it is known; None if an engine has to count them. SENSITIVE.

    Raises: ConfigError when the salt has another length.
    """

    frame: Any = field(repr=False)
    layout: Layout
    salt: bytes = field(repr=False)
    rows: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if len(self.salt) != SALT_BYTES:
            raise ConfigError(f"the salt has {len(self.salt)} bytes; want {SALT_BYTES}")


def open_frame(frame: Any, layout: Layout, salt: bytes, name: str = "the frame") -> FrameSource:
    """Checks that a frame has the layout's columns and types. No rows are read.

    frame: A Spark DataFrame, or an ``ArrowStream``, which must have the same rows each time it is read: the tasks of a
        frame with ``limit``, ``sample`` or ``rand`` may see other rows when they run again, so write such a frame to
        files first. A stream that can be read only once is refused, because a mechanism
        may ask several times.
    layout: The public layout of the rows. A claim that they are clustered by unit is about files, and is dropped.
    salt: Secret key of the hash that truncates units, 16 bytes.
    name: The frame in words, for messages.

    Raises: InputError that names the column; ConfigError for another kind of frame.
    """
    layout = replace(layout, clustered_by_unit=False)
    check_schemas([(DataFile(name), _schema_of(frame, layout.columns_to_read))], layout)
    return FrameSource(frame, layout, salt)


def frame_batches(source: FrameSource) -> Iterator[pa.RecordBatch]:
    """What ``rows_and_pairs`` gives of an ``ArrowStream``. SENSITIVE."""
    layout = source.layout
    with pa.RecordBatchReader.from_stream(source.frame) as reader:
        for batch in reader:
            rows = without_views(batch.select(list(layout.columns_to_read)))
            yield from rows_and_pairs(rows, layout)


def is_spark_frame(frame: object) -> bool:
    """Whether a frame is a DataFrame of Spark, classic or Connect."""
    return any(kind.__module__.startswith("pyspark.sql") for kind in type(frame).__mro__)


def _schema_of(frame: Any, columns: Collection[str]) -> pa.Schema:
    if is_spark_frame(frame):
        return _spark_schema(frame, columns)
    if isinstance(frame, pa.RecordBatchReader):
        raise ConfigError("the frame is a stream that can be read once; want a table, or read_all() of the stream")
    if not hasattr(frame, "__arrow_c_stream__"):
        raise ConfigError(
            f"the frame is a {type(frame).__name__}; want a Spark DataFrame, or a frame with Arrow's PyCapsule "
            "interface, such as those of pyarrow, pandas, Polars and DuckDB"
        )
    with pa.RecordBatchReader.from_stream(frame) as reader:
        return reader.schema


def _spark_schema(frame: Any, columns: Collection[str]) -> pa.Schema:
    """The schema of the batches that tasks get of a Spark DataFrame, for some of its columns."""
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    wanted = StructType([field for field in frame.schema.fields if field.name in columns])
    # Spark 4 asks for the time zone of timestamps, whose values are the same in all of them.
    zone: dict[str, Any] = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(wanted, **zone)
