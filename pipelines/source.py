"""The Parquet files of a dataset: finds them, checks their footers, and opens them."""

from __future__ import annotations

import functools
import importlib
import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NoReturn, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from dpcore.errors import ConfigError, EngineError, InputError, MarqueeError
from pipelines.attributes import Attribute, Kind
from pipelines.content import FileContent, content_of, fingerprint_of, keyed_footer
from pipelines.footer import FooterError
from pipelines.foreign_errors import cause_of
from pipelines.layout import BasketLayout, Layout

SALT_BYTES = 16
_MAGIC = b"PAR1"
_FOOTER_TAIL = 8  # Bytes: the length of the footer, and the magic bytes.
_FIRST_READ = 1 << 16  # Bytes at the end of a file that are read at once; most footers are shorter.
_FOOTER_READERS = 8
# What the stores S3, Google Cloud Storage and Azure say about a bucket or container that does not exist.
_NO_BUCKET = ("NO_SUCH_BUCKET", "NoSuchBucket", "bucket does not exist", "ContainerNotFound")

T = TypeVar("T")


@dataclass(frozen=True)
class Source:
    """Checked Parquet files with the layout of their rows.

    files: Local paths or URLs, sorted.
    layout: The public layout of the rows.
    salt: Secret key of the hash that truncates units, 16 bytes. SENSITIVE: it is never logged.

    Raises: ConfigError when the salt has another length.
    """

    files: tuple[str, ...]
    layout: Layout
    salt: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.salt) != SALT_BYTES:
            raise ConfigError(f"the salt has {len(self.salt)} bytes; want {SALT_BYTES}")


def open_source(path: str, layout: Layout, salt: bytes) -> Source:
    """Finds the files of ``path``, and checks that they have the layout's columns and types. No rows are read.

    path: A file, a folder (which stands for every *.parquet in it, at any depth, except names that start with _ or .),
        a glob (``*``, ``?`` and ``[..]`` within a folder, ``**`` across folders), or any of these as a pyarrow or
        fsspec URL.
    layout: The public layout of the rows.
    salt: Secret key of the hash that truncates units, 16 bytes.

    Raises: InputError that names the file and the column.
    """
    return open_with_contents(path, layout, salt)[0]


def open_with_contents(
    path: str, layout: Layout, salt: bytes, key: bytes = b""
) -> tuple[Source, tuple[FileContent, ...]]:
    """As ``open_source``, with what identifies the content of each file, from the same reading. SENSITIVE.

    key: Key of ``FileContent.keyed_footer``, at most 64 bytes.
    """
    footers = _read_footers(path, key)
    _check_schemas([(content.file, schema) for schema, content in footers], layout)
    contents = tuple(content for _, content in footers)
    return Source(tuple(content.file for content in contents), layout, salt), contents


def read_contents(path: str) -> tuple[FileContent, ...]:
    """What identifies the content of each file of ``path``, which may be whatever ``open_source`` accepts. SENSITIVE.

    Raises: InputError when there are no Parquet files, or one cannot be read.
    """
    return tuple(content for _, content in _read_footers(path))


def fingerprint_now(source: Source, key: bytes) -> str:
    """``fingerprint`` of the files of a source as they are now. SENSITIVE.

    key: 1 to 64 secret bytes.

    Raises: InputError when a file cannot be read any more.
    """

    def read(path: str) -> bytes:
        return keyed_footer(*reading(path, lambda: _sized_footer(path)), key)

    with ThreadPoolExecutor(_FOOTER_READERS) as pool:
        return fingerprint_of(list(pool.map(read, source.files)), key)


def open_parquet(path: str, dictionary_columns: tuple[str, ...] = ()) -> pq.ParquetFile:
    """Opens one file of a source.

    path: Local path or URL.
    dictionary_columns: String columns to read as dictionaries.
    """
    filesystem, inner = filesystem_of(path)
    # Reading ahead pays for remote stores. Files are not memory-mapped, because a truncated file would then kill the
    # process.
    remote = not isinstance(filesystem, fs.LocalFileSystem)
    return pq.ParquetFile(inner, filesystem=filesystem, read_dictionary=list(dictionary_columns), pre_buffer=remote)


def reading(path: str, action: Callable[[], T]) -> T:
    """Runs ``action``, which reads ``path``. A failure becomes an InputError, or an EngineError for a remote store."""
    try:
        return action()
    except MarqueeError:
        raise
    except (pa.ArrowException, FooterError, OSError, UnicodeDecodeError) as error:  # A column's name may be no text.
        raise_unreadable(path, error)
    except Exception as error:
        if "://" not in path:
            raise
        raise _unreachable(path, error) from cause_of(error)  # A driver of fsspec has exceptions of its own.


def raise_unreadable(path: str, error: Exception) -> NoReturn:
    """Raises the InputError or EngineError that describes a failed read of ``path``."""
    cause = cause_of(error)
    if isinstance(error, FileNotFoundError):
        raise InputError(f"{path} does not exist; want a Parquet file") from cause
    if isinstance(error, PermissionError):
        raise InputError(f"{path} may not be read; want read permission") from cause
    if "://" in path and any(sign in str(error) for sign in _NO_BUCKET):
        raise InputError(f"{path} is in a bucket that does not exist; want the name of an existing bucket") from cause
    if "://" in path and isinstance(error, OSError):
        raise _unreachable(path, error) from cause
    if isinstance(error, MemoryError):
        raise EngineError(f"memory ran out while {path} was read; want more memory, or smaller files") from cause
    if isinstance(error, NotImplementedError):
        raise InputError(
            f"{path} uses a feature of Parquet that this build of pyarrow cannot read; want another encoding"
        ) from cause
    raise InputError(f"{path} cannot be read as Parquet; it is damaged or truncated: want a whole file") from cause


def _unreachable(path: str, error: Exception) -> EngineError:
    return EngineError(f"{path} could not be read from its store ({type(error).__name__}); try again")


@functools.lru_cache(maxsize=256)
def _store(root: str) -> fs.FileSystem:
    """The file system of a URL's scheme and host, from pyarrow or else from fsspec."""
    try:
        return fs.FileSystem.from_uri(root)[0]
    except (pa.ArrowException, ValueError) as unknown:
        scheme = root.partition("://")[0]
        try:
            fsspec = importlib.import_module("fsspec")
            return fs.PyFileSystem(fs.FSSpecHandler(fsspec.filesystem(scheme)))
        except (ImportError, ValueError):
            raise InputError(
                f"{scheme}:// is not a known store; want a local path, s3, gs, abfss, hdfs, or an installed fsspec "
                "driver"
            ) from unknown


def filesystem_of(path: str) -> tuple[fs.FileSystem, str]:
    """The file system of a local path or URL, and the path inside it."""
    if "://" not in path:
        return fs.LocalFileSystem(), os.path.abspath(os.path.expanduser(path))
    scheme, _, rest = path.partition("://")
    if scheme == "file":
        return fs.LocalFileSystem(), rest
    host = rest.partition("/")[0]
    filesystem = _store(f"{scheme}://{host}/")
    if isinstance(filesystem, fs.PyFileSystem) or scheme in ("s3", "gs", "gcs"):
        return filesystem, rest
    return filesystem, rest[len(host) :]


def find_files(path: str) -> tuple[str, ...]:
    """The Parquet files of ``path``, as sorted paths or URLs.

    Raises: InputError when there are none.
    """
    filesystem, inner = reading(path, lambda: filesystem_of(path))
    prefix = path[: len(path) - len(inner)] if "://" in path else ""
    names = reading(path, lambda: _matching(filesystem, inner))
    if not names:
        raise InputError(f"{path} matches no Parquet file; want a Parquet file, or a folder or glob with some")
    return tuple(prefix + name for name in sorted(names))


def _matching(filesystem: fs.FileSystem, inner: str) -> list[str]:
    kind = filesystem.get_file_info(inner).type
    if kind is fs.FileType.File:
        return [inner]
    if kind is fs.FileType.Directory:
        base, pattern = inner.rstrip("/"), "**/*.parquet"
    else:
        fixed = re.match(r"[^*?\[]*(?=/)", inner)
        base = fixed.group() if fixed and re.search(r"[*?\[]", inner) else ""
        pattern = inner[len(base) + 1 :]
        if not base:
            raise FileNotFoundError(inner)
    deep = "/" in pattern or "**" in pattern
    listing = filesystem.get_file_info(fs.FileSelector(base, allow_not_found=True, recursive=deep))
    try:
        wanted = re.compile(_glob_expression(pattern))
    except re.error:
        raise InputError(f"{inner} is not a valid glob; want ranges such as [a-z]") from None
    # Some stores list names with a leading slash that the requested path does not have.
    start = len(base.lstrip("/")) + 1
    relative = [info.path.lstrip("/")[start:] for info in listing if info.type is fs.FileType.File]
    return [f"{base}/{name}" for name in relative if wanted.fullmatch(name) and not _hidden(name)]


def _hidden(relative: str) -> bool:
    return any(part.startswith(("_", ".")) for part in relative.split("/"))


def _glob_expression(pattern: str) -> str:
    pieces = re.split(r"(\*\*/|\*\*|\*|\?|\[[^\]/]+\])", pattern)
    wild = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(
        wild.get(piece) or (_character_set(piece) if piece[:1] == "[" else re.escape(piece)) for piece in pieces
    )


def _character_set(piece: str) -> str:
    inside = piece[1:-1].replace("\\", "\\\\")
    return f"[^{inside[1:]}]" if inside[0] == "!" else f"[{inside}]"


def _read_footers(path: str, key: bytes = b"") -> list[tuple[pa.Schema, FileContent]]:
    with ThreadPoolExecutor(_FOOTER_READERS) as pool:
        return list(pool.map(functools.partial(_read_footer, key=key), find_files(path)))


def _read_footer(path: str, key: bytes) -> tuple[pa.Schema, FileContent]:
    def read() -> tuple[pa.Schema, FileContent]:
        size, footer = _sized_footer(path)
        # The parser wants a file; this one consists of nothing but the footer.
        with pq.ParquetFile(pa.BufferReader(_MAGIC + footer)) as parquet:
            return parquet.schema_arrow, content_of(path, size, footer, parquet.metadata.num_rows, key)

    return reading(path, read)


def _sized_footer(path: str) -> tuple[int, bytes]:
    """The size of a file in bytes, and its footer."""
    filesystem, inner = filesystem_of(path)
    with filesystem.open_input_file(inner) as file:
        size = int(file.size())
        return size, _footer_bytes(path, file, size)


def _footer_bytes(path: str, file: pa.NativeFile, size: int) -> bytes:
    """The footer of a file with the eight bytes after it."""
    head = file.read_at(len(_MAGIC), 0) if size >= len(_MAGIC) else b""
    if head != _MAGIC:
        raise InputError(f"{path} is not a Parquet file; want a Parquet file, or a glob that excludes this one")
    end = bytes(file.read_at(min(size, _FIRST_READ), max(0, size - _FIRST_READ)))
    if size < len(_MAGIC) + _FOOTER_TAIL or not end.endswith(_MAGIC):
        raise InputError(f"{path} is truncated: its Parquet footer is missing; want the whole file")
    length = int.from_bytes(end[-_FOOTER_TAIL : -len(_MAGIC)], "little") + _FOOTER_TAIL
    if length > size - len(_MAGIC):
        raise pa.ArrowInvalid("the footer is longer than the file")
    return end[-length:] if length <= len(end) else bytes(file.read_at(length, size - length))


def _check_schemas(schemas: Sequence[tuple[str, pa.Schema]], layout: Layout) -> None:
    first_file, first_schema = schemas[0]
    for file, schema in schemas:
        _check_columns(file, schema, layout)
        for column in layout.columns:
            own, first = _plain(schema.field(column).type), _plain(first_schema.field(column).type)
            if own != first:
                raise InputError(
                    f"column {column!r} of {file} has type {own}; in {first_file} it is {first}; want one type"
                )


def _check_columns(path: str, schema: pa.Schema, layout: Layout) -> None:
    for column in layout.columns:
        indices = schema.get_all_field_indices(column)
        if len(indices) != 1:
            raise InputError(
                f"{path} has {'no' if not indices else 'more than one'} column {column!r}; want exactly one"
            )
    _check_type(path, schema, layout.unit, _is_unit, "an integer or a string")
    if isinstance(layout, BasketLayout):
        _check_type(path, schema, layout.item, pa.types.is_integer, "an integer")
        return
    for attribute in layout.schema.attributes:
        fits, wanted = _fitting(attribute)
        _check_type(path, schema, attribute.column, fits, wanted)


def _check_type(path: str, schema: pa.Schema, column: str, fits: Callable[[pa.DataType], bool], wanted: str) -> None:
    column_type = schema.field(column).type
    if not fits(_plain(column_type)):
        raise InputError(f"column {column!r} of {path} has type {column_type}; want {wanted}")


def _fitting(attribute: Attribute) -> tuple[Callable[[pa.DataType], bool], str]:
    if attribute.values:
        fitting: dict[type, tuple[Callable[[pa.DataType], bool], str]] = {
            str: (pa.types.is_large_string, "a string"),
            int: (pa.types.is_integer, "an integer"),
            bool: (pa.types.is_boolean, "a boolean"),
        }
        return fitting[type(attribute.values[0])]
    if attribute.kind is Kind.DATE:
        return _is_date, "a date or a timestamp"
    return _is_number, "an integer, a float or a decimal"


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type without its encoding: a dictionary type becomes its value type, and a string type large_string."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    is_text = pa.types.is_string(kind) or pa.types.is_string_view(kind)
    return pa.large_string() if is_text else kind


def _is_unit(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_large_string(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _is_date(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))
