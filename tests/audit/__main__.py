"""The privacy audit at full size: python -m tests.audit [section ...] runs them, stores JSON, writes RESULTS.md."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jobs.version import VERSION
from tests.audit.section import SECTIONS, Cell, Section, Size, load_section
from tests.audit.summary import CLAIM, summary
from tests.benchmarks.provenance import commit, machine

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
RESULTS = HERE / "results"


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--one"]:
        return _one(load_section(arguments[1]))
    unknown = [name for name in arguments if name not in SECTIONS]
    if unknown:
        print(f"unknown section {unknown[0]!r}; want some of {', '.join(SECTIONS)}", file=sys.stderr)
        return 2
    for name in arguments or SECTIONS:
        print(f"audit: {name}", flush=True)
        subprocess.run([sys.executable, "-m", "tests.audit", "--one", name], cwd=ROOT, check=False)
    (HERE / "RESULTS.md").write_text(report(_stored()))
    failed = [result["name"] for result in _stored() if not result["passed"]]
    print(f"audit: {'failed: ' + ', '.join(failed) if failed else 'every section passed'}; see tests/audit/RESULTS.md")
    return 1 if failed else 0


def _one(section: Section) -> int:
    """Runs one section in this process, fresh, and stores its result; a section that dies is stored as failed."""
    path = RESULTS / f"{section.name}.json"
    head = {"name": section.name, "title": section.title, "claim": section.claim, "commit": commit(ROOT)}
    head |= {"version": VERSION}
    head |= {"day": datetime.now(UTC).date().isoformat(), "machine": machine()}
    _store(path, head | {"rows": [], "passed": False, "cpu_seconds": 0.0, "wall_seconds": 0.0})
    began = time.monotonic()
    rows = section.run(Size.FULL)
    passed = bool(rows) and all(row.passed for row in rows)
    figures = [{**row.cells, "passed": row.passed} for row in rows]
    seconds = {"cpu_seconds": round(_cpu_seconds(), 1), "wall_seconds": round(time.monotonic() - began, 1)}
    _store(path, head | {"rows": figures, "passed": passed} | seconds)
    return 0 if passed else 1


def report(results: list[dict[str, Any]]) -> str:
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
        *_table(summary(results)),
        "",
    ]
    for result in results:
        lines += [f"## {result['title']}", "", result["claim"], ""]
        lines += _table(result["rows"])
        verdict = "passed" if result["passed"] else "FAILED"
        where = f"commit {result['commit'][:12]}{'-dirty' if result['commit'].endswith('-dirty') else ''}"
        cores = f"{result['machine']['cores']} cores of {result['machine']['processor']}"
        lines += ["", f"**{verdict}**: {result['cpu_seconds']:.0f} CPU s, {result['wall_seconds']:.0f} s, "
                  f"{result['day']}, {where}, {cores}.", ""]  # fmt: skip
    return "\n".join(lines)


def _origin(results: list[dict[str, Any]]) -> list[str]:
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


def _table(rows: list[dict[str, Cell]]) -> list[str]:
    if not rows:
        return ["No figures."]
    names = list(rows[0])
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    return lines + ["| " + " | ".join(_shown(row[name]) for name in names) + " |" for row in rows]


def _shown(value: Cell) -> str:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}" if isinstance(value, float) else value


def _stored() -> list[dict[str, Any]]:
    paths = [RESULTS / f"{name}.json" for name in SECTIONS]
    return [json.loads(path.read_text()) for path in paths if path.exists()]


def _store(path: Path, result: dict[str, Any]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")


def _cpu_seconds() -> float:
    """User and system seconds of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
