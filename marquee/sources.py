"""Which kind of data an argument is, as the section ``dataset`` of a config names it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dpcore.errors import ConfigError
from pipelines.source.frames import is_spark_frame

_WILDCARD = re.compile(r"[*?\[]")
_LOCATIONS = ("path", "table", "catalog")


@dataclass(frozen=True)
class DataSource:
    """Where the data of a release are.

    keys: The keys of the section ``dataset`` that say so.
    name: Name of the dataset.
    engine: Name of the engine that reads the data by default.
    frame: The data, if a program gives them; None for data that have a place.
    """

    keys: dict[str, Any]
    name: str
    engine: str
    frame: Any = field(default=None, repr=False)


def data_source(data: Any, name: str | None) -> DataSource:
    """The source of an argument ``data``.

    data: A path or URL, a mapping with ``path``, ``table`` or ``catalog`` as in a config, or a frame.
    name: Name of the dataset; None for the last part of a path that has no wildcard.

    Raises: ConfigError when the data have no name.
    """
    if isinstance(data, str | os.PathLike):
        path = os.fspath(data)
        return DataSource({"path": path}, name or _name_of(path), "local")
    if isinstance(data, Mapping) and set(data) <= set(_LOCATIONS):
        return DataSource(dict(data), _given(name), "spark" if "catalog" in data else "local")
    return DataSource({"frame": _given(name)}, _given(name), "spark" if is_spark_frame(data) else "local", data)


def _name_of(path: str) -> str:
    """The last folder or file of a path that has no wildcard, without its ending."""
    parts = [part for part in path.partition("://")[2 if "://" in path else 0].split("/") if part]
    names = [part for part in parts if not _WILDCARD.search(part)]
    return _given(names[-1].split(".")[0] if names else None)


def _given(name: str | None) -> str:
    if not name:
        raise ConfigError("name is missing; want the name under which the ledger keeps the budget of the data")
    return name
