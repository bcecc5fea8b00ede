"""Lineage: what data are called, when events are sent, and the schema of the privacy facet."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

import jobs.monitoring
from jobs import log
from jobs.config import parse_config
from jobs.monitoring import lineage
from jobs.monitoring.facet import facet_schema, privacy_facet
from jobs.planning.job import job_of
from tests.support.lineage import without_lineage
from tests.support.releases import BASKETS, SCHEMA, TABLE


@pytest.mark.parametrize(("path", "named"), [
    ("/data/people", ("file", "/data/people")),
    ("/data/people/*=2026-11-23/*.parquet", ("file", "/data/people/")),
    ("file:///data/people", ("file", "/data/people")),
    ("s3://user:hunter-2@bucket/a/b/*.parquet", ("s3://bucket", "a/b")),
    ("s3a://bucket/a", ("s3://bucket", "a")),
    ("s3://bucket", ("s3://bucket", "/")),
    ("gcs://bucket/a/b.parquet", ("gs://bucket", "a/b.parquet")),
    ("hdfs://name:8020/a", ("hdfs://name", "/a")),
    ("hdfs://name:9000/a", ("hdfs://name:9000", "/a")),
    ("abfss://box@account.host/a", ("abfss://box@account.host", "a")),
])  # fmt: skip
def test_data_are_named_by_the_rules_of_openlineage(path: str, named: tuple[str, str]) -> None:
    namespace, name = lineage.dataset_name(path)
    assert (namespace, name.rstrip("/") or "/") == (named[0], named[1].rstrip("/") or "/")


@pytest.fixture
def unconfigured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    without_lineage(tmp_path, monkeypatch)
    return tmp_path


@pytest.mark.parametrize("name", ["OPENLINEAGE_URL", "OPENLINEAGE_CONFIG", "OPENLINEAGE__TRANSPORT__TYPE"])
def test_a_variable_of_the_client_turns_lineage_on(
    unconfigured: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    assert not lineage.is_configured()
    monkeypatch.setenv(name, "x")
    assert lineage.is_configured()
    monkeypatch.setenv("OPENLINEAGE_DISABLED", "True")
    assert not lineage.is_configured()


@pytest.mark.parametrize("place", ["openlineage.yml", "home/.openlineage/openlineage.yml"])
def test_a_file_of_the_client_turns_lineage_on(unconfigured: Path, place: str) -> None:
    path = unconfigured / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    assert lineage.is_configured()


def test_without_the_client_there_is_one_warning(unconfigured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(log, "warning", warnings.append)
    monkeypatch.setattr(lineage, "find_spec", lambda _: None)
    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:1")
    (unconfigured / "people.schema.yaml").write_text(yaml.safe_dump(SCHEMA))
    assert lineage.open_lineage(job_of(parse_config(TABLE), unconfigured), "people") is None
    assert warnings == ["OpenLineage is configured, but its client is not installed; install marquee[lineage]"]


def test_the_published_schema_of_the_facet_is_that_of_the_code() -> None:
    published = Path(jobs.monitoring.__file__).with_name("privacy_facet.schema.json").read_text()
    assert published == facet_schema() + "\n", "want facet_schema() in jobs/monitoring/privacy_facet.schema.json"


@pytest.mark.parametrize("ledger_id", [None, "0123456789abcdef"])
@pytest.mark.parametrize("document", [TABLE, BASKETS], ids=["table", "baskets"])
def test_a_facet_follows_its_schema(unconfigured: Path, document: dict[str, object], ledger_id: str | None) -> None:
    (unconfigured / "people.schema.yaml").write_text(yaml.safe_dump(SCHEMA))
    job = job_of(parse_config(document), unconfigured)
    facet = privacy_facet(job, ledger_id)
    validator = jsonschema.Draft202012Validator(json.loads(facet_schema()))
    assert list(validator.iter_errors(facet)) == []
    assert facet["ledger"].get("id") == ledger_id
    assert (facet["releaseId"], facet["ledger"]["amount"]) == (job.release_id, str(job.budget.amount))
    for key in facet:
        assert list(validator.iter_errors({name: value for name, value in facet.items() if name != key})), key
    assert list(validator.iter_errors(facet | {"rows": 300}))
