"""Defines one Airflow DAG per release config in a folder, for Airflow 2.10 and 3 on Python 3.11 or newer.

``marquee_operator.py`` lies in the same folder, or on PYTHONPATH. A DAG retries exactly the failures that may be
temporary. Environment variables:

    MARQUEE_CONFIGS       Folder of the YAML configs, where their relative paths start; the DAG of people.yaml is
                          marquee_people.
    MARQUEE_RUN           Command before the config, ``marquee run`` by default. On Spark, in client deploy mode:
                          ``spark-submit --master yarn /opt/marquee/jobs/spark_release.py --config``.
    MARQUEE_SCHEDULE      When the DAGs run, such as ``@daily``; by default they run only when they are triggered.
    MARQUEE_SET           Keys of the config to set, as words of a shell, with Airflow's templates:
                          ``dataset.snapshot={{ds}} 'dataset.path=/data/*={{ds}}/*.parquet'``.
    MARQUEE_RETRY_SECONDS Seconds until the first retry, 120 by default; each later one waits twice as long.
"""

from __future__ import annotations

import os
import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path

try:
    from airflow.sdk import DAG, CronDataIntervalTimetable
except ImportError:  # Airflow 2.10
    from airflow import DAG
    from airflow.timetables.interval import CronDataIntervalTimetable

from marquee_operator import MarqueeReleaseOperator

CONFIGS = Path(os.environ.get("MARQUEE_CONFIGS", "/etc/marquee/configs"))
COMMAND = shlex.split(os.environ.get("MARQUEE_RUN", "marquee run"))
SETTINGS = dict(word.split("=", 1) for word in shlex.split(os.environ.get("MARQUEE_SET", "")))
# A timetable and not a text, because ds would be the day before the run in Airflow 2, and the day of the run in Airflow
# 3. Here it is the first day of the interval in both: the data of 23 November are released after its end.
TIMES = os.environ.get("MARQUEE_SCHEDULE")
SCHEDULE = CronDataIntervalTimetable(TIMES, timezone="UTC") if TIMES else None

for path in sorted(CONFIGS.glob("*.yaml")):
    if path.name.endswith(".schema.yaml"):
        continue
    with DAG(
        f"marquee_{path.stem}",
        schedule=SCHEDULE,
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,  # Each interval that is made up for would be charged.
        max_active_runs=1,  # The lock of a release admits only one process.
        tags=["marquee"],
    ) as dag:
        MarqueeReleaseOperator(
            task_id="release",
            config=str(path),
            settings=SETTINGS,
            command=COMMAND,
            folder=str(CONFIGS),
            retries=5,
            retry_delay=timedelta(seconds=float(os.environ.get("MARQUEE_RETRY_SECONDS", "120"))),
            retry_exponential_backoff=True,
            max_retry_delay=timedelta(hours=1),
        )
    globals()[dag.dag_id] = dag
