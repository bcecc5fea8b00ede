"""The number of units."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class UnitCount:
    """The number of units that hold at least one valid row. The answer has shape (1,)."""

    @property
    def size(self) -> int:
        return 1

    def digest(self) -> str:
        return "unit_count"
