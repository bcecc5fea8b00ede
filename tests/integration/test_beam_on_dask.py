"""Beam's job on Dask's runner, which loses elements in Beam 2.77: no zeros are published, and no charge is lost."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from jobs import exit_codes
from jobs.ledger import SqlLedger
from jobs.planning.job import load_job
from jobs.release.run import release
from tests.support.datasets import ROOT
from tests.support.environments import environment
from tests.support.small_release import EXACT, answers, write_release

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.beam]
RUNNER = "apache_beam.runners.dask.dask_runner.DaskRunner"


# The runner passes on both outputs of a step with two outputs as one, so that files of whole units fail before that.
@pytest.mark.parametrize(
    ("clustered", "says"),
    [
        pytest.param(True, "Beam did not finish the aggregation", id="clustered"),
        pytest.param(False, "Beam's runner says that it is done, but not all tasks have arrived", id="shuffled"),
    ],
)
def test_what_dask_loses_is_not_published_and_another_engine_continues(
    tmp_path: Path, clustered: bool, says: str
) -> None:
    config = write_release(tmp_path, clustered=clustered)
    (tmp_path / "shared").mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    command = [environment("dask") / "python", ROOT / "jobs" / "beam_release.py", "--config", config]
    options = [f"--runner={RUNNER}", f"--temp_location={tmp_path / 'shared'}"]
    done = subprocess.run(
        [*command, *options], env=kept, cwd=tmp_path, check=False, capture_output=True, text=True, timeout=400
    )
    assert done.returncode == exit_codes.ENGINE, done.stderr
    assert says in done.stderr
    assert not (tmp_path / "out").exists()
    assert list((tmp_path / "shared").iterdir()) == []
    release(load_job(config))
    assert answers(tmp_path) == EXACT
    assert len(SqlLedger(f"sqlite:///{tmp_path / 'ledger.db'}").history("paint")) == 1
