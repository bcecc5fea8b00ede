"""Release ids: a hash of all public facts, and of nothing else."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

import jobs.planning.identity
from jobs.config import Config, parse_config
from jobs.planning.identity import bound_path, identity_of, linked_files, release_id
from jobs.version import VERSION
from pipelines.attributes import Attribute, Kind
from pipelines.schema import Schema
from pipelines.source.listing import find_files
from pipelines.source.stores import filesystem_of
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
    {"output": {"synthetic_rows": 5}},
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


# Ids that these versions printed for the configs below.
IDS_OF_OLDER_VERSIONS = {
    ("0.6.0", "table"): "7684ea31a7e475604e0e1980ee404f9373751b6a2e7b369a13b1e64815586c6d",
    ("0.6.0", "baskets"): "ea9dda0c4693cff585f0cada13a3da1093b0ef40f9317e9da65ba2356f27e4e9",
    ("0.7.0", "table"): "665135edf7c0d0a4685fa93b3015e9513149728a6e07aa988f1e3892b1165466",
    ("0.7.0", "baskets"): "78d631af6a2dde69a3fdf865f4586425489375efeca3442c60c2231b4ecd0116",
    ("0.9.0", "table"): "64e5a3ad224f9ecfea66a049226fef61737bfd097c0899b1b3e796eb0b246927",
    ("0.9.0", "baskets"): "21e3965f9c4e48e0e51e9a94714adb3b485e8658fcb1c6553e6e79ef7210d3cd",
    ("0.10.0", "table"): "b3fb2afd9e11c8443f48f5c43ed4263e550df3b9477e5ab307d184d1a03b9979",
    ("0.10.0", "baskets"): "af0c1c851c55f93200eb52aef8e529294fd962352d09ef8a4ae15c8abd64a2aa",
}
AGED = Schema(
    (
        Attribute("sex", Kind.CATEGORICAL, values=("f", "m"), other=True),
        Attribute("age", Kind.INTEGER, edges=(0, 10, 20)),
    )
)
CONFIGS: dict[str, dict[str, Any]] = {
    "table": {
        "dataset": {"name": "x", "snapshot": "1", "path": "p", "shape": "table", "unit": "u", "schema": "s"},
        "privacy": {"epsilon": 1, "delta": 0},
        "workload": {"products": [{"attributes": {"sex": "each", "age": "prefix"}}]},
        "mechanism": {"name": "aim", "max_model_mb": 10},
        "output": {"path": "o", "synthetic_rows": 5},
    },
    "baskets": {
        "dataset": {
            "name": "x",
            "snapshot": "1",
            "path": "p",
            "shape": "baskets",
            "unit": "u",
            "item": "i",
            "items": 5,
        },
        "privacy": {"epsilon": 1, "delta": 0},
        "workload": {"conjunctions": {"count": 10, "order": 2}},
        "mechanism": {"name": "mwem"},
        "output": {"path": "o"},
    },
}


@pytest.mark.parametrize(("version", "shape"), IDS_OF_OLDER_VERSIONS)
def test_ids_of_older_versions_are_known(version: str, shape: str) -> None:
    known = identity_of(parse_config(CONFIGS[shape]), AGED if shape == "table" else None, {})
    assert known.older[IDS_OF_OLDER_VERSIONS[version, shape]] == version
    assert known.release_id not in known.older


def digest(schema: Schema | None = SCHEMA, kind: type[Config] = Config, **changes: dict[str, Any]) -> str:
    document = {**CONFIGS["table"], "workload": {"marginals": {"order": 1}}, "mechanism": {"name": "laplace"}}
    for section, values in changes.items():
        document[section] = {**document.get(section, {}), **values}
    parsed = parse_config(document)
    return identity_of(kind(**{name: getattr(parsed, name) for name in Config.model_fields}), schema, {}).digest


class LaterConfig(Config):
    """The config of a later version, which has another key."""

    later: int = 3


def test_other_versions_find_the_same_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    before = digest()
    assert digest(kind=LaterConfig) == before
    monkeypatch.setattr(jobs.planning.identity, "VERSION", "99")
    assert digest() == before


@pytest.mark.parametrize("changes", SAME, ids=str)
def test_the_digest_does_not_depend_on_places_and_engines_either(changes: dict[str, dict[str, Any]]) -> None:
    assert digest(**changes) == digest()


@pytest.mark.parametrize("changes", [change for change in OTHER if "workload" not in change], ids=str)
def test_everything_else_changes_the_digest(changes: dict[str, dict[str, Any]]) -> None:
    assert digest(**changes) != digest()


def test_codes_change_the_digest() -> None:
    def codes(**targets: Any) -> Schema:
        return Schema((Attribute("sex", Kind.CATEGORICAL, values=(0, 1), **targets),))

    schemas = [codes(), codes(other=0), codes(null=1), codes(null=False), codes(column="gender"), SCHEMA]
    assert len({digest(schema) for schema in schemas}) == len(schemas)


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
        _, (file,) = find_files(f"{prefix}{tmp_path}/data")
        assert bound_path(file) == str(tmp_path / "data" / "a.parquet"), "the engines read the same file"


@pytest.mark.parametrize("url", ["file://localhost/data", "file://data", "file://~/data"])
def test_a_url_of_a_relative_path_is_bound_where_it_is_read(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("data", "localhost/data", "~/data"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a.parquet").touch()
    filesystem, inner = filesystem_of(find_files(url)[1][0])
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
