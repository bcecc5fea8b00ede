"""The ledger's database: connections and locks, and what the database refuses to other programs."""

from __future__ import annotations

import gc
import re
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import exc

from dpcore.errors import ConfigError, IntegrityError, LedgerUnavailableError, NoBudgetError
from jobs.ledger import SqlLedger, connection
from jobs.ledger.connection import Database
from jobs.ledger.records import Accounting, State
from tests.support.datasets import ROOT
from tests.support.ledgers import FIRST, file_content, past_the_ledger, planned, reserve
from tests.support.postgres import Server


def sqlite_url(folder: Path) -> str:
    return f"sqlite:///{folder / 'ledger.db'}"


def test_only_creating_a_budget_creates_a_file(tmp_path: Path) -> None:
    with pytest.raises(NoBudgetError, match="marquee budget create"):
        SqlLedger(sqlite_url(tmp_path)).dataset("adult", 1.0, 0.0)
    with pytest.raises(NoBudgetError, match="there is no ledger at .* restore its backup"):
        SqlLedger(sqlite_url(tmp_path)).plan(planned())
    assert list(tmp_path.iterdir()) == []


def test_no_connection_outlives_its_ledger(postgres: Server) -> None:
    """Not even until the next collection of garbage: a scheduler makes a ledger for each release."""
    url = postgres.emptied()
    gc.disable()
    try:
        for number in range(5):
            SqlLedger(url).create_dataset(f"adult-{number}", 1.0, 0.0)
            held = postgres.run(
                "postgres",
                "SELECT count(*) FROM pg_stat_activity WHERE datname = 'postgres' AND pid <> pg_backend_pid()",
            )
            assert held[0][0] <= 1
    finally:
        gc.enable()


def test_a_refused_budget_creates_no_file(tmp_path: Path) -> None:
    for delta, accounting in ((0.0, Accounting.GDP), (1e-310, Accounting.AUTO)):
        with pytest.raises(ConfigError):
            SqlLedger(sqlite_url(tmp_path)).create_dataset("adult", 1.0, delta, accounting=accounting)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_is_no_ledger_until_one_is_made_in_it(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    file.touch()
    ledger = SqlLedger(sqlite_url(tmp_path))
    for ask in (
        ledger.check_there,
        lambda: ledger.dataset("adult", 1.0, 0.0),
        lambda: ledger.history("adult"),
        lambda: ledger.plan(planned()),
    ):
        with pytest.raises(
            NoBudgetError, match="if there was one, restore its backup, otherwise create one with: marquee"
        ):
            ask()
    assert file.stat().st_size == 0
    ledger.create_dataset("adult", 1.0, 0.0)
    ledger.check_there()


def test_a_database_without_tables_asks_for_its_backup_first(tmp_path: Path) -> None:
    past_the_ledger(sqlite_url(tmp_path), "CREATE TABLE something (id INTEGER)")
    with pytest.raises(
        NoBudgetError, match="restore its backup, otherwise create one with: .* --dataset adult --epsilon 1 --delta 0$"
    ):
        SqlLedger(sqlite_url(tmp_path)).dataset("adult", 1.0, 0.0)


@pytest.mark.parametrize(("address", "says"), [
    ("nonsense", "not a database URL"),
    ("sybase://host/db", "unknown kind of database"),
    ("mysql://host/db", "unknown kind of database"),
    ("postgresql+nodriver://host/db", "unknown kind of database"),
    ("postgresql://host:port/db", "not a database URL"),
    ("sqlite:////no/such/folder/l.db", "folder"),
    ("sqlite://", "want a file, such as .* or PostgreSQL"),
    ("sqlite:///", "want a file, such as .* or PostgreSQL"),
    ("sqlite:///:memory:", "want a file, such as .* or PostgreSQL"),
    ("sqlite:///file:x?mode=memory&uri=true", "want a file, such as .* or PostgreSQL"),
])  # fmt: skip
def test_a_bad_url_is_a_config_error(address: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        SqlLedger(address).create_dataset("adult", 1.0, 0.0)


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    for content in ("x", "xx", "SQLite format", "not a database " * 100):
        (tmp_path / "ledger.db").write_text(content)
        ledger = SqlLedger(sqlite_url(tmp_path))
        for ask in (
            ledger.datasets,
            lambda known=ledger: known.dataset("adult", 1.0, 0.0),
            lambda known=ledger: known.create_dataset("adult", 1.0, 0.0),
        ):
            with pytest.raises(ConfigError, match="is not a SQLite database; want a database that Marquee created"):
                ask()
        assert (tmp_path / "ledger.db").read_text() == content
        assert len(list(tmp_path.iterdir())) == 1


def test_another_transaction_of_the_process_leaves_the_lock_in_place(tmp_path: Path) -> None:
    """A file that is opened and closed beside SQLite loses every lock that the process holds on it."""
    SqlLedger(sqlite_url(tmp_path)).create_dataset("adult", 1.0, 0.0)
    other = (
        "import sqlite3, sys\n"
        "holder = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)\n"
        "holder.execute('BEGIN IMMEDIATE')"
    )
    with Database(sqlite_url(tmp_path), 1).transaction():
        with pytest.raises(LedgerUnavailableError, match="locked"):
            SqlLedger(sqlite_url(tmp_path), lock_seconds=0.05).create_dataset("retail", 1.0, 0.0)
        found = subprocess.run(
            [sys.executable, "-c", other, str(tmp_path / "ledger.db")], capture_output=True, text=True, check=False
        )
    assert found.stderr.rstrip().endswith("database is locked")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").mkdir()
    with pytest.raises(ConfigError, match="is not a file"):
        SqlLedger(sqlite_url(tmp_path)).create_dataset("adult", 1.0, 0.0)


@pytest.mark.parametrize("address", [
    "postgresql://bob:SECRET@127.0.0.1:1/db",
    "postgresql://bob:SEC%40RET@127.0.0.1:1/db",
    "postgresql://bob@127.0.0.1:1/db?password=SECRET",
    "postgresql://bob@127.0.0.1:1/db?sslpassword=SECRET&passfile=RET",
    "postgresql://bob@127.0.0.1:1/db?options=SECRET",
])  # fmt: skip
def test_no_secret_of_a_url_is_shown(address: str) -> None:
    ledger = SqlLedger(address)
    with pytest.raises(LedgerUnavailableError) as refused:
        ledger.datasets()
    for shown in (ledger.shown_url, str(refused.value)):
        assert "RET" not in shown
        assert "SEC" not in shown
        assert "bob" in shown
        assert "***" in shown


def test_parameters_that_say_where_the_server_is_are_shown() -> None:
    address = "postgresql://bob@/db?host=%2Ftmp%2Fs&port=5433"
    assert SqlLedger(address).shown_url == address


@pytest.mark.parametrize("address", [
    "postgresql://bob:SEC@RET@h/db",
    "postgresql://bob:SEC@RE/T@h/db",
    "postgresql://bob:SEC@RE?T@h/db",
    "mysql://bob:SEC@RET@h/db",
    "postgresql://bob:SECRET",
])  # fmt: skip
def test_a_url_whose_password_may_be_anywhere_is_refused_and_not_shown(address: str) -> None:
    with pytest.raises(ConfigError, match="write each @ in the password as %40|not a database URL") as refused:
        SqlLedger(address)
    assert not re.search("SEC|RE|bob", str(refused.value))


def test_a_server_that_is_away_is_unavailable_and_its_password_is_never_shown() -> None:
    address = "postgresql+psycopg://me:secret@127.0.0.1:1/db"
    with pytest.raises(LedgerUnavailableError) as refused:
        SqlLedger(address).create_dataset("adult", 1.0, 0.0)
    assert "127.0.0.1" in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_locked_file_is_unavailable(tmp_path: Path) -> None:
    ledger = SqlLedger(sqlite_url(tmp_path))
    ledger.create_dataset("adult", 1.0, 0.0)
    holder = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerUnavailableError, match="try again"):
        SqlLedger(sqlite_url(tmp_path), lock_seconds=0.05).plan(planned())
    holder.execute("ROLLBACK")
    holder.close()
    ledger.plan(planned())


def test_a_locked_row_is_unavailable(postgres: Server) -> None:
    url = postgres.database()
    ledger = SqlLedger(url)
    ledger.create_dataset("adult", 1.0, 0.0)
    with Database(url, 30).transaction() as holder:
        holder.exec_driver_sql("SELECT * FROM datasets FOR UPDATE")
        with pytest.raises(LedgerUnavailableError, match="try again"):
            SqlLedger(url, lock_seconds=0.05).plan(planned())
    ledger.plan(planned())


def test_a_deadlock_is_worth_another_try_and_charges_nothing(postgres: Server) -> None:
    """The ledger takes its locks in one order; here another program takes them in the opposite order."""
    url = postgres.database()
    ledger = SqlLedger(url)
    ledger.create_dataset("adult", 1.0, 0.0)
    ledger.plan(planned())
    outcomes: list[str] = []

    def reserved() -> None:
        try:
            ledger.reserve(FIRST, planned().budget)
            outcomes.append("charged")
        except LedgerUnavailableError:
            outcomes.append("refused")

    def stranger() -> None:
        try:
            with Database(url, 30).transaction() as connection:
                connection.exec_driver_sql("SELECT * FROM releases FOR UPDATE")
                thread.start()
                while not _waits(postgres):
                    pass
                connection.exec_driver_sql("SELECT * FROM datasets FOR UPDATE")
                outcomes.append("passed")
        except LedgerUnavailableError:
            outcomes.append("refused")

    thread = threading.Thread(target=reserved)
    stranger()
    thread.join()
    assert sorted(outcomes) in (["charged", "refused"], ["passed", "refused"])
    assert len(ledger.history("adult")) == outcomes.count("charged")
    ledger.reserve(FIRST, planned().budget)
    assert len(ledger.history("adult")) == 1


def _waits(postgres: Server) -> bool:
    return postgres.run("postgres", "SELECT count(*) FROM pg_locks WHERE NOT granted") != [(0,)]


def test_a_server_that_goes_away_and_comes_back(postgres: Server) -> None:
    url = postgres.database()
    name = url.partition("@/")[2].partition("?")[0]
    ledger = SqlLedger(url)
    ledger.create_dataset("adult", 1.0, 0.0)
    reserve(ledger)
    postgres.run("postgres", f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    postgres.run("postgres", f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
    with pytest.raises(LedgerUnavailableError):
        ledger.record_answer(FIRST, 0, None, "h")
    postgres.run("postgres", f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    ledger.record_answer(FIRST, 0, None, "h")
    postgres.run("postgres", f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
    ledger.advance(FIRST, State.ESTIMATED)  # A connection that broke while it was idle is replaced.


def _fill(database: Database) -> None:
    """As on a full disk: the file may not grow."""
    with database.transaction() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
        connection.exec_driver_sql("CREATE TABLE large AS SELECT zeroblob(1000000) AS zeros")


def test_a_full_disk_is_worth_another_try(tmp_path: Path) -> None:
    ledger = SqlLedger(sqlite_url(tmp_path))
    ledger.create_dataset("adult", 1.0, 0.0)
    ledger.plan(planned())
    with pytest.raises(LedgerUnavailableError, match="its disk is full"):
        _fill(Database(sqlite_url(tmp_path), 1))
    ledger.reserve(FIRST, planned().budget)


def test_commits_of_sqlite_are_on_disk_with_their_folder(tmp_path: Path) -> None:
    SqlLedger(sqlite_url(tmp_path)).create_dataset("adult", 1.0, 0.0)
    with Database(sqlite_url(tmp_path), 1).transaction() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar_one() == 3
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "delete"


def test_commits_of_postgresql_wait_for_the_disk_whatever_the_default(postgres: Server) -> None:
    url = postgres.database()
    name = url.partition("@/")[2].partition("?")[0]
    postgres.run("postgres", f"ALTER DATABASE {name} SET synchronous_commit = off")
    postgres.run("postgres", f"ALTER DATABASE {name} SET default_transaction_isolation = 'repeatable read'")
    with Database(url, 1).transaction() as connection:
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar_one() == "on"
        assert connection.exec_driver_sql("SHOW transaction_isolation").scalar_one() == "read committed"


@pytest.mark.parametrize("table", ["charges", "grants", "places", "contents"])
@pytest.mark.parametrize("statement", ["UPDATE {} SET dataset = 'again'", "DELETE FROM {}", "TRUNCATE {}"])
def test_records_are_append_only(ledger_url: str, table: str, statement: str) -> None:
    if statement.startswith("TRUNCATE") and ledger_url.startswith("sqlite"):
        statement = "REPLACE INTO {0} SELECT * FROM {0}"  # SQLite has no TRUNCATE, but another way round a DELETE.
    ledger = SqlLedger(ledger_url)
    ledger.create_dataset("adult", 1.0, 0.0)
    reserve(ledger, contents=(file_content("a"),))
    with pytest.raises(exc.DBAPIError, match=f"{table} are append-only"):
        past_the_ledger(ledger_url, statement.format(table))
    assert len(ledger.history("adult")) == 1


def test_a_read_only_ledger_is_no_reason_to_try_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attack "read-only ledger": exit code 5 sent a scheduler round and round; it is permanent."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    SqlLedger(url).create_dataset("adult", 1.0, 0.0)
    prepare = connection._durable_and_plain

    def read_only(dbapi_connection: Any, record: object) -> None:
        prepare(dbapi_connection, record)
        dbapi_connection.execute("PRAGMA query_only = ON")

    monkeypatch.setattr(connection, "_durable_and_plain", read_only)
    with pytest.raises(
        ConfigError, match=r"ledger\.db is read-only; want a file and a folder that this user may write"
    ):
        SqlLedger(url).raise_total("adult", 2.0, 0.0, "more")


def test_a_ledger_that_becomes_read_only_within_a_transaction_is_no_reason_to_try_again(tmp_path: Path) -> None:
    """Attack "read-only ledger" at another moment: SQLite cannot delete its rollback journal. In a process of its own,
    which gives up the right of root to write everywhere."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    SqlLedger(url).create_dataset("adult", 1.0, 0.0)
    program = f"""
import sqlalchemy
from jobs.ledger import SqlLedger
from tests.reliability.faults import ledger_read_only
from tests.support.ledgers import planned

def harm(connection, cursor, statement, *others):
    if statement.startswith("INSERT"):
        ledger_read_only({str(tmp_path)!r})

sqlalchemy.event.listen(sqlalchemy.Engine, "before_cursor_execute", harm)
SqlLedger({url!r}).plan(planned())
"""
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    for place in (tmp_path, tmp_path / "ledger.db"):
        place.chmod(place.stat().st_mode | 0o200)
    assert "ConfigError: ledger" in ended.stderr
    assert "is read-only; want a file and a folder that this user may write" in ended.stderr
    assert SqlLedger(url).release(FIRST) is None


def test_a_folder_that_is_gone_within_a_transaction_may_come_back(tmp_path: Path) -> None:
    """A share that is not mounted for a while is no read-only ledger."""
    (tmp_path / "share").mkdir()
    database = Database(f"sqlite:///{tmp_path / 'share' / 'ledger.db'}", 1)

    def lose_the_folder() -> None:
        with database.transaction(create=True) as connection:
            connection.exec_driver_sql("CREATE TABLE first (name TEXT)")
            (tmp_path / "share").rename(tmp_path / "elsewhere")

    with pytest.raises(LedgerUnavailableError, match="try again"):
        lose_the_folder()


def test_a_text_that_is_damaged_in_a_row_is_an_integrity_error(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    SqlLedger(url).create_dataset("adult", 1.0, 0.0)
    past_the_ledger(url, "UPDATE datasets SET created = CAST(X'80FF' AS TEXT)")
    with pytest.raises(IntegrityError, match=r"ledger\.db is damaged; restore its backup"):
        SqlLedger(url).datasets()


def test_a_damaged_ledger_is_an_integrity_error(tmp_path: Path) -> None:
    """Attack "damaged ledger": exit code 2 asked for another database, where only the backup helps."""
    path = tmp_path / "ledger.db"
    ledger = SqlLedger(f"sqlite:///{path}")
    ledger.create_dataset("adult", 1.0, 0.0)
    content = bytearray(path.read_bytes())
    content[100:8192] = b"\xff" * 8092
    path.write_bytes(content)
    with pytest.raises(IntegrityError, match=r"ledger\.db is damaged; restore its backup"):
        SqlLedger(f"sqlite:///{path}").datasets()
