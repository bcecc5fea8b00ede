"""What operators see of runs: events with stages, metrics, the log of exact sizes, and the state for machines."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from jobs.ledger import SqlLedger
from jobs.monitoring import metrics
from jobs.monitoring.stages import STAGES
from tests.support.releases import LEDGER, World, table_world

PEOPLE = 300


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> World:
    monkeypatch.chdir(tmp_path)
    world = table_world(tmp_path, capsys)
    world.budget(epsilon=1.2)
    return world


def events_of(world: World, *arguments: str) -> list[dict[str, Any]]:
    _, _, err = world.marquee("--log-format", "json", *arguments)
    return [json.loads(line) for line in err.splitlines()]


def measured(world: World) -> dict[tuple[str, ...], float]:
    """The samples of the file by name and by all labels but config and dataset, as the library's parser reads them."""
    found = {}
    for family in text_string_to_metric_families((world.folder / "m.prom").read_text()):
        assert family.documentation
        for sample in family.samples:
            assert (sample.labels.pop("config"), sample.labels.pop("dataset")) == ("release", "people")
            found[(sample.name, *(sample.labels[key] for key in sorted(sample.labels)))] = sample.value
    return found


def test_every_stage_is_an_event_for_machines(world: World) -> None:
    events = [event for event in events_of(world, "run", "release.yaml") if event["event"] == "stage"]
    assert {event["stage"] for event in events} == set(STAGES)
    assert sum(event["cpu_seconds"] for event in events) > 0
    assert all(event["done"] and event["seconds"] >= 0 for event in events)
    inner = sum(event["seconds"] for event in events if event["stage"] == "aggregate")
    assert inner <= next(event["seconds"] for event in events if event["stage"] == "answer") + 0.001 * len(events)
    assert str(PEOPLE) not in {str(value) for event in events for value in event.values()}
    world.set("dataset.snapshot", "later")
    world.set("output.path", "out/later")
    assert " stage=" not in world.run()[2]  # People have a progress bar.


def test_a_stage_that_fails_says_so(world: World) -> None:
    world.set("dataset.path", "nowhere/*.parquet")
    events = events_of(world, "run", "release.yaml")
    assert [(event["stage"], event["done"]) for event in events if event["event"] == "stage"] == [("open", False)]


def test_the_state_is_printed_for_machines(world: World) -> None:
    code, out, _ = world.marquee("status", "release.yaml", "--log-format", "json")
    assert (code, json.loads(out)["state"], out.count("\n")) == (0, "unknown to the ledger", 1)
    assert world.run()[0] == 0
    code, out, _ = world.marquee("--log-format=json", "status", "release.yaml")
    facts = json.loads(out)
    charge = SqlLedger(LEDGER).history("people")[0]
    assert (facts["state"], facts["snapshot"], facts["charged"]) == ("published", "2026-11", charge.charged)
    assert facts["answers"] == len((world.folder / _journal(world)).read_text().splitlines())
    assert json.loads(world.marquee("status", "release.yaml", "--json")[1]) == facts
    text = world.marquee("status", "release.yaml")[1]
    assert {line.split(maxsplit=1)[1] for line in text.splitlines()} == {str(value) for value in facts.values()}


def _journal(world: World) -> str:
    (found,) = [name for name in world.files() if name.endswith("journal.jsonl")]
    return found


def test_metrics_of_a_release_and_its_repetition(world: World) -> None:
    run = ("run", "release.yaml", "--metrics-file", "m.prom")
    assert world.marquee(*run)[0] == 0
    found = measured(world)
    certificate = json.loads((world.folder / "out/people/certificate.json").read_text())
    assert found["marquee_releases_total", "0", "published"] == 1
    assert found["marquee_last_run_exit_code",] == 0
    assert {key[1] for key in found if key[0] == "marquee_stage_seconds"} == set(STAGES)
    assert found["marquee_release_answers",] == certificate["workload"]["answers"]
    assert found["marquee_release_kernel_calls",] == len(certificate["charges"])
    assert found["marquee_release_rounds",] == 3
    budget = SqlLedger(LEDGER).dataset("people", 1.0, 1e-6)
    assert budget.total is not None
    assert found["marquee_budget_spent", "zCDP rho"] == float(budget.spent) > 0
    assert found["marquee_budget_remaining", "zCDP rho"] == float(budget.total - budget.spent)
    assert found["marquee_budget_epsilon", "spent"] == pytest.approx(1.0)
    assert found["marquee_budget_epsilon", "total"] == 1.2
    assert PEOPLE not in found.values()
    assert world.marquee(*run)[0] == 0
    again = measured(world)
    assert (
        again["marquee_releases_total", "0", "published"],
        again["marquee_releases_total", "0", "already_published"],
    ) == (1, 1)
    assert again["marquee_last_success_timestamp_seconds",] >= found["marquee_last_success_timestamp_seconds",]


def test_metrics_count_refusals_and_failures_and_keep_the_last_success(world: World) -> None:
    run = ("run", "release.yaml", "--metrics-file", "m.prom")
    assert world.marquee(*run)[0] == 0
    success = measured(world)["marquee_last_success_timestamp_seconds",]
    assert world.marquee(*run, "--set", "dataset.snapshot=next", "--set", "output.path=out/next")[0] == 4
    assert world.marquee(*run, "--set", "privacy.epsilon=much")[0] == 2
    assert world.marquee(*run, "--set", "privacy.epsilon=much")[0] == 2
    found = measured(world)
    totals = {key[1:]: value for key, value in found.items() if key[0] == "marquee_releases_total"}
    assert totals == {("0", "published"): 1, ("4", "refused"): 1, ("2", "failed"): 2}
    assert (found["marquee_last_run_exit_code",], found["marquee_last_success_timestamp_seconds",]) == (2, success)
    assert not any(key[0] == "marquee_release_answers" for key in found)


@pytest.mark.parametrize("path", ["none/m.prom", "data"])
def test_a_place_for_metrics_that_cannot_be_written_is_refused_first(world: World, path: str) -> None:
    code, _, err = world.marquee("run", "release.yaml", "--metrics-file", path)
    assert (code, world.charges()) == (2, 0)
    assert f"--metrics-file {path} cannot be written; want a file in an existing folder" in err


def test_metrics_without_the_extra_are_refused_first(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "find_spec", lambda _: None)
    code, _, err = world.marquee("run", "release.yaml", "--metrics-file", "m.prom")
    assert (code, world.charges(), "install marquee[metrics]" in err) == (2, 0, True)


def test_a_file_that_holds_no_metrics_is_kept_with_one_warning(world: World) -> None:
    (world.folder / "m.prom").write_text("not { metrics\n")
    code, _, err = world.marquee("run", "release.yaml", "--metrics-file", "m.prom")
    assert (code, err.count("--metrics-file m.prom was not written")) == (0, 1)
    assert (world.folder / "m.prom").read_text() == "not { metrics\n"


def test_exact_sizes_are_only_in_the_operator_s_log(world: World) -> None:
    run = ("--log-format", "json", "run", "release.yaml", "--log-sensitive", "sizes.jsonl")
    code, out, err = world.marquee(*run)
    assert code == 0
    path = world.folder / "sizes.jsonl"
    first, *records = [json.loads(line) for line in path.read_text().splitlines()]
    assert first["sensitive"].startswith("SENSITIVE: exact sizes of dataset 'people'")
    (sizes,) = [record for record in records if record["event"] == "input"]
    data = list((world.folder / "data").iterdir())
    assert (sizes["files"], sizes["rows"]) == (3, PEOPLE)
    assert sizes["bytes"] == sum(file.stat().st_size for file in data)
    assert {record["stage"] for record in records if record["event"] == "stage"} == set(STAGES)
    assert str(sizes["bytes"]) not in out + err
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.read_text()
    assert world.marquee(*run)[0] == 0
    added = path.read_text().removeprefix(before).splitlines()
    assert json.loads(added[0]) == first


@pytest.mark.parametrize(("place", "says"), [
    ("none/sizes.jsonl", "cannot be written (No such file or directory)"),
    ("open.jsonl", "may be opened by other users (mode 0644); want chmod 600"),
])  # fmt: skip
def test_a_place_for_exact_sizes_that_is_not_the_operator_s_is_refused_first(
    world: World, place: str, says: str
) -> None:
    (world.folder / "open.jsonl").touch(mode=0o644)
    (world.folder / "open.jsonl").chmod(0o644)
    code, _, err = world.marquee("run", "release.yaml", "--log-sensitive", place)
    assert (code, world.charges()) == (2, 0)
    assert f"--log-sensitive {place} {says}" in err
