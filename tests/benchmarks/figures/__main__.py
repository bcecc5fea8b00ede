"""``python -m tests.benchmarks.figures [PANEL ...]`` computes, stores and shows panels by their names or beginnings.

Without a name it only writes the plots and tables again from what is stored. It exits with 2 for an unknown name.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.benchmarks.figures.panel import Panel, compute, show
from tests.benchmarks.figures.panels import PANELS
from tests.benchmarks.harness import FOLDER


def main(arguments: Sequence[str], panels: Mapping[str, Panel] = PANELS) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.figures", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="PANEL", help=f"one of {', '.join(panels)}, or a beginning")
    parser.add_argument("--results", type=Path, default=FOLDER / "results", help="where to store (the repository's)")
    parser.add_argument("--data", type=Path, default=FOLDER / "data", help="where generated inputs are kept")
    asked = parser.parse_args(arguments)
    for name in asked.names:
        if not any(known.startswith(name) for known in panels):
            print(f"unknown panel {name!r}; want a beginning of one of: {', '.join(panels)}", file=sys.stderr)
            return 2
    for name, panel in panels.items():
        if name.startswith(tuple(asked.names)):
            print(f"stored {compute(panel, asked.data, asked.results).name}")
    print(f"stored {show(asked.results, tuple(panels)).name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
