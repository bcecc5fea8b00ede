"""How the ledger's database is reached: one transaction at a time, the write lock first."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

from sqlalchemy import Connection, Engine, create_engine, event, exc
from sqlalchemy.engine import URL, make_url
from sqlalchemy.pool import NullPool

from dpcore.errors import ConfigError, LedgerUnavailableError


@final
class Database:
    """A database by URL. Nothing is opened or made before the first transaction."""

    def __init__(self, url: str, lock_seconds: float) -> None:
        self._url = _parsed(url)
        self._engine = _engine(self._url, lock_seconds)

    @property
    def shown_url(self) -> str:
        """The URL without its password; a file's with its whole path, so that it means the same in every folder."""
        whole = self._url if self._file is None else self._url.set(database=os.path.abspath(self._file))
        return whole.render_as_string(hide_password=True)

    @contextmanager
    def transaction(self, create: bool = False) -> Iterator[Connection]:
        self._check_file(create)
        try:
            with self._engine.begin() as connection:
                yield connection
        except (exc.OperationalError, exc.InterfaceError, exc.TimeoutError) as error:
            raise LedgerUnavailableError(
                f"ledger {self.shown_url} cannot be reached or is locked; try again"
            ) from error
        except exc.DatabaseError as error:
            raise ConfigError(f"ledger {self.shown_url} refused the transaction; want a database of Marquee") from error

    def exists(self) -> bool:
        """Whether the database is there; a server's answer is known only by asking it."""
        return self._file is None or self._file.exists()

    @property
    def _file(self) -> Path | None:
        if self._url.get_backend_name() != "sqlite" or self._url.database in (None, "", ":memory:"):
            return None
        return Path(str(self._url.database))

    def _check_file(self, create: bool) -> None:
        """SQLite makes a missing file on connecting; only creating a budget may do that."""
        if self._file is None or self._file.exists():
            return
        if not create:
            raise LedgerUnavailableError(f"ledger {self.shown_url} does not exist; want the file that holds the budget")
        if not self._file.parent.is_dir():
            raise ConfigError(f"the folder of ledger {self.shown_url} does not exist; want an existing folder")
        # It will hold secrets: nobody else may read it.
        os.close(os.open(self._file, os.O_CREAT | os.O_WRONLY, 0o600))


def _parsed(url: str) -> URL:
    try:
        return make_url(url)
    except exc.ArgumentError as error:
        raise ConfigError("privacy.ledger is not a database URL; want one such as sqlite:///marquee.db") from error


def _engine(url: URL, lock_seconds: float) -> Engine:
    shown = url.render_as_string(hide_password=True)
    sqlite = url.get_backend_name() == "sqlite"
    try:
        if sqlite:
            engine = create_engine(url, poolclass=NullPool, connect_args={"timeout": lock_seconds})
        elif url.get_backend_name() == "postgresql":
            # The dataset's row is locked first, and what was charged is read after: an older snapshot would miss
            # charges, so the server's own default may not decide.
            engine = create_engine(url, poolclass=NullPool, isolation_level="READ COMMITTED")
        else:
            raise exc.ArgumentError
    except exc.ArgumentError as error:
        raise ConfigError(f"ledger {shown}: unknown kind of database; want sqlite:/// or postgresql://") from error
    except ModuleNotFoundError as error:
        raise ConfigError(f"ledger {shown}: its driver {error.name!r} is missing; install marquee[postgres]") from error
    if sqlite:
        event.listen(engine, "connect", _leave_transactions_to_us)
        event.listen(engine, "begin", _begin_immediately)
    return engine


def _leave_transactions_to_us(dbapi_connection: Any, _record: object) -> None:
    dbapi_connection.isolation_level = None


def _begin_immediately(connection: Connection) -> None:
    # The write lock comes first: between reading what remains and charging it no other process can charge.
    connection.exec_driver_sql("BEGIN IMMEDIATE")
