"""A real Spark standalone cluster on the loopback address: one master and two worker processes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from pipelines.engines.java import find_java
from tests.support.daemons import daemon, free_port

SPARK_HOME = Path(pyspark.__file__).parent
SPARK_CLASS = str(SPARK_HOME / "bin" / "spark-class")
ADDRESS = "127.0.0.1"
START_SECONDS = 120
CONNECT_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
CHEAP_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@dataclass(frozen=True)
class SparkCluster:
    """A running cluster.

    master: Its URL, for ``spark-submit --master``.
    environment: What a client needs: a Java, this Python, the loopback address.
    """

    master: str
    environment: Mapping[str, str]

    def submit(
        self, script: Path, arguments: Sequence[str], *, py_files: Path | None, events: Path, cwd: Path
    ) -> subprocess.CompletedProcess[str]:
        """Runs ``spark-submit`` from ``cwd`` with one executor a worker; its event log goes to ``events``."""
        settings = {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": events.as_uri(),
            "spark.eventLog.rolling.enabled": "false",
            "spark.eventLog.compress": "false",
            "spark.executor.cores": "1",
            "spark.executor.memory": "512m",
            "spark.ui.enabled": "false",
            "spark.driver.extraJavaOptions": CHEAP_JAVA,
            "spark.executor.extraJavaOptions": CHEAP_JAVA,
            # Wait for both executors, else the first takes every task of a small job.
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
            "spark.cores.max": "2",
            "spark.locality.wait": "0s",
        }
        command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", self.master]
        if py_files:
            command += ["--py-files", str(py_files)]
        for name, value in settings.items():
            command += ["--conf", f"{name}={value}"]
        return subprocess.run(
            [*command, str(script), *arguments],
            env=dict(self.environment),
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )


@contextmanager
def spark_cluster(folder: Path) -> Iterator[SparkCluster]:
    """Starts a master and two workers of one core, logs and work in ``folder``, and stops them whatever happens."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))},
        "JAVA_HOME": str(find_java().home),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": ADDRESS,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": CHEAP_JAVA,
    }
    deploy = "org.apache.spark.deploy"
    anywhere = ["--host", ADDRESS, "--port", "0", "--webui-port", "0"]
    with ExitStack() as daemons:
        master_log = folder / "master.log"
        daemons.enter_context(daemon([SPARK_CLASS, f"{deploy}.master.Master", *anywhere], master_log, environment))
        master = _wait_for(master_log, r"Starting Spark master at (spark://\S+)", 1)[0]
        for number in (1, 2):
            size = ["--cores", "1", "--memory", "640m", "--work-dir", str(folder / f"work{number}")]
            worker = [f"{deploy}.worker.Worker", *anywhere, *size, master]
            daemons.enter_context(daemon([SPARK_CLASS, *worker], folder / f"worker{number}.log", environment))
        _wait_for(master_log, r"Registering worker (\S+)", 2)
        yield SparkCluster(master, environment)


@contextmanager
def connect_server(folder: Path, settings: Mapping[str, str] | None = None) -> Iterator[str]:
    """Starts a Spark Connect server with two cores, logs in ``folder``; gives its URL for ``spark.remote``.

    settings: Settings of the server; None for those that start it fast.
    """
    port = free_port(ADDRESS)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))},
        "JAVA_HOME": str(find_java().home),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": ADDRESS,
    }
    environment.pop("PYTHONPATH", None)
    own = {
        "spark.connect.grpc.binding.address": ADDRESS,
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        "spark.sql.artifact.isolation.enabled": "true",
    }
    server = ["org.apache.spark.deploy.SparkSubmit", "--master", "local[2]", "--class", CONNECT_SERVER]
    fast = {"spark.driver.extraJavaOptions": CHEAP_JAVA}
    for name, value in (own | (fast if settings is None else dict(settings))).items():
        server += ["--conf", f"{name}={value}"]
    log = folder / "connect.log"
    with daemon([SPARK_CLASS, *server, "spark-internal"], log, environment, cwd=folder):
        _wait_for(log, r"Spark Connect server started at: (\S+)", 1)
        yield f"sc://{ADDRESS}:{port}"


def tasks_by_worker(events: Path) -> dict[str, int]:
    """Finished tasks of each worker, by the address of its pages, from the one event log in a folder."""
    (log,) = events.iterdir()
    worker_of: dict[str, str] = {}
    tasks: dict[str, int] = {}
    for event in map(json.loads, log.read_text().splitlines()):
        if event["Event"] == "SparkListenerExecutorAdded":
            pages = event["Executor Info"]["Log Urls"]["stdout"]
            worker_of[event["Executor ID"]] = pages.split("/")[2]
        elif event["Event"] == "SparkListenerTaskEnd":
            worker = worker_of[event["Task Info"]["Executor ID"]]
            tasks[worker] = tasks.get(worker, 0) + 1
    return tasks


def _wait_for(log: Path, pattern: str, count: int) -> list[str]:
    """The first ``count`` matches in a growing log."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        found: list[str] = re.findall(pattern, log.read_text(errors="replace"))
        if len(found) >= count:
            return found[:count]
        time.sleep(0.1)
    raise TimeoutError(f"{log.name} never showed {count} times {pattern!r}:\n{log.read_text(errors='replace')[-2000:]}")
