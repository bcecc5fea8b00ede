"""The same content gets no second total under another name, and what is equal by chance is not refused."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import pytest
from sqlalchemy import Connection

from dpcore.errors import BudgetExceededError, ConfigError
from dpcore.kernel.budget import Budget
from jobs.ledger import SqlLedger, contents
from jobs.ledger.contents import SMALLEST_FILE
from pipelines.source.content import FileContent
from tests.support.ledgers import copied_elsewhere, file_content, past_the_ledger, planned, reserve

SHARDS = tuple(file_content(f"shard {number}") for number in range(3))


@pytest.fixture
def ledger(ledger_url: str) -> SqlLedger:
    """Dataset adult has been charged for its three files, and dataset again has a full total of its own."""
    made = SqlLedger(ledger_url)
    for name in ("adult", "again"):
        made.create_dataset(name, 1.0, 0.0)
    reserve(made, contents=SHARDS)
    return made


def plan_again(ledger: SqlLedger, *files: FileContent, name: str = "again") -> None:
    ledger.plan(planned("b" * 64, dataset=name, path=f"/copies/{name}", contents=files))


def small(*names: str, rows: int = SMALLEST_FILE - 1) -> tuple[FileContent, ...]:
    return tuple(file_content(name, rows=rows) for name in names)


COPIES = {
    "all files": tuple(map(copied_elsewhere, SHARDS)),
    "one file": (copied_elsewhere(SHARDS[1]),),
    "one file among many others": (*map(file_content, "abcdefgh"), copied_elsewhere(SHARDS[1])),
    "a row group in a new file": (file_content("new", "shard 2 0"),),
    "row groups of two files in a new file": (file_content("new", "shard 0 0", "other", "shard 2 0", "another"),),
    "half of the rows": (file_content("new", "shard 0 0"), file_content("other")),
}


@pytest.mark.parametrize("copies", COPIES.values(), ids=COPIES)
def test_a_copy_gets_no_second_total(ledger: SqlLedger, copies: tuple[FileContent, ...]) -> None:
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"belong to 'adult' and not to dataset 'again'; want .*: adult\. If "):
            plan_again(ledger, *copies)
    assert ledger.dataset("again", 1, 0).path is None
    assert ledger.release("b" * 64) is None
    reserve(ledger, "c" * 64, contents=SHARDS)


def test_half_of_the_rows_may_come_from_several_datasets(ledger: SqlLedger) -> None:
    ledger.create_dataset("retail", 1.0, 0.0)
    ledger.plan(planned("c" * 64, dataset="retail", contents=(file_content("sales"),)))
    mixed = file_content("new", "shard 0 0", "shard 1 0", "sales 0", "a", "b")
    with pytest.raises(ConfigError, match="as in /anywhere/new, with the same statistics as in dataset 'adult'"):
        plan_again(ledger, mixed)
    plan_again(ledger, file_content("new", "shard 0 0", "sales 0", "a", "b", "c"))


def test_less_than_half_of_the_rows_is_accepted_and_stays_with_its_first_dataset(ledger: SqlLedger) -> None:
    """A share that was accepted may not become the whole in a later run, and does not hinder its first dataset."""
    group = file_content("new", "shard 0 0", "a", "b")
    plan_again(ledger, group)
    with pytest.raises(ConfigError, match="belong to 'adult'"):
        ledger.plan(
            planned("c" * 64, dataset="again", path="/copies/again", contents=(file_content("n", "shard 0 0"),))
        )
    reserve(ledger, "d" * 64, contents=SHARDS[:1])


INNOCENT = {
    "other files": (file_content("other"), file_content("another")),
    "no rows": (FileContent("/anywhere/empty", 0, SHARDS[0].footer, ()), file_content("other")),
    "no statistics": (FileContent("/anywhere/bare", 1000, b"bare", ()),),
    "a few equal row groups": (file_content("new", "shard 0 0", "shard 1 0", "a", "b", "c"),),
}


@pytest.mark.parametrize("files", INNOCENT.values(), ids=INNOCENT)
def test_other_content_is_accepted(ledger: SqlLedger, files: tuple[FileContent, ...]) -> None:
    plan_again(ledger, *files)
    assert ledger.dataset("again", 1, 0).path == "/copies/again"


def test_a_small_file_that_many_datasets_have_is_no_reason_to_refuse(ledger: SqlLedger) -> None:
    placeholder = small("placeholder")
    for name in ("first", "second", "third"):
        ledger.create_dataset(name, 1.0, 0.0)
        own = file_content(f"data of {name}")
        ledger.plan(planned(name[0] * 64, dataset=name, contents=(own, *placeholder)))
    with pytest.raises(ConfigError, match="belong to 'first'"):
        plan_again(ledger, *placeholder, file_content("other", rows=SMALLEST_FILE - 1))
    ledger.plan(planned("f" * 64, dataset="first", contents=placeholder))


def test_many_small_files_are_recognised_together(ledger: SqlLedger) -> None:
    ledger.plan(planned("c" * 64, contents=small(*"abcdef")))
    plan_again(ledger, *small("a", "b", "u", "v", "w"))
    with pytest.raises(ConfigError, match="belong to 'adult'"):
        ledger.plan(planned("d" * 64, dataset="again", path="/copies/again", contents=small("a", "b", "c", "w")))


def test_without_statistics_equal_footers_are_no_evidence(ledger: SqlLedger) -> None:
    bare = FileContent("/anywhere/bare", 1000, b"bare", ())
    ledger.plan(planned("c" * 64, contents=(bare,)))
    plan_again(ledger, bare)


def test_a_dataset_keeps_its_content_in_later_runs_and_gains_more(ledger: SqlLedger, ledger_url: str) -> None:
    more = file_content("shard 3")
    for name in "cd":
        ledger.plan(planned(name * 64, contents=(*SHARDS, more)))
    assert past_the_ledger(ledger_url, "SELECT count(*) FROM contents WHERE dataset = 'adult'") == [(8,)]
    with pytest.raises(ConfigError, match="belong to 'adult'"):
        plan_again(ledger, more)


def test_data_are_shared_on_record(ledger: SqlLedger) -> None:
    ledger.create_dataset("rows", 1.0, 0.0, shares_with="adult", reason="another unit")
    own = file_content("more")
    plan_again(ledger, *SHARDS, own, name="rows")
    reserve(ledger, "c" * 64, contents=(*SHARDS, own))
    with pytest.raises(ConfigError, match="belong to '(adult|rows)'"):
        plan_again(ledger, SHARDS[0])
    with pytest.raises(ConfigError, match="belong to '(adult|rows)'"):
        plan_again(ledger, own)


def test_a_release_that_is_refused_records_no_content(ledger: SqlLedger, ledger_url: str) -> None:
    dear = Budget.pure(5)
    with pytest.raises(BudgetExceededError):
        ledger.plan(planned("b" * 64, dataset="again", budget=dear, contents=(file_content("other"),)))
    assert past_the_ledger(ledger_url, "SELECT count(*) FROM contents WHERE dataset = 'again'") == [(0,)]


def test_content_is_bound_before_the_charge(ledger: SqlLedger, ledger_url: str) -> None:
    ledger.plan(planned("b" * 64, dataset="again", contents=(file_content("other"),)))
    assert ledger.history("again") == []
    assert past_the_ledger(ledger_url, "SELECT count(*) FROM contents WHERE dataset = 'again'") == [(2,)]


def test_only_keyed_digests_are_stored(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The digests of two ledgers have nothing in common, and contain no digest without a key."""
    stored = set[str]()
    for number in range(2):
        url = f"sqlite:///{tmp_path_factory.mktemp('ledger') / f'{number}.db'}"
        other = SqlLedger(url)
        other.create_dataset("adult", 1.0, 0.0)
        reserve(other, contents=SHARDS)
        digests = {digest for (digest,) in past_the_ledger(url, "SELECT digest FROM contents")}
        assert len(digests) == 6
        assert not stored & digests
        stored |= digests
    for content in SHARDS:
        for digest in content.digests:
            assert digest.hex() not in stored


@pytest.mark.parametrize("bound_before", [False, True], ids=["first runs", "later runs"])
def test_of_two_runs_over_copies_at_once_one_wins(
    ledger_url: str, monkeypatch: pytest.MonkeyPatch, bound_before: bool
) -> None:
    """Both would read the ledger before one of them writes, if the ledger did not make one of them wait."""
    ledger, names = SqlLedger(ledger_url), ("adult", "again")
    for name in names:
        ledger.create_dataset(name, 1.0, 0.0)
        if bound_before:
            ledger.plan(planned(name.rjust(64, "0"), dataset=name, contents=(file_content(name),)))
    both_have_read, read_owners = threading.Barrier(2), contents._owners

    def slowly(connection: Connection, digests: Iterable[str]) -> dict[str, dict[str, str]]:
        owners = read_owners(connection, digests)
        with suppress(threading.BrokenBarrierError):
            both_have_read.wait(1)
        return owners

    def run(name: str) -> str:
        copy = replace(SHARDS[0], file=f"/copies/{name}")
        try:
            reserve(SqlLedger(ledger_url), name.rjust(64, "1"), dataset=name, contents=(copy,))
        except ConfigError as refused:
            return str(refused)
        return "charged"

    monkeypatch.setattr(contents, "_owners", slowly)
    with ThreadPoolExecutor(2) as pool:
        outcomes = dict(zip(names, pool.map(run, names), strict=True))
    (winner,) = (name for name in names if outcomes[name] == "charged")
    (loser,) = {*names} - {winner}
    assert f"the data belong to {winner!r} and not to dataset {loser!r}" in outcomes[loser]
    assert (len(ledger.history(winner)), ledger.history(loser)) == (1, [])
