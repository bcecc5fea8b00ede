# py4j has no annotations.
# mypy: disable-error-code="import-untyped"
"""Tables of Spark's catalogs: as frames for the engine, and where their files are.

Spark plans the reading, so what its catalog enforces (rights, deleted rows, versions) holds for a release as well.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from dpcore.errors import EngineError, InputError
from pipelines.foreign_errors import cause_of
from pipelines.source.catalog import CatalogTable

# What Spark says about a name that names no table, and about a version of a table without versions.
_ABSENT: Final = (
    "TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND", "CATALOG_NOT_FOUND", "NO_SUCH_CATALOG", "NO_SUCH_TABLE",
    "NO_SUCH_NAMESPACE", "INVALID_CATALOG", "REQUIRES_SINGLE_PART_NAMESPACE",
)  # fmt: skip
_NO_VERSIONS: Final = ("TIME_TRAVEL", "CANNOT_TIME_TRAVEL")
_LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_PLAIN_FILES: Final = {"parquet"}
_OWN_DATA: Final = {"MANAGED", "EXTERNAL"}


@dataclass(frozen=True, eq=False)
class OpenedTable:
    """A table of a catalog.

    frame: Its rows.
    location: Path or URL of its folder; None if Spark does not say, as of a view.
    files: Paths or URLs of its Parquet files if these hold exactly its rows; empty otherwise.
    """

    frame: DataFrame
    location: str | None
    files: tuple[str, ...]


def open_table(session: SparkSession, table: CatalogTable) -> OpenedTable:
    """Finds a table in the catalogs of a session. No rows are read.

    session: A classic session, or one of Spark Connect.
    table: The table.

    Raises: InputError when there is no such table or version, or Spark cannot read it; EngineError when the session
        fails.
    """
    at = "" if table.version is None else f" VERSION AS OF {table.version}"
    try:
        with _quiet_logger():
            frame = session.sql(f"SELECT * FROM {table.quoted}{at}")
            frame.schema  # noqa: B018 - Spark Connect looks for the table when it is asked for its columns.
    except PySparkException as error:
        raise _unreadable(table, error) from cause_of(error)
    except Py4JError as error:
        raise EngineError(f"Spark did not open {table} ({type(error).__name__}); see its own log") from cause_of(error)
    facts = _facts(session, table)
    plain = facts.get("provider", "").lower() in _PLAIN_FILES and facts.get("type", "").upper() in _OWN_DATA
    return OpenedTable(frame, _path_of(facts.get("location", "")), _files(frame) if plain else ())


@contextmanager
def _quiet_logger() -> Iterator[None]:
    """Keeps PySpark from printing the stack trace of an error that becomes one sentence."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    before = [logger.disabled for logger in loggers]
    try:
        for logger in loggers:
            logger.disabled = True
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


def _unreadable(table: CatalogTable, error: PySparkException) -> InputError:
    condition = str(_condition(error))
    if any(name in condition for name in _NO_VERSIONS):
        return InputError(
            f"dataset.catalog names version {table.version} of {table.name}, which Spark cannot read by its version; "
            "want a Delta or Iceberg table, or no version"
        )
    if any(name in condition for name in _ABSENT):
        version = "" if table.version is None else f", or not its version {table.version}"
        return InputError(
            f"dataset.catalog is {table.name}, and Spark's catalogs have no such table{version}; want a table that "
            "SHOW TABLES lists; a missing database is default, and a missing catalog spark_catalog"
        )
    at = "" if table.version is None else f" at version {table.version}"
    return InputError(
        f"dataset.catalog is {table.name}, which Spark does not read{at} ({condition or type(error).__name__}); want a "
        "table that this session may read; its own log has the reason"
    )


def _condition(error: PySparkException) -> str | None:
    """The name of the error in Spark's list of conditions, which quotes no data. Spark 4 has renamed the method."""
    named: Any = getattr(error, "getCondition", None) or getattr(error, "getErrorClass", None)
    condition = None if named is None else named()
    return condition if isinstance(condition, str) else None


def _facts(session: SparkSession, table: CatalogTable) -> dict[str, str]:
    """What the catalog says about a table, by lower-case names; empty if this user may not ask."""
    try:
        with _quiet_logger():
            rows = session.sql(f"DESCRIBE TABLE EXTENDED {table.quoted}").collect()
    except PySparkException:
        return {}
    names = [str(row[0]) for row in rows]
    # Before the details, the columns are listed, which may have any name.
    start = next((place for place, name in enumerate(names) if name.startswith("# Detailed Table")), len(names))
    return {name.lower(): str(row[1]) for name, row in zip(names[start:], rows[start:], strict=True)}


def _files(frame: DataFrame) -> tuple[str, ...]:
    try:
        return tuple(sorted(path for file in frame.inputFiles() if (path := _path_of(file)) is not None))
    except PySparkException:
        return ()


def _path_of(uri: str) -> str | None:
    """A local path for Spark's URI of a local file, and any other URI unchanged; None without one."""
    if not uri:
        return None
    return unquote(urlsplit(uri).path) if uri.startswith("file:") else uri
