"""The stored grid as one Markdown page with plots, and how often the recommended mechanism has the least error."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import numpy as np

from tests.benchmarks.graphical.cells import Cell, Key, read
from tests.benchmarks.graphical.grid_plots import draw

_HEAD = """# Grid of table mechanisms

Written by `python -m tests.benchmarks.graphical.grid` from `graphical/*.json` alone. Workload errors by Definition 26
of the thesis (no factor 1/2; 2 is the largest of a distribution), delta 1e-9, add or remove one unit, number of units
private, every mechanism with its defaults: mean over the runs (smallest to largest; number of runs). **Bold** is the
best of a column; "plan:" marks what `plan` recommends. CPU seconds are those of one run, exact answers left out."""
_FIGURES = {"ALL-3WAY": "5.1", "TARGET": "5.2", "SKEWED": "5.3"}


def write_report(folder: Path, page: Path) -> Path:
    """Writes every plot into ``folder`` and the page of tables from the cells stored there; the path of the page."""
    cells = read(sorted(folder.glob("*.json")))
    parts = [_HEAD, *_summary(cells)]
    for workload, figure in _FIGURES.items():
        inside = [cell for cell in cells if cell.workload == workload]
        if inside:
            draw(workload, inside, folder / f"{workload.lower()}.svg")
            parts += [
                f"## {workload} (thesis, Figure {figure})",
                f"![{workload}]({folder.name}/{workload.lower()}.svg)",
                *(section(name, list(members)) for name, members in groupby(inside, key=lambda cell: cell.dataset)),
            ]
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n\n".join(parts) + "\n")
    return page


def section(dataset: str, cells: Sequence[Cell]) -> str:
    """One dataset of a workload: a row a mechanism, best first; errors, then CPU seconds, then what was refused."""
    epsilons = sorted({cell.epsilon for cell in cells})
    found = {(cell.mechanism, cell.epsilon): cell for cell in cells if cell.runs}
    names = sorted({name for name, _ in found}, key=lambda name: _standing(name, cells, epsilons))
    best = winners(cells)
    rows = [["mechanism", *(f"epsilon {epsilon:g}" for epsilon in epsilons), "CPU s"], ["---"] * (2 + len(epsilons))]
    for name in names:
        row = [found.get((name, epsilon)) for epsilon in epsilons]
        seconds = [f"{cell.seconds:.2g}" if cell else "" for cell in row]
        rows.append([name, *(_entry(cell, best) if cell else "" for cell in row), " / ".join(seconds)])
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    refused = {cell.mechanism: cell.refused for cell in cells if cell.refused and cell.mechanism not in names}
    notes = [f"Not run: {name} ({reason.rstrip('.')})." for name, reason in refused.items()]
    return "\n\n".join([f"### {dataset}", table, *notes])


def winners(cells: Sequence[Cell]) -> dict[Key, Cell]:
    """The mechanism of the least mean error, by dataset, workload and epsilon, where two or more were run."""
    groups: dict[Key, list[Cell]] = {}
    for cell in cells:
        if cell.runs:
            groups.setdefault(cell.key, []).append(cell)
    return {key: min(group, key=lambda cell: cell.error) for key, group in groups.items() if len(group) > 1}


def recommended_is_best(cells: Sequence[Cell]) -> float:
    """Share of the compared cells whose recommended mechanism is the best; 0 where none are compared."""
    best = winners(cells)
    return sum(cell.recommended for cell in best.values()) / len(best) if best else 0.0


def recommended_ties(cells: Sequence[Cell]) -> float:
    """Share of the compared cells whose recommended mechanism is the best, or errs no more than the best but for two
    standard errors of the difference.
    """
    best = winners(cells)
    count = 0
    for cell in cells:
        if cell.recommended and cell.runs and cell.key in best:
            other = best[cell.key]
            count += cell.error - other.error <= 2 * np.hypot(cell.standard_error, other.standard_error)
    return count / len(best) if best else 0.0


def is_best(mechanism: str, datasets: Sequence[str], cells: Sequence[Cell]) -> float:
    """Share of the compared cells of some datasets in which a mechanism is the best; 0 where none are compared."""
    best = [cell for key, cell in winners(cells).items() if key[0] in datasets]
    return sum(cell.mechanism == mechanism for cell in best) / len(best) if best else 0.0


def best_of_table(dataset: str, cells: Sequence[Cell]) -> str:
    """The mechanism whose errors in all compared cells of a dataset have the least geometric mean; "" for none."""
    keys = {key for key in winners(cells) if key[0] == dataset}
    logs: dict[str, list[float]] = {}
    for cell in cells:
        if cell.runs and cell.key in keys:
            logs.setdefault(cell.mechanism, []).append(float(np.log(cell.error)))
    means = {name: np.mean(found) for name, found in logs.items() if len(found) == len(keys)}
    return min(means, key=lambda name: means[name], default="")


def _summary(cells: Sequence[Cell]) -> list[str]:
    best = winners(cells)
    if not best:
        return []
    counts: dict[str, int] = {}
    for cell in best.values():
        counts[cell.mechanism] = counts.get(cell.mechanism, 0) + 1
    said = ", ".join(f"{name} {count}" for name, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))
    return [
        f"{len(best)} compared cells. The recommended mechanism is the best in {recommended_is_best(cells):.0%}, and "
        f"within two standard errors of the best in {recommended_ties(cells):.0%}; the best are: {said}.",
        f"The least geometric mean of errors over all cells: {_tables(cells)}.",
    ]


def _tables(cells: Sequence[Cell]) -> str:
    """Of each dataset its best mechanism, and in how many cells that is the best."""
    best, found = winners(cells), []
    for dataset in sorted({key[0] for key in best}):
        name = best_of_table(dataset, cells)
        own = [cell.mechanism == name for key, cell in best.items() if key[0] == dataset]
        found.append(f"{dataset} {name or 'none'} (the best in {sum(own)} of {len(own)})")
    return ", ".join(found)


def _standing(name: str, cells: Sequence[Cell], epsilons: Sequence[float]) -> tuple[float, str]:
    """Sum of a mechanism's places, one an epsilon: those that were not run come last."""
    places = 0.0
    for epsilon in epsilons:
        errors = {cell.mechanism: cell.error for cell in cells if cell.epsilon == epsilon}
        own = errors.get(name, float("inf"))
        places += sum(error < own for error in errors.values())
    return places, name


def _entry(cell: Cell, best: dict[Key, Cell]) -> str:
    errors = [run.mean for run in cell.runs]
    mean = f"{cell.error:.3g}"
    if best.get(cell.key) == cell:
        mean = f"**{mean}**"
    span = f"{min(errors):.3g} to {max(errors):.3g}; " if len(errors) > 1 else ""
    return f"{'plan: ' if cell.recommended else ''}{mean} ({span}{len(errors)})"
