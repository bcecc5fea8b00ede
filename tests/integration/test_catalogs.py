"""Tables of Spark's own catalog, on Spark 3.5 and 4, classic and Connect: the bits and the answers of their files."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_spark_versions import output, python_with_spark_35
from tests.support.datasets import ROOT
from tests.support.spark_cluster import SPARK_HOME, connect_server

__all__ = ["python_with_spark_35"]

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.full]


def check(python: Path | str, version: str, kind: str, *arguments: str) -> None:
    found: dict[str, Any] = json.loads(output(python, "tests.support.catalog_jobs", *arguments).splitlines()[-1])
    assert (found["version"].startswith(version), found["kind"]) == (True, kind)
    assert len(found["held"]) >= 40
    assert all(found["held"].values()), {name for name, held in found["held"].items() if not held}


def test_spark_4(tmp_path: Path) -> None:
    check(sys.executable, "4.", "classic", str(tmp_path))


def test_spark_35(python_with_spark_35: Path, tmp_path: Path) -> None:
    check(python_with_spark_35, "3.5.", "classic", str(tmp_path))


def test_a_spark_connect_server(tmp_path: Path) -> None:
    with connect_server(tmp_path) as remote:
        (tmp_path / "data").mkdir()
        check(sys.executable, "4.", "connect", str(tmp_path / "data"), remote)


@pytest.mark.skipif(shutil.which("javac") is None, reason="there is no Java compiler for a catalog with versions")
def test_a_version_of_a_table(tmp_path: Path) -> None:
    """A catalog of the test, because those of Delta and Iceberg are in no package index of Python."""
    source = ROOT / "tests" / "support" / "java" / "VersionedCatalog.java"
    classes = tmp_path / "classes"
    compiled = ["javac", "-nowarn", "-cp", str(SPARK_HOME / "jars" / "*"), "-d", str(classes), str(source)]
    subprocess.run(compiled, check=True, capture_output=True)
    printed = output(sys.executable, "tests.support.versioned_jobs", str(tmp_path), str(classes))
    held = json.loads(printed.splitlines()[-1])["held"]
    assert len(held) == 6
    assert all(held.values()), held
