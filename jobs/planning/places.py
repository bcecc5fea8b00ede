"""A new place of a dataset's data, as ``marquee budget move`` names it: what the ledger binds, and what it compares."""

from __future__ import annotations

from collections.abc import Callable

from dpcore.errors import ConfigError
from jobs.config.dataset import CATALOG_SCHEME, FRAME_SCHEME, catalog_root, table_folder
from jobs.planning.identity import bound_path
from pipelines.source import TableFormat, TableVersion, read_contents
from pipelines.source.catalog import catalog_table
from pipelines.source.content import FileContent

Contents = Callable[[], tuple[FileContent, ...]]


def new_place(path: str, version: tuple[TableFormat, int] | None) -> tuple[str, Contents]:
    """The canonical path of a new place, and what reads the contents of its files. SENSITIVE.

    path: A path or URL, ``catalog:NAME`` for a table of Spark's catalog, or ``frame:NAME``.
    version: Format and version of the table in the folder ``path``; None for other data.

    Raises: ConfigError for a name that names no table.
    """
    if version is not None:
        table = TableVersion(version[0], path, version[1])
        return bound_path(table_folder(path)), lambda: read_contents(table)
    if path.startswith(FRAME_SCHEME):
        return path, lambda: _of_frame(path)
    if path.startswith(CATALOG_SCHEME):
        name = path.removeprefix(CATALOG_SCHEME)
        return catalog_root(name), lambda: _of_catalog(name)
    return bound_path(path), lambda: read_contents(path)


def _of_frame(path: str) -> tuple[FileContent, ...]:
    raise ConfigError(f"--path is {path}, which only a program can give; want --new-content, which compares nothing")


def _of_catalog(name: str) -> tuple[FileContent, ...]:
    """The contents of the table's files, as far as they are plain Parquet that this process can read."""
    try:
        from pipelines.engines.spark_catalog import open_table
        from pipelines.engines.spark_session import open_session
    except ModuleNotFoundError as error:
        raise ConfigError(f"--path catalog:{name} needs {error.name!r}; install marquee[spark]") from error
    from pipelines.source.footers import readable_contents

    contents = readable_contents(open_table(open_session(), catalog_table(name)).files)
    if not contents:
        raise ConfigError(
            f"the files of {name} cannot be compared, because they are not plain Parquet files that can be read here; "
            "want --new-content, which compares nothing"
        )
    return contents
