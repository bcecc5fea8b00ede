"""Which mechanisms are the best of a setting, or as good."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tests.benchmarks.study.facts import Facts
from tests.benchmarks.study.store import Cell, Store

TOLERANCE: Final = 0.03  # Relative excess over the least error that counts as equal; so do two standard errors.
_LEAST_CELLS: Final = 2


@dataclass(frozen=True, eq=False)
class Comparison:
    """All cells of one setting, by mechanism."""

    facts: Facts
    cells: Mapping[str, Cell]

    @property
    def key(self) -> str:
        return str(self.facts["key"])

    @property
    def family(self) -> str:
        return str(self.facts["family"])

    @functools.cached_property
    def best(self) -> Cell:
        return min(self.cells.values(), key=lambda cell: cell.error)

    def ratio(self, mechanism: str) -> float:
        """Error over the least one; infinite for a mechanism that was refused or did not end."""
        cell = self.cells.get(mechanism)
        return cell.error / self.best.error if cell is not None else float("inf")

    def is_best(self, mechanism: str) -> bool:
        """Whether a mechanism has the least error, but for 3 % or two standard errors of the difference."""
        cell = self.cells.get(mechanism)
        if cell is None or not np.isfinite(cell.error):
            return False
        excess = cell.error - self.best.error
        deviation = float(np.hypot(cell.standard_error, self.best.standard_error))
        return excess <= TOLERANCE * self.best.error or excess <= 2 * deviation

    def rival(self, mechanism: str) -> Cell | None:
        """The best cell of the other mechanisms that were run to their end."""
        others = [cell for name, cell in self.cells.items() if name != mechanism and np.isfinite(cell.error)]
        return min(others, key=lambda cell: cell.error, default=None)

    def is_undecided(self, mechanism: str) -> bool:
        """Whether its excess over the least error of the others is within two standard errors of 3 %."""
        cell, rival = self.cells.get(mechanism), self.rival(mechanism)
        if cell is None or rival is None or not np.isfinite(cell.error):
            return False
        deviation = float(np.hypot(cell.standard_error, rival.standard_error))
        return abs(cell.error - (1 + TOLERANCE) * rival.error) < 2 * deviation

    def accepts(self, mechanism: str) -> bool:
        """Whether the mechanism was run, to its end or not."""
        return mechanism in self.cells and not self.cells[mechanism].refused


def comparisons(store: Store) -> list[Comparison]:
    """The settings in which two mechanisms or more were run to their end."""
    made = [Comparison(facts, store.cells[key]) for key, facts in sorted(store.facts.items()) if key in store.cells]
    return [one for one in made if sum(np.isfinite(cell.error) for cell in one.cells.values()) >= _LEAST_CELLS]


def share(settings: Sequence[Comparison], chosen: Mapping[str, str]) -> float:
    """Share of the settings whose chosen mechanism is the best, or as good; 0 for no settings.

    chosen: By key of a setting.
    """
    return sum(one.is_best(chosen[one.key]) for one in settings) / len(settings) if settings else 0.0


def mean_ratio(settings: Sequence[Comparison], chosen: Mapping[str, str]) -> float:
    """Geometric mean of the chosen mechanisms' errors over the least ones; those without an error count as 10."""
    logs = [np.log(min(10.0, one.ratio(chosen[one.key]))) for one in settings]
    return float(np.exp(np.mean(logs))) if logs else 1.0
