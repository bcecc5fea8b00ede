"""Stored panels as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

from tests.benchmarks.figures.points import BASELINE, MEASURED, PUBLISHED, Point, point_of

_HEAD = """# Figures of the papers

Made by `make bench CASE=paper_figures`, written from `figures/*.json` alone. Errors are fractions of the number of
units: largest / mean over all queries, means over the runs. Neighbours replace one unit, the number of units is public.
"(paper)" is DualQuery with the paper's step size and samples, and with the rounds that the paper's accounting (Theorem
4.3) allows; it runs on our oracle, which knows one-hot groups, and costs less than the epsilon it is drawn at. CPU
seconds are those of one run, exact answers and compilation left out."""
_ORDER = (MEASURED, PUBLISHED, BASELINE)


def page(panels: Sequence[Mapping[str, Any]]) -> str:
    """FIGURES.md: the panels in their order, those of one figure under one heading."""
    parts = [_HEAD]
    for figure, members in groupby(panels, key=lambda panel: panel["figure"]):
        parts.append(f"## {figure}")
        parts.extend(section(panel) for panel in members)
    return "\n\n".join(parts) + "\n"


def section(panel: Mapping[str, Any]) -> str:
    """One panel: its plot, what was run, and a table of errors and one of costs."""
    points = [point_of(stored) for stored in panel["points"]]
    measured = [point for point in points if point.kind == MEASURED]
    commit = str(panel["commit"])
    origin = (
        f"Commit {commit[:12]}{'-dirty' if commit.endswith('-dirty') else ''}, "
        f"{panel['cpu_seconds']:,.0f} CPU s with exact answers, {panel['peak_rss_mb']:,.0f} MB."
    )
    text = " ".join([panel["about"], *(f"{note.rstrip('.')}." for note in panel["notes"]), origin])
    plot = f"![{panel['title']}](figures/{panel['panel']}.svg)"
    tables = [_table(panel["x"], points, _errors)]
    if measured:
        tables.append(_table(f"{panel['x']}: CPU s (rounds; runs)", measured, _cost))
    return "\n\n".join([f"### {panel['title']}", text, plot, *tables])


def names(points: Sequence[Point]) -> list[str]:
    """The series in the order of a table: measured, published, baselines; each kind as it comes."""
    found = dict.fromkeys((point.kind, point.series) for point in points)
    return [series for kind in _ORDER for other, series in found if other == kind]


def _table(corner: str, points: Sequence[Point], cell: Callable[[Point], str]) -> str:
    """A row a place, a column a series; a baseline of one point is a level and stands in each row."""
    series = names(points)
    cells = {(point.x, point.series): cell(point) for point in points}
    rows = [[corner, *series], ["---"] * (1 + len(series))]
    levels = {
        name: cell(line[0])
        for name in series
        if len(line := [point for point in points if point.series == name]) == 1 and line[0].kind == BASELINE
    }
    places = sorted({point.x for point in points})
    rows.extend([f"{x:,.6g}", *(cells.get((x, name), levels.get(name, "")) for name in series)] for x in places)
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _errors(point: Point) -> str:
    mean = "" if point.mean is None else f" / {point.mean:.2g}"
    return f"{point.max:.3g}{mean}"


def _cost(point: Point) -> str:
    return f"{point.cpu_seconds:.2g} ({point.rounds:,}; {point.runs})"
