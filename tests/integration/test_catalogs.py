"""Tables of Spark's own catalog, on Spark 3.5 and 4, classic and Connect: the bits and the answers of their files."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_spark_versions import output, python_with_spark_35
from tests.support.spark_cluster import connect_server

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
