"""Processes of Spark and Beam that are killed while they count, on a real cluster and on one machine."""

from __future__ import annotations

import importlib
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from pipelines.engines import worker_tasks
from tests.audit.kill_points import look
from tests.audit.section import Row
from tests.audit.small_releases import SQLITE
from tests.reliability.scene import Trial, disturbed, healed
from tests.reliability.trials import Place, Tally
from tests.support.datasets import ROOT
from tests.support.engines import SPARK_SETTINGS
from tests.support.faults import drawn, note_draws
from tests.support.spark_cluster import ADDRESS, CHEAP_JAVA, SparkCluster, spark_cluster

ALWAYS = 100
PROCESSES = ["--direct_running_mode=multi_processing", "--direct_num_workers=2"]


@dataclass(frozen=True)
class Death:
    """Which process dies, and how often.

    module: The engine's module, of which a task kills. victim: Key of VICTIMS, which the task calls.
    times: How many tasks kill it. codes: The exit codes that the run may have. cluster: Whether Spark is a cluster.
    counting: Whether the task is one that counts what the shuffle has brought, and not one that splits rows before it.
    """

    name: str
    module: str
    victim: str
    times: int
    codes: tuple[int, ...]
    cluster: bool = False
    counting: bool = False


_SPARK, _BEAM = "pipelines.engines.spark", "pipelines.engines.beam"
# A cluster runs a task up to four times, and starts an executor again; on one machine Spark and Beam give up.
DEATHS = (
    Death("an executor", _SPARK, "executor", 1, (0,), cluster=True),
    Death("a Python worker of an executor", _SPARK, "task", 1, (0,), cluster=True),
    Death("an executor after the shuffle", _SPARK, "executor", 1, (0,), cluster=True, counting=True),
    Death("a worker machine: its daemon and its executor", _SPARK, "daemon", 1, (0,), cluster=True),
    Death("a worker machine after the shuffle", _SPARK, "daemon", 1, (0,), cluster=True, counting=True),
    Death("every executor, each time", _SPARK, "executor", ALWAYS, (6,), cluster=True),
    Death("every Python worker, each time", _SPARK, "task", ALWAYS, (6,), cluster=True),
    Death("a Python worker of local Spark", _SPARK, "task", ALWAYS, (6,)),
    Death("the JVM of local Spark", _SPARK, "executor", 1, (6,)),
    Death("a worker process of Beam", _BEAM, "task", 1, (6,)),
    Death("every worker process of Beam", _BEAM, "task", ALWAYS, (6,)),
)


def rows(place: Place) -> Iterator[Row]:
    """One line per death: on a cluster of two workers, on local Spark, and on worker processes of Beam."""
    for death in DEATHS:
        yield Tally([killed(place, death)]).row(f"kill -9 of {death.name}", SQLITE, "while it counts")


def killed(place: Place, death: Death) -> Trial:
    """Runs a release whose engine loses a process, and then once more on the local engine."""
    with TemporaryDirectory() as name:
        if not death.cluster:
            return _killed(place, death, Path(name), None)
        with spark_cluster(Path(name)) as cluster:
            return _killed(place, death, Path(name), cluster)


def _killed(place: Place, death: Death, folder: Path, cluster: SparkCluster | None) -> Trial:
    scene = place.scene()
    environment = {"SPARK_LOCAL_IP": ADDRESS} if cluster is None else dict(cluster.environment)
    engine = "beam" if death.module == _BEAM else "spark"
    marks = folder / "deaths"
    marks.mkdir()
    scene.change("engine", name=engine, options=_options(engine, cluster, _order(death, marks)))
    task = "_count_bucket" if death.counting else "_split_rows" if death.module == _SPARK else "_spill_rows"
    arm = partial(arm_tasks, death.module, task, environment | _order(death, marks))
    ended = place.drivers.run(scene.config, partial(note_draws, scene.tally), arm)
    trial = disturbed(scene, [ended], drawn(scene.tally), death.codes)
    scene.change("engine", name="local", options={"threads": 1})
    healed(scene, place.drivers, look(scene.config), trial)
    if not any(marks.iterdir()):
        trial.wrong.append("nothing was killed")
    return trial


def _order(death: Death, marks: Path) -> dict[str, str]:
    """What the tasks read from their environment. marks: A folder with one file for each process that was killed."""
    return {"FAULT_VICTIM": death.victim, "FAULT_TIMES": str(death.times), "FAULT_MARKS": str(marks)}


def _options(engine: str, cluster: SparkCluster | None, order: Mapping[str, str]) -> dict[str, Any]:
    if engine == "beam":
        return {"arguments": PROCESSES}
    if cluster is None:
        return {"partitions": 2, "settings": SPARK_SETTINGS}
    own = {
        "spark.master": cluster.master,
        "spark.cores.max": "2",
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": CHEAP_JAVA,
    }
    inherited = {f"spark.executorEnv.{name}": value for name, value in {"PYTHONPATH": str(ROOT), **order}.items()}
    return {"partitions": 2, "settings": SPARK_SETTINGS | own | inherited}


def arm_tasks(module: str, task: str, environment: Mapping[str, str]) -> None:
    """Makes tasks of this process's engine kill. module: The engine's. task: Its function."""
    os.environ |= environment
    # Workers import the function by its name.
    task_that_kills = getattr(importlib.import_module("tests.reliability.engine_faults"), f"deadly{task}")
    setattr(importlib.import_module(module), task, task_that_kills)


def deadly_split_rows(work: Any, part: Any) -> Iterator[Any]:
    """In place of the task ``_split_rows`` of Spark."""
    _kill_in_turn()
    return worker_tasks.split_rows(work.value, part)


def deadly_count_bucket(work: Any, pieces: Any) -> Iterator[Any]:
    """In place of the task ``_count_bucket`` of Spark."""
    _kill_in_turn()
    return worker_tasks.count_bucket(work.value, (rows for _, rows in pieces))


def deadly_spill_rows(part: Any, stored: Any) -> Iterator[Any]:
    """In place of the task ``_spill_rows`` of Beam, which a worker process imports as it is."""
    _kill_in_turn()
    return importlib.import_module(_BEAM)._spill_rows(part, stored)


def _kill_in_turn() -> None:
    """Kills, unless enough processes have been killed."""
    for number in range(int(os.environ["FAULT_TIMES"])):
        try:
            os.close(os.open(Path(os.environ["FAULT_MARKS"]) / str(number), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            continue
        VICTIMS[os.environ["FAULT_VICTIM"]]()
        return


def task() -> None:
    """Kills the process of this task."""
    os.kill(os.getpid(), signal.SIGKILL)


def executor() -> None:
    """Kills the nearest JVM above this task: the executor, and with local Spark the JVM of the driver."""
    next(above for above in psutil.Process().parents() if above.name() == "java").kill()


def daemon() -> None:
    """Kills the daemon of a cluster's worker, and the executor below it."""
    for above in [above for above in psutil.Process().parents() if above.name() == "java"][:2]:
        above.kill()


VICTIMS: dict[str, Callable[[], None]] = {"task": task, "executor": executor, "daemon": daemon}
