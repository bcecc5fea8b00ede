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
        """Runs the named sections, all without names, and writes RESULTS.md. Returns the exit code.

        A section may be named as SECTION:ROW,ROW: only the rows about these are run, and replace those of the result.
        """
        if arguments[:1] == ["--one"]:
            name, names = _parsed(arguments[1])
            return self._some(self.load(name), names) if names else self._one(self.load(name))
        problem = self._problem(arguments)
        if problem:
            print(problem, file=sys.stderr)
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

    def _problem(self, arguments: Sequence[str]) -> str:
        for name, rows in map(_parsed, arguments):
            if name not in self.names:
                return f"unknown {self.noun} {name!r}; want some of {', '.join(self.names)}"
            known = self.load(name).names if rows else ()
            unknown = [row for row in rows if row not in known]
            if unknown:
                return f"{self.noun} {name!r} has no rows about {unknown[0]!r}; want {', '.join(known) or name}"
            if rows and not self._path(name).exists():
                return f"{self.noun} {name!r} has no result whose rows could be replaced; want {name}"
        return ""

    def stored(self) -> list[Result]:
        """The stored results, in order."""
        paths = [self._path(name) for name in self.names]
        return [json.loads(path.read_text()) for path in paths if path.exists()]

    def _one(self, section: Section) -> int:
        """Runs one section in this process, fresh, and stores its result; a section that dies is stored as failed."""
        head = {"name": section.name, "title": section.title, "claim": section.claim} | _origin()
        self._store(section, head | {"rows": [], "passed": False, "cpu_seconds": 0.0, "wall_seconds": 0.0})
        figures, seconds = _timed(section)
        passed = bool(figures) and all(row["passed"] for row in figures)
        self._store(section, head | {"rows": figures, "passed": passed} | seconds)
        return 0 if passed else 1

    def _some(self, section: Section, names: Sequence[str]) -> int:
        """Runs the rows about some names, and puts them in place of those of the stored result."""
        result = json.loads(self._path(section.name).read_text())
        origin = {"names": list(names)} | _origin()
        figures, seconds = _timed(section, names)
        title = section.column
        rows = [row for row in result["rows"] if row[title] not in names] + figures
        rows.sort(key=lambda row: section.names.index(row[title]))
        later = [run for run in result.get("later", []) if not set(run["names"]) <= set(names)] + [origin | seconds]
        passed = all(row["passed"] for row in rows)
        self._store(section, result | {"rows": rows, "passed": passed, "later": later})
        return 0 if passed else 1

    def _path(self, name: str) -> Path:
        return self.folder / "results" / f"{name}.json"

    def _store(self, section: Section, result: Result) -> None:
        path = self._path(section.name)
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(result, indent=1) + "\n")


def result_lines(result: Result) -> list[str]:
    """A section of RESULTS.md."""
    verdict = "passed" if result["passed"] else "FAILED"
    later = [f"Rows about {', '.join(run['names'])}: {_cost(run)}." for run in result.get("later", [])]
    return [
        f"## {result['title']}", "", result["claim"], "", *table_lines(result["rows"]), "",
        f"**{verdict}**: {_cost(result)}.", *later, "",
    ]  # fmt: skip


def _cost(run: Result) -> str:
    """Seconds, day, version, commit and machine of a run."""
    where = f"commit {run['commit'][:12]}{'-dirty' if run['commit'].endswith('-dirty') else ''}"
    if "version" in run:
        where = f"version {run['version']}, {where}"
    cores = f"{run['machine']['cores']} cores of {run['machine']['processor']}"
    return f"{run['cpu_seconds']:.0f} CPU s, {run['wall_seconds']:.0f} s, {run['day']}, {where}, {cores}"


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


def _parsed(argument: str) -> tuple[str, list[str]]:
    """The name of a section, and what its rows are to be about; nothing for all of them."""
    name, _, rows = argument.partition(":")
    return name, [row.strip() for row in rows.split(",") if row.strip()]


def _origin() -> Result:
    """Version, commit, day and machine."""
    day = datetime.now(UTC).date().isoformat()
    return {"version": VERSION, "commit": commit(ROOT), "day": day, "machine": machine()}


def _timed(section: Section, names: Sequence[str] = ()) -> tuple[list[dict[str, Cell]], dict[str, float]]:
    """The figures of a section at full size, and the seconds that they took."""
    began = time.monotonic()
    figures = [{**row.cells, "passed": row.passed} for row in section.run(Size.FULL, names)]
    return figures, {"cpu_seconds": round(_cpu_seconds(), 1), "wall_seconds": round(time.monotonic() - began, 1)}


def _cpu_seconds() -> float:
    """User and system seconds of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)
