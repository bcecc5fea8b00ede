"""Exceptions that quote data, planted all over a run: what is shown and stored is their type and place alone."""

from __future__ import annotations

import json
import re
import traceback
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from dpcore.errors import MarqueeError
from jobs import beam_release, log, spark_release
from jobs.ledger import SqlLedger
from jobs.release import input as data
from jobs.release.run import release
from pipelines.engines.local import LocalEngine
from pipelines.foreign_errors import messages_shown
from tests.support.ledgers import past_the_ledger
from tests.support.releases import LEDGER, World, table_world

SECRET = "patient-4711"
PLACE = r"ValueError at (?:dpcore|pipelines|jobs)/[\w/]+\.py:\d+"
ENGINE = {
    "reader": "pipelines.source.batches.open_parquet",
    "encoder": "pipelines.engines.accumulation.encode_batch",
    "contribution bound": "pipelines.engines.accumulation.table_block",
    "aggregator": "pipelines.aggregators.contingency.Contingency.add",
    "merge": "pipelines.aggregators.contingency.Contingency.merge",
}
OTHERS = {
    "footer": "pipelines.source.footers.content_of",
    "fingerprint": "jobs.release.input.input_fingerprint",
    "extraction": "pipelines.aggregators.contingency.Contingency.extract",
    "ledger": "jobs.ledger.sql_ledger.SqlLedger.reserve",
    "mechanism": "dpcore.mechanisms.mwem.mwem.Mwem.run",
    "noise": "dpcore.kernel.private_statistics.add_noise",
    "journal": "jobs.release.journal.Journal.record",
    "answers": "jobs.release.run.write_answers",
    "synthetic rows": "jobs.release.run.write_rows",
    "certificate": "jobs.release.run.write_certificate",
    "publication": "jobs.release.publish.publish",
}
PLACES = ENGINE | OTHERS


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> World:
    monkeypatch.chdir(tmp_path)
    world = table_world(tmp_path, capfd)
    world.budget()
    return world


def quoting(*_: object, **__: object) -> None:
    """Fails as libraries do: its message, its arguments and its cause quote data."""
    try:
        raise pa.ArrowInvalid(f"cannot parse {SECRET}")
    except pa.ArrowInvalid as error:
        failure = ValueError(f"a row of {SECRET}", SECRET)
        failure.add_note(f"while reading {SECRET}")
        raise failure from error


def script(main: Callable[[list[str]], int]) -> Callable[..., tuple[int, str, str]]:
    def start(world: World, *options: str) -> tuple[int, str, str]:
        world.capture.readouterr()
        code = main(["--config", "release.yaml", *options])
        return (code, *world.capture.readouterr())

    return start


def command(world: World, *options: str) -> tuple[int, str, str]:
    return world.marquee("run", "release.yaml", *options)


PROGRAMS: dict[str, Callable[..., tuple[int, str, str]]] = {
    "marquee": command, "spark_release": script(spark_release.main), "beam_release": script(beam_release.main),
}  # fmt: skip


def written_secrets(world: World) -> list[str]:
    return [name for name, content in world.files().items() if SECRET.encode() in content]


@pytest.mark.smoke(8)
@pytest.mark.parametrize("place", PLACES)
def test_a_planted_exception_is_a_type_and_a_place(world: World, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    monkeypatch.setattr(PLACES[place], quoting)
    code, out, err = world.run()
    assert code == (6 if place in ENGINE else 70)
    assert re.search(PLACE, err.splitlines()[-1]), err
    assert SECRET not in out + err
    assert written_secrets(world) == []
    assert code == 6 or "run again with --debug for a traceback, which may quote data" in err


@pytest.mark.smoke(4)
@pytest.mark.parametrize("options", [(), ("--log-format=json",)], ids=["text", "json"])
@pytest.mark.parametrize("place", ["aggregator", "mechanism"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_every_program_reports_it_alike(
    world: World, monkeypatch: pytest.MonkeyPatch, program: str, place: str, options: tuple[str, ...]
) -> None:
    monkeypatch.setattr(data, "open_engine", lambda *_: LocalEngine(1))
    monkeypatch.setattr(PLACES[place], quoting)
    code, out, err = PROGRAMS[program](world, *options)
    last = err.splitlines()[-1]
    said = json.loads(last)["event"] if options else last
    assert (code, bool(re.search(PLACE, said))) == (6 if place in ENGINE else 70, True)
    assert SECRET not in out + err
    assert written_secrets(world) == []


@pytest.mark.smoke(3)
@pytest.mark.parametrize("place", ["reader", "mechanism"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_traceback_is_marked_and_for_those_who_ask(
    world: World, monkeypatch: pytest.MonkeyPatch, program: str, place: str
) -> None:
    monkeypatch.setattr(data, "open_engine", lambda *_: LocalEngine(1))
    monkeypatch.setattr(PLACES[place], quoting)
    _, out, err = PROGRAMS[program](world, "--debug")
    marked, traced = err.split("SENSITIVE: this traceback may quote data; it is for the operator only\n")
    assert "Traceback" not in marked
    assert SECRET in traced
    assert SECRET not in out
    assert written_secrets(world) == []


def damaged(*_: object, **__: object) -> None:
    raise pa.ArrowInvalid(f"cannot parse {SECRET}")


@pytest.mark.parametrize("failure", [quoting, damaged], ids=["unexpected", "unreadable"])
def test_the_chain_of_an_exception_is_closed_to_programs_that_print_it(
    world: World, monkeypatch: pytest.MonkeyPatch, failure: Callable[..., None]
) -> None:
    """A notebook or a scheduler that calls ``release`` prints tracebacks with all causes."""
    log.configure(log.LogFormat.TEXT)
    monkeypatch.setattr(PLACES["reader"], failure)
    with pytest.raises(MarqueeError) as caught:
        release(world.job())
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    with messages_shown(), pytest.raises(MarqueeError) as caught:
        release(world.job())
    assert SECRET in "".join(traceback.format_exception(caught.value))


def test_an_error_of_the_database_quotes_no_secret_of_the_ledger(world: World) -> None:
    past_the_ledger(LEDGER, "CREATE TRIGGER full BEFORE INSERT ON datasets BEGIN SELECT RAISE(ABORT, 'full'); END")
    with messages_shown(), pytest.raises(MarqueeError) as caught:
        SqlLedger(LEDGER).create_dataset("another", 1.0, 0.0)
    said = "".join(traceback.format_exception(caught.value))
    assert "INSERT INTO datasets" in said
    assert "[parameters:" not in said
