"""The reliability suite at full size: python -m tests.reliability [part ...] runs parts and writes RESULTS.md."""

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
from tests.audit.section import Cell, Section, Size
from tests.benchmarks.provenance import commit, machine
from tests.reliability.parts import PARTS, load_part

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
RESULTS = HERE / "results"


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--one"]:
        return _one(load_part(arguments[1]))
    unknown = [name for name in arguments if name not in PARTS]
    if unknown:
        print(f"unknown part {unknown[0]!r}; want some of {', '.join(PARTS)}", file=sys.stderr)
        return 2
    for name in arguments or PARTS:
        print(f"reliability: {name}", flush=True)
        subprocess.run([sys.executable, "-m", "tests.reliability", "--one", name], cwd=ROOT, check=False)
    (HERE / "RESULTS.md").write_text(report(_stored()))
    failed = [result["name"] for result in _stored() if not result["passed"]]
    verdict = "failed: " + ", ".join(failed) if failed else "every part passed"
    print(f"reliability: {verdict}; see tests/reliability/RESULTS.md")
    return 1 if failed else 0


def _one(part: Section) -> int:
    """Runs one part in this process, fresh, and stores its result; a part that dies is stored as failed."""
    path = RESULTS / f"{part.name}.json"
    head = {"name": part.name, "title": part.title, "claim": part.claim, "version": VERSION, "commit": commit(ROOT)}
    head |= {"day": datetime.now(UTC).date().isoformat(), "machine": machine()}
    _store(path, head | {"rows": [], "passed": False, "cpu_seconds": 0.0, "wall_seconds": 0.0})
    began = time.monotonic()
    rows = part.run(Size.FULL)
    passed = bool(rows) and all(row.passed for row in rows)
    figures = [{**row.cells, "passed": row.passed} for row in rows]
    seconds = {"cpu_seconds": round(_cpu_seconds(), 1), "wall_seconds": round(time.monotonic() - began, 1)}
    _store(path, head | {"rows": figures, "passed": passed} | seconds)
    return 0 if passed else 1


def report(results: list[dict[str, Any]]) -> str:
    """RESULTS.md, from the stored results."""
    lines = [
        "# Reliability: results",
        "",
        "Written by `make soak`; do not edit. `make test` runs a fast version of each part.",
        "",
    ]
    if not results:
        lines += ["No part has been run at full size yet.", ""]
    for result in results:
        lines += [f"## {result['title']}", "", result["claim"], "", *_table(result["rows"])]
        verdict = "passed" if result["passed"] else "FAILED"
        where = f"version {result['version']}, commit {result['commit'][:12]}"
        where += "-dirty" if result["commit"].endswith("-dirty") else ""
        cores = f"{result['machine']['cores']} cores of {result['machine']['processor']}"
        lines += ["", f"**{verdict}**: {result['cpu_seconds']:.0f} CPU s, {result['wall_seconds']:.0f} s, "
                  f"{result['day']}, {where}, {cores}.", ""]  # fmt: skip
    return "\n".join(lines)


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
    paths = [RESULTS / f"{name}.json" for name in PARTS]
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
