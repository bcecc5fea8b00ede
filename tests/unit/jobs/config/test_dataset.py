"""Data that have a name instead of a path: tables of Spark's catalog, and frames."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from dpcore.errors import ConfigError
from jobs.config import Config, EngineChoice, parse_config
from jobs.outputs.counted_rows import table_text
from jobs.planning.dataset import catalog_table_of, check_readable
from jobs.planning.identity import bound_path, identifying_config, identity_of, release_id
from jobs.planning.places import new_place
from tests.support.releases import TABLE


def config(**dataset: Any) -> Config:
    document = copy.deepcopy(TABLE)
    del document["dataset"]["path"]
    document["dataset"] |= dataset
    return parse_config(document)


def test_a_name_is_completed_and_bound_in_lower_case() -> None:
    named = config(catalog="Sales.People")
    assert named.dataset.catalog is not None
    assert named.dataset.catalog.table == "spark_catalog.Sales.People"
    assert named.dataset.root == "catalog:spark_catalog.sales.people"
    assert bound_path(named.dataset.root) == named.dataset.root
    table = catalog_table_of(named.dataset)
    assert table is not None
    assert (table.quoted, table.version) == ("`spark_catalog`.`Sales`.`People`", None)
    assert catalog_table_of(config(frame="x").dataset) is None


def test_every_spelling_of_a_table_is_one_release() -> None:
    spellings = ["people", "default.People", "`spark_catalog`.default.people", {"table": "PEOPLE"}]
    assert len({release_id(config(catalog=spelling), None) for spelling in spellings}) == 1
    assert len({identity_of(config(catalog=spelling), None, {}).digest for spelling in spellings}) == 1


@pytest.mark.parametrize("other", [{"catalog": "sales.people"}, {"catalog": {"table": "people", "version": 1}},
                                   {"catalog": {"table": "people", "snapshot_id": 1}}, {"frame": "people"},
                                   {"frame": "People"}, {"path": "data"}], ids=str)  # fmt: skip
def test_other_data_are_another_release(other: dict[str, Any]) -> None:
    assert release_id(config(**other), None) != release_id(config(catalog="people"), None)


def test_configs_without_the_keys_have_the_identity_that_they_had() -> None:
    facts = identifying_config(config(path="data"))["dataset"]
    assert "catalog" not in facts
    assert "frame" not in facts
    assert identity_of(config(path="data"), None, {}).older
    assert not identity_of(config(frame="x"), None, {}).older


@pytest.mark.parametrize(
    ("catalog", "label", "text", "version"),
    [
        ({"table": "a.b", "version": 0}, "table version 0", "a.b in Spark's catalog, version 0", 0),
        ({"table": "a.b", "snapshot_id": 7}, "table snapshot_id 7", "a.b in Spark's catalog, snapshot 7", 7),
    ],
)  # fmt: skip
def test_a_version_is_its_own_label(catalog: dict[str, Any], label: str, text: str, version: int) -> None:
    document = copy.deepcopy(TABLE)
    del document["dataset"]["path"], document["dataset"]["snapshot"]
    document["dataset"]["catalog"] = catalog
    dataset = parse_config(document).dataset
    assert dataset.snapshot == label
    assert table_text(identifying_config(parse_config(document))["dataset"]) == f"spark_catalog.{text}"
    table = catalog_table_of(dataset)
    assert table is not None
    assert table.version == version
    document["dataset"]["catalog"] = "a.b"
    with pytest.raises(ConfigError, match=r"dataset\.snapshot is missing"):
        parse_config(document)


def test_engines_that_can_read_it() -> None:
    check_readable(config(catalog="people").dataset, EngineChoice(name="spark"))
    for engine in ("local", "spark"):
        check_readable(config(frame="x").dataset, EngineChoice.model_validate({"name": engine}))
    with pytest.raises(ConfigError, match="which engine local cannot read; want engine: {name: spark}, or the path"):
        check_readable(config(catalog="people").dataset, EngineChoice(name="local"))


def test_places_of_a_moved_budget() -> None:
    assert new_place("catalog:Sales.People", None)[0] == "catalog:spark_catalog.sales.people"
    assert new_place("frame:x y", None)[0] == "frame:x y"
    assert new_place("s3a://bucket//x", None)[0] == "s3://bucket/x"
    with pytest.raises(ConfigError, match="want a name of one to three parts"):
        new_place("catalog:a.b.c.d", None)
    with pytest.raises(ConfigError, match="only a program can give; want --new-content"):
        new_place("frame:x", None)[1]()


@pytest.mark.parametrize("uri", ["dbfs:/tables/people", "wasbs:/x"])
def test_a_location_that_is_neither_a_path_nor_a_url_stays_as_it_is(uri: str) -> None:
    assert bound_path(uri) == uri
    assert bound_path("file:///data/../data/people") == bound_path("/data/people")
