"""What statistics depend on besides the files: digests of aggregators, layouts and the code. TRUSTED.

Everything that could change a count must change a digest; what is in doubt is refused.
"""

from __future__ import annotations

import dataclasses
import hashlib
import platform
import zipimport
from collections.abc import Iterator
from enum import Enum
from functools import cache
from importlib import metadata
from pathlib import Path

import numpy as np

import pipelines
from pipelines.item_names import ItemNames

_ROOT = Path(__file__).parents[2]
_PACKAGES = ("dpcore", "pipelines")
_LIBRARIES = ("numpy", "numba", "pyarrow")


def digest_of(value: object) -> bytes:
    """SHA-256 of a value: dataclasses of numbers, texts, bytes, arrays, enumerations, and tuples and lists of these.

    Equal values of the same types have the same digest in every process, and other values another one.

    Raises: TypeError for anything else, because nothing is known about what it depends on.
    """
    hashed = hashlib.sha256()
    for piece in _pieces(value):
        hashed.update(len(piece).to_bytes(8, "little"))
        hashed.update(piece)
    return hashed.digest()


@cache
def code_digest() -> bytes:
    """SHA-256 of the code that reads and counts, and of the versions of Python and of the libraries that it uses."""
    hashed = hashlib.sha256(platform.python_version().encode())
    for library in _LIBRARIES:
        hashed.update(f"\n{library} {metadata.version(library)}".encode())
    loader = pipelines.__loader__
    if isinstance(loader, zipimport.zipimporter):
        files = [Path(loader.archive)]
    else:
        files = [path for package in _PACKAGES for path in sorted((_ROOT / package).rglob("*.py"))]
    for path in files:
        hashed.update(f"\n{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}".encode())
    return hashed.digest()


def _pieces(value: object) -> Iterator[bytes]:
    """The parts of a value, each after a word for its type, so that no two values have the same parts."""
    kind = type(value)
    yield f"{kind.__module__}.{kind.__qualname__}".encode()
    if value is None:
        return
    if isinstance(value, Enum):
        yield value.name.encode()
    elif kind in (bool, int, float, str):
        yield repr(value).encode("utf-8", "surrogatepass")
    elif kind is bytes:
        yield bytes(value)  # type: ignore[call-overload]
    elif isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            raise TypeError("an array of objects has no digest; want numbers")
        yield f"{value.dtype.str} {value.shape}".encode()
        yield np.ascontiguousarray(value).tobytes()
    elif isinstance(value, np.generic):
        yield value.dtype.str.encode()
        yield value.tobytes()
    elif isinstance(value, ItemNames):
        yield value.digest.encode()
    elif isinstance(value, tuple | list):
        yield str(len(value)).encode()
        for part in value:
            yield from _pieces(part)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield field.name.encode()
            yield from _pieces(getattr(value, field.name))
    else:
        raise TypeError(f"a {kind.__qualname__} has no digest; want a dataclass of numbers, texts and arrays")
