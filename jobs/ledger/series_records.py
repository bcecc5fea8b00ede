"""The part of the ledger's interface that is about series of releases, with one transaction per method."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import final

from sqlalchemy import Connection

from jobs.ledger import series as of_series
from jobs.ledger.records import ReleaseRecord
from jobs.planning.series import SeriesFacts


@final
@dataclass(frozen=True)
class SeriesRecords:
    """What the ledger knows of series: what paid for a step, what its steps have read, and with which strategy.

    transaction: Opens a transaction on the ledger.
    """

    transaction: Callable[[], AbstractContextManager[Connection]]

    def paid_by(self, series: SeriesFacts | None, release_id: str) -> str | None:
        """``jobs.ledger.series.paid_by``: the release whose charge pays for a step, if its own would not."""
        with self.transaction() as connection:
            return of_series.paid_by(connection, series, release_id)

    def compare_history(self, series: SeriesFacts, before: str, so_far: str) -> None:
        """``jobs.ledger.series.compare_history``: refuses a step if earlier steps have read other counts."""
        with self.transaction() as connection:
            of_series.compare_history(connection, series, before, so_far)

    def recorded_matrix(self, series_id: str) -> str | None:
        """The strategy with which a series began, as text; None if it has not begun."""
        with self.transaction() as connection:
            return of_series.recorded_matrix(connection, series_id)

    def earlier_releases(self, series: SeriesFacts) -> list[ReleaseRecord]:
        """The releases of all earlier steps of a series, in order."""
        with self.transaction() as connection:
            return of_series.earlier_releases(connection, series)
