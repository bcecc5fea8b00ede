"""The number of units."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class UnitCount:
    """The number of units that hold at least one valid row. The answer has shape (1,)."""

    @property
    def size(self) -> int:
        return 1

    @property
    def description(self) -> str:
        """A few words for plans and certificates."""
        return "number of units"

    def digest(self) -> str:
        return "unit_count"
