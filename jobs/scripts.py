"""What the main programs for Spark and Beam have in common: their options, and one release with an engine of theirs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from jobs import exit_codes, log
from jobs.config import EngineChoice
from jobs.options import AGAIN_HELP, METRICS_HELP, SENSITIVE_HELP, SET_HELP


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of ``marquee run`` to the parser of a main program."""
    parser.add_argument("--config", required=True, type=Path, metavar="FILE", help="the release's YAML config")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help=SET_HELP)
    parser.add_argument("--again", action="store_true", help=AGAIN_HELP)
    parser.add_argument("--metrics-file", type=Path, metavar="FILE", help=METRICS_HELP)
    parser.add_argument("--log-sensitive", type=Path, metavar="FILE", help=SENSITIVE_HELP)
    parser.add_argument("--log-format", choices=[*log.LogFormat], default=log.LogFormat.TEXT, help="events on stderr")
    parser.add_argument("--debug", action="store_true", help="print the traceback of an error, which may quote data")


def run_with(chosen: argparse.Namespace, engine: Callable[[EngineChoice], EngineChoice]) -> int:
    """Runs one release and returns its exit code.

    chosen: The parsed options.
    engine: Returns the engine to use in place of the config's, which is its argument.
    """
    log_format = log.LogFormat(chosen.log_format)
    log.configure(log_format)
    say = exit_codes.reporter(log_format)
    return exit_codes.guarded(lambda: _release(chosen, engine), debug=chosen.debug, say=say)


def _release(chosen: argparse.Namespace, engine: Callable[[EngineChoice], EngineChoice]) -> None:
    from jobs.config import load_config
    from jobs.monitoring.attempt import Watchers, attempt
    from jobs.planning.job import Job, job_of

    path: Path = chosen.config

    def load() -> Job:
        config = load_config(path, chosen.set)
        return job_of(config.model_copy(update={"engine": engine(config.engine)}), path.parent, str(path))

    watchers = Watchers(chosen.metrics_file, chosen.log_sensitive)
    _, outcome = attempt(load, path, again=chosen.again, watchers=watchers)
    sys.stdout.write(f"{outcome.line}\nrelease {outcome.release_id}\n")
