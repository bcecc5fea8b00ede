"""The ledger against itself: what rows say was spent and granted must follow from what was appended."""

from __future__ import annotations

from fractions import Fraction

from sqlalchemy import Connection, select

from dpcore.errors import IntegrityError
from jobs.ledger.budgets import consumers, grants
from jobs.ledger.records import DatasetBudget, State
from jobs.ledger.tables import CHARGES, RELEASES


def verify(connection: Connection, dataset: DatasetBudget) -> None:
    """Reads every charge and grant of a dataset whose row is locked.

    Raises IntegrityError when a sum, a total or a charge was changed, added or taken away other than by the ledger.
    """
    charged = connection.execute(
        select(CHARGES.c.release_id, CHARGES.c.amount, CHARGES.c.consumer, CHARGES.c.window_start).where(
            CHARGES.c.dataset == dataset.name
        )
    ).all()
    total = sum((Fraction(charge.amount) for charge in charged), Fraction(0))
    _want(dataset, total == dataset.spent, "the sum of its charges is not what it has spent")
    _want(dataset, total == 0 or (dataset.remaining or 0) >= 0, "its charges are more than its total")
    paid = select(RELEASES.c.release_id).where(
        RELEASES.c.dataset == dataset.name, RELEASES.c.state != State.PLANNED.value
    )
    same = sorted(connection.execute(paid).scalars()) == sorted(charge.release_id for charge in charged)
    _want(dataset, same, "its charges are not those of its releases")
    for consumer in consumers(connection, dataset.name):
        own = (c for c in charged if (c.consumer, c.window_start) == (consumer.name, consumer.window_start))
        spent = sum((Fraction(charge.amount) for charge in own), Fraction(0))
        _want(dataset, spent == consumer.spent, f"the charges of consumer {consumer.name!r} are not what it has spent")
    _verify_grants(connection, dataset)


def _verify_grants(connection: Connection, dataset: DatasetBudget) -> None:
    last = {grant.consumer: grant for grant in grants(connection, dataset.name)}
    held: dict[str | None, tuple[float, float, Fraction | None]] = {}
    held[None] = (dataset.epsilon, dataset.delta, dataset.total)
    for consumer in consumers(connection, dataset.name):
        held[consumer.name] = (consumer.epsilon, consumer.delta, consumer.total)
    granted = {name: (grant.epsilon, grant.delta, grant.amount) for name, grant in last.items()}
    _want(dataset, granted == held, "its totals are not those of its grants")


def _want(dataset: DatasetBudget, holds: bool, problem: str) -> None:
    if not holds:
        raise IntegrityError(
            f"dataset {dataset.name!r}: {problem}; the ledger was changed by hand or damaged: restore its backup"
        )
