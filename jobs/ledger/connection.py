"""The ledger's database: transactions that take their lock before they read."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, final
from urllib.parse import quote_plus

from sqlalchemy import Connection, Engine, create_engine, event, exc
from sqlalchemy.engine import URL, make_url
from sqlalchemy.pool import NullPool

from dpcore.errors import ConfigError, IntegrityError, LedgerUnavailableError
from jobs.permissions import protect_ledger
from pipelines.foreign_errors import cause_of

_SMALLEST_PAGE = 512  # Bytes; no SQLite file is shorter, unless it is empty.
# Only these URL parameters are shown, because the value of any other may be a secret (password, sslpassword, passfile).
_SHOWN = frozenset({"host", "hostaddr", "port", "user", "dbname", "sslmode", "application_name", "connect_timeout"})
_HIDDEN = "***"


@final
class Database:
    """A database by URL. Nothing is opened or created before the first transaction.

    Connections to a server are kept until the last reference to this object is gone.

    url: URL of a SQLite or PostgreSQL database.
    lock_seconds: Maximum wait for a lock, in seconds.

    Raises: ConfigError when the URL is invalid or names another kind of database.
    """

    def __init__(self, url: str, lock_seconds: float) -> None:
        self._url = _parsed(url)
        self._engine = _engine(self._url, lock_seconds)
        # Not at exit: a forked process must not end the connections of its parent.
        weakref.finalize(self, self._engine.dispose).atexit = False

    @property
    def shown_url(self) -> str:
        """The URL without secrets. The path of a SQLite file is absolute."""
        return _shown_absolute(self._url)

    @contextmanager
    def transaction(self, create: bool = False, snapshot: bool = False) -> Iterator[Connection]:
        """Opens one transaction. It is durable after the block has ended, and rolled back if the block raises.

        If the commit itself fails, it is unknown whether the transaction took place. Every method of the ledger may
        therefore be called again.

        create: Whether to create a missing SQLite file.
        snapshot: Whether all statements see one state of the ledger. Nothing can be written then. PostgreSQL needs no
            right to write for it; SQLite always takes the write lock.

        Raises: LedgerUnavailableError when the server cannot be reached, the lock is held for too long, the disk is
            full, or the server asks for a retry (a deadlock); ConfigError when the database is not a ledger, or its
            file is read-only or can be changed by everybody; IntegrityError when a SQLite file is damaged.
        """
        self._check_file(create)
        try:
            with self._engine.begin() as connection:
                if self._file is not None:  # SQLite has read it by now, so it is a database.
                    protect_ledger(self._file)
                elif snapshot:
                    connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
                yield connection
        except (exc.OperationalError, exc.InterfaceError, exc.TimeoutError) as error:
            if "Could not decode to UTF-8" in str(getattr(error, "orig", "")):  # A text in a row is damaged.
                raise self._damaged() from cause_of(error)
            if self._is_read_only(error):
                raise ConfigError(
                    f"ledger {self.shown_url} is read-only; want a file and a folder that this user may write"
                ) from cause_of(error)
            raise LedgerUnavailableError(
                f"ledger {self.shown_url} cannot be reached, is locked, or its disk is full; try again"
            ) from cause_of(error)
        except exc.DatabaseError as error:
            if _sqlite_name(error) == "SQLITE_NOTADB":
                raise self._not_a_database() from cause_of(error)
            if _sqlite_name(error) == "SQLITE_CORRUPT":
                raise self._damaged() from cause_of(error)
            raise ConfigError(
                f"ledger {self.shown_url} refused the transaction ({type(error.orig).__name__}); want a database that "
                "Marquee created, and a role with access to it"
            ) from cause_of(error)
        except UnicodeDecodeError as error:  # SQLite quotes damaged definitions of tables.
            raise self._damaged() from cause_of(error)

    def exists(self) -> bool:
        """Whether the database exists: a file that is not empty. A server is assumed to exist until it is used."""
        return self._file is None or (self._file.exists() and self._file.stat().st_size > 0)

    @property
    def _file(self) -> Path | None:
        return Path(str(self._url.database)) if self._url.get_backend_name() == "sqlite" else None

    def _is_read_only(self, error: exc.DBAPIError | exc.TimeoutError) -> bool:
        """Whether a file of SQLite, or the folder of its rollback journal, cannot be written."""
        name = _sqlite_name(error)
        if self._file is None or name not in ("SQLITE_IOERR", "SQLITE_CANTOPEN"):
            return name == "SQLITE_READONLY"
        # What SQLite says of a folder that became read-only within a transaction.
        file = Path(os.path.realpath(self._file))
        return file.exists() and not all(os.access(place, os.W_OK, effective_ids=True) for place in (file, file.parent))

    def _check_file(self, create: bool) -> None:
        """Creates a missing file if that is allowed, and refuses a file that is not a database.

        SQLite itself would create any missing file, and would write to some files that are not databases.
        """
        if self._file is None:
            return
        if self._file.exists():
            self._check_kind(self._file)
            return
        if not create:
            raise LedgerUnavailableError(f"ledger {self.shown_url} does not exist; want the existing ledger file")
        if not self._file.parent.is_dir():
            raise ConfigError(f"the folder of ledger {self.shown_url} does not exist; want an existing folder")
        # The file will hold secrets, so only its owner may read it. A file that another process has just created must
        # not be opened here: see _check_kind.
        with suppress(FileExistsError):
            os.close(os.open(os.path.realpath(self._file), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))

    def _check_kind(self, file: Path) -> None:
        """Refuses files that are too short to be a database, because SQLite overwrites a file of one byte.

        The file must not be opened here: closing it would drop the locks that this process holds on it through SQLite.
        """
        if not file.is_file():
            raise ConfigError(f"ledger {self.shown_url} is not a file; want a database that Marquee created")
        if 0 < file.stat().st_size < _SMALLEST_PAGE:
            raise self._not_a_database()

    def _damaged(self) -> IntegrityError:
        return IntegrityError(
            f"ledger {self.shown_url} is damaged; restore its backup, and never start with an empty one"
        )

    def _not_a_database(self) -> ConfigError:
        return ConfigError(
            f"ledger {self.shown_url} is not a SQLite database; want a database that Marquee created; if it was one, "
            "restore its backup"
        )


def _sqlite_name(error: exc.DBAPIError | exc.TimeoutError) -> str | None:
    """The primary error code of SQLite, such as SQLITE_READONLY; None for other errors and databases."""
    name = getattr(getattr(error, "orig", None), "sqlite_errorname", None)
    return None if name is None else "_".join(name.split("_")[:2])


def _parsed(url: str) -> URL:
    """Parses the URL. No message quotes it, because in a malformed URL the password may be anywhere."""
    try:
        parsed = make_url(url)
    except (exc.ArgumentError, ValueError):
        raise ConfigError("privacy.ledger is not a database URL; want one such as sqlite:///marquee.db") from None
    if parsed.get_backend_name() == "sqlite" and parsed.host is None:
        _check_sqlite(parsed)
    elif url.count("@") > 1:
        raise ConfigError("the ledger's URL contains more than one @; write each @ in the password as %40")
    return parsed


def _check_sqlite(url: URL) -> None:
    """Refuses databases in memory, which would lose every charge when the process ends."""
    if url.database in (None, "", ":memory:") or str(url.database).startswith("file:") or "uri" in url.query:
        raise ConfigError("the ledger's URL names no file; want a file, such as sqlite:///marquee.db, or PostgreSQL")


def shown_ledger(url: str) -> str:
    """The URL of a ledger without its secrets. The path of a SQLite file is absolute. Nothing is opened.

    Raises: ConfigError when the URL is invalid.
    """
    return _shown_absolute(_parsed(url))


def _shown_absolute(url: URL) -> str:
    is_file = url.get_backend_name() == "sqlite" and url.database is not None
    return shown(url.set(database=os.path.abspath(str(url.database))) if is_file else url)


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
    engine = create_engine(
        url,
        poolclass=NullPool,
        hide_parameters=True,  # A message of SQLAlchemy would otherwise quote the salt and the fingerprint.
        connect_args={"timeout": lock_seconds},
    )
    event.listen(engine, "connect", _durable_and_plain)
    event.listen(engine, "begin", _begin_immediately)
    return engine


def _durable_and_plain(dbapi_connection: Any, _record: object) -> None:
    dbapi_connection.isolation_level = None  # Transactions are begun by _begin_immediately, not by the driver.
    # FULL, the default, does not sync the folder after removing the rollback journal, so a power failure right after a
    # commit may undo it. If the noise was already drawn by then, its charge would be lost.
    dbapi_connection.execute("PRAGMA synchronous = EXTRA")


def _begin_immediately(connection: Connection) -> None:
    # The write lock is taken first, so that no other process can charge between the reading of the remaining budget and
    # the charge.
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _postgresql(url: URL, lock_seconds: float) -> Engine:
    """An engine with isolation level READ COMMITTED, whatever the server's default is.

    Every transaction that charges first locks the dataset's row (SELECT ... FOR UPDATE), which also holds the sum of
    the charges. At this level, a statement that has waited for a lock reads the row as the previous holder left it, and
    later statements see everything that was committed before them. Two charges of a dataset therefore never overlap.
    All transactions take their locks in the same order (dataset, layout, release), which excludes deadlocks.
    REPEATABLE READ would read stale sums from a snapshot. SERIALIZABLE would replace waiting by failures, and would
    guarantee no more.
    """
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    engine = create_engine(
        url,
        isolation_level="READ COMMITTED",
        hide_parameters=True,
        pool_size=1,  # One connection is kept between answers, and checked before each use.
        pool_pre_ping=True,
        connect_args={"connect_timeout": max(2, round(lock_seconds))},
    )
    event.listen(engine, "connect", _settings(lock_seconds))
    return engine


def _settings(lock_seconds: float) -> Callable[[Any, object], None]:
    def prepare(dbapi_connection: Any, _record: object) -> None:
        with dbapi_connection.cursor() as cursor:
            cursor.execute(f"SET lock_timeout = {max(1, round(1000 * lock_seconds))}")
            # With synchronous_commit off, a server may confirm a commit before it is on disk, and then lose a charge.
            durable = "SELECT set_config('synchronous_commit', 'on', false)"
            cursor.execute(f"{durable} WHERE current_setting('synchronous_commit') = 'off'")
        dbapi_connection.commit()

    return prepare
