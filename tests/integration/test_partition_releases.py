"""Releases of partitions from the command line: what they count and are charged to, what is said and verified."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.ledger import SqlLedger
from jobs.outputs.certificate_format import parse_certificate
from jobs.planning.identity import identifying_config
from tests.support.ledgers import past_the_ledger
from tests.support.releases import LEDGER, World, people, table_world

REGIONS = ("north", "east", "south", "west")
BY_REGION = ("--partitioned-by", "region", "--units-in", "one_partition")
DAYS = ("--partitioned-by", "day", "--units-in", "many_partitions", "--max-partitions-per-unit", "2")
STRAY = 7  # People with a row in two regions, or in every day.
# So much that the discrete Laplace noise is 0 but for a chance below 1e-20.
SILENT = 50.0


@pytest.fixture
def regions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> World:
    """100 people a region, of whom the first few of the north have a row in the south as well."""
    monkeypatch.chdir(tmp_path)
    world = table_world(tmp_path, capsys)
    draw = np.random.default_rng(5)
    folders(tmp_path, "region", {region: people(100 * place, 100, draw) for place, region in enumerate(REGIONS)})
    pq.write_table(people(0, STRAY, draw), tmp_path / "parts" / "region=south" / "late.parquet")
    return of_partitions(world, {"column": "region", "values": "north"})


@pytest.fixture
def days(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> World:
    """Four days; some people come every day, and 50 new ones each day."""
    monkeypatch.chdir(tmp_path)
    world, draw = table_world(tmp_path, capsys), np.random.default_rng(6)
    tables = {}
    for day in range(1, 5):
        rows = [people(0, STRAY, draw), people(1000 * day, 50, draw)]
        tables[f"2026-11-{day:02d}"] = pa.concat_tables(rows)
    folders(tmp_path, "day", tables)
    section = {"column": "day", "units_in": "many_partitions", "max_partitions_per_unit": 2, "values": "2026-11-01"}
    return of_partitions(world, section)


def folders(folder: Path, column: str, tables: dict[str, pa.Table]) -> None:
    for value, table in tables.items():
        place = folder / "parts" / f"{column}={value}"
        place.mkdir(parents=True)
        pq.write_table(table, place / "0.parquet")


def of_partitions(world: World, section: dict[str, object]) -> World:
    world.config["dataset"] |= {"path": "parts", "partition": section}
    world.config |= {
        "privacy": {"epsilon": SILENT, "delta": 0.0, "ledger": LEDGER},
        "workload": {"marginals": {"order": 1, "attributes": ["sex"]}},
        "mechanism": {"name": "laplace"},
        "output": {"path": "out/{release_id}"},
    }
    world.save()
    return world


def create(world: World, epsilon: float, *more: str) -> str:
    code, out, err = world.marquee(
        "budget", "create", "--dataset", "people", "--epsilon", str(epsilon), "--delta", "0", *more
    )  # fmt: skip
    assert code == 0, err
    return out


def folder_of(world: World) -> Path:
    return world.job().output


def counted(world: World) -> int:
    """The number of people that a release without noise says."""
    code, _, err = world.run()
    assert code == 0, err
    answers = pq.read_table(folder_of(world) / "answers.parquet")
    return round(sum(answer for answer in answers["answer"].to_pylist()) / len(answers) * 2)


def test_four_regions_each_spend_the_whole_total(regions: World) -> None:
    create(regions, SILENT, *BY_REGION)
    for region in REGIONS:
        regions.set("dataset.partition.values", region)
        code, out, _ = regions.marquee("plan", "release.yaml")
        assert code == 0
        assert f"charged to partition region = {region}, where epsilon = 50 remains" in out
        assert f"The release counts the rows in which region is '{region}'" in out
        wanted = {"north": 100 - STRAY, "south": 100}.get(region, 100)
        assert counted(regions) == wanted
        code, out, err = regions.marquee("verify", str(folder_of(regions)), "--ledger", LEDGER)
        assert code == 0, out + err
    certificate, _ = parse_certificate((folder_of(regions) / "certificate.json").read_text())
    assert certificate.dataset.partition is not None
    assert "A unit with rows in several partitions, these or others, is not counted." in certificate.dataset.partition
    budget = SqlLedger(LEDGER).verified("people")
    assert (budget.spent, budget.total) == (50, 50)
    _, out, _ = regions.marquee("budget", "show")
    assert "partitioned by column 'region', each unit in one of them; spent is the largest sum of a partition" in out
    assert "region = west: epsilon 50" in out
    _, out, _ = regions.marquee("budget", "history", "--dataset", "people")
    assert out.count(", for region = ") == 4
    del regions.config["dataset"]["partition"]
    regions.set("privacy.epsilon", 0.5)
    code, _, err = regions.run()
    assert code == 4
    assert "remains" in err or "remaining" in err


def test_validate_counts_who_is_left_out(regions: World) -> None:
    for values, wanted in (("north", STRAY), (["north", "south"], STRAY), ("east", 0)):
        regions.set("dataset.partition.values", values)
        code, out, err = regions.marquee("validate", "release.yaml")
        assert code == 0, err
        assert f"units in too many partitions        {wanted:>14,}\n" in out


def test_several_regions_are_one_release(regions: World) -> None:
    create(regions, 2 * SILENT, *BY_REGION)
    regions.set("dataset.partition.values", ["north", "south"])
    assert counted(regions) == 200 - STRAY  # Neither file of a person in two regions counts.
    assert SqlLedger(LEDGER).block_sums("people").blocks == {"north": 50, "south": 50}


def test_returning_people_count_on_their_first_days(days: World) -> None:
    create(days, 2 * SILENT, *DAYS)
    numbers = []
    for day in range(1, 5):
        days.set("dataset.partition.values", f"2026-11-{day:02d}")
        numbers.append(counted(days))
    assert numbers == [50 + STRAY, 50 + STRAY, 50, 50]
    assert SqlLedger(LEDGER).verified("people").spent == 100
    days.set("dataset.partition.values", {"min": "2026-11-01", "max": "2026-11-04"})
    assert days.run()[0] == 4
    certificate = (folder_of_last(days) / "certificate.json").read_text()
    assert "A unit is counted in the first 2 of all its partitions" in certificate


def folder_of_last(world: World) -> Path:
    world.set("dataset.partition.values", "2026-11-04")
    return folder_of(world)


def test_a_window_of_days_is_one_charge(days: World) -> None:
    create(days, SILENT, *DAYS)
    days.set("dataset.partition.values", {"min": "2026-11-02", "max": "2026-11-04"})
    assert counted(days) == 150 + STRAY
    assert SqlLedger(LEDGER).verified("people").spent == 50
    days.set("dataset.partition.values", "2026-11-01")
    assert days.run()[0] == 4  # Somebody may count on the first day and within the window.


def test_a_day_stays_what_it_is_when_days_are_appended(days: World) -> None:
    create(days, 2 * SILENT, *DAYS)
    days.set("dataset.partition.values", "2026-11-02")
    assert days.run()[0] == 0
    before = days.files("out")
    folders(days.folder, "day", {"2026-11-05": people(0, 60, np.random.default_rng(7))})
    assert days.run()[0] == 0
    assert days.files("out") == before
    pq.write_table(people(500, 30, np.random.default_rng(8)), days.folder / "parts" / "day=2026-11-01" / "late.parquet")
    code, _, err = days.run()
    assert (code, "was planned with other input files" in err) == (7, True), err


def test_a_forged_partition_is_noticed(regions: World) -> None:
    create(regions, SILENT, *BY_REGION)
    assert regions.run()[0] == 0
    path = folder_of(regions) / "certificate.json"
    content = json.loads(path.read_text())
    content["dataset"]["partition"] = content["dataset"]["partition"].replace("north", "south")
    path.write_text(json.dumps(content))
    code, out, _ = regions.marquee("verify", str(folder_of(regions)))
    assert code == 7
    assert "dataset.partition" in out


def test_a_release_of_other_partitions_than_were_charged_is_noticed(regions: World) -> None:
    """A row more, past the ledger: the release counts the north, and the charge says that the south was counted too."""
    create(regions, SILENT, *BY_REGION)
    assert regions.run()[0] == 0
    release = regions.job().release_id
    past_the_ledger(LEDGER, f"INSERT INTO release_blocks VALUES ('{release}', 'south', 'text')")
    code, out, _ = regions.marquee("verify", str(folder_of(regions)), "--ledger", LEDGER)
    assert code == 7
    assert "the release is of 1 partitions of the dataset, but the ledger has charged 2" in out


@pytest.mark.parametrize(("place", "value", "code", "says"), [
    ("privacy.neighbours", "replace_one_unit", 2, "dataset.partition needs privacy.neighbours: add_remove_unit"),
    ("dataset.path", "parts/*/*.parquet", 2, "want the folder of all partitions"),
    ("dataset.partition.max_partitions_per_unit", 3, 2, "needs units_in: many_partitions"),
    ("dataset.partition.values", [], 2, "want a partition, a list of texts"),
    ("dataset.partition.values", {"min": "a", "max": "b"}, 2, "is no date; want dates such as 2026-01-31"),
    ("dataset.partition.values", {"min": 1, "max": 9999}, 2, "9,999 partitions; want 1 .. 4,000"),
    ("dataset.partition.column", "person", 2, "the partition column 'person' is that of the unit"),
    ("dataset.partition.column", "sex", 4, "is partitioned by column 'region', each unit in one of them"),
    ("dataset.partition.units_in", "many_partitions", 4, "want dataset.partition: {column: region, values: ...}"),
    ("dataset.partition.type", "date", 2, "is no date"),
])  # fmt: skip
def test_what_is_refused(regions: World, place: str, value: object, code: int, says: str) -> None:
    create(regions, SILENT, *BY_REGION)
    if value == "replace_one_unit":
        regions.config["privacy"]["units"] = 400
    regions.set(place, value)
    found, _, err = regions.run()
    assert (found, says in err) == (code, True), err


def test_a_dataset_that_is_not_partitioned_says_the_command(regions: World) -> None:
    create(regions, SILENT)
    code, _, err = regions.run()
    assert code == 4
    assert "--partitioned-by region --units-in one_partition" in err
    _, out, _ = regions.marquee("plan", "release.yaml")
    assert "refused now: dataset 'people' is not partitioned in the ledger" in out
    create(regions, SILENT, *BY_REGION)
    assert regions.run()[0] == 0


@pytest.mark.parametrize(("words", "says"), [
    (("--units-in", "one_partition"), "want --partitioned-by"),
    (("--partitioned-by", "region"), "--units-in is missing"),
    ((*BY_REGION, "--max-partitions-per-unit", "2"), "want --units-in many_partitions"),
])  # fmt: skip
def test_options_that_contradict_each_other(regions: World, words: tuple[str, ...], says: str) -> None:
    code, _, err = regions.marquee("budget", "create", "--dataset", "people", "--epsilon", "1", "--delta", "0", *words)
    assert (code, says in err) == (2, True), err


def test_partitions_are_part_of_the_release_id_and_of_nothing_else(regions: World) -> None:
    first = regions.job().release_id
    regions.set("dataset.partition.values", ["north"])
    assert regions.job().release_id == first
    regions.set("dataset.partition.values", "south")
    assert regions.job().release_id != first
    assert "partition" in identifying_config(regions.job().config)["dataset"]
    del regions.config["dataset"]["partition"]
    regions.save()
    assert "partition" not in identifying_config(regions.job().config)["dataset"]


def test_a_repeated_release_is_charged_once(regions: World) -> None:
    create(regions, SILENT, *BY_REGION)
    for _ in range(2):
        assert regions.run()[0] == 0
    (charge,) = SqlLedger(LEDGER).history("people")
    assert (charge.blocks, charge.amount) == (("north",), Fraction(50))
