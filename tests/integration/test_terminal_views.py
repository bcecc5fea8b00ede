"""What commands print: results as JSON everywhere, plans side by side, and sentences without surprises."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jobs import heartbeat
from jobs.cli import COMMANDS, _load_command
from jobs.commands import demo
from tests.support.releases import World, table_world

NO_RESULT = {"schema draft", "schema json"}
"""Commands that print a file, of YAML or of JSON, and have no other result."""


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> World:
    monkeypatch.chdir(tmp_path)
    world = table_world(tmp_path, capsys)
    world.budget(epsilon=3.0)
    return world


def facts_of(world: World, *arguments: str) -> Any:
    code, out, err = world.marquee(*arguments, "--json")
    assert code == 0, err
    return json.loads(out)


def test_every_command_has_the_option_json() -> None:
    lacking = []
    for name in COMMANDS:
        command = _load_command(name)
        for path, each in getattr(command, "commands", {"": command}).items():
            options = {option for parameter in each.params for option in getattr(parameter, "opts", ())}
            if "--json" not in options:
                lacking.append(f"{name} {path}".strip())
    assert set(lacking) == NO_RESULT


def test_the_results_of_a_release(world: World) -> None:
    checked = facts_of(world, "validate", "release.yaml")
    assert checked["sensitive"].startswith("SENSITIVE")
    assert (next(iter(checked)), checked["rows"], checked["units"]) == ("sensitive", 300, 300)
    assert [column["attribute"] for column in checked["columns"]] == ["sex", "work", "age", "home"]
    made = facts_of(world, "run", "release.yaml")
    assert (made["release_id"], made["already"]) == (world.job().release_id, False)
    assert facts_of(world, "run", "release.yaml") == {**made, "already": True}
    assert facts_of(world, "verify", "out/people")["passed"]
    evaluated = facts_of(world, "evaluate", "release.yaml")
    assert "twice total variation" in evaluated["scales"]
    assert evaluated["error"]["mean"] == pytest.approx(2 * evaluated["rows"]["release"]["total_variation"])
    heading = "(workload: the whole L1 distance; total variation: half of it)"
    assert heading in world.marquee("evaluate", "release.yaml")[1]


def test_the_results_about_budgets(world: World) -> None:
    assert world.run()[0] == 0
    (dataset,) = facts_of(world, "budget", "show")["datasets"]
    past = facts_of(world, "budget", "history", "--dataset", "people")
    (charge,) = past["charges"]
    assert dataset["spent"]["exact"] == charge["amount"]["exact"]
    assert charge["release_id"] == world.job().release_id
    assert dataset["spent"]["epsilon_alone"] == pytest.approx(1.0, rel=1e-3)
    assert {granted["reason"] for granted in past["grants"]} >= {"created"}
    raised = ("--dataset", "people", "--epsilon", "4", "--delta", "1e-6")
    assert facts_of(world, "budget", "grant", *raised, "--reason", "more")["dataset"]["epsilon"] == 4
    consumer = facts_of(world, "budget", "grant", *raised, "--consumer", "office", "--window", "month")["consumer"]
    assert (consumer["name"], consumer["window"]) == ("office", "month")
    created = facts_of(world, "budget", "create", "--dataset", "new", "--epsilon", "1", "--delta", "0")
    assert created["dataset"]["name"] == "new"
    (world.folder / "data").rename(world.folder / "elsewhere")
    moved = facts_of(world, "budget", "move", "--dataset", "people", "--path", "elsewhere", "--reason", "a disk")
    assert (moved["dataset"]["path"], moved["remark"]) == (str(world.folder / "elsewhere"), None)


def test_the_results_of_what_generates(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert facts_of(world, "generate", "table", "t", "--rows", "100", "--files", "1")["schema"] == "t.schema.yaml"
    sizes = ("--users", "50", "--films", "10", "--pairs", "100", "--files", "1")
    assert facts_of(world, "generate", "baskets", "b", *sizes) == {"folder": "b", "files": 1, "users": 50}
    (world.folder / "store").mkdir(mode=0o700)
    assert facts_of(world, "store", "clean", "store", "--keep-days", "1")["keep_days"] == 1
    text = world.marquee("store", "clean", "store", "--keep-days", "1")[1]
    assert text == "Removed all entries not used for 1 day from store.\n"
    for name, size in (("PEOPLE", 1_500), ("FILES", 1)):
        monkeypatch.setattr(demo, name, size)
    monkeypatch.setattr(demo, "EXAMPLES", demo.EXAMPLES[-1:])
    (world.folder / "marquee.db").unlink()  # The demo has a ledger of its own, and refuses to take another for it.
    (shown,) = facts_of(world, "demo", "d")["releases"]
    assert (shown["dataset"], set(shown["errors"]["error"])) == (
        "people", {"mean", "rows", "zeros", "uniform", "product"}
    )  # fmt: skip


def test_plans_side_by_side(world: World) -> None:
    facts = facts_of(world, "plan", "release.yaml", "--compare", "--errors")
    options = {option["name"]: option for option in facts["mechanisms"]}
    assert options["gaussian"]["error"] > options["hdmm"]["error"] > 0
    assert [point["error"] for point in facts["errors"]] == [None] * 7
    code, out, err = world.marquee("plan", "release.yaml", "--compare")
    assert code == 0, err
    heading, first, *_ = out.splitlines()
    assert heading.split()[:4] == ["mechanism", "error", "time", "memory"]
    assert first.split()[0] == min(
        (option["error"], name) for name, option in options.items() if option["error"] is not None
    )[1]  # fmt: skip
    assert f"recommended {facts['recommended']} (model: graphical): " in out
    out = world.marquee("plan", "release.yaml", "--errors", "--set", "mechanism={name: hdmm}")[1]
    assert out.count("#") > 40
    assert world.charges() == 0


def test_a_plan_names_codes_and_queries(world: World) -> None:
    out = world.marquee("plan", "release.yaml")[1].splitlines()
    assert "domain     sex 2, work 5, age 4, home 3: 120 cells in all" in out
    added = "other (unlisted values) to work; null (nulls) to work, home"
    assert f"domain     3 codes added to the listed values: {added}" in out
    assert "queries    6 marginals of 2 attributes" in out
    domain = facts_of(world, "plan", "release.yaml")["domain"]
    assert domain["cells"] == 120
    assert domain["attributes"][1] == {"name": "work", "values": 3, "other": True, "null": True, "codes": 5}


def test_sums_with_weights_are_not_called_counts(world: World) -> None:
    world.config["mechanism"] = {"name": "hdmm"}
    world.save()
    (step,) = [line for line in world.marquee("plan", "release.yaml")[1].splitlines() if line.startswith("step")]
    assert step.endswith(" of a weighted sum of counts, which is no answer")


def test_a_plan_with_many_steps_is_cut_short(world: World) -> None:
    world.config |= {"mechanism": {"name": "gaussian"}, "workload": {"marginals": {"up_to_order": "all"}}}
    world.save()
    lines = [line for line in world.marquee("plan", "release.yaml")[1].splitlines() if line.startswith("step")]
    assert len(lines) <= 16
    assert len(facts_of(world, "plan", "release.yaml")["steps"]) >= len(lines)


def test_random_marginals_from_plan_to_verify(world: World) -> None:
    world.config["workload"] = {"marginals": {"order": 2, "count": 3, "seed": 7}}
    world.save()
    first = world.job()
    assert (
        "queries    3 marginals of 2 attributes, chosen at random with seed 7"
        in world.marquee("plan", "release.yaml")[1].splitlines()
    )
    assert world.run()[0] == 0
    outcomes = {
        (one["check"], one["outcome"])
        for one in facts_of(world, "verify", "out/people", "--ledger", "sqlite:///marquee.db")["findings"]
    }
    assert ("queries", "passed") in outcomes
    assert not [check for check, outcome in outcomes if outcome == "failed"]
    world.set("workload.marginals.seed", 8)
    assert world.job().release_id != first.release_id
    world.config["workload"] = {"marginals": {"order": 2, "count": 7}}
    world.save()
    code, _, err = world.marquee("plan", "release.yaml")
    assert (code, "count is 7, but only 6 marginals of 2 of 4 attributes exist" in err) == (2, True)


def test_quiet_leaves_results_alone(world: World) -> None:
    code, out, err = world.marquee("run", "release.yaml", "--quiet")
    assert (code, err) == (0, "")
    assert out.startswith("published: ")


@pytest.mark.parametrize("clustered", [False, True])
def test_a_run_says_which_part_of_the_data_it_has_read(
    world: World, monkeypatch: pytest.MonkeyPatch, clustered: bool
) -> None:
    world.config["dataset"]["clustered_by_unit"] = clustered
    world.save()
    known: list[tuple[str, int, int | None]] = []

    def remembered(self: heartbeat.Activity, done: int, total: int) -> None:
        known.append((self.label, done, total))

    monkeypatch.setattr(heartbeat.Activity, "__call__", remembered)
    monkeypatch.setattr("pipelines.engines.progress._FEWEST", 1)  # The data have three files.
    assert world.run()[0] == 0
    read = [done for label, done, _ in known if label == "aggregate"]
    assert max(read) == 20
    assert {total for label, _, total in known if label == "aggregate"} == {20}
    assert "mwem" in {label for label, *_ in known}
