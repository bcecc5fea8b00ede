"""A few releases searched for their canaries, and leaks that are planted one at a time: each is found."""

from __future__ import annotations

import base64
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from dpcore.errors import EngineError
from dpcore.kernel import private_items
from dpcore.kernel import private_statistics as kernel
from dpcore.kernel.private_items import PrivateItems
from dpcore.measurement import GRID_BITS
from dpcore.mechanisms.registry import MECHANISMS
from jobs import log
from jobs.release import run
from jobs.release.journal import Journal
from pipelines.engines import local
from tests.audit import canaries
from tests.audit.canaries import Case
from tests.audit.canary_data import LONE, PEOPLE, SECOND_ROWS, UNIT, WORK, canaries_of, fitting, prepared
from tests.audit.section import Size
from tests.audit.small_releases import POSTGRES
from tests.support.leaks import Canaries, on_server, said, spellings, written
from tests.support.postgres import Server, server

pytestmark = pytest.mark.false_alarm(0)  # Of tests that no draw decides; the others say theirs.

ROWS = PEOPLE + SECOND_ROWS
WHOLE = Case("a whole run", "laplace")


def fast_cases(*, discovered: bool) -> list[Case]:
    return [case for case in canaries.cases(Size.FAST) if case.discovered is discovered]


@pytest.mark.false_alarm(1e-9)
@pytest.mark.smoke(1)
@pytest.mark.parametrize("case", fast_cases(discovered=False), ids=lambda case: f"{case.name}, {case.mechanism}")
def test_nothing_gets_out(case: Case) -> None:
    row = canaries.searched(case)
    assert row.passed, row.cells


@pytest.mark.false_alarm(1.5e-6)
@pytest.mark.smoke(1)
@pytest.mark.parametrize("case", fast_cases(discovered=True), ids=lambda case: f"{case.name}, {case.mechanism}")
def test_nothing_gets_out_of_a_discovery(case: Case) -> None:
    row = canaries.searched(case)
    assert row.passed, row.cells


def logged_rows(patch: pytest.MonkeyPatch) -> str:
    accumulate = local.accumulate

    def counting(batches: Iterable[pa.RecordBatch], **given: Any) -> NDArray[np.int64]:
        kept = list(batches)
        log.info("read", rows=sum(len(batch) for batch in kept))
        return accumulate(kept, **given)

    patch.setattr(local, "accumulate", counting)
    return f"{ROWS:,} in said/stderr"


def counted_in_an_error(patch: pytest.MonkeyPatch) -> str:
    def fail(batches: Iterable[pa.RecordBatch], **_: Any) -> None:
        raise EngineError(f"gave up after {sum(len(batch) for batch in batches):,} rows")

    patch.setattr(local, "accumulate", fail)
    return f"{ROWS:,} in messages"


def counted_in_a_cause(patch: pytest.MonkeyPatch) -> str:
    """Said nowhere, and held by the exception for whoever logs it."""

    def fail(batches: Iterable[pa.RecordBatch], **_: Any) -> None:
        try:
            raise EngineError(f"{sum(len(batch) for batch in batches)} rows")
        except EngineError as error:
            raise EngineError("the engine failed") from error

    patch.setattr(local, "accumulate", fail)
    return f"{ROWS:,} in messages"


def quoted_unit(patch: pytest.MonkeyPatch) -> str:
    def fail(batches: Iterable[pa.RecordBatch], **_: Any) -> None:
        raise EngineError(f"unit {next(iter(batches)).column(0)[0]} is damaged")

    patch.setattr(local, "accumulate", fail)
    return f"{UNIT} in said/stderr"


def exact_in_the_journal(patch: pytest.MonkeyPatch) -> str:
    exact: list[NDArray[np.int64]] = []
    add_noise, append = kernel.add_noise, Journal._append

    def remembering(values: NDArray[np.int64], *given: Any, **named: Any) -> NDArray[np.int64]:
        exact.append(values)
        return add_noise(values, *given, **named)

    def beside(self: Journal, line: bytes) -> None:
        entry = json.loads(line) | {"exact": base64.b64encode(exact[-1].astype("<i8").tobytes()).decode()}
        append(self, (json.dumps(entry) + "\n").encode())

    patch.setattr(kernel, "add_noise", remembering)
    patch.setattr(Journal, "_append", beside)
    return "journal.jsonl"


def counted_in_the_certificate(patch: pytest.MonkeyPatch) -> str:
    write = run.write_certificate

    def with_units(path: Path, *given: Any, **named: Any) -> None:
        write(path, *given, **named)
        path.write_text(json.dumps(json.loads(path.read_text()) | {"n": PEOPLE}))

    patch.setattr(run, "write_certificate", with_units)
    return f"{PEOPLE:,} in out/release/certificate.json"


def exact_beside_the_answers(patch: pytest.MonkeyPatch) -> str:
    write = run.write_answers

    def with_exact(path: Path, *given: Any) -> None:
        write(path, *given)
        pq.write_table(pa.table({"exact": pa.array(list(WORK.values()), pa.float64())}), path.with_name("more.parquet"))

    patch.setattr(run, "write_answers", with_exact)
    return "out/release/more.parquet, decoded"


def drawn_on_the_bar(patch: pytest.MonkeyPatch) -> str:
    @contextmanager
    def talkative(bar: Any, label: str) -> Any:
        with bar(f"{label} of {PEOPLE:,} people") as report:
            yield report

    given = run.release.__kwdefaults__ | {"progress": partial(talkative, run.bar)}
    patch.setattr(run.release, "__kwdefaults__", given)
    return f"{PEOPLE:,} in said/stderr"


def names_of_one_unit(patch: pytest.MonkeyPatch) -> str:
    patch.setattr(private_items, "threshold_steps", lambda *_: -(1 << 62))
    return f"{LONE} in out/release/items.parquet"


def exact_sums_in_the_journal(patch: pytest.MonkeyPatch) -> str:
    patch.setattr(private_items, "add_noise", lambda exact, *_: exact << GRID_BITS)
    return "journal.jsonl, decoded"


def names_in_the_log(patch: pytest.MonkeyPatch) -> str:
    drawn = private_items.PrivateItems._drawn

    def talkative(self: PrivateItems, terms: Any, released: tuple[bytes, ...]) -> Any:
        sums = self._statistics.item_sums(terms.weights, 0, released)
        log.info("read", rarest=sums.name(int(sums.sums.argmin())).decode())
        return drawn(self, terms, released)

    patch.setattr(PrivateItems, "_drawn", talkative)
    return f"{LONE} in said/stderr"


@pytest.mark.parametrize("plant", [names_of_one_unit, exact_sums_in_the_journal, names_in_the_log])
def test_a_planted_leak_of_a_discovery_is_found(
    plant: Callable[[pytest.MonkeyPatch], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    where = plant(monkeypatch)
    row = canaries.searched(Case("planted", "gaussian", discovered=True))
    assert not row.passed
    assert where in row.cells["found"], row.cells


@pytest.mark.smoke(1)
@pytest.mark.parametrize("plant", [
    logged_rows, counted_in_an_error, counted_in_a_cause, quoted_unit, exact_in_the_journal, counted_in_the_certificate,
    exact_beside_the_answers, drawn_on_the_bar,
])  # fmt: skip
def test_a_planted_leak_is_found(plant: Callable[[pytest.MonkeyPatch], str], monkeypatch: pytest.MonkeyPatch) -> None:
    where = plant(monkeypatch)
    terminal = plant is drawn_on_the_bar
    row = canaries.searched(Case("planted", "mwem" if terminal else "laplace", terminal=terminal))
    assert not row.passed
    assert where in row.cells["found"], row.cells


def test_a_report_for_the_operator_alone_is_full_of_them(tmp_path: Path) -> None:
    """The canaries are alive: ``validate`` is SENSITIVE, and shows them."""
    config = prepared("laplace", "local", tmp_path)
    with said(tmp_path / "said"):
        assert canaries.marquee("validate", str(config)) == 0
    found = canaries_of("table").found((tmp_path / "said" / "stdout").read_bytes())
    assert {f"{count:,}" for count in (ROWS, PEOPLE, SECOND_ROWS)} <= found


CANARIES = Canaries(("kestrel",), (31_337, 73_019))


@pytest.mark.parametrize("text", [*spellings(31_337), "n=31337 rows", "(31337)", '"rows":31337,', "31337.0", "31337."])
def test_every_spelling_is_found(text: str) -> None:
    assert CANARIES.found(f"seen {text} today".encode()) == {"31,337"}


@pytest.mark.parametrize("kind", ["<i8", ">i8", "<f8", ">f8"])
def test_machine_numbers_are_found_as_they_are_and_in_base64(kind: str) -> None:
    packed = np.array([1, 31_337, -5], dtype=kind).tobytes()
    assert CANARIES.found(b"..." + packed) == {"31,337"}
    assert CANARIES.found(b'{"answer": "' + base64.b64encode(packed) + b'"}') == {"31,337"}


def test_packed_answers_are_found_in_counts_and_in_steps_of_the_grid(tmp_path: Path) -> None:
    for values in ([7, 31_337], [7 << GRID_BITS, 31_337 << GRID_BITS]):
        packed = base64.b64encode(np.array(values, dtype="<i8").tobytes()).decode()
        (tmp_path / "journal.jsonl").write_text(json.dumps({"answer": packed}) + "\n" + '{"answer": "half')
        assert CANARIES.found(written(tmp_path)["journal.jsonl, decoded"]) == {"31,337"}


def test_the_ledger_is_read_but_for_its_secret_columns(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as ledger, ledger:
        ledger.execute("CREATE TABLE datasets (name TEXT, units INTEGER, salt TEXT)")
        ledger.execute("INSERT INTO datasets VALUES ('people', 31337, '73,019')")
    assert CANARIES.found(written(tmp_path)["ledger.db, decoded"]) == {"31,337"}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_mechanism_has_a_release_that_suits_it(mechanism: str, tmp_path: Path) -> None:
    assert fitting(mechanism, "local", tmp_path, "auto") is not None


@pytest.fixture(scope="module")
def postgres() -> Iterator[Server]:
    with server(durable=False) as running:
        yield running


def test_nothing_gets_out_into_a_ledger_on_a_server(postgres: Server) -> None:
    row = canaries.searched(Case("a whole run", "laplace", database=POSTGRES), postgres)
    assert row.passed, row.cells


def test_the_tables_and_the_log_of_a_server_are_read_but_for_secret_columns(postgres: Server) -> None:
    postgres.emptied()
    postgres.run("postgres", "CREATE TABLE datasets (name TEXT, units INTEGER, salt TEXT)")
    postgres.run("postgres", "INSERT INTO datasets VALUES ('people', 31337, '73,019')")
    with pytest.raises(psycopg.errors.UndefinedColumn):
        postgres.run("postgres", "SELECT kestrel FROM datasets")
    content = on_server(postgres)
    assert CANARIES.found(content["tables of the server"]) == {"31,337"}
    assert "kestrel" in CANARIES.found(content["log of the server"])


@pytest.mark.parametrize("text", ["131337", "313371", "31337.25", "0.31337", "a31337b", "31,337.5", "31,338"])
def test_other_numbers_are_not(text: str) -> None:
    assert CANARIES.found(f"seen {text} today".encode()) == set()


def test_texts_are_found_in_the_encodings_of_python_and_java() -> None:
    assert CANARIES.found(b"a kestrel-17") == {"kestrel"}
    assert CANARIES.found("kestrel-17".encode("utf-16-le")) == {"kestrel"}
