"""Baskets whose items nobody has listed: they are discovered, charged, published by name, and verified."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy import create_engine, text

import marquee
from dpcore.kernel import private_items
from dpcore.kernel.conversion import gdp_of
from dpcore.kernel.item_threshold import without_threshold_delta
from jobs.ledger import SqlLedger
from tests.support.engines import SPARK_SETTINGS
from tests.support.releases import LEDGER, World, baskets_world

NAMES = [f"item {code}" for code in range(38)] + ["fish & chips", "!odd"]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> World:
    """The small shop with text in place of codes; each user has an item that nobody else has."""
    monkeypatch.chdir(tmp_path)
    world = baskets_world(tmp_path, capsys)
    table = pq.read_table("data/part-0.parquet")
    users = np.arange(200)
    items = [NAMES[code] for code in table["item"].to_pylist()] + [f"secret of {user}" for user in users]
    rows = pa.table({"user": np.concatenate([table["user"].to_numpy(), users]), "item": items})
    pq.write_table(rows, "data/part-0.parquet")
    world.set("workload", {"conjunctions": {"count": 30, "order": 2}})
    world.set("dataset.items", {"discover": {"share": 0.2, "at_most": 50}})
    world.budget(20.0)
    return world


def test_a_release_discovers_items_and_is_verified(shop: World) -> None:
    code, out, err = shop.marquee("plan", "release.yaml")
    assert code == 0, out + err
    assert "items are discovered for mu^2" in out
    assert "at most 50 items" in out
    code, _, err = shop.run()
    assert code == 0, err
    items = pq.read_table("out/shop/items.parquet")
    names = items["item"].to_pylist()
    assert names == sorted(names)
    assert 5 < len(names) < 40
    assert set(names) <= set(NAMES)
    certificate = json.loads(Path("out/shop/certificate.json").read_text())
    assert certificate["public_facts"]["items"] == len(names)
    section = certificate["discovery"]
    assert section["threshold_delta"] == str(Fraction(1, 4_000_000))
    assert items["weight"].to_numpy().min() >= min(section["thresholds"]) > 1
    assert [charge["verb"] for charge in certificate["charges"]] == ["discover", "discover", "measure"]
    answers = pq.read_table("out/shop/answers.parquet")
    assert {name for row in answers["items"].to_pylist() for name in row} <= set(names)
    code, out, err = shop.marquee("verify", "out/shop")
    assert code == 0, out + err
    assert "FAILED" not in out
    code, out, err = shop.marquee("evaluate", "release.yaml", "--json")
    assert code == 0, err


def test_everything_of_epsilon_and_delta_is_charged_and_nothing_more(shop: World) -> None:
    assert shop.run()[0] == 0
    dataset = SqlLedger(LEDGER).verified("shop")
    assert dataset.total == gdp_of(20.0, 1e-6)
    assert dataset.remaining == 0
    certificate = json.loads(Path("out/shop/certificate.json").read_text())
    reserved = Fraction(certificate["guarantee"]["reserved_in_the_ledger"]["amount"])
    assert reserved == gdp_of(*without_threshold_delta(20.0, 1e-6, Fraction(1, 4_000_000)))
    assert Fraction(certificate["used_by_kernel_calls"]["amount"]) <= reserved < dataset.total


def test_a_target_is_reduced_by_the_chance() -> None:
    epsilon, delta = without_threshold_delta(1.0, 1e-6, Fraction(1, 4_000_000))
    assert Fraction(epsilon) <= 1 - Fraction(1, 2_000_000) < Fraction(epsilon) + Fraction(1, 2**52)
    assert Fraction(delta) <= Fraction(1e-6) - Fraction(1, 4_000_000) < Fraction(delta) * (1 + Fraction(1, 2**51))


@pytest.mark.parametrize("damage", ["threshold_delta", "threshold", "items", "weights"])
def test_verify_notices_changes(shop: World, damage: str) -> None:
    assert shop.run()[0] == 0
    path = Path("out/shop/certificate.json")
    certificate = json.loads(path.read_text())
    if damage == "threshold_delta":
        certificate["discovery"]["threshold_delta"] = "1/2000000"
    elif damage == "threshold":
        certificate["discovery"]["thresholds"][1] -= 0.5
    elif damage == "items":
        certificate["discovery"]["items"] += 1
    else:
        table = pq.read_table("out/shop/items.parquet")
        pq.write_table(table.drop_columns(["weight", "stddev"]).slice(1), "out/shop/items.parquet")
    path.write_text(json.dumps(certificate, indent=2) + "\n")
    assert shop.marquee("verify", "out/shop")[0] != 0


def test_a_retry_takes_the_items_from_the_journal(shop: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from jobs.planning.job import Job

    def fail(*_: object) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(Job, "with_items", fail)
        assert shop.run()[0] != 0
    assert shop.charges() == 1

    def drawn(*_: object) -> None:
        raise AssertionError("noise was drawn again")

    monkeypatch.setattr(private_items, "add_noise", drawn)
    code, _, err = shop.run()
    assert code == 0, err
    assert shop.charges() == 1


def test_validate_counts_what_a_discovery_would_truncate(shop: World) -> None:
    shop.set("dataset.max_items_per_unit", 3)
    code, out, err = shop.marquee("validate", "release.yaml", "--json")
    assert code == 0, err
    facts = json.loads(out)
    baskets: dict[int, set[str]] = {}
    for row in pq.read_table("data/part-0.parquet").to_pylist():
        baskets.setdefault(row["user"], set()).add(row["item"])
    over = sum(len(basket) > 3 for basket in baskets.values())
    assert (facts["units"], facts["units_over_bound"], facts["items_out_of_range"]) == (200, over, 0)


@pytest.mark.spark
@pytest.mark.parametrize("engine", ["spark", "beam"])
def test_other_engines_discover_items(shop: World, engine: str) -> None:
    options = {"settings": SPARK_SETTINGS} if engine == "spark" else {}
    shop.set("engine", {"name": engine, "options": options} if options else {"name": engine})
    code, _, err = shop.run()
    assert code == 0, err
    assert set(pq.read_table("out/shop/items.parquet")["item"].to_pylist()) <= set(NAMES)
    assert shop.marquee("verify", "out/shop")[0] == 0
    assert shop.marquee("report", "out/shop")[0] == 0


def test_a_program_discovers_items(shop: World) -> None:
    release = marquee.release(
        "data", unit="user", workload={"conjunctions": {"count": 5, "order": 1}}, epsilon=20.0, delta=1e-6,
        name="shop", snapshot="3", shape="baskets", item="item", items={"discover": {"share": 0.3, "at_most": 30}},
        max_items_per_unit=10, ledger=LEDGER, output="out/program", mechanism="gaussian",
    )  # fmt: skip
    names = set(pq.read_table("out/program/items.parquet")["item"].to_pylist())
    assert {row["items"][0] for row in pq.read_table("out/program/answers.parquet").to_pylist()} <= names
    release.verify()


def test_popular_items_are_queried_by_their_weights(shop: World) -> None:
    shop.set("workload", {"conjunctions": {"count": 12, "order": 2, "weights": "noisy_popularity"}})
    code, _, err = shop.run()
    assert code == 0, err
    certificate = json.loads(Path("out/shop/certificate.json").read_text())
    assert [charge["verb"] for charge in certificate["charges"]] == ["discover", "discover", "measure"]
    assert shop.marquee("verify", "out/shop")[0] == 0


def test_fewer_items_than_the_workload_wants_give_fewer_queries(shop: World) -> None:
    shop.set("dataset.items", {"discover": {"share": 0.2, "at_most": 5}})
    code, _, err = shop.run()
    assert code == 0, err
    assert pq.read_table("out/shop/answers.parquet").num_rows == 10
    code, out, err = shop.marquee("verify", "out/shop")
    assert code == 0, out + err


def test_synthetic_baskets_have_discovered_names(shop: World) -> None:
    shop.set("mechanism", {"name": "independent"})
    shop.set("output.synthetic_rows", 40)
    code, _, err = shop.run()
    assert code == 0, err
    names = set(pq.read_table("out/shop/items.parquet")["item"].to_pylist())
    assert set(pq.read_table("out/shop/synthetic")["item"].to_pylist()) <= names
    assert shop.marquee("verify", "out/shop")[0] == 0
    assert shop.marquee("evaluate", "release.yaml")[0] == 0


def test_nothing_above_the_threshold_is_an_error_that_says_so(shop: World) -> None:
    shop.set("privacy.epsilon", 0.01)
    code, _, err = shop.run()
    assert code == 2
    assert "no item is above the threshold" in err


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("privacy.delta", 0, "delta"),
        ("dataset.max_items_per_unit", None, "max_items_per_unit"),
        ("privacy.consumer", "alice", "consumer"),
        ("workload", {"conjunctions": {"file": "q.txt"}}, "before they are known"),
        ("dataset.items", {"discover": {"share": 0}}, "share"),
        ("dataset.items", {"discover": {"share": 1}}, "share"),
        ("dataset.items", {"discover": {}, "file": "items.csv"}, "not both"),
        ("dataset.items", {}, "want file"),
        ("dataset.items", {"discover": {"at_most": 1 << 30}}, "want 1 .. 67,108,864"),
    ],
)
def test_what_cannot_be_is_refused_before_any_charge(shop: World, key: str, value: object, problem: str) -> None:
    shop.set(key, value)
    code, _, err = shop.run()
    assert code == 2
    assert problem in err
    assert shop.charges() == 0


def test_a_threshold_changed_in_the_ledger_is_noticed(shop: World) -> None:
    assert shop.run()[0] == 0
    engine = create_engine(LEDGER)
    with engine.begin() as connection:
        for (name,) in connection.execute(
            text("SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'thresholds'")
        ).all():
            connection.execute(text(f"DROP TRIGGER {name}"))
        connection.execute(text("UPDATE thresholds SET surcharge = '100000'"))
    assert shop.marquee("budget", "verify", "--ledger", LEDGER)[0] != 0
