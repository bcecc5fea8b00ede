"""A ledger of layout 2 is migrated with everything that it holds."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest
from sqlalchemy import exc

from dpcore.errors import ConfigError, NoBudgetError
from dpcore.kernel.budget import Currency
from dpcore.kernel.sensitivity import Neighbours
from jobs.ledger import SqlLedger
from jobs.ledger.records import OPEN, Protection, State
from jobs.ledger.windows import Window
from tests.support.ledgers import PERSONS, PURE, file_content, past_the_ledger, planned, reserve

DAY = "2026-11-01T00:00:00+00:00"
# As layout 2 wrote them.
LAYOUT_2 = (
    "CREATE TABLE datasets (name VARCHAR(200) NOT NULL, path TEXT, currency VARCHAR(20), total TEXT, spent TEXT NOT "
    "NULL, epsilon FLOAT NOT NULL, delta FLOAT NOT NULL, consumers_only BOOLEAN NOT NULL, salt {bytes} NOT NULL, "
    "fingerprint_key {bytes} NOT NULL, created VARCHAR(40) NOT NULL, PRIMARY KEY (name), UNIQUE (path))",
    "CREATE TABLE ledger_info (version INTEGER NOT NULL, PRIMARY KEY (version))",
    "CREATE TABLE consumers (dataset VARCHAR(200) NOT NULL, name VARCHAR(200) NOT NULL, refresh VARCHAR(10) NOT NULL, "
    "epsilon FLOAT NOT NULL, delta FLOAT NOT NULL, total TEXT, spent TEXT NOT NULL, window_start VARCHAR(10) NOT NULL, "
    "created VARCHAR(40) NOT NULL, PRIMARY KEY (dataset, name), FOREIGN KEY(dataset) REFERENCES datasets (name))",
    "CREATE TABLE grants (number {serial} NOT NULL, dataset VARCHAR(200) NOT NULL, consumer VARCHAR(200), refresh "
    "VARCHAR(10) NOT NULL, epsilon FLOAT NOT NULL, delta FLOAT NOT NULL, currency VARCHAR(20), amount TEXT, reason "
    "TEXT NOT NULL, granted VARCHAR(40) NOT NULL, PRIMARY KEY (number), FOREIGN KEY(dataset) REFERENCES datasets "
    "(name))",
    "CREATE TABLE releases (release_id VARCHAR(64) NOT NULL, dataset VARCHAR(200) NOT NULL, consumer VARCHAR(200), "
    "currency VARCHAR(20) NOT NULL, amount TEXT NOT NULL, state VARCHAR(20) NOT NULL, fingerprint VARCHAR(64) NOT "
    "NULL, state_folder TEXT NOT NULL, answers INTEGER, journal_head VARCHAR(64), output TEXT, created VARCHAR(40) NOT "
    "NULL, updated VARCHAR(40) NOT NULL, PRIMARY KEY (release_id), FOREIGN KEY(dataset) REFERENCES datasets (name))",
    "CREATE TABLE charges (number {serial} NOT NULL, dataset VARCHAR(200) NOT NULL, consumer VARCHAR(200), "
    "window_start VARCHAR(10) NOT NULL, release_id VARCHAR(64) NOT NULL, amount TEXT NOT NULL, spent TEXT NOT NULL, "
    "consumer_spent TEXT NOT NULL, charged VARCHAR(40) NOT NULL, PRIMARY KEY (number), FOREIGN KEY(dataset) REFERENCES "
    "datasets (name), UNIQUE (release_id), FOREIGN KEY(release_id) REFERENCES releases (release_id))",
    "INSERT INTO ledger_info VALUES (2)",
    f"INSERT INTO datasets VALUES ('adult', '/data/adult', 'epsilon', '2', '10/21', 2.0, 0.0, {{true}}, {{secret}}, "
    f"{{secret}}, '{DAY}')",
    f"INSERT INTO datasets VALUES ('remote', 's3a://Bucket//data', 'epsilon', '1', '0', 1.0, 0.0, {{false}}, "
    f"{{secret}}, {{secret}}, '{DAY}')",
    f"INSERT INTO datasets VALUES ('new', NULL, NULL, NULL, '0', 1.0, 1e-6, {{false}}, {{secret}}, {{secret}}, "
    f"'{DAY}')",
    f"INSERT INTO consumers VALUES ('adult', 'team', 'month', 1.0, 0.0, '1', '10/21', '2026-11-01', '{DAY}')",
    *(
        "INSERT INTO grants (dataset, consumer, refresh, epsilon, delta, currency, amount, reason, granted) VALUES "
        f"({values}, '{DAY}')"
        for values in (
            "'adult', NULL, 'none', 1.0, 0.0, 'epsilon', '1', 'created'",
            "'new', NULL, 'none', 1.0, 1e-6, NULL, NULL, 'created'",
            "'remote', NULL, 'none', 1.0, 0.0, 'epsilon', '1', 'created'",
            "'adult', 'team', 'month', 1.0, 0.0, 'epsilon', '1', 'pilot'",
            "'adult', NULL, 'none', 2.0, 0.0, 'epsilon', '2', 'decision 12'",
        )
    ),
    *(
        f"INSERT INTO releases VALUES ('{name * 64}', 'adult', 'team', 'epsilon', '{amount}', '{state}', 'f', "
        f"'/state', {answers}, {head}, {output}, '{DAY}', '{DAY}')"
        for name, amount, state, answers, head, output in (
            ("b", "1/3", "published", "7", "'seventh'", "'/out/b'"),
            ("a", "1/7", "measuring", "2", "'second'", "NULL"),
            ("c", "1/9", "planned", "0", "NULL", "NULL"),
        )
    ),
    *(
        "INSERT INTO charges (dataset, consumer, window_start, release_id, amount, spent, consumer_spent, charged) "
        f"VALUES ('adult', 'team', '2026-11-01', '{name * 64}', '{amount}', '{spent}', '{spent}', '{DAY}')"
        for name, amount, spent in (("b", "1/3", "1/3"), ("a", "1/7", "10/21"))
    ),
)
TYPES = {
    "sqlite": {"bytes": "BLOB", "serial": "INTEGER", "secret": "X'0102'", "true": "1", "false": "0"},
    "postgresql": {"bytes": "BYTEA", "serial": "SERIAL", "secret": "'\\x0102'", "true": "true", "false": "false"},
}


@pytest.fixture
def ledger(ledger_url: str) -> SqlLedger:
    types = TYPES[ledger_url.partition(":")[0]]
    past_the_ledger(ledger_url, *(statement.format_map(types) for statement in LAYOUT_2))
    return SqlLedger(ledger_url)


def test_layout_2_is_migrated_with_everything_that_it_holds(ledger: SqlLedger) -> None:
    adult, new, remote = ledger.datasets()  # Every sum and total agrees with its charges and grants.
    assert (adult.spent, adult.total, adult.path, ledger.secrets("adult").salt) == (
        Fraction(10, 21),
        2,
        "/data/adult",
        b"\1\2",
    )
    assert (adult.consumers_only, new.consumers_only, new.path, new.total) == (True, False, None, None)
    assert (adult.currency, remote.path) == (Currency.PURE, "s3://bucket/data")
    (team,) = ledger.consumers("adult")
    assert (team.window, team.total) == (Window.MONTH, 1)
    reasons = [(grant.consumer, grant.reason, grant.granted) for grant in ledger.grants("adult")]
    assert reasons == [(None, "created", DAY), ("team", "pilot", DAY), (None, "decision 12", DAY)]
    charges = [(charge.release_id[0], charge.amount) for charge in ledger.history("adult")]
    assert charges == [("b", Fraction(1, 3)), ("a", Fraction(1, 7))]
    records = [record for record in map(ledger.release, ("a" * 64, "b" * 64, "c" * 64)) if record is not None]
    assert [(record.state, record.answers, record.journal_head, record.output) for record in records] == [
        (State.MEASURING, 2, "second", None), (State.PUBLISHED, 7, "seventh", "/out/b"), (State.PLANNED, 0, None, None)
    ]  # fmt: skip
    assert {record.manifest_sha256 for record in records} == {None}


def test_whom_a_migrated_dataset_protects_is_open(ledger: SqlLedger) -> None:
    assert {dataset.protection for dataset in ledger.datasets()} == {Protection()}


def say_whom_it_protects(ledger: SqlLedger) -> None:
    """What the operator does once, because the charges of older versions do not say it."""
    with pytest.raises(NoBudgetError, match=r"charged by a version up to 0\.10.*--unit COLUMN --neighbours"):
        ledger.plan(planned("d" * 64, consumer="team"))
    held = ledger.dataset("adult", 1, 0)
    for _ in range(2):
        ledger.create_dataset("adult", held.epsilon, held.delta, consumers_only=held.consumers_only, protection=PERSONS)


def test_charges_of_older_versions_do_not_take_the_unit_of_the_next_release(ledger: SqlLedger) -> None:
    """Charged for persons, and then read as households that are replaced: one charge alone would be twice as much."""
    households = Protection("household", "rows", 1, Neighbours.REPLACE_ONE_UNIT)
    with pytest.raises(NoBudgetError, match="did not record whom its charges protect"):
        ledger.plan(planned("d" * 64, consumer="team", protection=households))
    assert ledger.dataset("adult", 1, 0).protection == OPEN
    say_whom_it_protects(ledger)
    with pytest.raises(NoBudgetError, match="column 'household'"):
        ledger.plan(planned("d" * 64, consumer="team", protection=households))


def test_a_migrated_ledger_has_an_id_and_works_on(ledger: SqlLedger, ledger_url: str) -> None:
    assert re.fullmatch("[0-9a-f]{16}", ledger.ledger_id() or "")
    assert SqlLedger(ledger_url).ledger_id() == ledger.ledger_id()
    ledger.record_answer("a" * 64, 2, "second", "third")
    say_whom_it_protects(ledger)
    assert not ledger.is_content_known("adult")
    assert ledger.move("adult", "/new/adult", "new disk").path == "/new/adult", "there is nothing to compare"
    reserve(ledger, "d" * 64, consumer="team", path="/new/adult", contents=(file_content("a"),))
    assert ledger.is_content_known("adult")
    with pytest.raises(ConfigError, match="the files at /newer were not read"):
        ledger.move("adult", "/newer", "new disk")
    assert [charge.release_id[0] for charge in ledger.history("adult")] == ["b", "a", "d"]
    assert ledger.dataset("adult", 1, 0).spent == Fraction(10, 21) + PURE.amount
    for table in ("charges", "grants", "places", "contents"):
        with pytest.raises(exc.DBAPIError, match="append-only"):
            past_the_ledger(ledger_url, f"DELETE FROM {table}")


def test_a_published_manifest_is_recorded_once(ledger: SqlLedger) -> None:
    ledger.plan(planned("b" * 64, consumer="team"))
    for _ in range(2):
        ledger.advance("b" * 64, State.PUBLISHED, output="/out/b", manifest="e" * 64)
    record = ledger.release("b" * 64)
    assert record is not None
    assert record.manifest_sha256 == "e" * 64
