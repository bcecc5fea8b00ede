"""Partitions in the ledger: what is charged where, what is refused, races, and the layout before."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction

import pytest
from sqlalchemy import exc

from dpcore.errors import BudgetExceededError, ConfigError, IntegrityError, NoBudgetError
from dpcore.kernel.budget import Budget
from dpcore.kernel.sensitivity import Neighbours
from jobs.ledger import SqlLedger
from jobs.ledger.partitioning import Blocks, Partitioning
from jobs.ledger.pricing import Request
from jobs.ledger.records import Accounting
from pipelines.partition import UnitsIn, Values
from tests.support.ledgers import PERSONS, past_the_ledger, reserve

REGIONS = Partitioning("region", UnitsIn.ONE)
DAYS = Partitioning("day", UnitsIn.MANY, 2)
ONE = Budget.pure(Fraction(1))
HALF = Budget.pure(Fraction(1, 2))


def region(*names: str) -> Blocks:
    return Blocks(REGIONS, Values.TEXT, names)


def day(*numbers: int) -> Blocks:
    return Blocks(DAYS, Values.DATE, tuple(f"2026-11-{number:02d}" for number in numbers))


def name(number: int) -> str:
    return f"{number:064x}"


@pytest.fixture
def regions(ledger_url: str) -> SqlLedger:
    ledger = SqlLedger(ledger_url)
    ledger.create_dataset("adult", 1.0, 0.0, partitioning=REGIONS)
    return ledger


@pytest.fixture
def days(ledger_url: str) -> SqlLedger:
    ledger = SqlLedger(ledger_url)
    ledger.create_dataset("adult", 2.0, 0.0, partitioning=DAYS)
    return ledger


def spent(ledger: SqlLedger) -> Fraction:
    return ledger.verified("adult").spent


def test_each_partition_has_the_whole_total_and_the_dataset_shows_the_largest(regions: SqlLedger) -> None:
    for number, place in enumerate(("north", "east", "south", "west")):
        reserve(regions, name(number), ONE, blocks=region(place))
    assert spent(regions) == 1
    assert regions.block_sums("adult").blocks == dict.fromkeys(("north", "east", "south", "west"), 1)
    for blocks in (None, region("north"), region("north", "far")):
        with pytest.raises(BudgetExceededError):
            reserve(regions, name(9), HALF, blocks=blocks)
    reserve(regions, name(9), HALF, blocks=region("far"))
    assert spent(regions) == 1


def test_a_release_about_the_whole_dataset_reaches_every_partition(regions: SqlLedger) -> None:
    reserve(regions, name(0), HALF)
    with pytest.raises(BudgetExceededError, match="partition region = north"):
        reserve(regions, name(1), ONE, blocks=region("north"))
    reserve(regions, name(1), HALF, blocks=region("north"))
    assert spent(regions) == 1
    with pytest.raises(BudgetExceededError):
        reserve(regions, name(2), Budget.pure(Fraction(1, 100)))


def test_the_largest_sums_of_days_add_up(days: SqlLedger) -> None:
    for number in range(1, 6):
        reserve(days, name(number), ONE, blocks=day(number))
    assert spent(days) == 2
    with pytest.raises(BudgetExceededError):
        reserve(days, name(7), HALF, blocks=day(3))
    reserve(days, name(7), ONE, blocks=day(7))
    assert spent(days) == 2


def test_a_window_of_days_costs_no_more_than_it_is(days: SqlLedger) -> None:
    reserve(days, name(1), ONE, blocks=day(*range(1, 8)))
    assert spent(days) == 1
    reserve(days, name(2), ONE, blocks=day(*range(8, 15)))
    assert spent(days) == 2
    reserve(days, name(3), ONE, blocks=day(*range(15, 22)))
    assert spent(days) == 2
    assert [len(charge.blocks) for charge in days.history("adult")] == [7, 7, 7]


def test_without_a_limit_all_charges_add_up(ledger_url: str) -> None:
    ledger, rule = SqlLedger(ledger_url), Partitioning("day", UnitsIn.MANY)
    ledger.create_dataset("adult", 2.0, 0.0, partitioning=rule)
    for number in (1, 2):
        reserve(ledger, name(number), ONE, blocks=replace(day(number), partitioning=rule))
    with pytest.raises(BudgetExceededError):
        reserve(ledger, name(3), HALF, blocks=replace(day(3), partitioning=rule))


@pytest.mark.parametrize("accounting", [Accounting.ZCDP, Accounting.GDP])
def test_partitions_compose_in_every_currency(ledger_url: str, accounting: Accounting) -> None:
    ledger = SqlLedger(ledger_url)
    ledger.create_dataset("adult", 1.0, 1e-6, accounting=accounting, partitioning=REGIONS)
    total = ledger.verified("adult").total
    assert total is not None
    assert accounting.currency is not None
    for number, place in enumerate(("north", "south")):
        reserve(ledger, name(number), Budget(accounting.currency, total), blocks=region(place))
    assert spent(ledger) == total


def test_consumers_pay_for_every_partition(regions: SqlLedger) -> None:
    regions.grant_consumer("adult", "team", 1.0, 0.0)
    for number, place in enumerate(("north", "south")):
        reserve(regions, name(number), HALF, blocks=region(place), consumer="team")
    with pytest.raises(BudgetExceededError, match="consumer 'team'"):
        reserve(regions, name(2), HALF, blocks=region("west"), consumer="team")


def test_a_charge_for_replacing_is_that_of_group_privacy_in_each_partition(ledger_url: str) -> None:
    ledger = SqlLedger(ledger_url)
    replacing = replace(PERSONS, neighbours=Neighbours.REPLACE_ONE_UNIT)
    ledger.create_dataset("adult", 1.0, 0.0, protection=replacing, partitioning=REGIONS)
    for number, place in enumerate(("north", "south")):
        reserve(ledger, name(number), HALF, blocks=region(place))
    assert ledger.block_sums("adult").blocks == {"north": 1, "south": 1}
    with pytest.raises(NoBudgetError, match="want privacy.neighbours: add_remove_unit"):
        reserve(ledger, name(3), HALF, blocks=region("far"), protection=replacing)


def test_what_does_not_keep_to_the_partitioning_is_refused(ledger_url: str, regions: SqlLedger) -> None:
    reserve(regions, name(0), HALF, blocks=region("1"))
    with pytest.raises(NoBudgetError, match=r"want dataset.partition: \{column: region, values: ...\}"):
        reserve(regions, name(1), HALF, blocks=day(1))
    with pytest.raises(NoBudgetError, match="of type text in earlier charges, and of type integer"):
        reserve(regions, name(1), HALF, blocks=Blocks(REGIONS, Values.INTEGER, ("1",)))
    regions.create_dataset("whole", 1.0, 0.0)
    with pytest.raises(NoBudgetError, match="--partitioned-by region --units-in one_partition"):
        reserve(regions, name(1), HALF, dataset="whole", blocks=region("north"))
    assert spent(regions) == Fraction(1, 2)


def test_a_partitioning_is_bound_once(regions: SqlLedger) -> None:
    assert regions.create_dataset("adult", 1.0, 0.0).partitioning == REGIONS
    assert regions.create_dataset("adult", 1.0, 0.0, partitioning=REGIONS).partitioning == REGIONS
    with pytest.raises(ConfigError, match="partitions by column 'region'"):
        regions.create_dataset("adult", 1.0, 0.0, partitioning=DAYS)
    regions.create_dataset("later", 1.0, 0.0)
    reserve(regions, name(0), HALF, dataset="later")
    regions.create_dataset("later", 1.0, 0.0, partitioning=REGIONS)
    assert regions.grants("later")[-1].reason == "partitioned by column 'region', each unit in one of them"
    for number, place in enumerate(("north", "south"), 1):
        reserve(regions, name(number), HALF, dataset="later", blocks=region(place))
    assert regions.verified("later").spent == 1


def test_a_price_says_what_a_unit_has_lost_afterwards(regions: SqlLedger) -> None:
    reserve(regions, name(0), HALF, blocks=region("north"))
    price = regions.price("adult", Request(HALF, PERSONS, None, blocks=region("south")))
    assert (price.spent, price.available) == (Fraction(1, 2), 1)
    price = regions.price("adult", Request(HALF, PERSONS, None))
    assert (price.spent, price.available) == (1, Fraction(1, 2))


def test_processes_that_charge_together_keep_each_partition_within_the_total(
    ledger_url: str, regions: SqlLedger
) -> None:
    def charge(number: int) -> bool:
        blocks = None if number % 4 == 3 else region("nes"[number % 4])
        try:
            reserve(SqlLedger(ledger_url), name(number), Budget.pure(Fraction(2, 5)), blocks=blocks)
        except BudgetExceededError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(charge, range(16)))
    assert 2 <= sum(done) < 16
    assert spent(regions) <= 1
    assert len(regions.history("adult")) == sum(done)


@pytest.mark.parametrize("table", ["partitionings", "release_blocks"])
def test_partitions_are_append_only(ledger_url: str, regions: SqlLedger, table: str) -> None:
    reserve(regions, name(0), HALF, blocks=region("north"))
    for statement in (f"DELETE FROM {table}", f"UPDATE {table} SET {'bound' if table[0] == 'p' else 'kind'} = 'x'"):
        with pytest.raises(exc.DBAPIError, match="append-only"):
            past_the_ledger(ledger_url, statement)


def test_a_partition_that_is_added_past_the_ledger_is_noticed(ledger_url: str, regions: SqlLedger) -> None:
    """A row more would spread a charge for the whole dataset over one partition alone."""
    reserve(regions, name(0), HALF)
    reserve(regions, name(1), HALF, blocks=region("north"))
    past_the_ledger(ledger_url, f"INSERT INTO release_blocks VALUES ('{name(0)}', 'south', 'text')")
    with pytest.raises(IntegrityError, match="the sum of its charges"):
        regions.verified("adult")


@pytest.mark.parametrize("layout", [3, 4, 5])
def test_older_layouts_get_the_new_tables_and_keep_their_rows(ledger_url: str, layout: int) -> None:
    ledger = SqlLedger(ledger_url)
    ledger.create_dataset("adult", 2.0, 0.0)
    reserve(ledger, name(0), HALF)
    before = (ledger.datasets(), ledger.history("adult"), ledger.grants("adult"), ledger.ledger_id())
    newer = ["thresholds"]
    newer += ["series_history", "series_steps", "series"] if layout < 5 else []
    newer += ["release_blocks", "partitionings"] if layout == 3 else []
    past_the_ledger(
        ledger_url, *(f"DROP TABLE {table}" for table in newer), f"UPDATE ledger_info SET version = {layout}"
    )
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda _: SqlLedger(ledger_url).datasets(), range(3)))
    assert found == [before[0]] * 3
    moved = SqlLedger(ledger_url)
    assert (moved.datasets(), moved.history("adult"), moved.grants("adult"), moved.ledger_id()) == before
    assert past_the_ledger(ledger_url, "SELECT version FROM ledger_info") == [(6,)]
    moved.create_dataset("adult", 2.0, 0.0, partitioning=REGIONS)
    reserve(moved, name(1), ONE, blocks=region("north"))
    with pytest.raises(exc.DBAPIError, match="append-only"):
        past_the_ledger(ledger_url, "DELETE FROM release_blocks")
