"""External exams: python -m tests.exams [NAME ...] runs them, stores JSON, and writes RESULTS.md."""

from __future__ import annotations

import sys

from tests.exams import anonymeter, sdmetrics, sdnist, syntheval
from tests.exams.exam import RESULTS, sit, stored
from tests.exams.report import report

EXAMS = {exam.name: exam for exam in (sdmetrics.EXAM, sdnist.EXAM, syntheval.EXAM, anonymeter.EXAM)}


def results_page() -> str:
    """RESULTS.md of what is stored."""
    return report(list(EXAMS.values()), stored(list(EXAMS)))


def main(names: list[str]) -> int:
    """Runs the named exams, all without names. Returns 1 if a check does not hold, and 2 for an unknown name."""
    unknown = [name for name in names if name not in EXAMS]
    if unknown:
        print(f"unknown exam {unknown[0]!r}; want some of {', '.join(EXAMS)}", file=sys.stderr)
        return 2
    failed = []
    for name in names or EXAMS:
        result = sit(EXAMS[name])
        failed += [f"{name}: {check['statement']}" for check in result["checks"] if not check["passed"]]
        (RESULTS.parent / "RESULTS.md").write_text(results_page())
    print("\n".join(failed) or "exams: every check holds", "see tests/exams/RESULTS.md", sep="; ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
