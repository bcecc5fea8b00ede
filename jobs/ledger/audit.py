"""Checks that the sums and totals in the ledger follow from the charges and grants, which are append-only."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from sqlalchemy import ColumnElement, Connection, select
from sqlalchemy.engine import Row

from dpcore.errors import IntegrityError
from jobs.ledger.block_rows import charged_blocks
from jobs.ledger.budgets import consumers, grants
from jobs.ledger.partitioning import BlockSums
from jobs.ledger.records import OPEN, ConsumerBudget, DatasetBudget, Protection, State
from jobs.ledger.rows import exact
from jobs.ledger.series import verify_series
from jobs.ledger.tables import CHARGES, RELEASES
from jobs.ledger.thresholds import verify_thresholds

_SUM = "the sum of its charges differs from the recorded spending"


def check_sums(connection: Connection, dataset: DatasetBudget, consumer: ConsumerBudget | None) -> None:
    """Checks the running sums of a dataset and a consumer against their last charges, which nobody can change.

    connection: An open transaction.
    dataset: The dataset, whose row is locked.
    consumer: The consumer as it is stored, not advanced to the current window; None for a release without a consumer.

    Raises: IntegrityError when a sum differs.
    """
    in_dataset = CHARGES.c.dataset == dataset.name
    last = _last_charge(connection, in_dataset)
    _require(dataset, dataset.spent == (0 if last is None else exact(last.spent)), _SUM)
    if consumer is None:
        return
    last = _last_charge(connection, in_dataset & (CHARGES.c.consumer == consumer.name))
    # The first window starts when the consumer is created, and every later one with its first charge.
    opened = consumer.window_start if last is None else last.window_start
    spent = 0 if last is None else exact(last.consumer_spent)
    same = (consumer.window_start, consumer.spent) == (opened, spent)
    _require(dataset, same, f"the sum of the charges of consumer {consumer.name!r} differs from the recorded spending")


def _last_charge(connection: Connection, condition: ColumnElement[bool]) -> Row[Any] | None:
    query = select(CHARGES).where(condition).order_by(CHARGES.c.number.desc()).limit(1)
    return connection.execute(query).one_or_none()


def verify(connection: Connection, dataset: DatasetBudget) -> None:
    """Checks every charge and grant of a dataset.

    connection: An open transaction.
    dataset: The dataset, whose row is locked, or which the transaction sees in one state.

    Raises: IntegrityError when a sum, a total or a charge was changed, added or removed by anything but the ledger.
    """
    charges = connection.execute(
        select(CHARGES).where(CHARGES.c.dataset == dataset.name).order_by(CHARGES.c.number)
    ).all()
    consumer_sums = dict[tuple[str, str], Fraction]()
    sums = BlockSums(None if dataset.partitioning is None else dataset.partitioning.limit)
    for charge, (amount, names) in zip(charges, charged_blocks(connection, dataset), strict=True):
        sums, consumer_sum = sums.plus(amount, names), Fraction(0)
        if charge.consumer is not None:
            window = (charge.consumer, charge.window_start)
            consumer_sum = consumer_sums[window] = consumer_sums.get(window, Fraction(0)) + amount
        _require(dataset, (exact(charge.spent), exact(charge.consumer_spent)) == (sums.spent, consumer_sum), _SUM)
    for consumer in (None, *consumers(connection, dataset.name)):
        check_sums(connection, dataset, consumer)
    _require(dataset, sums.all == 0 or (dataset.remaining or 0) >= 0, "its charges exceed its total")
    reserved = select(RELEASES.c.release_id).where(
        RELEASES.c.dataset == dataset.name, RELEASES.c.state != State.PLANNED.value
    )
    same = sorted(connection.execute(reserved).scalars()) == sorted(charge.release_id for charge in charges)
    _require(dataset, same, "its charges do not match its releases")
    amounts = {charge.release_id: exact(charge.amount) for charge in charges}
    for problem in verify_thresholds(connection, dataset, amounts):
        _require(dataset, False, problem)
    for problem in verify_series(connection, dataset):
        _require(dataset, False, problem)
    _verify_grants(connection, dataset)


def _verify_grants(connection: Connection, dataset: DatasetBudget) -> None:
    last_grants = {grant.consumer: grant for grant in grants(connection, dataset.name)}
    stored: dict[str | None, tuple[float, float, Fraction | None, Protection]] = {}
    stored[None] = (dataset.epsilon, dataset.delta, dataset.total, dataset.protection)
    for consumer in consumers(connection, dataset.name):
        stored[consumer.name] = (consumer.epsilon, consumer.delta, consumer.total, OPEN)
    granted = {
        name: (grant.epsilon, grant.delta, grant.amount, grant.protection) for name, grant in last_grants.items()
    }
    _require(dataset, granted == stored, "its totals, or whom they protect, do not match its grants")


def _require(dataset: DatasetBudget, holds: bool, problem: str) -> None:
    if not holds:
        raise IntegrityError(
            f"dataset {dataset.name!r}: {problem}; the ledger was changed by hand or damaged; restore its backup"
        )
