"""The roles of the runbook on PostgreSQL: what each duty needs, and what is denied to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction

import pytest
from sqlalchemy import exc

from dpcore.errors import ConfigError
from dpcore.kernel.budget import Budget
from jobs.ledger import SqlLedger
from jobs.ledger.records import Accounting, State
from jobs.ledger.windows import Window
from tests.support.datasets import ROOT
from tests.support.ledgers import FIRST, PERSONS, file_content, past_the_ledger, planned, reserve
from tests.support.postgres import Server

(RIGHTS,) = re.findall(r"```sql\n(.*?)```", (ROOT / "deploy" / "RUNBOOK.md").read_text(), re.DOTALL)
RUN, READ, WORKER = "marquee_run", "marquee_read", "marquee_worker"
ROLES = (RUN, READ, WORKER)
APPEND_ONLY = (
    "charges", "grants", "places", "contents", "partitionings", "release_blocks",
    "series", "series_steps", "series_history", "thresholds",
)  # fmt: skip
TABLES = ("ledger_info", "datasets", "consumers", "releases", *APPEND_ONLY)
SECRETS = {
    "datasets": ("salt", "fingerprint_key"), "releases": ("fingerprint",), "ledger_info": ("content_key",),
    "places": ("path",), "contents": ("digest",), "series_history": ("counts",),
}  # fmt: skip
DENIED = "permission denied|must be owner"


@pytest.fixture(scope="module")
def database(postgres: Server) -> Iterator[str]:
    """The name of a database with a ledger in which one release is charged, and with the roles of the runbook."""
    url = postgres.database()
    name = url.partition("@/")[2].partition("?")[0]
    owner = SqlLedger(url)
    owner.create_dataset("adult", 1.0, 1e-6, accounting=Accounting.ZCDP, protection=PERSONS)
    owner.grant_consumer("adult", "team", 0.9, 1e-6, Window.MONTH)
    for statement in [*(f"CREATE ROLE {role} LOGIN" for role in ROLES), *RIGHTS.splitlines()]:
        postgres.run(name, statement)
    runner = SqlLedger(postgres.url(name, RUN))
    reserve(runner, budget=Budget.zcdp(Fraction(1, 1000)), consumer="team", contents=(file_content("a"),))
    runner.record_answer(FIRST, 0, None, "h")
    runner.advance(FIRST, State.PUBLISHED, output="/out")
    yield name
    for role in ROLES:
        postgres.run(name, f"DROP OWNED BY {role}")
        postgres.run(name, f"DROP ROLE {role}")


def test_the_releaser_can_charge(postgres: Server, database: str) -> None:
    runner = SqlLedger(postgres.url(database, RUN))
    assert len(runner.history("adult")) == 1
    assert runner.secrets("adult").salt


def test_the_reader_verifies_and_shows_without_the_secrets(postgres: Server, database: str) -> None:
    reader, owner = SqlLedger(postgres.url(database, READ)), SqlLedger(postgres.url(database))
    assert reader.ledger_id() == owner.ledger_id()
    assert reader.release(FIRST) == owner.release(FIRST)
    assert reader.charged_at(FIRST) == owner.charged_at(FIRST)
    for ask in (
        SqlLedger.datasets,
        lambda ledger: ledger.verified("adult"),
        lambda ledger: ledger.history("adult"),
        lambda ledger: ledger.grants("adult"),
        lambda ledger: ledger.consumers("adult"),
    ):
        assert ask(reader) == ask(owner)
    with pytest.raises(ConfigError, match="InsufficientPrivilege"):
        reader.secrets("adult")


@pytest.mark.parametrize("role", [READ, WORKER])
def test_nobody_else_can_charge(postgres: Server, database: str, role: str) -> None:
    ledger = SqlLedger(postgres.url(database, role))
    with pytest.raises(ConfigError, match="InsufficientPrivilege"):
        ledger.plan(planned("b" * 64))
    with pytest.raises(ConfigError, match="InsufficientPrivilege"):
        ledger.advance(FIRST, State.PUBLISHED, output="/elsewhere")
    with pytest.raises(ConfigError, match="InsufficientPrivilege"):
        ledger.record_answer(FIRST, 1, "h", "h2")


@pytest.mark.parametrize("role", ROLES)
def test_the_owner_alone_decides(postgres: Server, database: str, role: str) -> None:
    ledger = SqlLedger(postgres.url(database, role))
    for decision in (
        lambda: ledger.create_dataset("another", 1.0, 0.0),
        lambda: ledger.raise_total("adult", 2.0, 1e-6, "more"),
        lambda: ledger.grant_consumer("adult", "another", 1.0, 1e-6),
    ):
        with pytest.raises(ConfigError, match="InsufficientPrivilege"):
            decision()


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("statement", [
    "UPDATE datasets SET total = '9'",
    "UPDATE datasets SET unit = 'row_id'",
    "UPDATE consumers SET total = '9'",
    "UPDATE contents SET dataset = 'another'",
    "UPDATE ledger_info SET content_key = ''",
    *(f"DELETE FROM {table}" for table in TABLES),
    *(f"TRUNCATE {table} CASCADE" for table in TABLES),
    *(f"DROP TABLE {table} CASCADE" for table in TABLES),
    *(f"DROP TRIGGER {table}_append_only ON {table}" for table in APPEND_ONLY),
    *(f"ALTER TABLE {table} DISABLE TRIGGER ALL" for table in APPEND_ONLY),
    "CREATE TABLE more (name TEXT)",
    "CREATE OR REPLACE FUNCTION marquee_append_only() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$",
])  # fmt: skip
def test_no_role_takes_back_what_was_charged(postgres: Server, database: str, role: str, statement: str) -> None:
    with pytest.raises(exc.ProgrammingError, match=DENIED):
        past_the_ledger(postgres.url(database, role), statement)


@pytest.mark.parametrize("table", TABLES)
def test_a_worker_reads_nothing_and_a_reader_no_secret(postgres: Server, database: str, table: str) -> None:
    with pytest.raises(exc.ProgrammingError, match=DENIED):
        past_the_ledger(postgres.url(database, WORKER), f"SELECT 1 FROM {table}")
    for column in SECRETS.get(table, ()):
        with pytest.raises(exc.ProgrammingError, match=DENIED):
            past_the_ledger(postgres.url(database, READ), f"SELECT {column} FROM {table}")


def test_every_column_that_is_no_secret_is_named_to_the_reader(postgres: Server, database: str) -> None:
    for table in ("datasets", "releases", "ledger_info"):
        names = [name for (name,) in postgres.run(database, f"SELECT attname FROM pg_attribute WHERE attnum > 0 "
                 f"AND attrelid = '{table}'::regclass")]  # fmt: skip
        public = [name for name in names if name not in SECRETS[table]]
        assert len(public) < len(names)
        past_the_ledger(postgres.url(database, READ), f"SELECT {', '.join(public)} FROM {table}")
