"""marquee run"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from jobs.options import AGAIN_HELP, AsJson, MetricsFile, SensitiveLog, Settings, TimeBudget, echo_result


def run(
    config: Annotated[Path, typer.Argument(help="The release's YAML config.")],
    settings: Settings = None,
    time_budget: TimeBudget = None,
    again: Annotated[bool, typer.Option("--again", help=AGAIN_HELP)] = False,
    metrics_file: MetricsFile = None,
    log_sensitive: SensitiveLog = None,
    as_json: AsJson = False,
) -> None:
    """Make a release: check the config and the data, reserve the budget, answer the queries, publish.

    After a failure, the same command continues where the run stopped, and never charges twice. After a success, it
    changes nothing. A release that another version of the program was charged for is not charged again without --again.

    Examples:

        marquee run adult.yaml

        marquee run adult.yaml --set dataset.snapshot=2026-11-23 --set "dataset.path=data/*2026-11-23/*.parquet"

        marquee run adult.yaml --time-budget 2

        marquee --log-format json run adult.yaml --metrics-file /var/lib/node_exporter/adult.prom
    """
    from jobs.monitoring.attempt import Watchers, attempt
    from jobs.outputs.certificate import promise
    from jobs.planning.job import load_job
    from jobs.planning.time_budget import with_time_budget
    from jobs.release.more_rows import advice_on_rows

    watchers = Watchers(metrics_file, log_sensitive)
    job, outcome = attempt(
        lambda: load_job(config, with_time_budget(settings or (), time_budget)), config, again=again, watchers=watchers
    )
    advice = advice_on_rows(job, outcome.output) if outcome.already and outcome.version is None else None
    facts = {
        "release_id": outcome.release_id,
        "output": str(outcome.output),
        "already": outcome.already,
        "version": outcome.version,
        "promise": promise(job),
        "advice": advice,
    }
    lines = [outcome.line, f"release {outcome.release_id}", promise(job), *([] if advice is None else [advice])]
    echo_result(as_json, facts, "\n".join(lines))
