"""Spark 3.5 and 4, classic and Connect: each gives the bits of the local engine for files and for frames."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from tests.support.datasets import ROOT
from tests.support.small_release import EXACT, answers, write_release
from tests.support.spark_cluster import connect_server

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.full]


@pytest.fixture(scope="module")
def python_with_spark_35(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with Spark 3.5 from the package index, and everything else from this environment."""
    folder = tmp_path_factory.mktemp("spark35")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    site = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "--target", str(site)]
    subprocess.run([*pip, "--no-deps", "pyspark==3.5.*", "py4j==0.10.9.7"], check=True)
    # Packages of the environment itself come first on the path.
    (site / "environment.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return folder / "bin" / "python"


def output(python: Path | str, module: str, *arguments: str) -> str:
    """What a module prints, run by another process without this one's settings of Spark."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    finished = subprocess.run(
        [str(python), "-m", module, *arguments],
        env={**variables, "SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


def comparison(python: Path | str, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(output(python, "tests.support.frame_jobs", *arguments).splitlines()[-1])
    return found


def check(found: dict[str, Any], version: str, kind: str) -> None:
    assert (found["version"].startswith(version), found["kind"]) == (True, kind)
    assert len(found["equal"]) == 16
    assert all(found["equal"].values()), found


def test_spark_4(tmp_path: Path) -> None:
    check(comparison(sys.executable, str(tmp_path)), "4.", "classic")


def test_spark_35(python_with_spark_35: Path, tmp_path: Path) -> None:
    check(comparison(python_with_spark_35, str(tmp_path)), "3.5.", "classic")


def test_a_spark_connect_server(tmp_path: Path) -> None:
    """The comparison sends this project's code to the workers; the release finds that they have the same code."""
    with connect_server(tmp_path) as remote:
        check(comparison(sys.executable, str(tmp_path / "data"), remote), "4.", "connect")
        (tmp_path / "release").mkdir()
        config = write_release(tmp_path / "release", clustered=True)
        engine = f"engine={{name: spark, options: {{settings: {{spark.remote: '{remote}'}}}}}}"
        output(sys.executable, "jobs", "run", str(config), "--set", engine)
        assert answers(tmp_path / "release") == EXACT
