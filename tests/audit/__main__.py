"""The privacy audit at full size: python -m tests.audit [section ...] runs them, stores JSON, writes RESULTS.md."""

from __future__ import annotations

import sys

from tests.audit.section import SECTIONS, load_section
from tests.audit.suite import Result, Suite, result_lines, table_lines
from tests.audit.summary import CLAIM, summary


def report(results: list[Result]) -> str:
    """RESULTS.md, from the stored results."""
    lines = [
        "# Privacy audit: results",
        "",
        "Written by `make audit`; do not edit. Each section runs what ships; `make test` runs a fast version of each.",
        "",
        *_origin(results),
        "## Audited loss of every mechanism, beside its claim",
        "",
        CLAIM,
        "",
        *table_lines(summary(results)),
        "",
    ]
    for result in results:
        lines += result_lines(result)
    return "\n".join(lines)


def _origin(results: list[Result]) -> list[str]:
    """Which versions, commits and days the sections are of, and which of them failed or were not run."""
    versions = sorted({result.get("version", "before 0.11.0") for result in results})
    commits = sorted({result["commit"][:12] for result in results})
    days = sorted({result["day"] for result in results})
    failed = [result["title"] for result in results if not result["passed"]]
    missing = sorted(set(SECTIONS) - {result["name"] for result in results})
    lines = [
        f"* version {', '.join(versions)}; commit {', '.join(commits)}; {' to '.join(sorted({days[0], days[-1]}))}"
    ]
    lines.append(f"* failed: {', '.join(failed) if failed else 'none'} of {len(results)} sections")
    if missing:
        lines.append(f"* not run: {', '.join(missing)}")
    return [*lines, ""]


AUDIT = Suite("audit", "section", SECTIONS, load_section, report)

if __name__ == "__main__":
    sys.exit(AUDIT.main(sys.argv[1:]))
