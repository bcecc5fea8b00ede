"""``python -m tests.benchmarks CASE`` runs a case.

It exits with 0 when every target is met, 1 when one is missed, and 2 for an unknown case.
"""

from __future__ import annotations

import difflib
import sys
from pathlib import Path

from tests.benchmarks.harness import FOLDER, run_case, store
from tests.benchmarks.table import table


def cases() -> list[str]:
    """Names of the modules here that define a CASE."""
    return sorted(path.stem for path in FOLDER.glob("*.py") if "\nCASE = " in path.read_text())


def main(arguments: list[str], results: Path = FOLDER / "results", data: Path = FOLDER / "data") -> int:
    known = cases()
    if len(arguments) != 1 or arguments[0] not in known:
        near = difflib.get_close_matches(" ".join(arguments), known, n=1, cutoff=0.0)
        print(
            f"unknown case {' '.join(arguments)!r}; did you mean {near[0]!r}? Cases: {', '.join(known)}",
            file=sys.stderr,
        )
        return 2
    (name,) = arguments
    result = run_case(name, f"tests.benchmarks.{name}", data)
    path = store(result, results)
    print(table(result))
    print(f"stored in {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")
    return 0 if all(target["met"] for target in result["targets"]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
