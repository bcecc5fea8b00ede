"""The layout of the ledger: an older one is migrated as a whole, and a newer one is refused."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import pytest
from sqlalchemy import exc

from dpcore.errors import BudgetExceededError, ConfigError, IntegrityError, NoBudgetError
from dpcore.kernel.budget import Budget, Currency
from jobs.ledger import SqlLedger
from jobs.ledger import schema as ledger_schema
from jobs.ledger.records import State
from tests.support.ledgers import PERSONS, past_the_ledger, planned, reserve
from tests.support.postgres import Server

# As layout 1 wrote them.
LAYOUT_1 = (
    "CREATE TABLE datasets (name VARCHAR(200) NOT NULL, path TEXT, currency VARCHAR(20) NOT NULL, total TEXT NOT NULL, "
    "epsilon {float} NOT NULL, delta {float} NOT NULL, salt {bytes} NOT NULL, fingerprint_key {bytes} NOT NULL, "
    "created VARCHAR(40) NOT NULL, PRIMARY KEY (name), UNIQUE (path))",
    "CREATE TABLE releases (release_id VARCHAR(64) NOT NULL, dataset VARCHAR(200) NOT NULL, currency VARCHAR(20) NOT "
    "NULL, amount TEXT NOT NULL, state VARCHAR(20) NOT NULL, fingerprint VARCHAR(64) NOT NULL, state_folder TEXT NOT "
    "NULL, journal_head VARCHAR(64), output TEXT, created VARCHAR(40) NOT NULL, updated VARCHAR(40) NOT NULL, "
    "PRIMARY KEY (release_id), FOREIGN KEY(dataset) REFERENCES datasets (name))",
    "CREATE TABLE charges (number {serial} NOT NULL, dataset VARCHAR(200) NOT NULL, release_id VARCHAR(64) NOT NULL, "
    "amount TEXT NOT NULL, charged VARCHAR(40) NOT NULL, PRIMARY KEY (number), FOREIGN KEY(dataset) REFERENCES "
    "datasets (name), UNIQUE (release_id), FOREIGN KEY(release_id) REFERENCES releases (release_id))",
)
TRIGGERS_1 = tuple(
    f"CREATE TRIGGER charges_refuse_{verb.lower()} BEFORE {verb} ON charges "
    "BEGIN SELECT RAISE(ABORT, 'charges are append-only'); END"
    for verb in ("UPDATE", "DELETE")
)
TYPES = {
    "sqlite": {"float": "FLOAT", "bytes": "BLOB", "serial": "INTEGER"},
    "postgresql": {"float": "FLOAT", "bytes": "BYTEA", "serial": "SERIAL"},
}
DAY = "2026-11-01T00:00:00+00:00"
RELEASES_1 = {"a": ("1/3", "measuring", "'h'"), "b": ("1/7", "published", "'w'"), "c": ("1/9", "planned", "NULL")}


def write_layout_1(url: str) -> None:
    """A ledger of layout 1 with two datasets, two charges and a release that was only planned."""
    dialect = url.partition(":")[0]
    secret = {"sqlite": "X'0102'", "postgresql": "'\\x0102'"}[dialect]
    statements = [statement.format_map(TYPES[dialect]) for statement in LAYOUT_1]
    statements += TRIGGERS_1 if dialect == "sqlite" else ()
    for name, currency, total, delta in (("adult", "epsilon", "1", 0), ("retail", "rho", "1/50", 1e-6)):
        values = f"'{name}', '/data/{name}', '{currency}', '{total}', 1.0, {delta}, {secret}, {secret}, '{DAY}'"
        statements.append(f"INSERT INTO datasets VALUES ({values})")
    for name, (amount, state, head) in RELEASES_1.items():
        values = f"'{name * 64}', 'adult', 'epsilon', '{amount}', '{state}', 'f', '/state', {head}, NULL"
        statements.append(f"INSERT INTO releases VALUES ({values}, '{DAY}', '{DAY}')")
        if state != "planned":
            columns = "(dataset, release_id, amount, charged)"
            statements.append(f"INSERT INTO charges {columns} VALUES ('adult', '{name * 64}', '{amount}', '{DAY}')")
    past_the_ledger(url, *statements)


def test_layout_1_is_moved_with_all_that_it_holds(ledger_url: str) -> None:
    write_layout_1(ledger_url)
    ledger = SqlLedger(ledger_url)
    adult, retail = ledger.datasets()
    assert (adult.spent, adult.total, adult.path, ledger.secrets("adult").salt) == (
        Fraction(10, 21),
        1,
        "/data/adult",
        b"\1\2",
    )
    assert (retail.currency, retail.total, retail.spent) == (Currency.ZCDP, Fraction(1, 50), 0)
    charges = [(charge.release_id[0], charge.amount, charge.charged) for charge in ledger.history("adult")]
    assert charges == [("a", Fraction(1, 3), DAY), ("b", Fraction(1, 7), DAY)]
    records = {name: ledger.release(name * 64) for name in RELEASES_1}
    found = {name: (one.state.value, one.answers, one.journal_head) for name, one in records.items() if one}
    assert found == {"a": ("measuring", None, "h"), "b": ("published", None, "w"), "c": ("planned", 0, None)}
    assert [(grant.epsilon, grant.reason, grant.granted) for grant in ledger.grants("adult")] == [(1, "created", DAY)]
    assert past_the_ledger(ledger_url, "SELECT version FROM ledger_info") == [(6,)]


def test_processes_that_find_layout_1_together_move_it_once(ledger_url: str) -> None:
    write_layout_1(ledger_url)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: SqlLedger(ledger_url).datasets(), range(4)))
    assert found == [found[0]] * 4
    assert len(SqlLedger(ledger_url).history("adult")) == 2


def test_a_moved_ledger_works_on(ledger_url: str) -> None:
    write_layout_1(ledger_url)
    ledger = SqlLedger(ledger_url)
    with pytest.raises(IntegrityError, match="planned by an older version"):
        ledger.reserve("c" * 64, Budget.pure(Fraction(1, 9)))
    with pytest.raises(NoBudgetError, match="did not record whom its charges protect"):
        reserve(ledger, "c" * 64, Budget.pure(Fraction(1, 9)))
    held = ledger.dataset("adult", 1, 0)
    ledger.create_dataset("adult", held.epsilon, held.delta, protection=PERSONS)
    assert ledger.grants("adult")[-1].reason == "bound; stated also for earlier charges, which did not record it"
    reserve(ledger, "c" * 64, Budget.pure(Fraction(1, 9)))
    reserve(ledger, "d" * 64)
    with pytest.raises(BudgetExceededError):
        reserve(ledger, "e" * 64)
    ledger.adopt_journal("a" * 64, 5, "fifth")
    ledger.adopt_journal("a" * 64, 5, "fifth")
    for answers, head in ((5, "another fifth"), (4, "fifth")):
        with pytest.raises(IntegrityError):
            ledger.adopt_journal("a" * 64, answers, head)
    ledger.record_answer("a" * 64, 5, "fifth", "sixth")
    record = ledger.release("a" * 64)
    assert record is not None
    assert (record.state, record.answers) == (State.MEASURING, 6)
    with pytest.raises(exc.DBAPIError, match="append-only"):
        past_the_ledger(ledger_url, "DELETE FROM charges")
    assert len(ledger.history("adult")) == 4


def test_a_program_of_layout_1_can_charge_no_more(ledger_url: str) -> None:
    write_layout_1(ledger_url)
    SqlLedger(ledger_url).datasets()
    with pytest.raises(exc.IntegrityError, match="window_start"):
        past_the_ledger(
            ledger_url,
            "INSERT INTO charges (dataset, release_id, amount, charged) VALUES "
            f"('adult', '{'c' * 64}', '1/9', '{DAY}')",
        )


def test_a_move_that_fails_leaves_the_old_ledger(ledger_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write_layout_1(ledger_url)

    def died(*_: object) -> dict[str, object]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(ledger_schema, "_first_grant", died)
        with pytest.raises(KeyboardInterrupt):
            SqlLedger(ledger_url).datasets()
    assert len(past_the_ledger(ledger_url, "SELECT dataset, release_id, amount, charged FROM charges")) == 2
    assert len(SqlLedger(ledger_url).datasets()) == 2


@pytest.mark.parametrize(
    ("version", "says"), [(7, "layout 7, but this program supports only layouts up to 6"), (0, "layout 0")]
)
def test_an_unknown_layout_is_refused(ledger_url: str, version: int, says: str) -> None:
    ledger = SqlLedger(ledger_url)
    ledger.create_dataset("adult", 1.0, 0.0)
    past_the_ledger(ledger_url, f"UPDATE ledger_info SET version = {version}")
    for one in (ledger, SqlLedger(ledger_url)):  # One that has found the layout it knows before, and one that has not.
        with pytest.raises(ConfigError, match=says):
            one.plan(planned())
        with pytest.raises(ConfigError, match=says):
            one.create_dataset("another", 1.0, 0.0)


def test_a_ledger_without_a_version_is_refused(ledger_url: str) -> None:
    SqlLedger(ledger_url).create_dataset("adult", 1.0, 0.0)
    past_the_ledger(ledger_url, "DELETE FROM ledger_info")
    with pytest.raises(ConfigError, match="does not state one version"):
        SqlLedger(ledger_url).datasets()


def test_the_tables_of_something_else_are_left_alone(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    past_the_ledger(url, "CREATE TABLE datasets (id INTEGER)")
    for ask in (lambda: SqlLedger(url).datasets(), lambda: SqlLedger(url).create_dataset("adult", 1.0, 0.0)):
        with pytest.raises(ConfigError, match="want a database for Marquee alone"):
            ask()


def test_a_role_that_may_not_move_the_ledger_says_who_may(postgres: Server) -> None:
    url = postgres.database()
    name = url.partition("@/")[2].partition("?")[0]
    write_layout_1(url)
    postgres.run(name, f"CREATE ROLE mover_{name} LOGIN")
    postgres.run(name, f"GRANT SELECT, INSERT, UPDATE ON datasets, releases, charges TO mover_{name}")
    with pytest.raises(ConfigError, match="run marquee budget show once as the owner of the tables"):
        SqlLedger(postgres.url(name, f"mover_{name}")).datasets()
    assert len(SqlLedger(url).datasets()) == 2
