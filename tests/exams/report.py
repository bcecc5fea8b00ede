"""RESULTS.md, from the stored results of the exams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.audit.suite import table_lines
from tests.exams.exam import Exam, Line

HEAD = """# External exams: results

Written by `make exams` from `results/*.json`; do not edit. Other people's programs examine synthetic rows of Marquee, beside
controls that are not private and baselines that use no model. Each program runs in an environment of its own, which
`deploy/requirements/exams-*.txt` pins.

A table is divided at random into three equal samples: people who are released, people held out whom attacks compare with, and
**other people**, another sample of the same population, which a perfect model would resemble. **copy of the data** and
**bootstrap** (drawn with replacement) publish released people as they are; **aim, epsilon 100** is a model with hardly any noise.
**uniform** knows the schema alone. Releases have delta 1e-6, all 2-way marginals as the workload and 10,000 synthetic rows;
the seed is of the division, of rows and of attacks, since noise has none. Scores depend on the draw, and `make exams` makes
new ones.

No exam proves or refutes differential privacy. The guarantee is a theorem about the mechanism, and `tests/audit` tests its
implementation; these attacks are a check of plausibility, as strong as the controls show them to be.

Not run: SynRD (its pinned dependencies have no solution on Python 3.11), TAPAS (likewise), and domias (needs PyTorch, and its
attack needs a density model per candidate; two other packages attack membership here).
"""


def report(exams: Sequence[Exam], results: Sequence[dict[str, Any]]) -> str:
    """RESULTS.md of the exams that have stored results."""
    by_name = {exam.name: exam for exam in exams}
    parts = [HEAD, *("\n".join(_section(by_name[result["name"]], result)) for result in results)]
    missing = [exam.name for exam in exams if exam.name not in {result["name"] for result in results}]
    return "\n".join(parts) + (f"\nNo results yet: {', '.join(missing)}.\n" if missing else "")


def _section(exam: Exam, result: dict[str, Any]) -> list[str]:
    tables = sorted({line["table"] for line in result["lines"]}, reverse=True)
    return [
        f"## {exam.title}", "", exam.about, "", f"{_origin(result)}", "",
        *(line for table in tables for line in _table(exam, table, result["lines"])),
        "### What the scores mean", "", *_explained(exam), "",
        "### What must hold for the exam to tell anything", "", *_checked(result["checks"]), "",
    ]  # fmt: skip


def _origin(result: dict[str, Any]) -> str:
    cores = f"{result['machine']['cores']} cores of {result['machine']['processor']}"
    where = f"Marquee {result['version']}, commit {result['commit'][:12]}"
    return f"{result['name']} {result['package']}; {where}; {result['day']}; {result['seconds']} s on {cores}."


def _table(exam: Exam, table: str, lines: Sequence[Line]) -> list[str]:
    chosen = [line for line in lines if line["table"] == table]
    rows = [
        {"candidate": line["candidate"], "kind": line["kind"], "seed": line["seed"]}
        | {name: line["scores"][name] for name in exam.shown}
        for line in chosen
    ]
    return [f"### {table}: {chosen[0]['rows']:,} people released", "", *table_lines(rows), ""]


def _explained(exam: Exam) -> list[str]:
    rows = [
        {"score": name, "better": text.better, "it means": text.means, "it does not mean": text.does_not_mean}
        for name, text in exam.explanations.items()
    ]
    return table_lines(rows)


def _checked(checks: Sequence[dict[str, Any]]) -> list[str]:
    names = {"statement": "statement", "table": "table", "seed": "seed", "passed": "holds"}
    return table_lines([{shown: check[name] for name, shown in names.items()} for check in checks])
