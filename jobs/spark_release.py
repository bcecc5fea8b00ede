"""Main of ``spark-submit``: one release, counted on the session that Spark started.

    spark-submit --master ... [--py-files marquee.zip] jobs/spark_release.py --config adult.yaml

The config's engine section gives way to Spark; only ``options.partitions`` of a spark engine is read, because master,
memory and cores belong to the command. Exit codes are those of ``marquee run`` (client deploy mode passes them on).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one release and gives its exit code."""
    from jobs import exit_codes, log

    parser = argparse.ArgumentParser(prog="spark_release.py", description="Run one release on Spark.")
    parser.add_argument("--config", required=True, metavar="FILE", help="the release's config, such as adult.yaml")
    parser.add_argument("--log", choices=list(log.LogFormat), default=log.LogFormat.JSON, help="how events are written")
    chosen = parser.parse_args(arguments)
    log.configure(log.LogFormat(chosen.log))
    return exit_codes.guarded(lambda: _release(chosen.config))


def _release(config: str) -> None:
    from jobs.job import load_job
    from jobs.run import release
    from pipelines.engines.spark import SparkEngine, open_session

    job = load_job(config)
    choice = job.config.engine
    session = open_session()
    try:
        release(job, engine=SparkEngine(session, choice.options.get("partitions") if choice.name == "spark" else None))
    finally:
        session.stop()


def _find_packages() -> None:
    """Takes this script's folder off sys.path, where its neighbours would hide other modules, and adds the checkout.

    The checkout comes last: an archive of --py-files and an installed package, which workers have too, come first.
    """
    here = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != here]
    if (here.parent / "dpcore").is_dir():
        sys.path.append(str(here.parent))


if __name__ == "__main__":
    _find_packages()
    sys.exit(main())
