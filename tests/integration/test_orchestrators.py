"""Dagster materializes a release as an asset, and dbt builds the data of one, each in an environment of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from jobs import exit_codes
from jobs.ledger import SqlLedger
from tests.support.datasets import ROOT
from tests.support.environments import bytecode, environment
from tests.support.small_release import EXACT, answers, write_release

pytestmark = [pytest.mark.full, pytest.mark.slow]
MARQUEE = ["env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "jobs", "run"]
MATERIALIZE = """
import json, sys
from dagster import RetryPolicy, StaticPartitionsDefinition, materialize
from marquee_asset import release_asset

arguments = json.loads(sys.argv[1])
if day := arguments.pop("day", None):
    arguments["partitions"] = StaticPartitionsDefinition([day])
made = materialize(
    [release_asset(**arguments, retries=RetryPolicy(max_retries=2))], partition_key=day, raise_on_error=False
)
print(json.dumps({
    "success": made.success,
    "tries": sum(event.event_type_value in ("STEP_START", "STEP_RESTARTED") for event in made.all_events),
    "metadata": [
        {key: value.value for key, value in event.metadata.items()}
        for event in made.asset_materializations_for_node(arguments["name"])
    ],
}))
"""


def materialized(folder: Path, **arguments: Any) -> dict[str, Any]:
    """What Dagster says of an asset."""
    (folder / "dagster").mkdir()
    variables = {
        "PATH": os.environ["PATH"], "DAGSTER_HOME": str(folder / "dagster"), **bytecode("dagster"),
        "PYTHONPATH": str(ROOT / "deploy" / "dagster"),
    }  # fmt: skip
    command = [environment("dagster") / "python", "-c", MATERIALIZE, json.dumps({"name": "paint", **arguments})]
    done = subprocess.run(command, env=variables, cwd=folder, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_dagster_materializes_a_release(tmp_path: Path) -> None:
    config = write_release(tmp_path, clustered=True)
    found = materialized(tmp_path, config=str(config), command=MARQUEE)
    assert (found["success"], found["tries"]) == (True, 1)
    assert answers(tmp_path) == EXACT
    certificate = json.loads((tmp_path / "out" / "certificate.json").read_text())
    assert found["metadata"] == [{"release_id": certificate["release_id"], "path": str(tmp_path / "out")}]


@pytest.mark.parametrize(("code", "tries"), [(exit_codes.BUDGET, 1), (exit_codes.ENGINE, 3)])
def test_dagster_tries_again_what_may_pass(tmp_path: Path, code: int, tries: int) -> None:
    command = ["sh", "-c", f'echo "$@" >>{tmp_path}/words; exit {code}', "marquee"]
    settings = {"dataset.snapshot": "{partition}"}
    found = materialized(tmp_path, config=str(tmp_path / "a"), command=command, settings=settings, day="2026-11-23")
    assert (found["success"], found["tries"], found["metadata"]) == (False, tries, [])
    words = (tmp_path / "words").read_text().splitlines()
    assert words == [f"{tmp_path}/a --set dataset.snapshot=2026-11-23"] * tries


def built(folder: Path, config: Path) -> subprocess.CompletedProcess[str]:
    """The release of a model that dbt builds from the folder ``data``."""
    project = folder / "project"
    shutil.copytree(ROOT / "deploy" / "dbt", project)
    variables = yaml.safe_dump({"raw": str(folder / "data"), "target_folder": str(folder / "people")})
    script = [sys.executable, str(project / "build_and_release.py"), "--dbt", str(environment("dbt") / "dbt")]
    command = [*script, "--project", str(project), "--vars", variables, "--", *MARQUEE, str(config)]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "DBT_"))}
    told = {**kept, "DBT_SEND_ANONYMOUS_USAGE_STATS": "false"}
    return subprocess.run(command, env=told, cwd=folder, check=False, capture_output=True, text=True)


def of_the_model(folder: Path) -> Path:
    """A config whose data are what the model writes."""
    config = write_release(folder, clustered=True)
    content = yaml.safe_load(config.read_text())
    content["dataset"]["path"] = str(folder / "people")
    config.write_text(yaml.safe_dump(content))
    (folder / "people").mkdir()
    return config


def test_dbt_builds_the_data_of_a_release(tmp_path: Path) -> None:
    done = built(tmp_path, of_the_model(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert answers(tmp_path) == EXACT


def test_data_that_fail_a_test_of_dbt_are_not_released_or_charged(tmp_path: Path) -> None:
    config = of_the_model(tmp_path)
    pq.write_table(
        pa.table({"person": pa.array([None], pa.int64()), "colour": ["red"]}), tmp_path / "data" / "4.parquet"
    )
    done = built(tmp_path, config)
    assert done.returncode == exit_codes.INPUT
    assert "no release and no charge" in done.stderr
    assert not (tmp_path / "out").exists()
    assert SqlLedger(f"sqlite:///{tmp_path / 'ledger.db'}").history("paint") == []
