"""Where the rows come from: files in folders, or versions of tables, on local disks and object stores.

* ``opening``: start here. It finds the files of a location, checks them, and gives a ``Source`` for the engines.
* ``batches``: reads the rows of one file of a source, which is all that engines do with it.
* ``frames``: frames of Spark and streams of Arrow as sources, instead of files. ``frame_content``: what identifies
  their rows. ``catalog``: names of tables in Spark's catalogs.
* ``data_file``: one file, with what its folder or its table says about its rows.
* ``listing``: finds the files of folders and globs, and refuses folders of tables. ``stores``: local disks and object
  stores.
* ``file_format``: formats of files and their endings. ``other_files``: reads CSV, JSON lines, ORC and Feather.
  ``text_values``: from text to the types of the schema.
* ``tables``: versions of tables. ``delta`` and ``iceberg`` read them with the libraries of these formats.
* ``columns``: checks and types columns. ``footers``, ``footer`` and ``thrift``: read footers. ``content``: what
  identifies the content of a file. ``partition_files``: what a release of partitions needs of a file.
"""

from __future__ import annotations

from pipelines.source.data_file import DataFile
from pipelines.source.file_format import CsvOptions, FileFormat, FileLocation
from pipelines.source.frames import FrameSource, open_frame
from pipelines.source.opening import (
    SALT_BYTES,
    Location,
    Source,
    fingerprint_now,
    input_fingerprint,
    open_source,
    open_with_contents,
    read_contents,
)
from pipelines.source.tables import TableFormat, TableVersion

AnySource = Source | FrameSource
"""What an engine can aggregate."""

__all__ = [
    "SALT_BYTES",
    "AnySource",
    "CsvOptions",
    "DataFile",
    "FileFormat",
    "FileLocation",
    "FrameSource",
    "Location",
    "Source",
    "TableFormat",
    "TableVersion",
    "fingerprint_now",
    "input_fingerprint",
    "open_frame",
    "open_source",
    "open_with_contents",
    "read_contents",
]
