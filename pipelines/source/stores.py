"""Stores of files: the file system of a path or URL, and what a failed read of it means."""

from __future__ import annotations

import functools
import importlib
import os
import re
import time
from collections.abc import Callable
from typing import Final, NoReturn, TypeVar
from urllib.parse import parse_qsl

import pyarrow as pa
from pyarrow import fs

from dpcore.errors import EngineError, InputError, MarqueeError
from pipelines.foreign_errors import cause_of
from pipelines.source.footer import FooterError

# What the stores S3, Google Cloud Storage and Azure say about a bucket or container that does not exist.
_NO_BUCKET = ("NO_SUCH_BUCKET", "NoSuchBucket", "bucket does not exist", "ContainerNotFound")
ALIASES: Final = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfs": "abfss"}
"""Names that other programs give to the schemes of pyarrow."""
# What pyarrow says about an answer that broke off, which it does not ask for again, unlike connections that fail.
_BROKEN_OFF = ("INTERNAL_FAILURE", "SLOW_DOWN", "SERVICE_UNAVAILABLE", "curlCode: 18", "curlCode: 56")
READS: Final = 4
"""How often a read from a remote store is begun, if its answer breaks off."""
_SETTINGS = re.compile(r"\?(?=\w+=)")

_NAMES = {"parquet": "Parquet", "csv": "CSV", "json": "JSON lines", "orc": "ORC", "feather": "Feather"}
_DAMAGED_OTHER = "it is damaged or truncated: want a whole file"
_DAMAGED = {
    "csv": "a row has more or fewer fields than the heading, or the text is in another encoding: want a whole file, "
    "and dataset.csv as the file is written",
}

T = TypeVar("T")


def reading(path: str, action: Callable[[], T], kind: str = "Parquet") -> T:
    """Runs ``action``, which reads ``path``. A failure becomes an InputError, or an EngineError for a remote store.

    An answer of a remote store that breaks off is asked for again: ``action`` may run several times.

    kind: Format of the file, for messages.
    """
    attempt = 1
    while True:
        try:
            return action()
        except MarqueeError:
            raise
        except (pa.ArrowException, FooterError, OSError, UnicodeDecodeError) as error:  # A name may be no text.
            if not breaks_off(path, error, attempt):
                raise_unreadable(path, error, kind)
            attempt += 1
        except Exception as error:
            if "://" not in path:
                raise
            raise _unreachable(path, error) from cause_of(error)  # A driver of fsspec has exceptions of its own.


def breaks_off(path: str, error: Exception, attempt: int) -> bool:
    """Whether a read from a remote store may be begun again, after a pause that grows with the number of attempts."""
    again = attempt < READS and "://" in path and any(sign in str(error) for sign in _BROKEN_OFF)
    if again:
        time.sleep(0.1 * 2**attempt)
    return again


def raise_unreadable(path: str, error: Exception, kind: str = "Parquet") -> NoReturn:
    """Raises the InputError or EngineError that describes a failed read of ``path``."""
    cause = cause_of(error)
    if isinstance(error, FileNotFoundError):
        raise InputError(f"{path} does not exist; want a {_NAMES.get(kind, kind)} file") from cause
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
            f"{path} uses a feature of {_NAMES.get(kind, kind)} that this build of pyarrow cannot read; want another "
            "encoding"
        ) from cause
    raise InputError(
        f"{path} cannot be read as {_NAMES.get(kind, kind)}; {_DAMAGED.get(kind, _DAMAGED_OTHER)}"
    ) from cause


def _unreachable(path: str, error: Exception) -> EngineError:
    return EngineError(
        f"{path} could not be read from its store ({type(error).__name__}); check the endpoint, the credentials and "
        "the network, and try again"
    )


def filesystem_of(path: str) -> tuple[fs.FileSystem, str]:
    """The file system of a local path or URL, and the path inside it.

    path: Settings of pyarrow's file system may follow a URL, as in ``s3://bucket/folder?endpoint_override=host:9000``.

    Raises: InputError for a store that is not known.
    """
    if "://" not in path:
        if path.startswith("dbfs:/"):
            raise InputError(f"{path} is a path of Databricks; want /dbfs/{path[len('dbfs:/') :].lstrip('/')} instead")
        return fs.LocalFileSystem(), os.path.abspath(os.path.expanduser(path))
    scheme, rest, settings = _parts(path)
    if scheme == "file":
        return fs.LocalFileSystem(), rest
    host = rest.partition("/")[0]
    filesystem = _store(f"{scheme}://{host}/{settings}")
    if isinstance(filesystem, fs.PyFileSystem) or scheme in ("s3", "gs"):
        return filesystem, rest
    return filesystem, rest[len(host) :]


def url_inside(path: str, inner: str) -> str:
    """The local path or URL of another file of the same store.

    path: A local path or URL.
    inner: A path inside its file system, as ``filesystem_of`` returns it.
    """
    if "://" not in path:
        return inner
    written, settings = without_settings(path), settings_of(path)
    # What stands before the path inside the file system: the scheme, and for some stores the host.
    start = written[: len(written) - len(filesystem_of(path)[1])]
    return start + inner + settings


def _parts(url: str) -> tuple[str, str, str]:
    """The scheme as pyarrow names it, the part after it, and the settings with their question mark."""
    scheme, _, rest = url.partition("://")
    match = None if scheme == "file" else _SETTINGS.search(rest)
    settings = rest[match.start() :] if match else ""
    return ALIASES.get(scheme.lower(), scheme), rest[: len(rest) - len(settings)], settings


@functools.lru_cache(maxsize=256)
def _store(root: str) -> fs.FileSystem:
    """The file system of a URL's scheme, host and settings, from pyarrow or else from fsspec."""
    scheme, _, settings = _parts(root)
    try:
        return fs.FileSystem.from_uri(root)[0]
    except (pa.ArrowException, ValueError) as unknown:
        if settings and scheme in ("s3", "gs", "abfss", "hdfs"):
            raise InputError(f"{scheme}:// has no settings {settings[1:]!r}; want those of pyarrow") from None
        try:
            fsspec = importlib.import_module("fsspec")
            return fs.PyFileSystem(fs.FSSpecHandler(fsspec.filesystem(scheme)))
        except (ImportError, ValueError):
            raise InputError(
                f"{scheme}:// is not a known store; want a local path, s3, gs, abfss, hdfs, or an installed fsspec "
                "driver"
            ) from unknown


def without_settings(url: str) -> str:
    """A URL without the settings that may follow it."""
    return url[: len(url) - len(settings_of(url))]


def settings_of(url: str) -> str:
    """The settings that follow a URL, with their question mark; empty for a local path."""
    return _parts(url)[2] if "://" in url else ""


def delta_options(uri: str) -> dict[str, str]:
    """The settings in a URL as the library ``deltalake`` names them."""
    settings = dict(parse_qsl(settings_of(uri)[1:]))
    endpoint = settings.get("endpoint_override")
    if endpoint is None:
        return {}
    scheme = settings.get("scheme", "https")
    options = {"AWS_ENDPOINT_URL": endpoint if "://" in endpoint else f"{scheme}://{endpoint}"}
    if options["AWS_ENDPOINT_URL"].startswith("http://"):
        options["AWS_ALLOW_HTTP"] = "true"
    return options


def iceberg_options(uri: str) -> dict[str, str]:
    """The settings in a URL as the library ``pyiceberg`` names them."""
    endpoint = delta_options(uri).get("AWS_ENDPOINT_URL")
    return {} if endpoint is None else {"s3.endpoint": endpoint}
