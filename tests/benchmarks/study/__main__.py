"""``python -m tests.benchmarks.study --minutes 30`` computes what the stored study lacks, and writes table and plot.

Without minutes nothing is computed. Errors are by Definition 26 of the thesis, at delta 1e-9; neighbours add or remove
one row, and the number of rows is private.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.harness import FOLDER
from tests.benchmarks.study.configurations import FAMILIES, Configuration, configurations
from tests.benchmarks.study.report import write_report
from tests.benchmarks.study.run import refresh, study
from tests.benchmarks.study.store import Store
from tests.benchmarks.study.worker import CANDIDATES, Worker


def main(arguments: Sequence[str], folder: Path = FOLDER / "results" / "study") -> int:
    asked = _parsed(arguments)
    store = Store.opened(folder)
    if asked.refresh or asked.minutes:
        settings = _chosen(asked)
        if asked.refresh:
            refresh(settings, store)
        study(settings, store, Worker(asked.seconds), asked.minutes, set(asked.again))
        store.compact()
    print(f"stored {write_report(store, folder.parent / 'STUDY.md').name}")
    return 0


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.study", description=__doc__)
    parser.add_argument("--minutes", type=float, default=0.0, help="CPU minutes after which no setting is begun")
    parser.add_argument("--seconds", type=float, default=60.0, help="CPU seconds that one release may take")
    parser.add_argument("--settings", type=int, help="only so many settings of the list")
    parser.add_argument("--family", nargs="*", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--only", nargs="+", metavar="KEY", help="compute these settings alone, such as tree-01")
    parser.add_argument("--again", nargs="*", choices=list(CANDIDATES), default=[], help="compute what is stored too")
    parser.add_argument("--refresh", action="store_true", help="ask again what is recommended, without releases")
    return parser.parse_args(arguments)


def _chosen(asked: argparse.Namespace) -> list[Configuration]:
    """The settings to compute. Ends the program if ``--only`` names a setting that the families do not have."""
    settings = configurations(tuple(asked.family))
    if asked.only:
        by_key = {setting.key: setting for setting in settings}
        if unknown := [key for key in asked.only if key not in by_key]:
            sys.exit(f"--only {' '.join(unknown)}: no such setting; want family and number, such as {settings[0].key}")
        settings = [by_key[key] for key in asked.only]
    return settings[: asked.settings]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
