"""jobs/spark_release.py and jobs/beam_release.py as their users start them: by path, from any folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.datasets import ROOT
from tests.support.small_release import EXACT, answers, published, write_release

SCRIPTS = ["spark_release.py", "beam_release.py"]


def run(script: Path, *arguments: str, folder: Path, python_path: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": python_path}
    command = [sys.executable, str(script), *arguments]
    return subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_does_not_import_its_neighbours(name: str, tmp_path: Path) -> None:
    shutil.copy(ROOT / "jobs" / name, tmp_path / name)
    for hidden in ("pydantic", "jobs", "log"):
        (tmp_path / f"{hidden}.py").write_text("raise SystemExit('imported the neighbour')\n")
    finished = run(tmp_path / name, "--config", "absent.yaml", folder=tmp_path, python_path=str(ROOT))
    assert (finished.returncode, finished.stderr) == (2, "marquee: absent.yaml does not exist; want a YAML config\n")


@pytest.mark.full
@pytest.mark.beam
@pytest.mark.slow
def test_beam_releases_once_with_its_own_options(tmp_path: Path) -> None:
    config = write_release(tmp_path, clustered=False)
    arguments = ("--config", str(config), "--runner=DirectRunner", f"--temp_location={tmp_path / 'temporary'}")
    arguments += ("--set", "dataset.snapshot=second")
    first = run(ROOT / "jobs" / "beam_release.py", *arguments, folder=tmp_path)
    assert first.returncode == 0, first.stderr
    assert answers(tmp_path) == EXACT
    assert json.loads(published(tmp_path)["certificate.json"])["dataset"]["snapshot"] == "second"
    before = published(tmp_path)
    second = run(ROOT / "jobs" / "beam_release.py", *arguments, folder=tmp_path)
    already, release = second.stdout.splitlines()
    assert already == f"already published: {tmp_path / 'out'}"
    assert release == f"release {json.loads(before['certificate.json'])['release_id']}"
    assert published(tmp_path) == before


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_sets_keys_of_the_config(name: str, tmp_path: Path) -> None:
    config = write_release(tmp_path, clustered=False)
    arguments = ("--config", str(config), "--set", "dataset.snapshot=second", "--set", "privacy.epsilno=1")
    finished = run(ROOT / "jobs" / name, *arguments, folder=tmp_path, python_path=str(ROOT))
    assert finished.returncode == 2
    assert (
        finished.stderr == f"marquee: {config}: --set privacy.epsilno: unknown key 'epsilno'; did you mean 'epsilon'?\n"
    )
