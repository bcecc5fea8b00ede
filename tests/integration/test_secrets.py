"""Passwords and keys stay where they were given: no argument, log, event, record or file of a release holds them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from jobs.ledger import SqlLedger
from tests.support.checks import ROOT
from tests.support.engines import SPARK_SETTINGS
from tests.support.keys import private_pem
from tests.support.postgres import Server, server
from tests.support.releases import World, table_world

KEY = private_pem(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))
SECRETS = {"password of the URL": "hunter-2-url", "PGPASSWORD": "hunter-2-environment", "key": KEY.splitlines()[1]}


@pytest.fixture(scope="module")
def postgres() -> Iterator[Server]:
    with server(durable=False) as running:
        yield running


@pytest.fixture
def world(
    tmp_path: Path, postgres: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> World:
    monkeypatch.chdir(tmp_path)
    world = table_world(tmp_path, capsys)
    url = postgres.database().replace("postgres@", f"postgres:{SECRETS['password of the URL']}@")
    SqlLedger(url).create_dataset("people", 1.0, 1e-6)
    world.set("privacy.ledger", url)
    return world


def watched(folder: Path, *arguments: str) -> tuple[int, str, str]:
    """Runs marquee in a process, and returns its exit code, its output and all command lines on this machine."""
    secrets = {"PGPASSWORD": SECRETS["PGPASSWORD"], "MARQUEE_SIGNING_KEY": KEY}
    environment = os.environ | secrets | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "jobs", "--log-format", "json", *arguments]
    seen: set[str] = set()
    with open(folder / "printed", "w+b") as printed:
        running = subprocess.Popen(command, cwd=folder, env=environment, stdout=printed, stderr=printed)
        while running.poll() is None:
            seen.update(command_lines())
        printed.seek(0)
        text = printed.read().decode()
    (folder / "printed").unlink()
    return running.returncode, text, "\n".join(seen)


def command_lines() -> Iterator[str]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield path.read_text(errors="replace")
        except OSError:  # It has ended.
            continue


def written(folder: Path) -> dict[str, bytes]:
    """What lies in a folder, without the config, in which the URL was given."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "release.yaml")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def check_hidden(world: World, postgres: Server, texts: str) -> None:
    database = re.sub(r".*@/(\w+)\?.*", r"\1", world.config["privacy"]["ledger"])
    tables = ("ledger_info", "grants", "datasets", "consumers", "releases", "charges", "places")
    rows = repr([postgres.run(database, f"SELECT * FROM {table}") for table in tables])
    everything = {"what was printed and run": texts.encode(), "the ledger": rows.encode(), **written(world.folder)}
    assert len(everything) > 8
    for name, secret in SECRETS.items():
        assert [place for place, content in everything.items() if secret.encode() in content] == [], name


@pytest.mark.full
def test_a_release_and_its_checks_show_no_secret(world: World, postgres: Server) -> None:
    texts = ""
    for arguments in (
        ("plan", "release.yaml"), ("run", "release.yaml"), ("run", "release.yaml"), ("status", "release.yaml"),
        ("verify", "out/people", "--ledger", world.config["privacy"]["ledger"]),
    ):  # fmt: skip
        code, printed, lines = watched(world.folder, *arguments)
        assert code == 0, printed
        texts += printed + (lines if arguments[0] != "verify" else "")  # There the URL is an argument of the user.
    assert (world.folder / "out/people/manifest.sig").is_file()
    check_hidden(world, postgres, texts)


@pytest.mark.full
def test_a_secret_of_a_variable_stays_in_the_ledger_s_url(
    world: World, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with everything that watches a run."""
    secret = SECRETS["password of the URL"]
    monkeypatch.setenv("LEDGER_PASSWORD", secret)
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "file")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__LOG_FILE_PATH", str(world.folder / "events"))
    written_url = world.config["privacy"]["ledger"]
    world.set("privacy.ledger", written_url.replace(secret, "${LEDGER_PASSWORD}"))
    texts = ""
    for arguments in (
        ("plan", "release.yaml", "--json"),
        ("run", "release.yaml", "--metrics-file", "m.prom", "--log-sensitive", "sizes"),
        ("status", "release.yaml"),
        ("run", "release.yaml", "--set", "privacy.ledger.url=x"),
    ):
        code, printed, lines = watched(world.folder, *arguments)
        assert code == (2 if "--set" in arguments else 0), printed
        texts += printed + lines
    assert (world.folder / "m.prom").is_file()
    assert len(list(world.folder.glob("events*"))) == 2
    world.config["privacy"]["ledger"] = written_url
    check_hidden(world, postgres, texts)


@pytest.mark.full
@pytest.mark.parametrize(
    "broken", ["postgresql://postgres:{}@127.0.0.1:1/nowhere", "postgresql://postgres:{}@/none?host=/"]
)
def test_a_failure_shows_no_secret(world: World, broken: str) -> None:
    world.set("privacy.ledger", broken.format(SECRETS["password of the URL"]))
    for arguments in (("run", "release.yaml"), ("--debug", "run", "release.yaml"), ("plan", "release.yaml")):
        _, printed, lines = watched(world.folder, *arguments)
        for name, secret in SECRETS.items():
            assert secret not in printed + lines, name


@pytest.mark.full
@pytest.mark.spark
def test_spark_s_own_events_and_settings_show_no_secret(world: World, postgres: Server) -> None:
    events = world.folder / "events"
    events.mkdir()
    logged = {"spark.eventLog.enabled": "true", "spark.eventLog.compress": "false"}
    settings = SPARK_SETTINGS | logged | {"spark.eventLog.dir": events.as_uri()}
    world.set("engine", {"name": "spark", "options": {"partitions": 2, "settings": settings}})
    code, printed, lines = watched(world.folder, "run", "release.yaml")
    assert code == 0, printed
    assert any("java" in line for line in lines.splitlines())
    seen = [json.loads(line)["Event"] for path in events.rglob("events_*") for line in path.open()]
    assert "SparkListenerEnvironmentUpdate" in seen
    check_hidden(world, postgres, printed + lines)
