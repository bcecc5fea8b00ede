"""Runs sections at full size, each in a process of its own, stores their figures and writes them as tables."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jobs.version import VERSION
from tests.audit.section import Cell, Section, Size
from tests.benchmarks.provenance import commit, machine
from tests.support.checks import ROOT

Result = dict[str, Any]
"""The stored figures of a section, with its version, commit, day and machine."""


@dataclass(frozen=True)
class Suite:
    """The sections of a package of tests.

    package: Name of the package in ``tests``, in which results are stored.
    noun: What a section is called there.
    names: The sections, in the order of RESULTS.md.
    load: Loads a section by its name.
    report: Makes RESULTS.md from the stored results.
    """

    package: str
    noun: str
    names: Sequence[str]
    load: Callable[[str], Section]
    report: Callable[[list[Result]], str]

    @property
    def folder(self) -> Path:
        return ROOT / "tests" / self.package

    def main(self, arguments: list[str]) -> int:
        """Runs the named sections, all without names, and writes RESULTS.md. Returns the exit code."""
        if arguments[:1] == ["--one"]:
            return self._one(self.load(arguments[1]))
        unknown = [name for name in arguments if name not in self.names]
        if unknown:
            print(f"unknown {self.noun} {unknown[0]!r}; want some of {', '.join(self.names)}", file=sys.stderr)
            return 2
        for name in arguments or self.names:
            print(f"{self.package}: {name}", flush=True)
            command = [sys.executable, "-m", f"tests.{self.package}", "--one", name]
            subprocess.run(command, cwd=ROOT, check=False)
        results = self.stored()
        (self.folder / "RESULTS.md").write_text(self.report(results))
        failed = [result["name"] for result in results if not result["passed"]]
        verdict = "failed: " + ", ".join(failed) if failed else f"every {self.noun} passed"
        print(f"{self.package}: {verdict}; see tests/{self.package}/RESULTS.md")
        return 1 if failed else 0

    def stored(self) -> list[Result]:
        """The stored results, in order."""
        paths = [self.folder / "results" / f"{name}.json" for name in self.names]
        return [json.loads(path.read_text()) for path in paths if path.exists()]

    def _one(self, section: Section) -> int:
        """Runs one section in this process, fresh, and stores its result; a section that dies is stored as failed."""
        head = {"name": section.name, "title": section.title, "claim": section.claim, "version": VERSION}
        head |= {"commit": commit(ROOT), "day": datetime.now(UTC).date().isoformat(), "machine": machine()}
        self._store(section, head | {"rows": [], "passed": False, "cpu_seconds": 0.0, "wall_seconds": 0.0})
        began = time.monotonic()
        rows = section.run(Size.FULL)
        passed = bool(rows) and all(row.passed for row in rows)
        figures = [{**row.cells, "passed": row.passed} for row in rows]
        seconds = {"cpu_seconds": round(_cpu_seconds(), 1), "wall_seconds": round(time.monotonic() - began, 1)}
        self._store(section, head | {"rows": figures, "passed": passed} | seconds)
        return 0 if passed else 1

    def _store(self, section: Section, result: Result) -> None:
        path = self.folder / "results" / f"{section.name}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(result, indent=1) + "\n")


def result_lines(result: Result) -> list[str]:
    """A section of RESULTS.md."""
    verdict = "passed" if result["passed"] else "FAILED"
    where = f"commit {result['commit'][:12]}{'-dirty' if result['commit'].endswith('-dirty') else ''}"
    if "version" in result:
        where = f"version {result['version']}, {where}"
    cores = f"{result['machine']['cores']} cores of {result['machine']['processor']}"
    return [
        f"## {result['title']}", "", result["claim"], "", *table_lines(result["rows"]), "",
        f"**{verdict}**: {result['cpu_seconds']:.0f} CPU s, {result['wall_seconds']:.0f} s, {result['day']}, {where}, "
        f"{cores}.", "",
    ]  # fmt: skip


def table_lines(rows: Sequence[dict[str, Cell]]) -> list[str]:
    """A table in Markdown."""
    if not rows:
        return ["No figures."]
    names = list(rows[0])
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    return lines + ["| " + " | ".join(_shown(row[name]) for name in names) + " |" for row in rows]


def _shown(value: Cell) -> str:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}" if isinstance(value, float) else value


def _cpu_seconds() -> float:
    """User and system seconds of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)
