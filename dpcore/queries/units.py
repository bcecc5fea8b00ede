"""The number of units as a query."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class UnitCount:
    """The number of units that hold at least one valid row. The answer has shape (1,)."""

    @property
    def size(self) -> int:
        """Length of the answer vector."""
        return 1

    @property
    def description(self) -> str:
        """A short description for plans and certificates."""
        return "number of units"

    def digest(self) -> str:
        """A digest of the query."""
        return "unit_count"
