"""What the study has computed: lines of JSON that are appended, in which later ones replace earlier ones."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.study.facts import Facts


@dataclass(frozen=True)
class Cell:
    """Releases of one mechanism in one setting.

    errors, seconds: Definition 26 and CPU seconds of each release.
    cut: CPU seconds after which a release was ended; 0 where none was.
    refused: Why the mechanism did not accept the setting.
    version: The version of this project with which the first release was tried; empty where it was not recorded.
    """

    key: str
    mechanism: str
    errors: tuple[float, ...] = ()
    seconds: tuple[float, ...] = ()
    cut: float = 0.0
    refused: str = ""
    version: str = ""

    @property
    def error(self) -> float:
        """Mean over the releases; infinite where there are none, or one did not end."""
        return float(np.mean(self.errors)) if self.errors and not self.cut else float("inf")

    @property
    def standard_error(self) -> float:
        """Of the mean; 0 for a single release."""
        runs = len(self.errors)
        return float(np.std(self.errors, ddof=1) / np.sqrt(runs)) if runs > 1 else 0.0

    def with_run(self, error: float, seconds: float) -> Cell:
        return replace(self, errors=(*self.errors, _short(error)), seconds=(*self.seconds, _short(seconds)))


@dataclass
class Store:
    """Facts by setting, and cells by setting and mechanism, in two files of a folder."""

    folder: Path
    facts: dict[str, Facts] = field(default_factory=dict)
    cells: dict[str, dict[str, Cell]] = field(default_factory=dict)

    @classmethod
    def opened(cls, folder: Path) -> Store:
        store = cls(folder)
        for facts in _read(store.facts_file):
            store.facts[facts["key"]] = facts
        for stored in _read(store.cells_file):
            lists: dict[str, Any] = {name: tuple(stored.get(name, ())) for name in ("errors", "seconds")}
            cell = Cell(**{**stored, **lists})
            store.cells.setdefault(cell.key, {})[cell.mechanism] = cell
        return store

    @property
    def facts_file(self) -> Path:
        return self.folder / "settings.jsonl"

    @property
    def cells_file(self) -> Path:
        return self.folder / "cells.jsonl"

    def put_facts(self, facts: Facts) -> None:
        self.facts[str(facts["key"])] = facts
        _append(self.facts_file, [dict(facts)])

    def put(self, cells: Sequence[Cell]) -> None:
        for cell in cells:
            self.cells.setdefault(cell.key, {})[cell.mechanism] = cell
        _append(self.cells_file, [{name: value for name, value in asdict(cell).items() if value} for cell in cells])

    def compact(self) -> None:
        """Writes both files again without the lines that later ones replaced."""
        for file, lines in ((self.facts_file, list(self.facts.values())), (self.cells_file, self._all_cells())):
            partial = file.with_suffix(".partial")
            partial.unlink(missing_ok=True)
            _append(partial, [dict(line) for line in lines])
            partial.rename(file)

    def _all_cells(self) -> list[dict[str, Any]]:
        cells = [cell for by_name in self.cells.values() for cell in by_name.values()]
        return [{name: value for name, value in asdict(cell).items() if value} for cell in cells]


def _read(file: Path) -> Iterator[dict[str, Any]]:
    return map(json.loads, file.read_text().splitlines()) if file.exists() else iter(())


def _append(file: Path, lines: Sequence[dict[str, Any]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as stream:
        stream.writelines(f"{json.dumps(line)}\n" for line in lines)


def _short(value: float) -> float:
    """Four digits: noise is in the second."""
    return float(f"{value:.4g}")
