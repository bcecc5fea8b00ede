"""A real Airflow with its scheduler, one database in SQLite, and the DAGs of ``deploy/airflow``."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.daemons import daemon, free_port
from tests.support.datasets import ROOT
from tests.support.environments import bytecode, environment

SECONDS = 200
# The components of an Airflow; in 2, the scheduler reads the DAGs too.
COMPONENTS: dict[str, list[list[str]]] = {
    "airflow": [["api-server", "--workers", "1", "--port", "PORT"], ["scheduler"], ["dag-processor"]],
    "airflow2": [["scheduler"]],
}


@dataclass(frozen=True)
class Try:
    """What the scheduler knows of a task: its state, and the number of its last try."""

    state: str | None
    number: int


@dataclass(frozen=True)
class Airflow:
    """A running Airflow. folder: Its home, with the logs."""

    folder: Path

    def task(self, dag: str) -> Try:
        """The task of a DAG's first run; without a state before there is one."""
        found = self._rows("SELECT state, try_number FROM task_instance WHERE dag_id = ? ORDER BY run_id", dag)
        return Try(*found[0]) if found else Try(None, 0)

    def wait(self, dag: str, until: Callable[[Try], bool], what: str) -> Try:
        """Waits for the task of a DAG.

        Raises:
            TimeoutError: Nothing came of it. The message ends with the logs.
        """
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            task = self.task(dag)
            if until(task):
                return task
            time.sleep(0.2)
        logs = "\n".join(path.read_text(errors="replace")[-3000:] for path in sorted(self.folder.rglob("*.log")))
        raise TimeoutError(f"{dag} is {self.task(dag)}; want {what}\n{logs}")

    def xcom(self, dag: str) -> dict[str, Any]:
        """What the tasks of a DAG have handed on, by key."""
        found = self._rows("SELECT key, value FROM xcom WHERE dag_id = ?", dag)
        return {key: _decoded(value) for key, value in found}

    def log_of_tries(self, dag: str) -> str:
        """The logs of all tries of a DAG's task."""
        logs = (self.folder / "logs" / f"dag_id={dag}").rglob("*.log")
        return "\n".join(path.read_text(errors="replace") for path in sorted(logs))

    def _rows(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(f"file:{self.folder / 'airflow.db'}?mode=ro", uri=True, timeout=60)) as database:
            return database.execute(query, values).fetchall()


@contextmanager
def airflow(name: str, folder: Path, variables: Mapping[str, str]) -> Iterator[Airflow]:
    """Starts an Airflow and stops it whatever happens.

    name: Its locked requirements, a key of ``COMPONENTS``.
    folder: Its home.
    variables: Environment variables of its processes, and so of its DAGs.
    """
    programs = environment(name)
    port = free_port()
    own = {
        "AIRFLOW_HOME": str(folder),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "deploy" / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
        "AIRFLOW__CORE__PARALLELISM": "2",
        "AIRFLOW__API_AUTH__JWT_SECRET": "of a test, which lasts for minutes and listens on no network",
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__SCHEDULER__ENABLE_HEALTH_CHECK": "False",
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(folder / "logs"),
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "NO_PROXY": "127.0.0.1",
        **bytecode(name),
    }
    # In 2, the worker of tasks on SQLite is the scheduler itself.
    own |= {"AIRFLOW__CORE__EXECUTOR": "SequentialExecutor" if name == "airflow2" else "LocalExecutor"}
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("AIRFLOW", "MARQUEE_", "PYTHON"))}
    whole = {**kept, **own, **variables}
    program = str(programs / "airflow")
    done = subprocess.run([program, "db", "migrate"], env=whole, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"airflow db migrate failed:\n{done.stdout}{done.stderr}")
    with ExitStack() as daemons:
        for component in COMPONENTS[name]:
            arguments = [str(port) if word == "PORT" else word for word in component]
            daemons.enter_context(daemon([program, *arguments], folder / f"{component[0]}.log", whole))
        yield Airflow(folder)


def _decoded(value: Any) -> Any:
    """A value as Airflow stores it, as JSON, in 3 within a text of JSON."""
    while isinstance(value, (str, bytes)):
        try:
            value = json.loads(value)
        except ValueError:
            return value
    return value
