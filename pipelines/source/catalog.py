"""Names of tables in Spark's catalogs: Unity, Glue, Hive, Iceberg's, or Spark's own.

A name has one to three parts. A missing database is ``default`` and a missing catalog ``spark_catalog``, Spark's
session catalog, whatever a session has chosen with ``USE``: so a config names one table in every session.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dpcore.errors import ConfigError

_DEFAULTS: Final = ("spark_catalog", "default")
_PART: Final = re.compile(r"`(?:[^`]|``)+`|[^\s.`]+")
_PLAIN: Final = re.compile(r"\w+", re.ASCII)


@dataclass(frozen=True)
class CatalogTable:
    """A table in a catalog of Spark, perhaps at one version.

    catalog: Name of the catalog.
    database: Name of the database, which Unity calls schema.
    table: Name of the table.
    version: Version of a Delta table, or id of a snapshot of an Iceberg table; None for the table as it is.
    """

    catalog: str
    database: str
    table: str
    version: int | None = None

    @property
    def name(self) -> str:
        """All three parts as Spark reads them, with back-quotes where they are needed."""
        return name_text((self.catalog, self.database, self.table))

    @property
    def quoted(self) -> str:
        """All three parts in back-quotes, which is safe within SQL."""
        return ".".join(_quoted(part) for part in (self.catalog, self.database, self.table))

    def __str__(self) -> str:
        at = "" if self.version is None else f" (version {self.version})"
        return f"table {self.name} of Spark's catalog{at}"


def catalog_table(name: str, version: int | None = None) -> CatalogTable:
    """The table that a name of one to three parts names.

    name: The name, such as ``main.sales.people``, with a part in back-quotes where it has dots or spaces.
    version: Version or snapshot of the table; None for the table as it is.

    Raises: ConfigError when it is no such name.
    """
    parts = _parts(name)
    if parts is None or len(parts) > 3:
        raise ConfigError(
            f"is {name!r}; want a name of one to three parts such as main.sales.people, with a part in back-quotes "
            "where it has dots or spaces"
        )
    catalog, database, table = (*_DEFAULTS[: 3 - len(parts)], *parts)
    return CatalogTable(catalog, database, table, version)


def name_text(parts: Sequence[str]) -> str:
    """The parts of a name as one text, with back-quotes where they are needed."""
    return ".".join(part if _PLAIN.fullmatch(part) else _quoted(part) for part in parts)


def _parts(name: str) -> list[str] | None:
    """The parts of a name without their quotes; None if it is no name."""
    parts: list[str] = []
    position = 0
    while (match := _PART.match(name, position)) is not None:
        text = match.group()
        parts.append(text[1:-1].replace("``", "`") if text.startswith("`") else text)
        position = match.end()
        if position == len(name):
            return parts
        if name[position] != ".":
            return None
        position += 1
    return None


def _quoted(part: str) -> str:
    return f"`{part.replace('`', '``')}`"
