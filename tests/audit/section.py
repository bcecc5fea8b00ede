"""What one part of the audit is: figures in a table, each with its verdict, at a fast or at the full size."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

Cell = str | int | float | bool

# Section by name: the module tests.audit.<name> has TITLE, CLAIM and run(size). In the order of RESULTS.md.
SECTIONS = (
    "sampler_laws",
    "selection_laws",
    "end_to_end",
    "grey_box",
    "planted_bugs",
    "accounting",
    "convolution",
    "ledger_races",
    "kill_points",
    "canaries",
)


class Size(StrEnum):
    """FAST: part of ``make test``, seconds. FULL: ``make audit``, the published figures."""

    FAST = "fast"
    FULL = "full"


@dataclass(frozen=True)
class Row:
    """One line of a section's table. passed: Whether these figures meet what the section claims."""

    cells: Mapping[str, Cell]
    passed: bool


@dataclass(frozen=True)
class Section:
    """A section by name. run: Makes its rows; every row has the same keys."""

    name: str
    title: str
    claim: str
    module: Any

    @property
    def names(self) -> tuple[str, ...]:
        """What its rows are about, in their order, where some of them can be run alone."""
        return tuple(getattr(self.module, "NAMES", ()))

    @property
    def column(self) -> str:
        """The column of its table that says what a row is about."""
        return str(getattr(self.module, "COLUMN", "mechanism"))

    def run(self, size: Size, names: Sequence[str] = ()) -> Sequence[Row]:
        """Makes the rows; with names, only those about them."""
        rows: Sequence[Row] = self.module.run(size, names) if names else self.module.run(size)
        return rows


def load_section(name: str) -> Section:
    module = importlib.import_module(f"tests.audit.{name}")
    return Section(name, module.TITLE, module.CLAIM, module)
