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
    from jobs.scripts import add_options, run_with

    # Abbreviations are off, because an abbreviated option of this program could be one of Beam's.
    parser = argparse.ArgumentParser(
        prog="beam_release.py",
        description="Run one release on Beam; all other options are Beam's.",
        allow_abbrev=False,
    )
    add_options(parser)
    chosen, options = parser.parse_known_args(arguments)
    return run_with(chosen, lambda own: own.model_copy(update={"name": "beam", "options": {"arguments": options}}))


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
