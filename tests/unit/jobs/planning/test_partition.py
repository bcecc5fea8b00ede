"""From the section ``dataset.partition`` to partitions: what would hide a unit's other partitions is refused."""

from __future__ import annotations

from typing import Any

import pytest

from dpcore.errors import ConfigError
from jobs.config import Dataset, EngineChoice
from jobs.planning.partition import partition_of
from jobs.planning.statistics_store import check_incremental

ONE: dict[str, Any] = {"column": "region", "values": "north"}
MANY: dict[str, Any] = {"column": "day", "values": "2026-11-25", "units_in": "many_partitions"}


def dataset(path: str, partition: dict[str, Any]) -> Dataset:
    facts = {"name": "people", "snapshot": "1", "shape": "baskets", "unit": "person", "item": "film", "items": 9}
    return Dataset.model_validate({**facts, "clustered_by_unit": True, "path": path, "partition": partition})


@pytest.mark.parametrize("path", ["data/region=north", "data/region=north/", "data/region=north/year=1/*", "data/*"])
def test_a_path_that_leaves_partitions_out_is_refused(path: str) -> None:
    with pytest.raises(ConfigError, match="want the folder of all partitions"):
        partition_of(dataset(path, ONE))


@pytest.mark.parametrize("path", ["data", "data/year=1", "s3://bucket/data?endpoint_override=localhost:9000"])
def test_a_folder_of_all_partitions_is_fine(path: str) -> None:
    partition = partition_of(dataset(path, ONE))
    assert partition is not None
    assert partition.names == ("north",)


@pytest.mark.parametrize("partition", [ONE, {**MANY, "max_partitions_per_unit": 2}])
def test_a_store_of_statistics_is_refused_if_all_partitions_of_a_unit_matter(partition: dict[str, Any]) -> None:
    choice = EngineChoice.model_validate({"incremental": {"path": "kept"}})
    with pytest.raises(ConfigError, match="dataset.partition needs all partitions of a unit at once"):
        check_incremental(choice, dataset("data", partition))
    check_incremental(choice, dataset("data", MANY))
