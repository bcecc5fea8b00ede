"""A scheduled release on a real Airflow: its worker is killed in the middle, and the retries publish it once."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest
import yaml

from jobs.ledger import SqlLedger
from tests.support.airflow_scheduler import COMPONENTS, airflow
from tests.support.datasets import ROOT
from tests.support.small_release import EXACT, answers, write_release

pytestmark = [pytest.mark.full, pytest.mark.slow]


@pytest.mark.parametrize("version", COMPONENTS)
def test_a_killed_task_is_tried_again_and_charged_once(version: str, tmp_path: Path) -> None:
    """Two DAGs: of a release that is killed, and of one whose dataset has no budget."""
    configs, home, stalled = tmp_path / "configs", tmp_path / "home", tmp_path / "stalled"
    configs.mkdir()
    home.mkdir()
    config = write_release(configs, clustered=True)
    poor = yaml.safe_load(config.read_text())
    poor["dataset"]["name"] = "unknown"
    poor["output"]["path"] = str(configs / "out of the poor")
    (configs / "poor.yaml").write_text(yaml.safe_dump(poor))
    # The schema is no release of its own.
    (configs / "schema.yaml").rename(configs / "paint.schema.yaml")
    for path in (config, configs / "poor.yaml"):
        path.write_text(path.read_text().replace("schema.yaml", "paint.schema.yaml"))
    program = f"'{sys.executable}' -m tests.support.stalled_release"
    variables = {
        "MARQUEE_CONFIGS": str(configs),
        "MARQUEE_RUN": f"env -u PYTHONPYCACHEPREFIX PYTHONPATH='{ROOT}' {program} run",
        "MARQUEE_SCHEDULE": "@daily",
        "MARQUEE_RETRY_SECONDS": "1",
        "MARQUEE_STALLED": str(stalled),
    }
    ledger = SqlLedger(f"sqlite:///{configs / 'ledger.db'}")
    with airflow(version, home, variables) as scheduler:
        scheduler.wait("marquee_paint", lambda task: stalled.exists(), "a release that is charged")
        assert len(ledger.history("paint")) == 1
        assert not (configs / "out").exists()
        release = psutil.Process(int(stalled.read_text()))
        # The worker dies, and the release that it has started lives on, and holds the lock: try 2 ends with code 5.
        release.parent().send_signal(signal.SIGKILL)  # type: ignore[union-attr]
        second = scheduler.wait(
            "marquee_paint", lambda task: task.number == 2 and task.state == "up_for_retry", "a second try that failed"
        )
        assert second.number == 2
        assert release.is_running()
        assert "exit code 5; it may be retried" in scheduler.log_of_tries("marquee_paint")
        os.killpg(release.pid, signal.SIGKILL)
        done = scheduler.wait("marquee_paint", lambda task: task.state in {"success", "failed"}, "a release")
        refused = scheduler.wait("marquee_poor", lambda task: task.state in {"success", "failed"}, "a refusal")
        handed_on = scheduler.xcom("marquee_paint")
        said = scheduler.log_of_tries("marquee_poor")
    assert done.state == "success"
    assert done.number >= 3
    assert answers(configs) == EXACT
    assert (configs / "out" / "_SUCCESS").exists()
    assert len(ledger.history("paint")) == 1
    certificate = json.loads((configs / "out" / "certificate.json").read_text())
    assert handed_on == {"return_value": {"release_id": certificate["release_id"], "path": str(configs / "out")}}
    # A refusal of the budget is final.
    assert (refused.state, refused.number) == ("failed", 1)
    assert "exit code 4 (budget refused); it will not be retried" in said
