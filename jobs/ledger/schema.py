"""The layout of the ledger's tables: it is created once, migrated from an older version, and refused if it is newer."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from sqlalchemy import Connection, exc, insert, inspect, select, text, update

from dpcore.errors import ConfigError
from jobs.ledger.tables import CHARGES, CONSUMERS, DATASETS, GRANTS, INFO, METADATA, PLACES, RELEASES, VERSION
from jobs.ledger.windows import Window
from jobs.planning.identity import bound_path

_LOCK = 0x6D617271  # Key of the PostgreSQL advisory lock; any constant would do.
# Tables of the layouts that are written anew; a table comes before those that it refers to.
_OLDER_TABLES = {
    1: ("charges", "releases", "datasets"),
    2: ("charges", "grants", "releases", "consumers", "datasets", "ledger_info"),
}
_ID_BYTES = 8
_KEY_BYTES = 32  # Length of the key of all digests of contents.
_Rows = dict[str, list[dict[str, Any]]]


def lock_layout(connection: Connection) -> None:
    """Waits until no other transaction holds the layout lock, which replaces row locks where there is no row to lock.

    On SQLite nothing is needed, because every transaction already holds the only write lock.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))


def layout(connection: Connection) -> int | None:
    """The version of the existing tables; None if there are no tables."""
    if _has_table(connection, INFO.name):
        return read_version(connection)
    if not _has_table(connection, DATASETS.name):
        return None
    columns = {column["name"] for column in inspect(connection).get_columns(DATASETS.name)}
    if not {"name", "total", "salt", "fingerprint_key"} <= columns:
        raise ConfigError(
            "the database has a table 'datasets' that is not of a ledger; want a database for Marquee alone"
        )
    return 1


def _has_table(connection: Connection, name: str) -> bool:
    """Whether there is a table of this name.

    SQLAlchemy's own question would keep the dialect of every ledger of this process in a cache.
    """
    question = {
        "sqlite": "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = :name",
        "postgresql": "SELECT count(to_regclass(:name))",
    }[connection.dialect.name]
    return bool(connection.execute(text(question), {"name": name}).scalar_one())


def read_version(connection: Connection) -> int:
    """The version that the ledger states.

    On PostgreSQL, reading it locks the table until the transaction ends, and a migration waits for this lock.
    """
    versions = connection.execute(select(INFO.c.version)).scalars().all()
    if len(versions) != 1:
        raise ConfigError("the ledger does not state one version; restore its backup")
    return int(versions[0])


def read_id(connection: Connection) -> str:
    """The id of the ledger, 16 hexadecimal digits."""
    return str(connection.execute(select(INFO.c.ledger_id)).scalar_one())


def read_content_key(connection: Connection) -> bytes:
    """The key of all digests of contents. SENSITIVE."""
    return bytes(connection.execute(select(INFO.c.content_key)).scalar_one())


def check(version: int) -> None:
    """Raises ConfigError for a layout that this program does not support."""
    if version > VERSION:
        raise ConfigError(
            f"the ledger has layout {version}, but this program supports only layouts up to {VERSION}; want the newer "
            "marquee that migrated it"
        )
    if version < 1:
        raise ConfigError(f"the ledger has layout {version}, which does not exist; restore its backup")


def create(connection: Connection) -> None:
    """Creates the tables if they do not exist."""
    lock_layout(connection)
    if not prepare(connection):
        _create_tables(connection)


def _create_tables(connection: Connection) -> None:
    METADATA.create_all(connection)
    once = {"ledger_id": secrets.token_hex(_ID_BYTES), "content_key": secrets.token_bytes(_KEY_BYTES)}  # SENSITIVE
    connection.execute(insert(INFO).values(version=VERSION, **once))


def prepare(connection: Connection) -> bool:
    """Migrates a ledger of an older layout, with all its rows, in this transaction.

    Returns: Whether there is a ledger.
    Raises: ConfigError for a newer layout.
    """
    lock_layout(connection)  # It comes before any lock of a table, so that two migrations cannot wait for each other.
    version = layout(connection)
    if version is None:
        return False
    check(version)
    if version in _OLDER_TABLES:
        _migrate(connection, version)
    elif version < VERSION:
        _extend(connection, version)
    return True


def _migrate(connection: Connection, version: int) -> None:
    try:
        tables = _OLDER_TABLES[version]
        if connection.dialect.name == "postgresql":  # Older programs wait for this lock, and then see the new layout.
            connection.execute(text(f"LOCK TABLE {', '.join(reversed(tables))} IN ACCESS EXCLUSIVE MODE"))
        rows = {name: _read(connection, name) for name in tables}
        for name in tables:
            connection.execute(text(f"DROP TABLE {name}"))
        _create_tables(connection)
        _fill(connection, _of_layout_3(_of_layout_2(rows) if version == 1 else rows))
    except exc.ProgrammingError as error:
        raise _may_not_migrate(version) from error


def _extend(connection: Connection, version: int) -> None:
    """Adds the tables that came after layout 3; those of layout 3 stay as they are."""
    try:
        if connection.dialect.name == "postgresql":  # As in _migrate.
            connection.execute(text(f"LOCK TABLE {INFO.name} IN ACCESS EXCLUSIVE MODE"))
        METADATA.create_all(connection)
        connection.execute(update(INFO).values(version=VERSION))
    except exc.ProgrammingError as error:
        raise _may_not_migrate(version) from error


def _may_not_migrate(version: int) -> ConfigError:
    return ConfigError(
        f"the ledger has layout {version}, this program needs layout {VERSION}, and this role may not migrate it; run "
        "marquee budget show once as the owner of the tables"
    )


def _read(connection: Connection, table: str) -> list[dict[str, Any]]:
    return [dict(row) for row in connection.execute(text(f"SELECT * FROM {table}")).mappings()]


def _fill(connection: Connection, rows: _Rows) -> None:
    for table in (DATASETS, CONSUMERS, RELEASES, CHARGES, GRANTS, PLACES):
        # Rows are inserted in the order of their numbers, which the database then gives out again.
        for row in sorted(rows[table.name], key=lambda row: int(row.get("number", 0))):
            connection.execute(insert(table).values({name: row[name] for name in row if name != "number"}))


def _of_layout_2(rows: _Rows) -> _Rows:
    """Adds running sums, grants, consumers and the number of answers to the rows of layout 1."""
    charges, spent = [], {dataset["name"]: Fraction(0) for dataset in rows["datasets"]}
    for charge in sorted(rows["charges"], key=lambda row: int(row["number"])):
        spent[charge["dataset"]] += Fraction(charge["amount"])
        sums = {"window_start": "", "spent": str(spent[charge["dataset"]]), "consumer_spent": "0"}
        charges.append({**charge, **sums})
    return {
        "charges": charges,
        "grants": [_first_grant(dataset) for dataset in rows["datasets"]],
        "releases": [{**release, "answers": None if release["journal_head"] else 0} for release in rows["releases"]],
        "consumers": [],
        "datasets": [
            {**dataset, "spent": str(spent[dataset["name"]]), "consumers_only": False} for dataset in rows["datasets"]
        ],
    }


def _of_layout_3(rows: _Rows) -> _Rows:
    """Adds the places of datasets to the rows of layout 2. The new columns stay null: whom a dataset protects is not
    recorded there. ``marquee budget create`` must say it before the next reservation, unless nothing was charged.
    Nor is there a record of the content of the files: the next run of each dataset adds it.
    """
    datasets = [{**dataset, "path": _canonical(dataset["path"])} for dataset in rows["datasets"]]
    places = [
        {"dataset": dataset["name"], "path": dataset["path"], "bound": dataset["created"]}
        for dataset in datasets
        if dataset["path"] is not None
    ]
    return {**rows, "datasets": datasets, PLACES.name: places}


def _canonical(path: str | None) -> str | None:
    """A path as this version writes it. Older ones kept URLs as configs had them; local paths were canonical."""
    return bound_path(path) if path is not None and "://" in path else path


def _first_grant(dataset: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "dataset": dataset["name"],
        "refresh": Window.NONE.value,
        "epsilon": dataset["epsilon"],
        "delta": dataset["delta"],
        "currency": dataset["currency"],
        "amount": dataset["total"],
        "reason": "created",
        "granted": dataset["created"],
    }
