"""Heartbeats: what they say, when they are silent, and that they hold nothing but public progress."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator

import pytest

from dpcore.errors import ConfigError
from dpcore.mechanisms.api import tell_stage
from jobs import heartbeat, log
from jobs.heartbeat import Beat, activity, beat, current_stage
from jobs.log import LogFormat
from jobs.monitoring.stages import stage
from jobs.progress import bar

SOON = "0.02"
PATIENCE = 60.0  # Seconds; only a run without any heartbeat waits so long.


@pytest.fixture(autouse=True)
def usual_log() -> Iterator[None]:
    log.configure(LogFormat.TEXT)
    yield
    log.configure(LogFormat.TEXT)


def lines_of(capsys: pytest.CaptureFixture[str], mark: str) -> list[str]:
    """Waits until stderr has a line with a mark, and returns all such lines so far."""
    text, start = "", time.monotonic()
    while mark not in text:
        assert time.monotonic() - start < PATIENCE, text
        time.sleep(0.01)
        text += capsys.readouterr().err
    return [line for line in text.splitlines() if mark in line]


@pytest.mark.parametrize(("shown", "text"), [
    (Beat("open", "open", 1.0), "working on open: 1 second so far"),
    (Beat("answer / aim", "aim", 60.0, 0, 40), "working on answer / aim: 0 % after 1 min 0 s"),
    (
        Beat("answer / aim", "aim", 60.0, 10, 40),
        "working on answer / aim: 25 % after 1 min 0 s, 25 % per minute, about 3 min 0 s left",
    ),
    (
        Beat("write / synthetic rows", "synthetic rows", 10.0, 2_000_000, 3_000_000),
        "working on write / synthetic rows: 66 % after 10 seconds, 200,000 rows per second, about 5 seconds left",
    ),
    (Beat("x", "x", 7_300.0, 4, 4), "working on x: 100 % after 2 h 1 min, 0.822 % per minute, about 0 seconds left"),
])  # fmt: skip
def test_what_a_heartbeat_says(shown: Beat, text: str) -> None:
    assert shown.text == text


def test_it_names_all_stages_and_the_progress_that_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(heartbeat.SETTING, "0")
    assert beat() is None
    with stage("answer"), bar("aim") as report:
        report(3, 12)
        with stage("aggregate"):
            assert current_stage() == "answer / aim / aggregate"
            now = beat()
            assert now is not None
            assert (now.stage, now.label, now.fraction) == ("answer / aim / aggregate", "aim", 0.25)
    assert current_stage() == ""


def test_it_is_written_while_a_step_goes_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(heartbeat.SETTING, SOON)
    with stage("answer"), bar("aim") as report:
        report(1, 4)
        assert "working on answer / aim: 25 % after" in lines_of(capsys, "working on answer / aim: 25 %")[0]
    assert not [thread for thread in threading.enumerate() if thread.name == "heartbeat" and _outlives(thread)]


def test_stages_are_logged_once_each_and_heartbeats_say_how_far_they_are(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(heartbeat.SETTING, "0")
    log.configure(LogFormat.JSON)
    with stage("answer"), bar("aim") as report:
        tell_stage(report, "rounds: 1 of at most 16 done")
        tell_stage(report, "rounds: 2 of at most 16 done")
        assert current_stage() == "answer / aim / rounds: 2 of at most 16 done"
        report(1, 4)
        now = beat()
        assert now is not None
        assert (now.stage, now.label) == ("answer / aim / rounds: 2 of at most 16 done", "aim")
        tell_stage(report, "last fit: 10 % used")
    events = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    reached = [event for event in events if event["event"] == "reached"]
    assert [(event["of"], event["stage"], event.get("after")) for event in reached] == [
        ("aim", "rounds", None),
        ("aim", "last fit", "rounds: 2 of at most 16 done"),
    ]


def _outlives(thread: threading.Thread) -> bool:
    thread.join(PATIENCE)
    return thread.is_alive()


def test_it_is_an_event_for_machines(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(heartbeat.SETTING, SOON)
    log.configure(LogFormat.JSON)
    with stage("answer"), bar("aim") as report:
        report(1, 4)
        event = json.loads(lines_of(capsys, '"progress"')[0])
    assert (event["stage"], event["activity"], event["fraction"]) == ("answer / aim", "aim", 0.25)
    assert event["seconds_remaining"] >= 0
    public = {"stage", "activity", "seconds", "fraction", "fraction_per_minute", "seconds_remaining"}
    assert set(event) <= public | {"event", "level", "timestamp"}


@pytest.mark.parametrize("quiet", [True, False])
def test_quiet_and_the_setting_silence_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, quiet: bool
) -> None:
    monkeypatch.setenv(heartbeat.SETTING, SOON if quiet else "0")
    log.configure(LogFormat.TEXT, only_warnings=quiet)
    with activity("a long step") as report:
        report(1, 2)
        if quiet:
            time.sleep(0.2)
            heartbeat._write(Beat("a long step", "a long step", 1.0, 1, 2))
        else:
            assert heartbeat._stop is None, "no thread was started"
        log.info("told")
        log.warning("warned")
    err = capsys.readouterr().err
    assert "a long step" not in err
    assert ("told" in err, "warned" in err) == (not quiet, True)


def test_a_bar_on_the_terminal_makes_it_superfluous(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(heartbeat.SETTING, "0")
    with activity("drawn", drawn=True):
        assert beat() is None
    with activity("not drawn"):
        assert beat() is not None


@pytest.mark.parametrize("text", ["often", "-1", "inf", "nan"])
def test_a_wrong_interval_is_refused_before_anything_happens(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(heartbeat.SETTING, text)
    with pytest.raises(ConfigError, match="want a number of seconds between heartbeats, or 0 for none"), activity("x"):
        pytest.fail("the activity began")
    assert current_stage() == ""


def test_a_failure_ends_the_activity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(heartbeat.SETTING, SOON)
    with pytest.raises(RuntimeError), activity("x"):
        raise RuntimeError
    assert (current_stage(), beat()) == ("", None)
