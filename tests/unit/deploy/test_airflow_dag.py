"""What the Airflow DAG does with exit codes; Airflow itself is replaced, because it cannot live in this environment."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from jobs import exit_codes
from tests.support.datasets import ROOT


class AirflowException(Exception): ...


class AirflowFailException(AirflowException): ...


class Dag:
    """Records the calls of its tasks."""

    def __init__(self, dag_id: str, **settings: object) -> None:
        self.dag_id = dag_id
        self.settings = settings

    def __enter__(self) -> Dag:
        return self

    def __exit__(self, *_: object) -> None: ...


def task(**settings: object) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        def scheduled(*arguments: object) -> None:
            calls.append((function, arguments))

        scheduled.now, scheduled.settings = function, settings  # type: ignore[attr-defined]
        return scheduled

    return decorate


calls: list[tuple[Callable[..., None], tuple[object, ...]]] = []


@pytest.fixture
def dags(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """The DAG file as Airflow would load it, with two configs and a ``marquee`` that exits as a config is named."""
    airflow, exceptions, sdk = (ModuleType(name) for name in ("airflow", "airflow.exceptions", "airflow.sdk"))
    vars(exceptions).update(AirflowException=AirflowException, AirflowFailException=AirflowFailException)
    vars(sdk).update(DAG=Dag, task=task)
    for module in (airflow, exceptions, sdk):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    for name in ("people.yaml", "people.schema.yaml", "films.yaml"):
        (tmp_path / name).write_text("")
    program = tmp_path / "marquee"
    program.write_text(
        '#!/bin/sh\nprintf "%s\\n" "$@" >arguments\n'
        '[ "$1" = run ] && [ -f films.yaml ] && exit "$(basename "$2" .yaml)"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("MARQUEE_CONFIGS", str(tmp_path))
    monkeypatch.setenv("MARQUEE_RUN", f"'{program}' run")
    monkeypatch.setenv("MARQUEE_SCHEDULE", "@daily")
    monkeypatch.setenv("MARQUEE_SET", "dataset.snapshot={{ds}} 'dataset.path=a b/*={{ ds }}'")
    calls.clear()
    return runpy.run_path(str(ROOT / "deploy" / "airflow" / "marquee_release.py"))


def test_there_is_one_dag_with_one_task_for_each_config(dags: dict[str, Any], tmp_path: Path) -> None:
    assert sorted(name for name in dags if name.startswith("marquee_")) == ["marquee_films", "marquee_people"]
    settings = ["dataset.snapshot={{ds}}", "dataset.path=a b/*={{ ds }}"]
    configs = [str(tmp_path / name) for name in ("films.yaml", "people.yaml")]
    assert [arguments for _, arguments in calls] == [(config, settings) for config in configs]
    assert dags["marquee_films"].settings["schedule"] == "@daily"
    assert dags["marquee_films"].settings["max_active_runs"] == 1
    assert dags["release"].settings["retries"] > 0


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (exit_codes.DONE, None),
        (exit_codes.CONFIG, AirflowFailException),
        (exit_codes.INPUT, AirflowFailException),
        (exit_codes.BUDGET, AirflowFailException),
        (exit_codes.LEDGER, AirflowException),
        (exit_codes.ENGINE, AirflowException),
        (exit_codes.INTEGRITY, AirflowFailException),
        (exit_codes.UNEXPECTED, AirflowException),
        (137, AirflowException),
    ],
)
def test_only_failures_that_may_pass_are_tried_again(
    dags: dict[str, Any], code: int, kind: type[Exception] | None
) -> None:
    run = dags["release"].now
    if kind is None:
        run(f"{code}.yaml", [])
        return
    with pytest.raises(AirflowException, match=f"exit code {code}") as caught:
        run(f"{code}.yaml", [])
    assert type(caught.value) is kind


def test_settings_are_options_of_the_command(dags: dict[str, Any], tmp_path: Path) -> None:
    dags["release"].now("0.yaml", ["dataset.snapshot=2026-11-23", "dataset.path=a b"])
    words = (tmp_path / "arguments").read_text().splitlines()
    assert words == ["run", "0.yaml", "--set", "dataset.snapshot=2026-11-23", "--set", "dataset.path=a b"]
