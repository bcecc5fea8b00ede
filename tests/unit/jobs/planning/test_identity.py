"""Release ids: a hash of all public facts, and of nothing else."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

import jobs.planning.identity
from jobs.config import parse_config
from jobs.planning.identity import bound_path, linked_files, release_id
from jobs.version import VERSION
from pipelines.attributes import Attribute, Kind
from pipelines.schema import Schema
from pipelines.source import filesystem_of, find_files
from tests.support.datasets import ROOT

SCHEMA = Schema((Attribute("sex", Kind.CATEGORICAL, values=("f", "m")),))


def identity(schema: Schema | None = SCHEMA, files: dict[str, str] | None = None, **changes: dict[str, Any]) -> str:
    document: dict[str, dict[str, Any]] = {
        "dataset": {"name": "x", "snapshot": "1", "path": "p", "shape": "table", "unit": "u", "schema": "s"},
        "privacy": {"epsilon": 1, "delta": 0},
        "workload": {"marginals": {"order": 1}},
        "mechanism": {"name": "laplace"},
        "engine": {"name": "local"},
        "output": {"path": "o"},
    }
    for section, values in changes.items():
        document[section] = {**document[section], **values}
    return release_id(parse_config(document), schema, files)


SAME: list[dict[str, dict[str, Any]]] = [
    {"engine": {"name": "spark", "options": {"partitions": 3}}},
    {"output": {"path": "elsewhere"}},
    {"output": {"synthetic_rows": "auto"}},
    {"privacy": {"ledger": "sqlite:///other.db"}},
    {"privacy": {"units": "private"}},
    {"privacy": {"epsilon": 1.0}},
    {"dataset": {"path": "/data/x"}},
    {"dataset": {"schema": "other.yaml"}},
]
OTHER: list[dict[str, dict[str, Any]]] = [
    {"dataset": {"name": "y"}},
    {"dataset": {"snapshot": "2"}},
    {"dataset": {"unit": "v"}},
    {"dataset": {"clustered_by_unit": True}},
    {"privacy": {"epsilon": 2}},
    {"privacy": {"delta": 1e-6}},
    {"privacy": {"units": 10}},
    {"workload": {"marginals": {"order": 2}}},
    {"mechanism": {"name": "mwem"}},
    {"mechanism": {"rounds": 3}},
    {"output": {"synthetic_rows": 5}},
]


@pytest.mark.parametrize("changes", SAME, ids=str)
def test_places_engines_and_defaults_do_not_change_it(changes: dict[str, dict[str, Any]]) -> None:
    assert identity(**changes) == identity()


@pytest.mark.parametrize("changes", OTHER, ids=str)
def test_everything_else_does(changes: dict[str, dict[str, Any]]) -> None:
    assert identity(**changes) != identity()


def test_so_does_the_meaning_of_the_schema() -> None:
    others = [
        Schema((Attribute("sex", Kind.CATEGORICAL, values=("m", "f")),)),
        Schema((Attribute("sex", Kind.CATEGORICAL, values=("f", "m"), null=False),)),
        Schema((Attribute("sex", Kind.CATEGORICAL, values=("f", "m"), column="gender"),)),
    ]
    assert len({identity(schema) for schema in [SCHEMA, *others]}) == 4


def test_so_does_the_meaning_of_public_files_and_not_their_names() -> None:
    def listed(name: str, digest: str) -> str:
        document = {"conjunctions": {"file": name}, "marginals": None}
        return identity(files={"workload.conjunctions.file": digest}, workload=document)

    assert listed("q.csv", "a1") == listed("elsewhere/q.parquet", "a1") != listed("q.csv", "b2")
    assert len({listed("q.csv", "a1"), identity(), identity(files={"workload.conjunctions.file": "a1"})}) == 3


def test_so_does_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    before = identity()
    monkeypatch.setattr(jobs.planning.identity, "VERSION", "99")
    assert identity() != before


def test_the_version_is_that_of_the_package() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == VERSION


def test_one_dataset_has_one_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to("data")
    monkeypatch.chdir(tmp_path)
    spellings = ["data", "data/", "./data", "link", "data/*.parquet", "data/**/*.parquet", f"file://{tmp_path}/data"]
    assert {bound_path(spelling) for spelling in spellings} == {str(tmp_path / "data")}
    assert bound_path("data/part-0.parquet") == str(tmp_path / "data" / "part-0.parquet")
    assert bound_path("s3://bucket/data/*.parquet") == "s3://bucket/data"


GLOBS = {
    "data/pe*/*.parquet": "data", "data/pe*/people/*.parquet": "data", "data/people/part-*.parquet": "data/people",
    "data/people/part-?.parquet": "data/people", "data/[p]eople/*.parquet": "data", "data/people/**": "data/people",
    "data/**/people/*.parquet": "data", "d*/people/*.parquet": "", "*.parquet": "", "data/people/*": "data/people",
    "data/people/**/*.parquet": "data/people",
}  # fmt: skip


@pytest.mark.parametrize("glob", GLOBS)
def test_a_glob_is_the_folder_above_its_first_wildcard(
    glob: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data" / "people").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    wanted = str(tmp_path / GLOBS[glob])
    assert {bound_path(glob), bound_path(f"{tmp_path}/{glob}"), bound_path(f"file://{tmp_path}/{glob}")} == {wanted}
    assert bound_path(f"s3://bucket/{glob}") == f"s3://bucket/{GLOBS[glob]}".rstrip("/")


def test_brackets_in_the_name_of_a_folder_that_is_there_are_no_wildcard(tmp_path: Path) -> None:
    (tmp_path / "data[1]").mkdir()
    assert bound_path(f"{tmp_path}/data[1]") == str(tmp_path / "data[1]")
    assert bound_path(f"{tmp_path}/data[2]") == str(tmp_path)
    assert bound_path("/") == bound_path("/*.parquet") == "/"


ALIASES = {
    "s3://bucket/data": ["s3a://bucket/data/", "s3n://bucket/data", "S3://bucket/data/*.parquet", "s3://Bucket//data",
                         "s3://bucket/other/../data", "s3://bucket/../data/./", "s3://key:secret@bucket/data"],
    "gs://bucket/data": ["gcs://bucket/data", "GS://BUCKET/data//", "gs://user@bucket/data/part-[0-9].parquet"],
    "hdfs://node/data": ["hdfs://NODE:8020/data", "hdfs://node//data/x/..", "hdfs://user@node:8020/data/**"],
    "hdfs://node:9000/data": ["hdfs://Node:9000//data"],
    "https://host/data": ["https://host:443/data", "HTTPS://Host/data/"],
    "abfss://box@store.dfs.core.windows.net/data": ["abfs://box@Store.dfs.core.windows.net/data//*"],
    "s3://bucket": ["s3://bucket/", "s3a://bucket", "s3://bucket/*.parquet", "s3://bucket/.."],
}  # fmt: skip


@pytest.mark.parametrize("url", ALIASES)
def test_one_url_has_one_spelling(url: str) -> None:
    assert {bound_path(spelling) for spelling in [url, *ALIASES[url]]} == {url}


def test_urls_of_different_data_stay_apart() -> None:
    apart = ["s3://a/x", "s3://b/x", "gs://a/x", "s3://a/X", "hdfs://a/x", "hdfs://a:9000/x", "abfss://a@s/x",
             "abfss://b@s/x", "http://a/x", "https://a/x", "https://a:80/x"]  # fmt: skip
    assert len({bound_path(url) for url in apart}) == len(apart)


@pytest.mark.parametrize("prefix", ["file://", "local://", "FILE://", "Local://", ""])
def test_every_spelling_of_a_local_path_is_local(prefix: str, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.parquet").touch()
    for spelling in (f"{prefix}{tmp_path}/data", f"{prefix}{tmp_path}//other/../data/*.parquet"):
        assert bound_path(spelling) == str(tmp_path / "data")
    if prefix == prefix.lower():  # No store has an upper-case scheme without fsspec.
        (file,) = find_files(f"{prefix}{tmp_path}/data")
        assert bound_path(file) == str(tmp_path / "data" / "a.parquet"), "the engines read the same file"


@pytest.mark.parametrize("url", ["file://localhost/data", "file://data", "file://~/data"])
def test_a_url_of_a_relative_path_is_bound_where_it_is_read(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("data", "localhost/data", "~/data"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a.parquet").touch()
    filesystem, inner = filesystem_of(find_files(url)[0])
    (info,) = filesystem.get_file_info([inner])
    read = {os.path.realpath(info.path), os.path.realpath(inner)}
    assert bound_path(url) in {os.path.dirname(path) for path in read}


def test_links_out_of_a_path_are_found(tmp_path: Path) -> None:
    for name in ("data", "store"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a[1].parquet").touch()
    (tmp_path / "data" / "b.parquet").symlink_to(tmp_path / "store" / "a[1].parquet")
    (tmp_path / "data" / "folder").symlink_to(tmp_path / "store")
    data = str(tmp_path / "data")
    files = [f"{data}/a[1].parquet", f"local://{data}/b.parquet", f"{data}/folder/a[1].parquet"]
    assert linked_files(files, data) == (str(tmp_path / "store" / "a[1].parquet"),)
    assert linked_files(files[:1], data) == linked_files(files[:1], files[0]) == ()
    assert linked_files(["s3a://bucket//data/a.parquet"], "s3://bucket/data") == ()
