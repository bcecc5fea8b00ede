"""Zip archives of numpy arrays: equal contents give equal bytes, and a stranger's file cannot take much memory.

Nothing is compressed, no pickle is written or read, and a member is read after its size has been checked.
"""

from __future__ import annotations

import io
import math
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from dpcore.errors import InputError

_EARLIEST: Final = (1980, 1, 1, 0, 0, 0)  # The earliest time of a zip archive, stored in place of the time of writing.
_LARGEST_HEADER: Final = 1 << 10  # Bytes before the content of an array; numpy writes 128.


@contextmanager
def new_archive(file: BinaryIO) -> Iterator[zipfile.ZipFile]:
    """An archive to write into a binary file."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        yield archive


def write_bytes(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    """Adds a member without the time of writing."""
    archive.writestr(zipfile.ZipInfo(name, _EARLIEST), content)


def write_array(archive: zipfile.ZipFile, name: str, array: object, kind: str) -> None:
    """Adds an array of a numpy type, for example "<f8", as the member ``name``.npy."""
    content = io.BytesIO()
    np.lib.format.write_array(content, np.array(array, dtype=kind, order="C"), (1, 0), allow_pickle=False)
    write_bytes(archive, f"{name}.npy", content.getvalue())


@contextmanager
def checked_archive(file: BinaryIO, what: str, largest: int | None = None) -> Iterator[zipfile.ZipFile]:
    """An archive to read, in which no member is compressed or longer than the file.

    file: The file, which can seek.
    what: What it should be, for errors.
    largest: Maximum size of the file in bytes; None for any.

    Raises: InputError, with the reason. Errors of zipfile within the block become InputError too.
    """
    try:
        length = file.seek(0, io.SEEK_END)
        if largest is not None and length > largest:
            raise InputError(f"{what}: the file has {length} bytes; want at most {largest}")
        with zipfile.ZipFile(file) as archive:
            for member in archive.infolist():
                stored = member.compress_type == zipfile.ZIP_STORED and member.compress_size == member.file_size
                if not stored or member.file_size > length:
                    raise InputError(f"{what}: its content is compressed or cut short; want the file of a release")
            yield archive
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, OSError, RuntimeError, ValueError) as error:
        # zipfile raises RuntimeError for encrypted content, a subclass of it for an unknown compression, and ValueError
        # or OSError for an offset outside the file.
        raise InputError(f"not a {what}, or one cut short ({type(error).__name__})") from error


def read_array(
    archive: zipfile.ZipFile, name: str, kind: str, what: str, shape: tuple[int, ...] | None = None
) -> NDArray[Any]:
    """Reads the member ``name``.npy; its header and its size are checked before its content is read.

    archive: ``checked_archive``.
    kind: The numpy type that it must have.
    what: What it is, for errors.
    shape: The shape that it must have; None for any.

    Raises: InputError, with the reason. KeyError if there is no such member.
    """
    member = archive.getinfo(f"{name}.npy")
    with archive.open(member) as file:
        described = _header(file, what)
        if not all(type(size) is int for size in described[0]):
            raise InputError(f"{what} has the shape {described[0]}; want sizes that are whole numbers")
        wanted = (described[0] if shape is None else shape, False, np.dtype(kind))
        if described != wanted:
            raise InputError(f"{what} has (shape, Fortran order, type) {described}; want {(wanted[0], False, kind)}")
        size, room = math.prod(wanted[0]) * wanted[2].itemsize, member.file_size
        content = file.read(size + 1) if size <= room else b""  # One byte more shows that there are too many.
    if len(content) != size:
        raise InputError(f"{what} has {len(content) or room} bytes; want {size}")
    return np.frombuffer(content, dtype=kind).reshape(wanted[0]).copy()


def _header(file: Any, what: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, Fortran order and type of an array, of which nothing else has been read."""
    try:
        if np.lib.format.read_magic(file) != (1, 0):
            raise ValueError("another version")
        return np.lib.format.read_array_header_1_0(file, max_header_size=_LARGEST_HEADER)
    except (ValueError, TypeError, SyntaxError, tokenize.TokenError, RecursionError, MemoryError) as error:
        raise InputError(f"{what} is no array of numpy; want one of the file of a release") from error
