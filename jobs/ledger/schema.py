"""The layout of the ledger's tables: it is created once, migrated from an older version, and refused if it is newer."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from sqlalchemy import Connection, exc, insert, inspect, select, text

from dpcore.errors import ConfigError
from jobs.ledger.tables import CHARGES, DATASETS, GRANTS, INFO, METADATA, RELEASES, VERSION
from jobs.ledger.windows import Window

_LOCK = 0x6D617271  # Key of the PostgreSQL advisory lock; any constant would do.
_LAYOUT_1 = ("charges", "releases", "datasets")  # Tables of layout 1; a table comes before those that it refers to.


def lock_layout(connection: Connection) -> None:
    """Waits until no other transaction holds the layout lock, which replaces row locks where there is no row to lock.

    On SQLite nothing is needed, because every transaction already holds the only write lock.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))


def layout(connection: Connection) -> int | None:
    """The version of the existing tables; None if there are no tables."""
    tables = inspect(connection)
    if tables.has_table(INFO.name):
        return read_version(connection)
    if not tables.has_table(DATASETS.name):
        return None
    columns = {column["name"] for column in tables.get_columns(DATASETS.name)}
    if not {"name", "total", "salt", "fingerprint_key"} <= columns:
        raise ConfigError(
            "the database has a table 'datasets' that is not of a ledger; want a database for Marquee alone"
        )
    return 1


def read_version(connection: Connection) -> int:
    """The version that the ledger states.

    On PostgreSQL, reading it locks the table until the transaction ends, and a migration waits for this lock.
    """
    versions = connection.execute(select(INFO.c.version)).scalars().all()
    if len(versions) != 1:
        raise ConfigError("the ledger does not state one version; restore its backup")
    return int(versions[0])


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
        METADATA.create_all(connection)
        connection.execute(insert(INFO).values(version=VERSION))


def prepare(connection: Connection) -> bool:
    """Migrates a ledger of an older layout, with all its rows, in this transaction.

    Returns: Whether there is a ledger.
    Raises: ConfigError for a newer layout.
    """
    version = layout(connection)
    if version is None:
        return False
    check(version)
    if version < VERSION:
        _migrate(connection, version)
    return True


def _migrate(connection: Connection, version: int) -> None:
    lock_layout(connection)
    try:
        if connection.dialect.name == "postgresql":  # Older programs wait for this lock, and then see the new layout.
            connection.execute(text(f"LOCK TABLE {', '.join(reversed(_LAYOUT_1))} IN ACCESS EXCLUSIVE MODE"))
        if layout(connection) == version:  # Another process may have migrated the ledger in the meantime.
            _migrate_layout_1(connection)
    except exc.ProgrammingError as error:
        raise ConfigError(
            f"the ledger has layout {version}, this program needs layout {VERSION}, and this role may not migrate it; "
            "run marquee budget show once as the owner of the tables"
        ) from error


def _migrate_layout_1(connection: Connection) -> None:
    """Adds running sums, grants, consumers and the number of answers."""
    old = {name: connection.execute(text(f"SELECT * FROM {name}")).mappings().all() for name in _LAYOUT_1}
    for name in _LAYOUT_1:
        connection.execute(text(f"DROP TABLE {name}"))
    METADATA.create_all(connection)
    connection.execute(insert(INFO).values(version=VERSION))
    for dataset in old["datasets"]:
        amounts = [Fraction(charge["amount"]) for charge in old["charges"] if charge["dataset"] == dataset["name"]]
        connection.execute(
            insert(DATASETS).values(**dataset, spent=str(sum(amounts, Fraction(0))), consumers_only=False)
        )
        connection.execute(insert(GRANTS).values(_first_grant(dataset)))
    for release in old["releases"]:
        connection.execute(insert(RELEASES).values(**release, answers=None if release["journal_head"] else 0))
    spent: dict[str, Fraction] = {}
    for charge in sorted(old["charges"], key=lambda row: int(row["number"])):
        # Charges are inserted in their order, which gives them the same numbers again.
        values = {name: charge[name] for name in charge if name != "number"}
        spent[charge["dataset"]] = spent.get(charge["dataset"], Fraction(0)) + Fraction(charge["amount"])
        sums = {"window_start": "", "spent": str(spent[charge["dataset"]]), "consumer_spent": "0"}
        connection.execute(insert(CHARGES).values(**values, **sums))


def _first_grant(dataset: Mapping[Any, Any]) -> dict[str, object]:
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
