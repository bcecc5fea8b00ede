"""Series of releases: the charge of the first step pays for all of them, and no step is ever drawn twice.

``dpcore.kernel.series`` proves that all steps together have the guarantee of one charge, under three conditions. This
module enforces the first (one release for each step, in order), and compares what runs report of the second (the steps
that were read do not change). Each public function is a part of the caller's transaction.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, func, insert, select

from dpcore.errors import ConfigError, IntegrityError
from jobs.ledger.records import DatasetBudget, ReleaseRecord, State
from jobs.ledger.rows import exact, existing_release, release_of, stamp
from jobs.ledger.series_tables import SERIES, SERIES_HISTORY, SERIES_STEPS
from jobs.ledger.tables import CHARGES
from jobs.planning.series import SeriesFacts


def paid_by(connection: Connection, series: SeriesFacts | None, release_id: str) -> str | None:
    """The release whose charge pays for a step; None if this release would pay itself.

    series: The series; None for a release that stands alone.
    release_id: The release of the step.

    Raises: ConfigError when the step is not the next one; IntegrityError when another release has this step, or the
        series has begun with another strategy.
    """
    if series is None:
        return None
    row = connection.execute(select(SERIES).where(SERIES.c.series_id == series.series_id)).one_or_none()
    if row is None:
        if series.step != 1:
            raise ConfigError(
                f"{series.described} would be its first in the ledger; want series.step 1 first, which pays for all"
            )
        return None
    if (row.steps, row.strategy) != (series.steps, series.strategy):
        raise IntegrityError(
            f"{series.described} would measure another strategy than its first step, whose charge does not cover it; "
            "want the versions of Marquee and its libraries that began the series"
        )
    holder = release_of_step(connection, series.series_id, series.step)
    if holder not in (None, release_id):
        raise IntegrityError(
            f"{series.described} was released as {str(holder)[:12]}, and a second draw of a step would reveal more "
            "than was charged; want the same dataset.snapshot and version, or the next step"
        )
    if holder is None:
        _check_next(connection, series)
    first = release_of_step(connection, series.series_id, 1)
    return None if first == release_id else first


def _check_next(connection: Connection, series: SeriesFacts) -> None:
    """Refuses a step unless the step before it is the last, and all of its answers are recorded."""
    last = connection.execute(
        select(func.max(SERIES_STEPS.c.step)).where(SERIES_STEPS.c.series_id == series.series_id)
    ).scalar_one()
    if series.step != int(last) + 1:
        raise ConfigError(f"{series.described} does not follow step {last}; want series.step {int(last) + 1} next")
    before = existing_release(connection, str(release_of_step(connection, series.series_id, int(last))))
    if State(before.state).step < State.ESTIMATED.step:
        raise ConfigError(
            f"{series.described} needs the answers of step {last}, whose run has not finished; want that run again "
            "first"
        )


def record_step(
    connection: Connection, series: SeriesFacts | None, dataset: str, release_id: str, now: datetime
) -> None:
    """Records the release of a step, in the transaction of its charge, after ``paid_by`` has allowed it."""
    if series is None:
        return
    if series.step == 1:
        row = {
            "series_id": series.series_id,
            "dataset": dataset,
            "steps": series.steps,
            "strategy": series.strategy,
            "matrix": series.matrix,
            "started": stamp(now),
        }
        connection.execute(insert(SERIES).values(row))
    connection.execute(insert(SERIES_STEPS).values(series_id=series.series_id, step=series.step, release_id=release_id))


def compare_history(connection: Connection, series: SeriesFacts, before: str, so_far: str) -> None:
    """Compares the counts of the earlier steps with what the step before has read, and records those so far.

    before: Keyed digest of the counts of all earlier steps. SENSITIVE.
    so_far: Keyed digest of these and this step. SENSITIVE.

    Raises: IntegrityError when they differ, or this step has read other counts before.
    """
    if series.step > 1 and _history(connection, series.series_id, series.step - 1) != before:
        raise IntegrityError(
            f"{series.described} reads other rows of earlier steps than they did, for which the charge does not hold, "
            "and nothing was drawn; want the rows of earlier steps as they were (rows that come late belong to the "
            "step at which they come), or a new series"
        )
    recorded = _history(connection, series.series_id, series.step)
    if recorded is None:
        connection.execute(insert(SERIES_HISTORY).values(series_id=series.series_id, step=series.step, counts=so_far))
    elif recorded != so_far:
        raise IntegrityError(f"{series.described} has read other rows before; want the same files")


def has_read(connection: Connection, series: SeriesFacts) -> bool:
    """Whether a step has read its rows. Only after that, in a transaction of its own, are answers drawn from them."""
    return _history(connection, series.series_id, series.step) is not None


def recorded_matrix(connection: Connection, series_id: str) -> str | None:
    """The strategy with which a series began, as text; None if it has not begun."""
    return connection.execute(select(SERIES.c.matrix).where(SERIES.c.series_id == series_id)).scalar_one_or_none()


def earlier_releases(connection: Connection, series: SeriesFacts) -> list[ReleaseRecord]:
    """The releases of all earlier steps, in order."""
    steps = (release_of_step(connection, series.series_id, step) for step in range(1, series.step))
    return [release_of(existing_release(connection, str(release_id))) for release_id in steps]


def release_of_step(connection: Connection, series_id: str, step: int) -> str | None:
    """The release of a step; None if it has none."""
    query = select(SERIES_STEPS.c.release_id).where(SERIES_STEPS.c.series_id == series_id, SERIES_STEPS.c.step == step)
    return connection.execute(query).scalar_one_or_none()


def _history(connection: Connection, series_id: str, step: int) -> str | None:
    """The keyed digest that a step has recorded; None if it has none. SENSITIVE."""
    query = select(SERIES_HISTORY.c.counts).where(
        SERIES_HISTORY.c.series_id == series_id, SERIES_HISTORY.c.step == step
    )
    return connection.execute(query).scalar_one_or_none()


def verify_series(connection: Connection, dataset: DatasetBudget) -> list[str]:
    """What contradicts the series of a dataset; empty if nothing does.

    Every series has its steps without gaps, of which the first was charged. No other release was charged nothing.
    """
    of_series: dict[str, dict[int, str]] = {}
    query = (select(SERIES_STEPS).join(SERIES, SERIES.c.series_id == SERIES_STEPS.c.series_id)).where(
        SERIES.c.dataset == dataset.name
    )
    for row in connection.execute(query).all():
        of_series.setdefault(row.series_id, {})[int(row.step)] = row.release_id
    charges = connection.execute(
        select(CHARGES.c.release_id, CHARGES.c.amount).where(CHARGES.c.dataset == dataset.name)
    ).all()
    amounts = {row.release_id: exact(row.amount) for row in charges}
    began = select(SERIES.c.series_id).where(SERIES.c.dataset == dataset.name)
    problems = []
    if sorted(connection.execute(began).scalars()) != sorted(of_series):
        problems.append("a series has no steps")
    if any(sorted(steps) != list(range(1, len(steps) + 1)) for steps in of_series.values()):
        problems.append("a series lacks a step")
    first = {steps.get(1) for steps in of_series.values()}
    later = {release for steps in of_series.values() for step, release in steps.items() if step > 1}
    if not first | later <= amounts.keys() or any(not amounts[release] for release in first if release in amounts):
        problems.append("a series was not charged")
    if {release for release, amount in amounts.items() if not amount} != later:
        problems.append("a release that is no later step of a series was charged nothing, or a later step was charged")
    return problems
