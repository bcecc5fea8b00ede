"""How the ledger's database is reached: one transaction at a time, the write lock first."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, final
from urllib.parse import quote_plus

from sqlalchemy import Connection, Engine, create_engine, event, exc
from sqlalchemy.engine import URL, make_url
from sqlalchemy.pool import NullPool

from dpcore.errors import ConfigError, LedgerUnavailableError

_SMALLEST_PAGE = 512  # Bytes; no SQLite file is shorter, unless it is empty.
# Parameters that are shown; the value of any other may be a secret, such as password, sslpassword or passfile.
_SHOWN = frozenset({"host", "hostaddr", "port", "user", "dbname", "sslmode", "application_name", "connect_timeout"})
_HIDDEN = "***"


@final
class Database:
    """A database by URL. Nothing is opened or made before the first transaction."""

    def __init__(self, url: str, lock_seconds: float) -> None:
        self._url = _parsed(url)
        self._engine = _engine(self._url, lock_seconds)

    @property
    def shown_url(self) -> str:
        """The URL without secrets; a file's with its whole path, so that it means the same in every folder."""
        return shown(self._url if self._file is None else self._url.set(database=os.path.abspath(self._file)))

    @contextmanager
    def transaction(self, create: bool = False) -> Iterator[Connection]:
        """One transaction, durable when the block ends and undone when it raises.

        A failure while it commits leaves open whether it did; every method of the ledger may be asked again.

        Raises LedgerUnavailableError when the server is away, the lock is held for too long, the disk is full or the
        server asks for a second try (a deadlock); ConfigError when the database is not as a ledger should be.
        """
        self._check_file(create)
        try:
            with self._engine.begin() as connection:
                yield connection
        except (exc.OperationalError, exc.InterfaceError, exc.TimeoutError) as error:
            raise LedgerUnavailableError(
                f"ledger {self.shown_url} cannot be reached, is locked or has no room; try again"
            ) from error
        except exc.DatabaseError as error:
            if getattr(error.orig, "sqlite_errorname", None) == "SQLITE_NOTADB":
                raise self._no_database() from error
            raise ConfigError(
                f"ledger {self.shown_url} refused the transaction ({type(error.orig).__name__}); want a database of "
                "Marquee, and a role that may use it"
            ) from error

    def exists(self) -> bool:
        """Whether the database is there; a server's answer is known only by asking it. An empty file holds nothing."""
        return self._file is None or (self._file.exists() and self._file.stat().st_size > 0)

    @property
    def _file(self) -> Path | None:
        return Path(str(self._url.database)) if self._url.get_backend_name() == "sqlite" else None

    def _check_file(self, create: bool) -> None:
        """SQLite makes a missing file on connecting, and writes to one that is no database of its own.

        Only creating a budget may make a file, and nothing may write to another kind of file.
        """
        if self._file is None:
            return
        if self._file.exists():
            self._check_kind(self._file)
            return
        if not create:
            raise LedgerUnavailableError(f"ledger {self.shown_url} does not exist; want the file that holds the budget")
        if not self._file.parent.is_dir():
            raise ConfigError(f"the folder of ledger {self.shown_url} does not exist; want an existing folder")
        # It will hold secrets: nobody else may read it. One that another has just made must not be opened: see below.
        with suppress(FileExistsError):
            os.close(os.open(os.path.realpath(self._file), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))

    def _check_kind(self, file: Path) -> None:
        """Refuses what is too short to be a database: SQLite overwrites a file of one byte, and refuses longer ones.

        The file must not be opened here: closing it would drop the locks that the process holds on it through SQLite.
        """
        if not file.is_file():
            raise ConfigError(f"ledger {self.shown_url} is no file; want a database of Marquee")
        if 0 < file.stat().st_size < _SMALLEST_PAGE:
            raise self._no_database()

    def _no_database(self) -> ConfigError:
        return ConfigError(f"ledger {self.shown_url} is no SQLite database; want a database of Marquee")


def _parsed(url: str) -> URL:
    """The parts of the URL. No message quotes it: where it is not as it should be, its password may be anywhere."""
    try:
        parsed = make_url(url)
    except (exc.ArgumentError, ValueError):
        raise ConfigError("privacy.ledger is not a database URL; want one such as sqlite:///marquee.db") from None
    if parsed.get_backend_name() == "sqlite" and parsed.host is None:
        _check_sqlite(parsed)
    elif url.count("@") > 1:
        raise ConfigError("the ledger's URL holds more than one @; quote the password: %40 stands for an @ in it")
    return parsed


def _check_sqlite(url: URL) -> None:
    """A database in memory would forget every charge with its process."""
    if url.database in (None, "", ":memory:") or str(url.database).startswith("file:") or "uri" in url.query:
        raise ConfigError("the ledger's URL names no file; want a file, such as sqlite:///marquee.db, or PostgreSQL")


def shown(url: URL) -> str:
    """The URL without its secrets."""
    hidden = {name: _HIDDEN for name in url.query if name not in _SHOWN}
    text = url.update_query_dict(hidden).render_as_string(hide_password=True)
    return text.replace(quote_plus(_HIDDEN), _HIDDEN)


def _engine(url: URL, lock_seconds: float) -> Engine:
    said = shown(url)
    try:
        match url.get_backend_name():
            case "sqlite":
                return _sqlite(url, lock_seconds)
            case "postgresql":
                return _postgresql(url, lock_seconds)
            case _:
                raise exc.ArgumentError
    except exc.ArgumentError as error:
        raise ConfigError(f"ledger {said}: unknown kind of database; want sqlite:/// or postgresql://") from error
    except ModuleNotFoundError as error:
        raise ConfigError(f"ledger {said}: its driver {error.name!r} is missing; install marquee[postgres]") from error


def _sqlite(url: URL, lock_seconds: float) -> Engine:
    engine = create_engine(url, poolclass=NullPool, connect_args={"timeout": lock_seconds})
    event.listen(engine, "connect", _durable_and_plain)
    event.listen(engine, "begin", _begin_immediately)
    return engine


def _durable_and_plain(dbapi_connection: Any, _record: object) -> None:
    dbapi_connection.isolation_level = None  # Transactions are begun below, not by the driver.
    # FULL, the default, may undo the last commit when power fails right after it: the folder is not synced after the
    # rollback journal has been removed. A charge that was undone after its noise was drawn would be a lost charge.
    dbapi_connection.execute("PRAGMA synchronous = EXTRA")


def _begin_immediately(connection: Connection) -> None:
    # The write lock comes first: between reading what remains and charging it no other process can charge.
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _postgresql(url: URL, lock_seconds: float) -> Engine:
    """READ COMMITTED, whatever the server's default.

    Every transaction that charges first locks the dataset's row (SELECT ... FOR UPDATE), which also holds what was
    spent. At this level a statement that has waited for a lock reads the row as the holder left it, and later
    statements see all that was committed before them: two charges of a dataset follow each other as if alone. Locks
    are taken in one order (dataset, layout, release), so that none waits for the other in a circle. A
    snapshot of the whole transaction (REPEATABLE READ) would read stale sums; SERIALIZABLE would turn waiting into
    failures and prove no more.
    """
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    engine = create_engine(
        url,
        isolation_level="READ COMMITTED",
        pool_size=1,  # One connection, kept between answers; looked at before each use.
        pool_pre_ping=True,
        connect_args={"connect_timeout": max(2, round(lock_seconds))},
    )
    event.listen(engine, "connect", _settings(lock_seconds))
    return engine


def _settings(lock_seconds: float) -> Callable[[Any, object], None]:
    def prepare(dbapi_connection: Any, _record: object) -> None:
        with dbapi_connection.cursor() as cursor:
            cursor.execute(f"SET lock_timeout = {max(1, round(1000 * lock_seconds))}")
            # A server may answer before a commit is on its disk, which could forget a charge.
            durable = "SELECT set_config('synchronous_commit', 'on', false)"
            cursor.execute(f"{durable} WHERE current_setting('synchronous_commit') = 'off'")
        dbapi_connection.commit()

    return prepare
