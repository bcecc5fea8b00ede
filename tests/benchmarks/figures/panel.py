"""A panel of a figure: what it shows, how it is computed, stored and shown."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks import process_tree
from tests.benchmarks.case import Inputs
from tests.benchmarks.figures.plots import draw
from tests.benchmarks.figures.points import Point
from tests.benchmarks.figures.tables import page
from tests.benchmarks.provenance import commit, digest, machine

ROOT = Path(__file__).resolve().parents[3]
FOLDER, PAGE = "figures", "FIGURES.md"


@dataclass(frozen=True)
class Panel:
    """One plot.

    name: Of its files.
    figure: The heading it stands under.
    about: What was run, in sentences.
    x: Label of the x axis.
    logarithmic: Of the x axis.
    runtime: Whether CPU seconds are drawn, as the paper does.
    inputs: Paths of the inputs by name; makes those that are missing below the given folder.
    points: Computes the panel: its points, and sentences about what could not be run.
    """

    name: str
    figure: str
    title: str
    about: str
    x: str
    logarithmic: bool
    runtime: bool
    inputs: Callable[[Path], Inputs]
    points: Callable[[Inputs], Iterator[Point | str]]


def compute(panel: Panel, data: Path, results: Path) -> Path:
    """Computes a panel and stores its points below ``results``; shows each as it is there."""
    inputs = panel.inputs(data)
    before = process_tree.cpu_seconds()
    points: list[Point] = []
    notes: list[str] = []
    for found in panel.points(inputs):
        if isinstance(found, Point):
            points.append(found)
        else:
            notes.append(found)
        print(f"{panel.name} {process_tree.cpu_seconds() - before:8.1f} s  {found}", file=sys.stderr, flush=True)
    stored = {
        "panel": panel.name,
        "figure": panel.figure,
        "title": panel.title,
        "about": panel.about,
        "x": panel.x,
        "logarithmic": panel.logarithmic,
        "runtime": panel.runtime,
        "notes": notes,
        "commit": commit(ROOT),
        "machine": machine(),
        "inputs": {name: digest(path) for name, path in inputs.items()},
        "cpu_seconds": round(process_tree.cpu_seconds() - before, 1),
        "peak_rss_mb": round(process_tree.own_peak_mb(), 1),
    }
    (results / FOLDER).mkdir(parents=True, exist_ok=True)
    path = results / FOLDER / f"{panel.name}.json"
    path.write_text(_text(stored, points))
    return path


def stored(results: Path, order: Sequence[str]) -> list[dict[str, Any]]:
    """The panels that are stored below ``results``, in the order of their names."""
    paths = [results / FOLDER / f"{name}.json" for name in order]
    return [json.loads(path.read_text()) for path in paths if path.exists()]


def show(results: Path, order: Sequence[str]) -> Path:
    """Writes every plot and the page of tables from the stored panels alone; the path of the page."""
    panels = stored(results, order)
    for panel in panels:
        draw(panel, results / FOLDER / f"{panel['panel']}.svg")
    path = results / PAGE
    path.write_text(page(panels))
    return path


def _text(stored: Mapping[str, Any], points: Sequence[Point]) -> str:
    """JSON with one point a line."""
    head = json.dumps(stored, indent=2).removesuffix("\n}")
    lines = ",\n".join(f"    {json.dumps(point.stored())}" for point in points)
    return f'{head},\n  "points": [\n{lines}\n  ]\n}}\n'
