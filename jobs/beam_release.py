"""Main for Beam: one release, counted by the runner that Beam's own options name.

    python jobs/beam_release.py --config adult.yaml --runner=DataflowRunner --project=... --temp_location=gs://...

The config's engine section gives way to Beam. Workers only count; everything is drawn and written here.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one release and gives its exit code; options that are not ours are Beam's."""
    from jobs import exit_codes, log

    # Without abbreviations: a short form of one of ours could be an option of Beam.
    parser = argparse.ArgumentParser(
        prog="beam_release.py",
        description="Run one release on Beam; all other options are Beam's.",
        allow_abbrev=False,
    )
    parser.add_argument("--config", required=True, metavar="FILE", help="the release's config, such as adult.yaml")
    parser.add_argument("--log", choices=list(log.LogFormat), default=log.LogFormat.JSON, help="how events are written")
    chosen, options = parser.parse_known_args(arguments)
    log.configure(log.LogFormat(chosen.log))
    return exit_codes.guarded(lambda: _release(chosen.config, options))


def _release(config: str, options: Sequence[str]) -> None:
    from jobs.job import load_job
    from jobs.run import release

    job = load_job(config)
    from pipelines.engines.beam import BeamEngine

    release(job, engine=BeamEngine(options))


def _find_packages() -> None:
    """Takes this script's folder off sys.path, where its neighbours would hide other modules, and adds the checkout.

    Worker processes that a local runner starts find the checkout through PYTHONPATH.
    """
    here = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != here]
    if (here.parent / "dpcore").is_dir():
        sys.path.append(str(here.parent))
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(here.parent))))


if __name__ == "__main__":
    _find_packages()
    sys.exit(main())
