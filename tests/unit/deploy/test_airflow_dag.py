"""What the Airflow operator and the DAGs do, in the layouts of Airflow 2.10 and 3.

Airflow itself is replaced, because it cannot live in this environment; tests/integration/test_airflow.py runs the real
one, and so does the last test here.
"""

from __future__ import annotations

import contextlib
import os
import runpy
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil
import pytest

from jobs import exit_codes
from tests.support.airflow_scheduler import COMPONENTS
from tests.support.datasets import ROOT
from tests.support.environments import bytecode, environment

FOLDER = ROOT / "deploy" / "airflow"
RELEASE_ID = "0123456789abcdef" * 4
LAYOUTS = ("2.10", "3.1", "3.3")


class AirflowException(Exception): ...


class AirflowFailException(AirflowException): ...


class Log:
    """What a task has logged."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def info(self, form: str, *values: object) -> None:
        self.lines.append(form % values)


class BaseOperator:
    """Records its arguments, and itself in the DAG that is open."""

    def __init__(self, **arguments: Any) -> None:
        self.given = arguments
        self.log = Log()
        if Dag.open is not None:
            Dag.open.tasks.append(self)


class Dag:
    """A DAG that keeps its settings and its tasks."""

    open: Dag | None = None

    def __init__(self, dag_id: str, **settings: Any) -> None:
        self.dag_id, self.settings = dag_id, settings
        self.tasks: list[Any] = []

    def __enter__(self) -> Dag:
        Dag.open = self
        return self

    def __exit__(self, *_: object) -> None:
        Dag.open = None


class Timetable:
    def __init__(self, cron: str, timezone: str) -> None:
        self.cron, self.timezone = cron, timezone


def modules(layout: str) -> dict[str, dict[str, Any]]:
    """The modules of a version of Airflow, with what they hold; importing a name that moved away fails."""
    errors = {"AirflowException": AirflowException, "AirflowFailException": AirflowFailException}
    if layout == "2.10":
        return {
            "airflow": {"DAG": Dag},
            "airflow.exceptions": errors,
            "airflow.models": {},
            "airflow.models.baseoperator": {"BaseOperator": BaseOperator},
            "airflow.timetables": {},
            "airflow.timetables.interval": {"CronDataIntervalTimetable": Timetable},
        }
    sdk = {"BaseOperator": BaseOperator, "DAG": Dag, "CronDataIntervalTimetable": Timetable}
    place = "airflow.exceptions" if layout == "3.1" else "airflow.sdk.exceptions"
    return {"airflow": {}, "airflow.sdk": sdk, "airflow.sdk.exceptions": {}, "airflow.exceptions": {}, place: errors}


@pytest.fixture(params=LAYOUTS)
def layout(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """One version's modules instead of any real Airflow."""
    for name, content in modules(request.param).items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.delitem(sys.modules, "marquee_operator", raising=False)
    # The repository's folder is no place for bytecode.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)


@pytest.fixture
def operators(layout: None) -> Any:
    return runpy.run_path(str(FOLDER / "marquee_operator.py"))["MarqueeReleaseOperator"]


def program(folder: Path, body: str) -> list[str]:
    """A ``marquee`` that does what ``body`` says."""
    path = folder / "marquee"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return [str(path), "run"]


def dags(folder: Path, monkeypatch: pytest.MonkeyPatch, **variables: str) -> dict[str, Dag]:
    """The DAGs of a folder with two configs."""
    for name in ("people.yaml", "people.schema.yaml", "films.yaml"):
        (folder / name).write_text("")
    for name, value in {"MARQUEE_CONFIGS": str(folder), **variables}.items():
        monkeypatch.setenv(name, value)
    found = runpy.run_path(str(FOLDER / "marquee_release.py"))
    return {name: dag for name, dag in found.items() if name.startswith("marquee_")}


def test_there_is_one_dag_with_one_task_for_each_config(
    layout: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = dags(tmp_path, monkeypatch, MARQUEE_RUN="'/opt/a b/marquee' run")
    assert list(found) == ["marquee_films", "marquee_people"]
    (release,) = found["marquee_people"].tasks
    assert release.arguments() == ["/opt/a b/marquee", "run", str(tmp_path / "people.yaml")]
    assert release.given["retries"] > 0
    settings = found["marquee_people"].settings
    assert (settings["schedule"], settings["catchup"], settings["max_active_runs"]) == (None, False, 1)


def test_a_schedule_sets_keys_of_the_config(layout: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = "dataset.snapshot={{ds}} 'dataset.path=a b/*={{ ds }}'"
    found = dags(tmp_path, monkeypatch, MARQUEE_SCHEDULE="@daily", MARQUEE_SET=words)
    timetable = found["marquee_films"].settings["schedule"]
    assert (timetable.cron, timetable.timezone) == ("@daily", "UTC")
    (release,) = found["marquee_films"].tasks
    assert release.arguments()[-4:] == ["--set", "dataset.snapshot={{ds}}", "--set", "dataset.path=a b/*={{ ds }}"]
    assert {"config", "settings", "command"} == set(release.template_fields)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (exit_codes.CONFIG, AirflowFailException),
        (exit_codes.INPUT, AirflowFailException),
        (exit_codes.BUDGET, AirflowFailException),
        (exit_codes.LEDGER, AirflowException),
        (exit_codes.ENGINE, AirflowException),
        (exit_codes.INTEGRITY, AirflowFailException),
        (exit_codes.UNEXPECTED, AirflowException),
        (137, AirflowException),
        (143, AirflowException),
    ],
)
def test_only_failures_that_may_pass_are_tried_again(
    operators: Any, tmp_path: Path, code: int, kind: type[Exception]
) -> None:
    task = operators(config=str(tmp_path / "a.yaml"), command=program(tmp_path, f"echo why; exit {code}"))
    with pytest.raises(AirflowException, match=f"exit code {code}") as caught:
        task.execute({})
    assert type(caught.value) is kind
    assert task.log.lines == ["why"]


def test_a_signal_is_the_code_that_a_shell_gives_it(operators: Any, tmp_path: Path) -> None:
    task = operators(config=str(tmp_path / "a.yaml"), command=program(tmp_path, "kill -9 $$"))
    with pytest.raises(AirflowException, match="exit code 137; it may be retried"):
        task.execute({})


@pytest.mark.parametrize("said", ["published", "already published", "already published by version 0.11.0"])
def test_the_id_and_the_path_are_handed_on_and_nothing_else(operators: Any, tmp_path: Path, said: str) -> None:
    body = f"echo \"$MARK $PWD $*\"; echo '{said}: /out/a b'; echo 'release {RELEASE_ID}'; echo 'release notes'"
    task = operators(
        config=str(tmp_path / "a.yaml"), command=program(tmp_path, body), environment={"MARK": "here"},
        settings={"dataset.snapshot": "a b"},
    )  # fmt: skip
    assert task.execute({}) == {"release_id": RELEASE_ID, "path": "/out/a b"}
    assert task.log.lines[0] == f"here {tmp_path} run {tmp_path / 'a.yaml'} --set dataset.snapshot=a b"


def test_a_program_that_is_not_there_is_not_tried_again(operators: Any, tmp_path: Path) -> None:
    task = operators(config=str(tmp_path / "a.yaml"), command=[str(tmp_path / "absent"), "run"])
    with pytest.raises(AirflowFailException, match="absent cannot be started on this worker"):
        task.execute({})


@pytest.mark.parametrize(("trap", "code"), [("", 143), ("trap '' TERM;", 137)], ids=["obeys", "ignores"])
def test_a_killed_task_ends_the_program_and_what_it_has_started(
    operators: Any, tmp_path: Path, trap: str, code: int
) -> None:
    body = f"{trap} sleep 600 & echo $! >{tmp_path}/new; mv {tmp_path}/new {tmp_path}/child; wait; wait"
    task = operators(config=str(tmp_path / "a.yaml"), command=program(tmp_path, body), seconds_to_stop=0.5)
    caught: list[BaseException] = []

    def execute() -> None:
        try:
            task.execute({})
        except AirflowException as error:
            caught.append(error)

    running = threading.Thread(target=execute)
    running.start()
    while not (tmp_path / "child").exists():
        time.sleep(0.01)
    task.on_kill()
    running.join()
    assert f"exit code {code}; it may be retried" in str(caught[0])
    wait_until_gone(int((tmp_path / "child").read_text()))
    task.on_kill()


def test_a_task_that_is_killed_while_its_program_starts_ends_it(
    operators: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = operators(config=str(tmp_path / "a.yaml"), command=program(tmp_path, "sleep 600"), seconds_to_stop=0.5)
    start = task._start

    def killed_meanwhile(arguments: list[str]) -> Any:
        started = start(arguments)
        task.on_kill()
        return started

    monkeypatch.setattr(task, "_start", killed_meanwhile)
    with pytest.raises(AirflowException, match="exit code 143; it may be retried"):
        task.execute({})


def wait_until_gone(number: int) -> None:
    """Waits for a process to end; a zombie has ended."""
    with contextlib.suppress(psutil.NoSuchProcess):
        while psutil.Process(number).status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.01)


RENDERED = """
import warnings
import airflow
warnings.simplefilter("error", DeprecationWarning)
import marquee_release
task = marquee_release.marquee_people.get_task("release")
task.render_template_fields({"ds": "2026-11-23"})
print(airflow.__version__, task.arguments()[2:])
"""


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("version", COMPONENTS)
def test_the_real_airflow_loads_the_dags_without_a_warning_and_fills_in_templates(version: str, tmp_path: Path) -> None:
    (tmp_path / "people.yaml").write_text("")
    variables = {
        "AIRFLOW_HOME": str(tmp_path / "home"), "MARQUEE_CONFIGS": str(tmp_path), "MARQUEE_SCHEDULE": "@daily",
        "MARQUEE_SET": "dataset.snapshot={{ds}} 'dataset.path=/data/*={{ ds }}'", "PYTHONPATH": str(FOLDER),
        "PATH": os.environ["PATH"], **bytecode(version),
    }  # fmt: skip
    command = [environment(version) / "python", "-c", RENDERED]
    done = subprocess.run(command, env=variables, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    words = [
        str(tmp_path / "people.yaml"),
        "--set",
        "dataset.snapshot=2026-11-23",
        "--set",
        "dataset.path=/data/*=2026-11-23",
    ]
    assert done.stdout.splitlines()[-1].endswith(str(words))
    assert "eprecat" not in done.stderr
