"""Main program for Beam: makes one release, whose data are aggregated by the runner that Beam's options name.

    python jobs/beam_release.py --config adult.yaml --runner=DataflowRunner --project=... --temp_location=gs://...

The config's engine is ignored: the engine is always Beam. Workers only aggregate the data; this process draws all noise
and writes the release.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one release and returns its exit code.

    arguments: Command-line arguments; those of this process when None. Options that this program does not know are
        passed to Beam.
    """
    from jobs import exit_codes, log

    # Abbreviations are off, because an abbreviated option of this program could be one of Beam's.
    parser = argparse.ArgumentParser(
        prog="beam_release.py",
        description="Run one release on Beam; all other options are Beam's.",
        allow_abbrev=False,
    )
    parser.add_argument("--config", required=True, type=Path, metavar="FILE", help="the release's YAML config")
    parser.add_argument("--again", action="store_true", help="charge again what another version was charged for")
    parser.add_argument("--log-format", choices=[*log.LogFormat], default=log.LogFormat.TEXT, help="events on stderr")
    parser.add_argument("--debug", action="store_true", help="print the traceback of an error, which may quote data")
    chosen, options = parser.parse_known_args(arguments)
    log_format = log.LogFormat(chosen.log_format)
    log.configure(log_format)
    say = exit_codes.reporter(log_format)
    return exit_codes.guarded(lambda: _release(chosen.config, chosen.again, options), debug=chosen.debug, say=say)


def _release(path: Path, again: bool, options: list[str]) -> None:
    from jobs.config import EngineChoice, load_config
    from jobs.planning.job import job_of
    from jobs.release.run import release

    beam = EngineChoice(name="beam", options={"arguments": options})
    outcome = release(
        job_of(load_config(path).model_copy(update={"engine": beam}), path.parent, str(path)), again=again
    )
    sys.stdout.write(f"{outcome.line}\nrelease {outcome.release_id}\n")


def _find_packages() -> None:
    """Takes this script's folder off sys.path, where its files would hide other modules, and adds the checkout.

    PYTHONPATH passes the checkout on to the worker processes of a local runner.
    """
    here = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != here]
    if (here.parent / "dpcore").is_dir():
        sys.path.append(str(here.parent))
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(here.parent))))


if __name__ == "__main__":
    _find_packages()
    sys.exit(main())
