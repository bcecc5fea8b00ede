"""Main program for ``spark-submit``: makes one release, whose data are aggregated on the session of spark-submit.

    spark-submit --master ... [--py-files marquee.zip] jobs/spark_release.py --config adult.yaml

The config's engine is ignored: the engine is always Spark. Of the options of a spark engine only ``partitions`` is
read, because the command sets master, memory and cores. Exit codes are those of ``marquee run``; spark-submit returns
them in client deploy mode.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one release and returns its exit code.

    arguments: Command-line arguments; those of this process when None.
    """
    from jobs import exit_codes, log

    parser = argparse.ArgumentParser(prog="spark_release.py", description="Run one release on Spark.")
    parser.add_argument("--config", required=True, type=Path, metavar="FILE", help="the release's YAML config")
    parser.add_argument("--again", action="store_true", help="charge again what another version was charged for")
    parser.add_argument("--log-format", choices=[*log.LogFormat], default=log.LogFormat.TEXT, help="events on stderr")
    parser.add_argument("--debug", action="store_true", help="print the traceback of an error, which may quote data")
    chosen = parser.parse_args(arguments)
    log_format = log.LogFormat(chosen.log_format)
    log.configure(log_format)
    say = exit_codes.reporter(log_format)
    return exit_codes.guarded(lambda: _release(chosen.config, chosen.again), debug=chosen.debug, say=say)


def _release(path: Path, again: bool) -> None:
    from jobs.config import EngineChoice, load_config
    from jobs.planning.job import job_of
    from jobs.release.run import release

    config = load_config(path)
    own = config.engine.options if config.engine.name == "spark" else {}
    spark = EngineChoice(name="spark", options={key: own[key] for key in own if key == "partitions"})
    outcome = release(job_of(config.model_copy(update={"engine": spark}), path.parent, str(path)), again=again)
    sys.stdout.write(f"{outcome.line}\nrelease {outcome.release_id}\n")


def _find_packages() -> None:
    """Takes this script's folder off sys.path, where its files would hide other modules, and adds the checkout.

    The checkout comes last, so that an archive of --py-files or an installed package, which the workers import, is also
    what this process imports.
    """
    here = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != here]
    if (here.parent / "dpcore").is_dir():
        sys.path.append(str(here.parent))


if __name__ == "__main__":
    _find_packages()
    sys.exit(main())
