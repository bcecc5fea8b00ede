"""Checks the ledger against itself: the sums in its rows must follow from the charges and grants appended to it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from sqlalchemy import ColumnElement, Connection, select
from sqlalchemy.engine import Row

from dpcore.errors import IntegrityError
from jobs.ledger.budgets import consumers, grants
from jobs.ledger.records import ConsumerBudget, DatasetBudget, State
from jobs.ledger.tables import CHARGES, RELEASES

_SUM = "the sum of its charges is not what it has spent"


def check_sums(connection: Connection, dataset: DatasetBudget, consumer: ConsumerBudget | None) -> None:
    """Checks the running sums of a dataset and a consumer against their last charges, which cannot change.

    connection: An open transaction.
    dataset: The dataset, with its row locked.
    consumer: The consumer as its row has it, not moved to another window; None for a release without a consumer.

    Raises: IntegrityError when a sum differs.
    """
    of_dataset = CHARGES.c.dataset == dataset.name
    last = _last(connection, of_dataset)
    _want(dataset, dataset.spent == (0 if last is None else Fraction(last.spent)), _SUM)
    if consumer is None:
        return
    last = _last(connection, of_dataset & (CHARGES.c.consumer == consumer.name))
    # A window opens with a charge, or with the consumer.
    opened = consumer.window_start if last is None else last.window_start
    spent = 0 if last is None else Fraction(last.consumer_spent)
    same = (consumer.window_start, consumer.spent) == (opened, spent)
    _want(dataset, same, f"the charges of consumer {consumer.name!r} are not what it has spent")


def _last(connection: Connection, chosen: ColumnElement[bool]) -> Row[Any] | None:
    return connection.execute(select(CHARGES).where(chosen).order_by(CHARGES.c.number.desc()).limit(1)).one_or_none()


def verify(connection: Connection, dataset: DatasetBudget) -> None:
    """Checks every charge and grant of a dataset whose row is locked.

    Raises: IntegrityError when a sum, a total or a charge was changed, added or removed other than by the ledger.
    """
    charged = connection.execute(
        select(CHARGES).where(CHARGES.c.dataset == dataset.name).order_by(CHARGES.c.number)
    ).all()
    total, of_consumers = Fraction(0), dict[tuple[str, str], Fraction]()
    for charge in charged:
        amount, own = Fraction(charge.amount), Fraction(0)
        total += amount
        if charge.consumer is not None:
            window = (charge.consumer, charge.window_start)
            own = of_consumers[window] = of_consumers.get(window, Fraction(0)) + amount
        _want(dataset, (Fraction(charge.spent), Fraction(charge.consumer_spent)) == (total, own), _SUM)
    for consumer in (None, *consumers(connection, dataset.name)):
        check_sums(connection, dataset, consumer)
    _want(dataset, total == 0 or (dataset.remaining or 0) >= 0, "its charges are more than its total")
    paid = select(RELEASES.c.release_id).where(
        RELEASES.c.dataset == dataset.name, RELEASES.c.state != State.PLANNED.value
    )
    same = sorted(connection.execute(paid).scalars()) == sorted(charge.release_id for charge in charged)
    _want(dataset, same, "its charges are not those of its releases")
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
