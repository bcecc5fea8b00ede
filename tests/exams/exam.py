"""What an exam is, and how it runs: every candidate of every table is asked, and the answers are stored as JSON."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from jobs.version import VERSION
from tests.benchmarks.provenance import commit, machine
from tests.exams.bridge import scores, version
from tests.exams.candidates import CANDIDATES
from tests.exams.material import Material, prepared, tables
from tests.support.datasets import ROOT

RESULTS = ROOT / "tests" / "exams" / "results"
Line = dict[str, Any]
"""A candidate of a table and a seed with its scores."""


@dataclass(frozen=True)
class Explanation:
    """What a score means. better: Where a good value lies. means, does_not_mean: A sentence or two each."""

    better: str
    means: str
    does_not_mean: str


@dataclass(frozen=True)
class Check:
    """Something that must hold of the stored lines of one table and seed, or the exam could not tell good from bad."""

    statement: str
    holds: Callable[[dict[str, dict[str, float]]], bool]


@dataclass(frozen=True)
class Exam:
    """An exam by name, which is also that of its package and of its environment.

    about: What is run. shown: Scores that RESULTS.md has as columns. seeds: Of the split, of rows and of attacks.
    tables: Which tables are examined, where they exist.
    """

    name: str
    title: str
    about: str
    shown: Sequence[str]
    explanations: dict[str, Explanation]
    checks: Sequence[Check]
    seeds: Sequence[int] = (1,)
    tables: Sequence[str] = ("census", "adult")


def sit(exam: Exam) -> dict[str, Any]:
    """Runs an exam on every table and seed, and stores what it gave."""
    began = time.monotonic()
    head = {"name": exam.name, "package": version(exam.name), "version": VERSION, "commit": commit(ROOT)}
    head |= {"day": datetime.now(UTC).date().isoformat(), "machine": machine()}
    lines = [
        line
        for table in tables()
        if table.name in exam.tables
        for seed in exam.seeds
        for line in _lines(exam, prepared(table, seed))
    ]
    result = head | {"lines": lines, "checks": verdicts(exam, lines), "seconds": round(time.monotonic() - began)}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{exam.name}.json").write_text(json.dumps(result, indent=1) + "\n")
    return result


def _lines(exam: Exam, material: Material) -> list[Line]:
    lines = []
    for candidate in CANDIDATES:
        print(f"{exam.name}: {material.table.name}, seed {material.seed}: {candidate.name}", flush=True)
        given = scores(exam.name, material.question(candidate), material.folder)
        about = {"table": material.table.name, "rows": material.rows, "seed": material.seed}
        lines.append(about | {"candidate": candidate.name, "kind": str(candidate.kind), "scores": given})
    return lines


def verdicts(exam: Exam, lines: Sequence[Line]) -> list[dict[str, Any]]:
    """Every check on every table and seed of the stored lines."""
    groups: dict[tuple[str, int], dict[str, dict[str, float]]] = {}
    for line in lines:
        groups.setdefault((line["table"], line["seed"]), {})[line["candidate"]] = line["scores"]
    return [
        {"statement": check.statement, "table": table, "seed": seed, "passed": check.holds(by_candidate)}
        for check in exam.checks
        for (table, seed), by_candidate in groups.items()
    ]


def stored(names: Sequence[str]) -> list[dict[str, Any]]:
    """The stored results of exams, in the order of the names."""
    paths = [RESULTS / f"{name}.json" for name in names]
    return [json.loads(path.read_text()) for path in paths if path.exists()]
