"""``python -m tests.benchmarks.scaling law`` and ``... limits [NAME ...]`` print JSON and store it in ``results``.

Every measurement is made in a process of its own, so that peak memory is that of one thing.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.benchmarks import process_tree
from tests.benchmarks.provenance import commit, machine
from tests.benchmarks.scaling import law
from tests.benchmarks.scaling.limits import CORES, FILES, LIMITS, PAIRS

ROOT = Path(__file__).resolve().parents[3]
FOLDER = Path(__file__).resolve().parents[1]


def main(kind: str, names: list[str], results: Path = FOLDER / "results", data: Path = FOLDER / "data") -> None:
    """Measures, prints and stores."""
    if kind == "--one":
        figures = LIMITS[names[0]]()
        print(json.dumps({**figures, "peak MB": process_tree.own_peak_mb()}))
        return
    if kind == "limits":
        result: dict[str, Any] = {"pairs": PAIRS, "files": FILES, "cores": CORES}
        for name in names or list(LIMITS):
            result[name] = _apart("--one", name)
            print(json.dumps({name: result[name]}), flush=True)
    else:
        result = law.measured(data)
        print(json.dumps(result["fits"], indent=2))
    stored = {"case": f"scaling_{kind}", "commit": commit(ROOT), "machine": machine(), **result}
    (results / f"scaling_{kind}.json").write_text(json.dumps(stored, indent=2) + "\n")


def _apart(*arguments: str) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.benchmarks.scaling", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
