"""OpenLineage events of whole runs: to a file, to a receiver over HTTP, and to one that is away, slow or wrong."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from openlineage.client import event_v2

from jobs.monitoring.facet import NAME, facet_schema
from tests.support.lineage import without_lineage
from tests.support.releases import LEDGER, World, table_world

WARNING = "OpenLineage events were not all sent"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> World:
    without_lineage(tmp_path, monkeypatch)
    world = table_world(tmp_path, capsys)
    world.budget()
    return world


class Receiver(ThreadingHTTPServer):
    """Keeps the events that it receives, and answers once ``answers`` is set."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.answers = threading.Event()
        self.status = 201

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.events.append((self.path, json.loads(content)))
        self.server.answers.wait()
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@contextmanager
def receiving(*, answering: bool = True) -> Iterator[Receiver]:
    with Receiver() as receiver:
        if answering:
            receiver.answers.set()
        threading.Thread(target=receiver.serve_forever, daemon=True).start()
        try:
            yield receiver
        finally:
            receiver.answers.set()
            receiver.shutdown()


def check_event(event: dict[str, Any]) -> None:
    """What the specification requires of an event of a run, and our schema of its facet."""
    assert datetime.fromisoformat(event["eventTime"]).tzinfo is not None
    assert event["schemaURL"].endswith("OpenLineage.json#/$defs/RunEvent")
    uuid.UUID(event["run"]["runId"])
    assert {"namespace", "name"} <= event["job"].keys()
    datasets = event["inputs"] + event["outputs"]
    for facets in (event["run"]["facets"], *(dataset["facets"] for dataset in datasets)):
        for name, facet in facets.items():
            assert {"_producer", "_schemaURL"} <= facet.keys(), name
    validator = jsonschema.Draft202012Validator(json.loads(facet_schema()))
    for facets in (event["run"]["facets"], event["outputs"][0]["facets"]):
        assert list(validator.iter_errors(facets[NAME])) == []
    # The client's own classes accept what was sent.
    read_again = event_v2.RunEvent(
        eventTime=event["eventTime"],
        run=event_v2.Run(event["run"]["runId"]),
        job=event_v2.Job(event["job"]["namespace"], event["job"]["name"]),
        producer=event["producer"],
    )
    assert read_again.schemaURL == event["schemaURL"]


def test_a_release_is_reported_to_a_file(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    target = world.folder / "events.jsonl"
    (world.folder / "openlineage.yml").write_text(
        f"transport: {{type: file, log_file_path: '{target}', append: true}}\nfacets: {{}}\n"
    )
    monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "statistics")
    code, _, err = world.run()
    assert (code, WARNING in err) == (0, False)
    start, complete = (json.loads(line) for line in target.read_text().splitlines())
    for event in (start, complete):
        check_event(event)
        assert event["job"] == {"namespace": "statistics", "name": "people.release", "facets": {}}
        assert [(read["namespace"], read["name"].rstrip("/")) for read in event["inputs"]] == [
            ("file", f"{world.folder}/data")
        ]
        assert event["inputs"][0]["facets"]["version"]["datasetVersion"] == "2026-11"
        assert [(made["namespace"], made["name"]) for made in event["outputs"]] == [
            ("file", f"{world.folder}/out/people")
        ]
    assert (start["eventType"], complete["eventType"]) == ("START", "COMPLETE")
    assert start["run"]["runId"] == complete["run"]["runId"]
    facet = complete["run"]["facets"][NAME]
    certificate = json.loads((world.folder / "out/people/certificate.json").read_text())
    assert (facet["releaseId"], facet["ledger"]["id"]) == (certificate["release_id"], certificate["ledger_id"])
    assert facet["ledger"]["amount"] == certificate["guarantee"]["reserved_in_the_ledger"]["amount"]
    assert (facet["epsilon"], facet["delta"], facet["unit"]) == (1.0, 1e-6, "person")
    assert not {300, "300"} & {*leaves(start), *leaves(complete)}  # The number of people.


def leaves(value: object) -> Iterator[object]:
    """Every value inside of a JSON value."""
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from leaves(part)
    else:
        yield value


def test_a_release_is_reported_over_http(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with receiving() as receiver:
        monkeypatch.setenv("OPENLINEAGE_URL", receiver.url)
        assert world.run()[0] == 0
        assert world.run()[0] == 0
    paths, events = zip(*receiver.events, strict=True)
    assert set(paths) == {"/api/v1/lineage"}
    for event in events:
        check_event(event)
    assert [event["eventType"] for event in events] == ["START", "COMPLETE", "START", "COMPLETE"]
    assert len({event["run"]["runId"] for event in events}) == 2


def test_a_failure_is_reported_with_the_message_that_the_user_sees(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.set("privacy.epsilon", 2.0)
    with receiving() as receiver:
        monkeypatch.setenv("OPENLINEAGE_URL", receiver.url)
        code, _, err = world.run()
    assert code == 4
    last = receiver.events[-1][1]
    check_event(last)
    message = last["run"]["facets"]["errorMessage"]["message"]
    assert last["eventType"] == "FAIL"
    assert message == f"exit code 4: {err.removeprefix('marquee: ').strip()}"


def test_an_interrupted_run_is_aborted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("jobs.monitoring.attempt.release", interrupted)
    with receiving() as receiver:
        monkeypatch.setenv("OPENLINEAGE_URL", receiver.url)
        assert world.run()[0] == 130
    assert receiver.events[-1][1]["eventType"] == "ABORT"


def test_a_receiver_that_never_answers_delays_nothing_but_the_end(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run ends while the receiver still holds its first event."""
    with receiving(answering=False) as receiver:
        monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "http")
        monkeypatch.setenv("OPENLINEAGE__TRANSPORT__URL", receiver.url)
        monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TIMEOUT", "0.5")
        code, _, err = world.run()
        assert not receiver.answers.is_set()
    assert code == 0
    assert err.count(WARNING) == 1
    assert (world.folder / "out/people/_SUCCESS").exists()


@pytest.mark.parametrize(
    "problem", ["nobody listens", "refused", "no such transport", "unwritable file", "no such configuration"]
)
def test_what_goes_wrong_is_one_warning(world: World, monkeypatch: pytest.MonkeyPatch, problem: str) -> None:
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "http")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__RETRY", '{"total": 0}')
    with receiving() as receiver:
        receiver.status = 403
        monkeypatch.setenv("OPENLINEAGE__TRANSPORT__URL", receiver.url)
        if problem == "nobody listens":
            monkeypatch.setenv("OPENLINEAGE__TRANSPORT__URL", "http://127.0.0.1:1")
        elif problem == "no such transport":
            monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "pigeon")
        elif problem == "unwritable file":
            monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "file")
            monkeypatch.setenv("OPENLINEAGE__TRANSPORT__LOG_FILE_PATH", str(world.folder / "none" / "events"))
        elif problem == "no such configuration":
            for name in ("TYPE", "RETRY", "URL"):
                monkeypatch.delenv(f"OPENLINEAGE__TRANSPORT__{name}")
            monkeypatch.setenv("OPENLINEAGE_CONFIG", "none.yml")
        code, out, err = world.marquee("--log-format", "json", "run", "release.yaml")
    assert (code, out.count("\n")) == (0, 3)
    events = [json.loads(line) for line in err.splitlines()]  # Nothing but events is on stderr.
    assert [event["event"].startswith(WARNING) for event in events if event["level"] == "warning"] == [True]
    assert world.marquee("verify", "out/people", "--ledger", LEDGER)[0] == 0


def test_without_a_configuration_nothing_is_sent_and_nothing_is_said(world: World) -> None:
    code, _, err = world.run()
    assert (code, "OpenLineage" in err) == (0, False)
