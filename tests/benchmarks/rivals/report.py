"""The stored grid of rivals as a Markdown page, and in which cells a rival has the least error."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import numpy as np

from tests.benchmarks.graphical.cells import Cell
from tests.benchmarks.graphical.grid_report import winners
from tests.benchmarks.rivals import RIVALS

_TOLERANCE = 1.03


def write_report(cells: Sequence[Cell], page: Path, seconds: float) -> Path:
    """Writes the page of tables.

    seconds: CPU seconds that one release may take.
    """
    tables = [_table(name, list(members)) for name, members in groupby(sorted(cells, key=_dataset), key=_dataset)]
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n\n".join([_head(seconds), *_summary(cells), *tables]) + "\n")
    return page


def rival_cells(cells: Sequence[Cell]) -> int:
    """Number of cells in which a rival was run, or refused, or cut off."""
    return sum(cell.mechanism in RIVALS and bool(cell.runs or cell.refused) for cell in cells)


def won_by_rivals(cells: Sequence[Cell]) -> list[Cell]:
    """The cells in which a rival has the least mean error."""
    return [cell for _, cell in sorted(winners(cells).items()) if cell.mechanism in RIVALS]


def recommended_is_close(cells: Sequence[Cell]) -> float:
    """Share of the compared cells whose recommended mechanism is within 3 % of the best, or within two standard errors
    of the difference; 0 where none are compared.
    """
    best = winners(cells)
    count = 0
    for cell in cells:
        if cell.recommended and cell.runs and cell.key in best:
            leader = best[cell.key]
            chance = 2 * np.hypot(cell.standard_error, leader.standard_error)
            count += cell.error <= max(_TOLERANCE * leader.error, leader.error + chance)
    return count / len(best) if best else 0.0


def _head(seconds: float) -> str:
    return f"""# Grid of rivals

Written by `python -m tests.benchmarks.rivals.grid` from `rivals/*.json` and `graphical/*.json` alone. All 3-way
marginals, workload errors by Definition 26 of the thesis, delta 1e-9, add or remove one unit, number of units private,
every mechanism with its defaults. Rivals are in italics; they are implemented from their papers, and every draw of them
is charged by our kernel. An entry is the mean over the runs (smallest to largest; number of runs), and in brackets the
error of synthetic rows. **Bold** is the best of a column; "plan:" marks what `plan` recommends. A release may take
{seconds:g} CPU seconds."""


def _summary(cells: Sequence[Cell]) -> list[str]:
    best = winners(cells)
    won = ", ".join(f"{cell.mechanism} on {cell.dataset} at {cell.epsilon:g}" for cell in won_by_rivals(cells))
    return [
        f"{len(best)} compared cells. The recommended mechanism is within 3 % or two standard errors of the best in "
        f"{recommended_is_close(cells):.0%}. Cells that a rival wins: {won or 'none'}."
    ]


def _table(dataset: str, cells: Sequence[Cell]) -> str:
    """A row for each mechanism, by the geometric mean of its errors; errors, then CPU seconds of one run."""
    epsilons = sorted({cell.epsilon for cell in cells})
    entries = {(cell.mechanism, cell.epsilon): cell for cell in cells}
    best = winners(cells)
    names = sorted({cell.mechanism for cell in cells}, key=lambda name: (_standing(name, cells), name))
    rows = [["mechanism", *(f"epsilon {epsilon:g}" for epsilon in epsilons), "CPU s"], ["---"] * (2 + len(epsilons))]
    for name in names:
        row = [entries.get((name, epsilon)) for epsilon in epsilons]
        seconds = " / ".join(f"{cell.seconds:.2g}" if cell and cell.runs else "" for cell in row)
        shown = f"*{name}*" if name in RIVALS else name
        rows.append([shown, *(_entry(cell, best.get(cell.key)) if cell else "" for cell in row), seconds])
    return f"## {dataset}\n\n" + "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _entry(cell: Cell, leader: Cell | None) -> str:
    if not cell.runs:
        return cell.refused if cell.refused.startswith("over ") else "refused"
    errors = [run.mean for run in cell.runs]
    mean = f"**{cell.error:.3g}**" if cell == leader else f"{cell.error:.3g}"
    span = f"{min(errors):.3g} to {max(errors):.3g}; " if len(errors) > 1 else ""
    rows = [run.rows for run in cell.runs if run.rows is not None]
    of_rows = f" [{np.mean(rows):.3g}]" if rows else ""
    return f"{'plan: ' if cell.recommended else ''}{mean} ({span}{len(errors)}){of_rows}"


def _standing(name: str, cells: Sequence[Cell]) -> float:
    """Mean logarithm of a mechanism's errors; infinite where a cell has no run."""
    return float(np.mean([np.log(cell.error) for cell in cells if cell.mechanism == name]))


def _dataset(cell: Cell) -> str:
    return cell.dataset
