"""``marquee doctor``: every check can fail, each failure says what to do next, and nothing is started or changed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from jobs.diagnosis import machine
from jobs.diagnosis.config import needed_extras
from jobs.diagnosis.findings import Health
from jobs.ledger.tables import VERSION as LAYOUT
from tests.support.releases import World, table_world


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> World:
    monkeypatch.chdir(tmp_path)
    return table_world(tmp_path, capsys)


def findings(world: World, *arguments: str) -> tuple[int, dict[str, dict[str, Any]], str]:
    """Exit code, the last finding of each check, and stderr."""
    code, out, err = world.marquee("doctor", *arguments, "--json")
    facts = json.loads(out)
    assert facts["ready"] == (code == 0)
    for finding in facts["findings"]:
        assert bool(finding["next"]) == (finding["outcome"] != "ok"), finding
    return code, {finding["check"]: finding for finding in facts["findings"]}, err


def test_a_machine_and_a_config_that_are_ready(world: World) -> None:
    world.budget()
    before = world.files()
    code, found, err = findings(world, "release.yaml")
    assert (code, err) == (0, "")
    assert {
        "python", "packages", "extras", "java", "spark", "memory", "disk", "kernels", "config", "needs", "data",
        "ledger", "budget", "output", "ledger folder", "permissions",
    } == set(found)  # fmt: skip
    assert {found[name]["outcome"] for name in ("config", "data", "ledger", "budget", "output")} == {"ok"}
    assert world.files() == before
    assert "300" not in json.dumps([found["data"], found["budget"]]), "neither rows nor units"


def test_without_a_config_it_is_about_the_machine(world: World) -> None:
    code, found, _ = findings(world)
    assert code == 0
    assert "config" not in found
    lines = world.marquee("doctor")[1].splitlines()
    assert {line[:6].strip() for line in lines} <= {"ok", "warn"}


def _no_data(world: World) -> None:
    shutil.rmtree(world.folder / "data")


def _no_json(world: World) -> None:
    world.set("workload.marginals.order", 99)


def _not_a_ledger(world: World) -> None:
    (world.folder / "marquee.db").write_bytes(b"no database" * 100)


def _output_below_a_file(world: World) -> None:
    (world.folder / "out").write_text("")


def _newer_layout(world: World) -> None:
    world.budget()
    with create_engine("sqlite:///marquee.db").begin() as connection:
        connection.execute(text(f"UPDATE ledger_info SET version = {LAYOUT + 1}"))


@pytest.mark.parametrize(("harm", "check", "says"), [
    (_no_data, "data", "there is no file at"),
    (_no_json, "config", "order is 99"),
    (_not_a_ledger, "ledger", "marquee.db"),
    (_output_below_a_file, "output", "may not be written"),
    (_newer_layout, "ledger", f"layout {LAYOUT + 1} is newer"),
])  # fmt: skip
def test_what_fails(world: World, harm: Callable[[World], None], check: str, says: str) -> None:
    harm(world)
    code, found, err = findings(world, "release.yaml")
    assert (code, found[check]["outcome"]) == (2, "fail")
    assert says in found[check]["text"]
    assert err.startswith("marquee: these checks fail: ")
    assert check in err


def test_what_is_only_missing_is_a_warning_with_the_command(world: World) -> None:
    code, found, _ = findings(world, "release.yaml")
    assert (code, found["ledger"]["outcome"]) == (0, "warn")
    assert "marquee budget create --ledger" in found["ledger"]["next"]
    assert not (world.folder / "marquee.db").exists()
    world.budget(name="another")
    assert findings(world, "release.yaml")[1]["budget"]["outcome"] == "warn"


def test_an_older_layout_is_not_migrated(world: World) -> None:
    world.budget()
    with create_engine("sqlite:///marquee.db").begin() as connection:
        connection.execute(text("UPDATE ledger_info SET version = 3"))
    code, found, _ = findings(world, "release.yaml")
    assert (code, found["ledger"]["outcome"]) == (0, "warn")
    assert f"has layout 3, and this marquee needs {LAYOUT}" in found["ledger"]["text"]
    with create_engine("sqlite:///marquee.db").begin() as connection:
        assert connection.execute(text("SELECT version FROM ledger_info")).scalar_one() == 3


def test_a_ledger_that_others_may_read_is_a_warning(world: World) -> None:
    world.budget()
    (world.folder / "marquee.db").chmod(0o644)
    code, found, _ = findings(world, "release.yaml")
    assert (code, found["permissions"]["outcome"]) == (0, "warn")
    assert "chmod 600" in found["permissions"]["next"]


def test_secrets_of_a_ledger_are_not_printed(world: World) -> None:
    world.set("privacy.ledger", "postgresql://office:hunter2@127.0.0.1:1/x")
    _, out, err = world.marquee("doctor", "release.yaml")
    assert "127.0.0.1:1" in out
    assert "hunter2" not in out + err


def test_extras_follow_from_the_config(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.set("engine", {"name": "beam"})
    world.set("privacy.ledger", "postgresql://127.0.0.1:1/x")
    assert needed_extras(world.job()) == {"beam", "postgres"}
    monkeypatch.setattr("jobs.diagnosis.config.version_of", lambda package: None)
    code, found, _ = findings(world, "release.yaml")
    assert code == 2
    assert found["needs"]["next"] == "pip install 'marquee[beam,postgres]'"


def test_missing_packages_java_and_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "version_of", lambda package: None)
    monkeypatch.setattr(machine, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert machine.check_packages().health is Health.FAIL
    for needed, health in ((True, Health.FAIL), (False, Health.OK)):
        assert machine.check_java(False, needed).health is health
        assert machine.check_spark(False, needed).health is health


def test_nothing_is_started_without_deep(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_: object, **__: object) -> None:
        pytest.fail("a process was started")

    monkeypatch.setattr(subprocess, "Popen", started)
    world.set("engine", {"name": "spark"})
    assert findings(world, "release.yaml")[0] == 0


@pytest.mark.parametrize(("available", "wanted", "health"), [
    (8 << 30, 1 << 20, Health.OK), (1 << 30, None, Health.WARN), (1 << 30, 2 << 30, Health.FAIL), (None, 1, Health.OK),
])  # fmt: skip
def test_memory(monkeypatch: pytest.MonkeyPatch, available: int | None, wanted: int | None, health: Health) -> None:
    monkeypatch.setattr(machine, "available_memory", lambda: available)
    assert machine.check_memory(wanted).health is health


def test_disk_and_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (enough,) = machine.check_disk({"files": tmp_path / "new" / "folder"})
    assert enough.health in (Health.OK, Health.WARN)
    (little,) = machine.check_disk({"files": tmp_path}, 1 << 60)
    assert little.health is Health.FAIL
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kernels"))
    cold = machine.check_kernels()
    assert (cold.health, "marquee warm" in cold.advice) == (Health.WARN, True)
    assert not os.path.exists(tmp_path / "kernels")
