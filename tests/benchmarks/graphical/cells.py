"""Settings of the grid as they are stored: one dataset, workload, epsilon and mechanism each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

Key = tuple[str, str, float]


@dataclass(frozen=True)
class Outcome:
    """One release. mean, rows: Definition 26 of the answers and, where there is a model, of its rows."""

    seed: int
    mean: float
    cpu_seconds: float
    commit: str
    rows: float | None = None
    model_mb: float | None = None


@dataclass(frozen=True)
class Cell:
    """recommended: Whether ``plan`` recommends the mechanism here. refused: Why nothing was run, or not to its end."""

    dataset: str
    workload: str
    epsilon: float
    mechanism: str
    runs: tuple[Outcome, ...] = ()
    refused: str = ""
    recommended: bool = False

    @property
    def key(self) -> Key:
        """What mechanisms are compared within."""
        return self.dataset, self.workload, self.epsilon

    @property
    def error(self) -> float:
        """Mean over the runs; infinite where there are none."""
        return float(np.mean([run.mean for run in self.runs])) if self.runs else float("inf")

    @property
    def standard_error(self) -> float:
        """Of the mean over the runs; 0 for a single run."""
        if len(self.runs) < 2:
            return 0.0
        return float(np.std([run.mean for run in self.runs], ddof=1) / np.sqrt(len(self.runs)))

    @property
    def seconds(self) -> float:
        """CPU seconds of one run: their median, because the first may load compiled code."""
        return float(np.median([run.cpu_seconds for run in self.runs])) if self.runs else 0.0


@dataclass
class Store:
    """The cells of one dataset in one file, written again after every change so that a run can go on where it ended."""

    path: Path
    about: Mapping[str, Any]
    cells: dict[tuple[str, float, str], Cell] = field(default_factory=dict)

    @classmethod
    def opened(cls, path: Path, about: Mapping[str, Any]) -> Store:
        """about: What the file says above its cells."""
        return cls(path, about, {_place(cell): cell for cell in read([path])})

    def get(self, workload: str, epsilon: float, mechanism: str) -> Cell | None:
        return self.cells.get((workload, epsilon, mechanism))

    def put(self, cell: Cell) -> None:
        """Stores a cell. Where it is of the recommended mechanism, another one that was before is not any more."""
        if cell.recommended:
            for place, other in self.cells.items():
                if place[:2] == (cell.workload, cell.epsilon):
                    self.cells[place] = replace(other, recommended=False)
        self.cells[_place(cell)] = cell
        lines = ",\n".join(f"    {json.dumps(_stored(cell))}" for _, cell in sorted(self.cells.items()))
        head = json.dumps(self.about, indent=2).removesuffix("\n}")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_suffix(".partial")
        partial.write_text(f'{head},\n  "cells": [\n{lines}\n  ]\n}}\n')
        partial.rename(self.path)


def read(paths: Iterable[Path]) -> list[Cell]:
    """The cells of the files that exist."""
    stored = [cell for path in paths if path.exists() for cell in json.loads(path.read_text())["cells"]]
    return [Cell(**{**cell, "runs": tuple(Outcome(**run) for run in cell.get("runs", ()))}) for cell in stored]


def _place(cell: Cell) -> tuple[str, float, str]:
    return cell.workload, cell.epsilon, cell.mechanism


def _stored(cell: Cell) -> dict[str, Any]:
    """Without what is empty, and with four digits of every figure: noise is in the second."""
    runs = [
        {
            name: float(f"{value:.4g}") if isinstance(value, float) else value
            for name, value in asdict(run).items()
            if value is not None
        }
        for run in cell.runs
    ]
    fields = {name: value for name, value in asdict(cell).items() if name != "runs" and value not in ("", False)}
    return fields | ({"runs": runs} if runs else {})
