"""``marquee plan`` names the mechanism to begin with, whatever the config names, and changes nothing by it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.sensitivity import Neighbours
from dpcore.mechanisms.recommendation import recommended
from jobs.ledger import SqlLedger
from jobs.ledger.records import Protection
from tests.support.releases import LEDGER, World, baskets_world, table_world

REPLACE = Neighbours.REPLACE_ONE_UNIT


@pytest.fixture(params=["table", "baskets"])
def world(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> World:
    monkeypatch.chdir(tmp_path)
    return {"table": table_world, "baskets": baskets_world}[request.param](tmp_path, capsys)


def advice(world: World) -> tuple[str, str]:
    """The mechanism and its reason as JSON says them; the words must say the same."""
    code, out, _ = world.marquee("plan", "release.yaml", "--json")
    assert code == 0
    facts = json.loads(out)
    name, why = facts["recommended"]["name"], facts["recommended"]["why"]
    settings = ", ".join(f"{key}: {value}" for key, value in facts["recommended"]["settings"].items())
    choice = f"{name} ({settings})" if settings else name
    assert facts["mechanism"] == world.config["mechanism"]["name"]
    _, out, _ = world.marquee("plan", "release.yaml")
    assert f"recommended {choice}: {why}" in out.splitlines()
    return name, why


def test_it_is_what_the_rule_says_for_the_terms_that_the_mechanism_would_have(world: World) -> None:
    job = world.job()
    found = recommended(PrivacyTerms(job.unit, job.rest), job.stand_in)
    assert advice(world) == (found.name, found.why)
    assert found.why


def test_it_is_the_same_beside_another_mechanism_and_beside_itself(world: World) -> None:
    first = advice(world)
    for name in {"independent", first[0]} - {"laplace"}:
        world.config["mechanism"] = {"name": name}
        world.save()
        assert advice(world) == first


def test_rows_that_are_asked_for_rule_out_what_has_no_model(world: World) -> None:
    world.config["mechanism"] = {"name": "independent"}
    world.set("output.synthetic_rows", 10)
    assert advice(world)[0] not in ("laplace", "gaussian", "clipped_gaussian", "hdmm")


def test_without_delta_it_is_one_for_pure_privacy(world: World) -> None:
    world.config["mechanism"] = {"name": "laplace"}
    world.set("privacy.delta", 0.0)
    assert advice(world)[0] not in ("gaussian",)


def test_it_prints_the_absolute_ledger_and_its_id(world: World) -> None:
    address = f"sqlite:///{world.folder / 'marquee.db'}"
    facts = json.loads(world.marquee("plan", "release.yaml", "--json")[1])
    assert (facts["ledger"], facts["ledger_id"]) == (address, None)
    assert f"ledger     {address}, whose id is not known yet" in world.marquee("plan", "release.yaml")[1]
    world.budget()
    facts = json.loads(world.marquee("plan", "release.yaml", "--json")[1])
    assert len(facts["ledger_id"]) == 16
    assert f"ledger     {address}, id {facts['ledger_id']}" in world.marquee("plan", "release.yaml")[1]


def charge(world: World) -> str:
    facts = json.loads(world.marquee("plan", "release.yaml", "--json")[1])
    assert f"charge     {facts['charge']}" in world.marquee("plan", "release.yaml")[1].splitlines()
    return str(facts["charge"])


def test_it_predicts_the_charge_for_the_relation_of_the_dataset(world: World) -> None:
    world.config["mechanism"] = {"name": "laplace"}
    world.config["privacy"] |= {"epsilon": 1.0, "delta": 0.0}
    world.save()
    unit, name = world.config["dataset"]["unit"], world.config["dataset"]["name"]
    assert charge(world).startswith("refused now: there is no ledger at")
    SqlLedger(LEDGER).create_dataset(name, 2.0, 0.0, protection=Protection(unit, None, None, REPLACE))
    assert charge(world).startswith(f"epsilon = 2 for units of column {unit!r} (replace_one_unit): the release is for")
    assert world.run()[0] == 0
    assert charge(world) == "none: this release was charged already"
    assert [float(charged.amount) for charged in SqlLedger(LEDGER).history(name)] == [2.0]


def test_it_predicts_that_another_unit_is_refused(world: World) -> None:
    name = world.config["dataset"]["name"]
    SqlLedger(LEDGER).create_dataset(name, 50.0, 1e-6, protection=Protection("household"))
    assert "column 'household', and this release protects units of column" in charge(world)
    code, out, err = world.run()
    assert (code, out) == (4, "")
    assert charge(world).removeprefix("refused now: ") in err
    assert world.charges() == 0


def test_it_is_made_where_the_ledger_cannot_be_reached(world: World) -> None:
    world.set("privacy.ledger", "postgresql://127.0.0.1:1/x")
    assert charge(world).startswith("unknown: ledger postgresql://127.0.0.1:1/x cannot be reached")


def test_a_plan_can_be_made_whatever_is_wrong_with_the_ledger(world: World) -> None:
    (world.folder / "marquee.db").write_bytes(b"no database" * 100)
    code, out, err = world.marquee("plan", "release.yaml")
    assert (code, "charge     unknown: " in out) == (0, True), err
    world.config["privacy"]["ledger"] = "postgresql+nodriver://host/db"
    world.save()
    code, out, err = world.marquee("plan", "release.yaml")
    assert (code, "charge     unknown: " in out) == (0, True), err
