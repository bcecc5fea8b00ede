"""Which kind of data an argument is, and what its dataset is called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dpcore.errors import ConfigError
from marquee.sources import DataSource, data_source


@pytest.mark.parametrize(("path", "name"), [
    ("people.parquet", "people"), ("data/people/*.parquet", "people"), ("s3://bucket/people/2026-*/", "people"),
    ("/data/people.v2.parquet", "people"), (Path("data") / "people", "people"), ("s3://people", "people"),
])  # fmt: skip
def test_a_path_is_named_after_its_last_part_without_a_wildcard(path: Any, name: str) -> None:
    assert data_source(path, None) == DataSource({"path": str(path)}, name, "local")


def test_a_given_name_comes_first() -> None:
    assert data_source("people.parquet", "adults").name == "adults"


@pytest.mark.parametrize("data", ["*.parquet", pa.table({"a": [1]}), {"table": {"format": "delta"}}, [1, 2]])
def test_data_without_a_name_are_refused(data: Any) -> None:
    with pytest.raises(ConfigError, match=r"name is missing; want the name under which the ledger keeps the budget"):
        data_source(data, None)


def test_a_frame_is_named_and_read_by_the_local_engine() -> None:
    frame = pa.table({"a": [1]})
    source = data_source(frame, "people")
    assert (source.keys, source.engine) == ({"frame": "people"}, "local")
    assert source.frame is frame


def test_a_table_of_a_catalog_is_read_by_spark() -> None:
    assert data_source({"catalog": "main.people"}, "people").engine == "spark"
    assert data_source({"table": {"format": "delta"}}, "people").engine == "local"
    assert data_source({"catalog": "main.people"}, "people").frame is None
