"""Opens a dataset: finds its files, checks their columns, and reads what identifies their content."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from dpcore.errors import ConfigError
from pipelines.layout import Layout
from pipelines.source.columns import check_schemas, type_of_constant
from pipelines.source.content import FileContent, fingerprint, fingerprint_of
from pipelines.source.data_file import DataFile
from pipelines.source.file_format import FileLocation, format_of
from pipelines.source.footers import ReadFooter, keyed_footer_now, read_footers, readers_for
from pipelines.source.listing import find_files
from pipelines.source.other_files import TypeOf, format_inside
from pipelines.source.partition_files import Need, need_of
from pipelines.source.tables import TableVersion, table_files

SALT_BYTES = 16

Location = str | FileLocation | TableVersion
"""A path of files, or a version of a table.

A path is a file, a folder (which stands for every file of the format in it, at any depth, except names that start with
_ or .; for Parquet if there is any and no format is named), a glob (``*``, ``?`` and ``[..]`` within a folder, ``**``
across folders), or any of these as a pyarrow or fsspec URL.
"""


@dataclass(frozen=True)
class Source:
    """Checked Parquet files with the layout of their rows.

    files: The files, sorted by path.
    layout: The public layout of the rows.
    salt: Secret key of the hash that truncates units, 16 bytes. SENSITIVE: it is never logged.

    Raises: ConfigError when the salt has another length.
    """

    files: tuple[DataFile, ...]
    layout: Layout
    salt: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.salt) != SALT_BYTES:
            raise ConfigError(f"the salt has {len(self.salt)} bytes; want {SALT_BYTES}")

    @property
    def needed_files(self) -> tuple[DataFile, ...]:
        """The files that decide what is counted: all of them, unless the layout chooses partitions."""
        return tuple(file for file in self.files if need_of(file, self.layout) is not Need.NOTHING)

    @property
    def paths(self) -> tuple[str, ...]:
        """Local paths or URLs of the files."""
        return tuple(file.path for file in self.files)


def open_source(location: Location, layout: Layout, salt: bytes) -> Source:
    """Finds the files of ``location``, and checks that they have the layout's columns and types. No rows are read.

    location: Where the data are.
    layout: The public layout of the rows.
    salt: Secret key of the hash that truncates units, 16 bytes.

    Raises: InputError that names the file and the column, or the table; ConfigError for a table whose library is not
        installed; EngineError when a store cannot be reached.
    """
    return open_with_contents(location, layout, salt)[0]


def open_with_contents(
    location: Location, layout: Layout, salt: bytes, key: bytes = b""
) -> tuple[Source, tuple[FileContent, ...]]:
    """As ``open_source``, with what identifies the content of each file, from the same reading. SENSITIVE.

    key: Key of ``FileContent.keyed_footer``, at most 64 bytes.
    """
    footers = _footers(location, layout.columns_to_read, key, partial(type_of_constant, layout))
    check_schemas([(read.file, read.schema) for read in footers], layout, widened=isinstance(location, TableVersion))
    return Source(tuple(read.file for read in footers), layout, salt), tuple(read.content for read in footers)


def read_contents(location: Location) -> tuple[FileContent, ...]:
    """What identifies the content of each file of ``location``. SENSITIVE.

    A file whose name tells no format is identified by all its bytes, unless it begins as Parquet does.

    Raises: The exceptions of ``open_source``, except those about columns.
    """
    if isinstance(location, str):
        kind, paths = find_files(location)
        files = [DataFile(path, format=kind if format_of(path) else format_inside(path)) for path in paths]
        return tuple(read.content for read in read_footers(files))
    return tuple(read.content for read in _footers(location))


def fingerprint_now(source: Source, key: bytes) -> str:
    """``input_fingerprint`` of the files of a source as they are now. SENSITIVE.

    key: 1 to 64 secret bytes.

    Raises: InputError when a file cannot be read any more.
    """
    with ThreadPoolExecutor(readers_for(source.files)) as pool:
        return fingerprint_of(list(pool.map(partial(keyed_footer_now, key=key), source.needed_files)), key)


def input_fingerprint(source: Source, contents: Sequence[FileContent], key: bytes) -> str:
    """``fingerprint`` of the files that decide what is counted. SENSITIVE.

    Files of later partitions than a release of days needs may come and go.

    source: The checked files.
    contents: The content of each of them, in their order, read with the same key.
    key: 1 to 64 secret bytes.
    """
    needed = {file.path for file in source.needed_files}
    return fingerprint([content for content in contents if content.file in needed], key)


def _footers(
    location: Location, needed: Collection[str] = (), key: bytes = b"", type_of: TypeOf | None = None
) -> tuple[ReadFooter, ...]:
    if isinstance(location, TableVersion):
        files, columns = table_files(location)
        return read_footers(files, needed, columns, key)
    known = FileLocation(location) if isinstance(location, str) else location
    kind, paths = find_files(known.path, known.format)
    return read_footers([DataFile(path, format=kind, csv=known.csv) for path in paths], needed, None, key, type_of)
