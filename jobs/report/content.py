"""What a report says, gathered from a release folder. Public: nothing but published files is read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from jobs.reading.release_folder import ReleaseFolder
from jobs.report import figures
from jobs.report.figures import RankedTable
from jobs.report.quality import Quality, qualities
from pipelines.layout import TableLayout

SAMPLE_ROWS: Final = 20
"""Number of synthetic rows in a report."""


@dataclass(frozen=True)
class Sample:
    """The first synthetic rows of a release.

    columns: Names of their columns.
    rows: Their values as text.
    all_rows: Number of all synthetic rows.
    """

    columns: list[str]
    rows: list[list[str]]
    all_rows: int


@dataclass(frozen=True)
class Content:
    """Everything that a report says.

    name: Name of the dataset.
    snapshot: Label of the state of the data.
    release_id: SHA-256 of the release's public facts.
    day: Day of the charge, such as 2026-11-25.
    promise: The guarantee in plain words, sentence by sentence.
    facts: Name and value of each public fact.
    limits: What the guarantee does not cover.
    quality: The error bars of the answers.
    estimates: Whether the answers are estimates whose intervals are calibrated on average over all answers.
    expected_error: Expected error per answer that the noise causes, in counts; None if there is no formula.
    charts: ``figures.charts``.
    ranked: ``figures.ranked``.
    searched: ``figures.searched``.
    itemsets: The most frequent itemsets by size, and the rules with the largest lower bound of lift; none for other
        workloads.
    answers: Number of all answers.
    sample: The first synthetic rows; None without any.
    charges: Label, number of calls and share of the budget of each step.
    version: Version of Marquee that made the release.
    """

    name: str
    snapshot: str
    release_id: str
    day: str
    promise: list[str]
    facts: list[tuple[str, str]]
    limits: list[str]
    quality: list[Quality]
    estimates: bool
    expected_error: float | None
    charts: list[dict[str, Any]]
    ranked: list[dict[str, Any]]
    searched: list[dict[str, Any]]
    itemsets: list[RankedTable]
    answers: int
    sample: Sample | None
    charges: list[tuple[str, int, float]]
    version: str


def gathered(folder: ReleaseFolder) -> Content:
    """Reads what a report of a release says.

    Raises: InputError when a file of the release cannot be read.
    """
    document = folder.document
    return Content(
        name=document["dataset"]["name"],
        snapshot=document["dataset"]["snapshot"],
        release_id=document["release_id"],
        day=str(document["reserved_at"] or "")[:10],
        promise=promise_in_words(document),
        facts=_facts(folder),
        limits=list(document["limits"]),
        quality=qualities(folder.answers),
        estimates=bool(document["answers"].get("estimates")),
        expected_error=document["answers"]["predicted_mean_absolute_error"],
        charts=figures.charts(folder),
        ranked=[] if folder.has_itemsets else figures.ranked(folder),
        searched=figures.searched(folder),
        itemsets=figures.itemset_tables(folder),
        answers=len(folder.answers),
        sample=_sample(folder),
        charges=_charges(document),
        version=document["versions"]["marquee"],
    )


def promise_in_words(document: Mapping[str, Any]) -> list[str]:
    """The guarantee for a reader who does not know differential privacy.

    document: A certificate as a JSON object.
    """
    guarantee, unit = document["guarantee"], document["public_facts"]["unit"]
    epsilon, delta = float(guarantee["epsilon"]), float(guarantee["delta"])
    factor = f"{math.exp(epsilon):.3g}" if epsilon < 50 else f"e^{epsilon:g}"
    does = "is in the data or not" if guarantee["neighbours"] == "add_remove_unit" else "has these rows or others"
    except_for = f", except with a probability of at most about {delta:g}" if delta else ""
    return [
        f"This release is differentially private: epsilon is {epsilon:g}, and delta is {delta:g}.",
        f"Whether one {unit} {does} changes the probability of every result here by a factor of at most {factor}"
        f"{except_for}.",
        "So nobody can learn much about one of them from this release, whatever else they know. Everything below is "
        "computed from noisy counts: small differences are noise, and the intervals say how small.",
    ]


def _facts(folder: ReleaseFolder) -> list[tuple[str, str]]:
    document = folder.document
    public, mechanism = document["public_facts"], document["mechanism"]["name"]
    bound = public.get("max_rows_per_unit") or public.get("max_items_per_unit")
    rows = document["synthetic_rows"]
    facts = [
        ("Protected unit", str(public["unit"])),
        ("Counted per unit", "all rows or items" if bound is None else f"at most {bound:,}"),
        ("Epsilon, delta", f"{document['guarantee']['epsilon']:g}, {document['guarantee']['delta']:g}"),
        ("Mechanism", mechanism),
        ("Answers", f"{len(folder.answers):,}"),
        ("Synthetic rows", "none" if rows is None else f"{rows:,}"),
    ]
    if isinstance(folder.layout, TableLayout):
        facts.append(("Attributes", f"{len(folder.schema.attributes):,}"))
    return facts


def _sample(folder: ReleaseFolder) -> Sample | None:
    rows = folder.rows
    if rows is None:
        return None
    head = rows.head(SAMPLE_ROWS)
    values = [[_shown(value) for value in row.values()] for row in head.to_pylist()]
    return Sample(head.column_names, values, int(folder.document["synthetic_rows"] or 0))


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else f"{value:.10g}" if isinstance(value, float) else str(value)


def _charges(document: Mapping[str, Any]) -> list[tuple[str, int, float]]:
    """The steps in order; charges with the same label are one step."""
    reserved = float(document["guarantee"]["reserved_in_the_ledger"]["amount_as_number"])
    steps: dict[str, tuple[int, float]] = {}
    for charge in document["charges"]:
        calls, amount = steps.get(charge["label"], (0, 0.0))
        steps[charge["label"]] = (calls + 1, amount + float(charge["amount_as_number"]))
    return [(label, calls, amount / reserved if reserved else 0.0) for label, (calls, amount) in steps.items()]
