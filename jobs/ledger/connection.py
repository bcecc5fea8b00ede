"""The ledger's database: one transaction at a time, each with its lock first."""

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
    """A database by URL. Nothing is opened or made before the first transaction.

    url: Database URL of SQLite or PostgreSQL.
    lock_seconds: Longest wait for a lock, in seconds.

    Raises: ConfigError when the URL names no such database.
    """

    def __init__(self, url: str, lock_seconds: float) -> None:
        self._url = _parsed(url)
        self._engine = _engine(self._url, lock_seconds)

    @property
    def shown_url(self) -> str:
        """The URL without secrets, and with a file's absolute path."""
        return shown(self._url if self._file is None else self._url.set(database=os.path.abspath(self._file)))

    @contextmanager
    def transaction(self, create: bool = False) -> Iterator[Connection]:
        """One transaction: durable when the block ends, and undone when it raises.

        After a failure during the commit it is unknown whether the commit took place; every method of the ledger may be
        called again.

        create: Whether a missing SQLite file is made.

        Raises: LedgerUnavailableError when the server is away, the lock is held for too long, the disk is full or the
            server wants a second try (a deadlock); ConfigError when the database is no ledger.
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
        """Whether the database exists: a file that is not empty, or a server, whose answer is not known before use."""
        return self._file is None or (self._file.exists() and self._file.stat().st_size > 0)

    @property
    def _file(self) -> Path | None:
        return Path(str(self._url.database)) if self._url.get_backend_name() == "sqlite" else None

    def _check_file(self, create: bool) -> None:
        """Makes a missing file only where that is allowed, and refuses files that are no database.

        SQLite would make a missing file on connecting, and would write to a file that is no database.
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
        # The file will hold secrets, so only its owner may read it. A file that another process has just made must not
        # be opened here: see _check_kind.
        with suppress(FileExistsError):
            os.close(os.open(os.path.realpath(self._file), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))

    def _check_kind(self, file: Path) -> None:
        """Refuses files that are too short to be a database, because SQLite overwrites a file of one byte.

        The file must not be opened here: closing it would drop the locks that this process holds on it through SQLite.
        """
        if not file.is_file():
            raise ConfigError(f"ledger {self.shown_url} is no file; want a database of Marquee")
        if 0 < file.stat().st_size < _SMALLEST_PAGE:
            raise self._no_database()

    def _no_database(self) -> ConfigError:
        return ConfigError(f"ledger {self.shown_url} is no SQLite database; want a database of Marquee")


def _parsed(url: str) -> URL:
    """The parts of the URL. No message quotes the URL, because in a malformed one the password may be anywhere."""
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
    """Refuses databases in memory, which would lose every charge with their process."""
    if url.database in (None, "", ":memory:") or str(url.database).startswith("file:") or "uri" in url.query:
        raise ConfigError("the ledger's URL names no file; want a file, such as sqlite:///marquee.db, or PostgreSQL")


def shown(url: URL) -> str:
    """The URL without its secrets."""
    hidden = {name: _HIDDEN for name in url.query if name not in _SHOWN}
    text = url.update_query_dict(hidden).render_as_string(hide_password=True)
    return text.replace(quote_plus(_HIDDEN), _HIDDEN)


def _engine(url: URL, lock_seconds: float) -> Engine:
    shown_url = shown(url)
    try:
        match url.get_backend_name():
            case "sqlite":
                return _sqlite(url, lock_seconds)
            case "postgresql":
                return _postgresql(url, lock_seconds)
            case _:
                raise exc.ArgumentError
    except exc.ArgumentError as error:
        raise ConfigError(f"ledger {shown_url}: unknown kind of database; want sqlite:/// or postgresql://") from error
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"ledger {shown_url}: its driver {error.name!r} is missing; install marquee[postgres]"
        ) from error


def _sqlite(url: URL, lock_seconds: float) -> Engine:
    engine = create_engine(url, poolclass=NullPool, connect_args={"timeout": lock_seconds})
    event.listen(engine, "connect", _durable_and_plain)
    event.listen(engine, "begin", _begin_immediately)
    return engine


def _durable_and_plain(dbapi_connection: Any, _record: object) -> None:
    dbapi_connection.isolation_level = None  # _begin_immediately begins transactions, not the driver.
    # FULL, the default, may undo the last commit when power fails right after it: the folder is not synced after the
    # rollback journal has been removed. A charge that was undone after its noise was drawn would be a lost charge.
    dbapi_connection.execute("PRAGMA synchronous = EXTRA")


def _begin_immediately(connection: Connection) -> None:
    # The write lock comes first: between reading what remains and charging it no other process can charge.
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _postgresql(url: URL, lock_seconds: float) -> Engine:
    """An engine at isolation level READ COMMITTED, whatever the server's default.

    Every transaction that charges first locks the dataset's row (SELECT ... FOR UPDATE), which also holds the sum of
    its charges. At this level, a statement that has waited for a lock reads the row as the holder left it, and later
    statements see everything that was committed before them. Two charges of a dataset therefore follow each other as
    if alone. Locks are taken in one order (dataset, layout, release), so that there is no deadlock. REPEATABLE READ, a
    snapshot of the whole transaction, would read stale sums. SERIALIZABLE would turn waiting into failures and prove
    no more.
    """
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    engine = create_engine(
        url,
        isolation_level="READ COMMITTED",
        pool_size=1,  # One connection, kept between answers and checked before each use.
        pool_pre_ping=True,
        connect_args={"connect_timeout": max(2, round(lock_seconds))},
    )
    event.listen(engine, "connect", _settings(lock_seconds))
    return engine


def _settings(lock_seconds: float) -> Callable[[Any, object], None]:
    def prepare(dbapi_connection: Any, _record: object) -> None:
        with dbapi_connection.cursor() as cursor:
            cursor.execute(f"SET lock_timeout = {max(1, round(1000 * lock_seconds))}")
            # Without this setting a server may confirm a commit before it is on disk, and then lose a charge.
            durable = "SELECT set_config('synchronous_commit', 'on', false)"
            cursor.execute(f"{durable} WHERE current_setting('synchronous_commit') = 'off'")
        dbapi_connection.commit()

    return prepare
