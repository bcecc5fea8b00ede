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
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobs.config import EngineChoice


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one release and returns its exit code.

    arguments: Command-line arguments; those of this process when None.
    """
    from jobs.scripts import add_options, run_with

    parser = argparse.ArgumentParser(prog="spark_release.py", description="Run one release on Spark.")
    add_options(parser)
    return run_with(parser.parse_args(arguments), _spark)


def _spark(own: EngineChoice) -> EngineChoice:
    options = own.options if own.name == "spark" else {}
    return own.model_copy(
        update={"name": "spark", "options": {key: options[key] for key in options if key == "partitions"}}
    )


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
