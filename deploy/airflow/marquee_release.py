"""Defines one Airflow DAG per release config in a folder. A DAG retries exactly the failures that may be temporary.

Airflow needs a separate environment, because its pinned packages conflict with Marquee's. A DAG therefore starts a
release as a program, and does not import Marquee. Environment variables:

    MARQUEE_CONFIGS       Folder of the YAML configs, where their relative paths start; the DAG of people.yaml is
                          marquee_people.
    MARQUEE_RUN           Command before the config, ``marquee run`` by default. On Spark, in client deploy mode:
                          ``spark-submit --master yarn /opt/marquee/jobs/spark_release.py --config``.
    MARQUEE_SCHEDULE      When the DAGs run, such as ``@daily``; by default they run only when they are triggered.
    MARQUEE_SET           Keys of the config to set, as words of a shell, with Airflow's templates:
                          ``dataset.snapshot={{ds}} 'dataset.path=/data/*={{ds}}/*.parquet'``.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from datetime import timedelta
from pathlib import Path

from airflow.exceptions import AirflowException, AirflowFailException
from airflow.sdk import DAG, task

# After these errors the same command would fail again, so they must not be retried. All other codes (5 ledger,
# 6 engine, a killed process) may be retried: the release continues where it stopped, and is charged once.
FINAL = {2: "config", 3: "input", 4: "budget refused", 7: "integrity"}
CONFIGS = Path(os.environ.get("MARQUEE_CONFIGS", "/etc/marquee/configs"))
COMMAND = shlex.split(os.environ.get("MARQUEE_RUN", "marquee run"))
SCHEDULE = os.environ.get("MARQUEE_SCHEDULE")
SETTINGS = shlex.split(os.environ.get("MARQUEE_SET", ""))


@task(retries=5, retry_delay=timedelta(minutes=2), retry_exponential_backoff=True, max_retry_delay=timedelta(hours=1))
def release(config: str, settings: list[str]) -> None:
    """Runs one release. Exit code 0 is success, whether the release was published now or by an earlier run.

    config: The config file.
    settings: Keys to set, as ``KEY=VALUE``. Airflow fills in the templates.
    """
    options = [word for setting in settings for word in ("--set", setting)]
    code = subprocess.run([*COMMAND, config, *options], cwd=CONFIGS, check=False).returncode
    if code in FINAL:
        raise AirflowFailException(f"{config}: exit code {code} ({FINAL[code]}); it will not be retried")
    if code:
        raise AirflowException(f"{config}: exit code {code}; it may be retried")


for path in sorted(CONFIGS.glob("*.yaml")):
    if path.name.endswith(".schema.yaml"):
        continue
    # Only one run at a time, because the lock of a release admits only one process.
    with DAG(f"marquee_{path.stem}", schedule=SCHEDULE, catchup=False, max_active_runs=1, tags=["marquee"]) as dag:
        release(str(path), SETTINGS)
    globals()[dag.dag_id] = dag
