"""Which version of a file its store has, found without reading the file: what changes whenever its bytes change."""

from __future__ import annotations

import os
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import fs

from pipelines.source.stores import filesystem_of, reading

_TAGS = ("ETag", "etag", "Generation", "generation")


@dataclass(frozen=True)
class FileVersion:
    """A version of a file. Two versions with the same facts have the same bytes, unless ``changed_ns`` is too recent.

    facts: What the store says about the version: its tag, or the times, the size and the number of a local file.
    changed_ns: When the file was changed last, in nanoseconds since 1970. A store's clock has ticks, and a change in
        the same tick leaves no trace. None if the facts hold a tag, which needs no clock.
    """

    facts: tuple[str | int, ...]
    changed_ns: int | None


def version_of(path: str) -> FileVersion | None:
    """The version of a file as it is now; None for a store that says nothing about versions.

    path: Local path or URL.

    Raises: InputError when there is no such file; EngineError when its store cannot be reached.
    """
    return reading(path, lambda: _version(path))


def _version(path: str) -> FileVersion | None:
    filesystem, inner = filesystem_of(path)
    if isinstance(filesystem, fs.LocalFileSystem):
        status = os.stat(inner)
        # Only the system sets the time of the last change of the inode: copies and backups restore the other one.
        changed = max(status.st_mtime_ns, status.st_ctime_ns)
        return FileVersion(("local", status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino), changed)
    info = filesystem.get_file_info(inner)
    if info.type is not fs.FileType.File:
        raise FileNotFoundError(inner)
    if tag := _tag(filesystem, inner):
        return FileVersion(("tag", info.size or 0, tag), None)
    # The time stands for a version only if the store has one. Some say nothing, and some say the time of the question.
    return None if info.mtime_ns is None else FileVersion(("time", info.size or 0, info.mtime_ns), info.mtime_ns)


def _tag(filesystem: fs.FileSystem, inner: str) -> str | None:
    """The store's own tag of an object's version; None if there is none."""
    handler = getattr(filesystem, "handler", None)
    if isinstance(handler, fs.FSSpecHandler):
        handler.fs.invalidate_cache()  # Some drivers answer from a listing that they have made before.
        known = handler.fs.info(inner)
    else:
        try:
            with filesystem.open_input_file(inner) as file:
                known = {
                    key.decode() if isinstance(key, bytes) else key: value for key, value in file.metadata().items()
                }
        except (NotImplementedError, pa.ArrowNotImplementedError):
            return None
    tag = next((known[name] for name in _TAGS if known.get(name)), None)
    return tag.decode() if isinstance(tag, bytes) else None if tag is None else str(tag)
