"""What releases that discover items take from the delta of their dataset.

The total of a dataset implies (epsilon, delta)-DP. If its releases together have the threshold delta t, the sum of all
amounts must imply (epsilon - 2 t, delta - t)-DP (``dpcore.kernel.item_threshold`` has the proof). That is a
smaller amount, and the difference is kept free. Each release that raises t is charged what this adds, as a surcharge.
The total may change later, and with it the difference; whatever the surcharges do not cover is kept free of later
charges (``DatasetBudget.kept_free``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

from sqlalchemy import Connection, insert, select

from dpcore.errors import NoBudgetError
from jobs.ledger.records import DatasetBudget
from jobs.ledger.rows import exact
from jobs.ledger.threshold_tables import THRESHOLDS


def record_threshold(
    connection: Connection, dataset: str, release_id: str, threshold_delta: Fraction, surcharge: Fraction
) -> None:
    """Records the threshold of a release in the transaction that charges it; nothing for a release without one."""
    if threshold_delta:
        row = {
            "release_id": release_id,
            "dataset": dataset,
            "threshold_delta": str(threshold_delta),
            "surcharge": str(surcharge),
        }
        connection.execute(insert(THRESHOLDS).values(row))


def verify_thresholds(connection: Connection, dataset: DatasetBudget, amounts: Mapping[str, Fraction]) -> Iterator[str]:
    """Yields what is wrong with the thresholds of a dataset. Each belongs to a charge, with its surcharge as a part.

    amounts: Amount of each charge of the dataset, by its release.
    """
    for row in connection.execute(select(THRESHOLDS).where(THRESHOLDS.c.dataset == dataset.name)):
        if not 0 <= exact(row.surcharge) < amounts.get(row.release_id, Fraction(0)) or exact(row.threshold_delta) <= 0:
            yield "a threshold of discovered items belongs to no charge"


def check_discoverable(dataset: DatasetBudget, *, plain: bool, replacing: bool) -> None:
    """Raises NoBudgetError for a discovery that no proof covers.

    dataset: The dataset.
    plain: Whether the release has no consumer, no partitions and no series, and is of a whole dataset.
    replacing: Whether the release is for add/remove and the dataset for replace-one.
    """
    if not dataset.delta:
        raise NoBudgetError(f"dataset {dataset.name!r} has delta 0, from which no discovery of items can be paid")
    if not plain or dataset.partitioning is not None:
        raise NoBudgetError(
            f"dataset {dataset.name!r}: items are discovered by releases of the whole dataset alone; want no consumer, "
            "no partitions and no series"
        )
    if replacing:
        raise NoBudgetError(
            f"dataset {dataset.name!r} protects against replacing a unit; want privacy.neighbours: replace_one_unit to "
            "discover items"
        )
