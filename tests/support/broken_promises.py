"""Faults that make a run break its promise. Processes that are forked or started apply them, so they are importable."""

from __future__ import annotations

from pathlib import Path

from jobs.ledger import SqlLedger
from jobs.release import publish


def never_charged() -> None:
    """Draws come first, and no charge."""
    SqlLedger.reserve = lambda *_: None  # type: ignore[method-assign, assignment]


def written_in_place() -> None:
    """Files are written where readers look."""

    def visible(folder: Path) -> Path:
        output = folder.parent.parent / "release"
        output.mkdir()
        return output

    publish.fresh_staging = visible
