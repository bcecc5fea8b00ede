"""What a run does in the ledger: plan, reserve, record answers, advance. Each public function is one transaction."""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Any

from sqlalchemy import Connection, insert, update
from sqlalchemy.engine import Row

from dpcore.errors import BudgetExceededError, IntegrityError, NoBudgetError
from dpcore.kernel.budget import Budget, Currency
from dpcore.kernel.conversion import epsilon_of
from jobs.figures import format_exact
from jobs.ledger import budgets
from jobs.ledger.amounts import advice, charged_amount, settled_currency
from jobs.ledger.audit import check_sums
from jobs.ledger.binding import bind
from jobs.ledger.connection import shown
from jobs.ledger.records import ConsumerBudget, DatasetBudget, PlannedRelease, ReleaseRecord, State
from jobs.ledger.rows import (
    existing_release,
    find_consumer,
    find_release,
    locked_dataset,
    release_of,
    set_consumer,
    set_dataset,
    set_release,
    stamp,
)
from jobs.ledger.tables import CHARGES, RELEASES
from jobs.ledger.windows import Window

_DRAWING = (State.RESERVED.value, State.AGGREGATED.value, State.MEASURING.value)


def plan(connection: Connection, planned: PlannedRelease, now: datetime) -> ReleaseRecord:
    """Records a release that is ready to run, and binds the dataset's name to its path.

    Raises: The exceptions of ``SqlLedger.plan``.
    """
    dataset = locked_dataset(connection, planned.dataset)
    bind(connection, dataset, planned.path, now)
    row = find_release(connection, planned.release_id)
    if row is None:
        _priced(connection, dataset, planned.budget, planned.consumer, now, planned.promise)
        connection.execute(insert(RELEASES).values(_new_release(planned, now)))
        row = existing_release(connection, planned.release_id)
    if row.fingerprint != planned.fingerprint:
        raise IntegrityError(
            f"release {planned.release_id[:12]} of dataset {planned.dataset!r} was planned with other input files; "
            "want the same files, or a new label in dataset.snapshot"
        )
    return release_of(row)


def reserve(connection: Connection, release_id: str, budget: Budget, now: datetime) -> None:
    """Appends the charge of a release and adds it to the sums. A second call for the same release changes nothing."""
    dataset = locked_dataset(connection, existing_release(connection, release_id).dataset)
    row = existing_release(connection, release_id, lock=True)  # The row is read again under the dataset's lock.
    if release_of(row).budget != budget:
        raise IntegrityError(f"release {release_id[:12]} was planned with another budget; want the same config")
    if State(row.state) is not State.PLANNED:
        return
    priced = _priced(connection, dataset, budget, row.consumer, now)
    budgets.settle(connection, dataset, priced.currency, now)
    _charge(connection, row, priced, now)
    set_release(connection, release_id, now, state=State.RESERVED.value)


def record_answer(
    connection: Connection, release_id: str, number: int, before: str | None, head: str, now: datetime
) -> None:
    """Records an answer that is in the journal and was not used yet, by a compare-and-set of the release's row.

    If two runs hold different answers with the same number, one of them fails here before it has used its answer.

    number: Number of answers before this one.
    before: Hash of the last of these answers; None for the first answer.
    head: Hash of this answer.

    Raises: IntegrityError when the release has other answers, or no charge.
    """
    same_head = RELEASES.c.journal_head.is_(None) if before is None else RELEASES.c.journal_head == before
    expected = (RELEASES.c.answers == number) & same_head & RELEASES.c.state.in_(_DRAWING)
    values = {"answers": number + 1, "journal_head": head, "state": State.MEASURING.value, "updated": stamp(now)}
    changed = connection.execute(update(RELEASES).where(RELEASES.c.release_id == release_id, expected).values(values))
    if changed.rowcount == 1:
        return
    row = existing_release(connection, release_id)
    if (row.answers, row.journal_head) == (number + 1, head):
        return  # Already recorded by a process that died before it saw the acknowledgement.
    if State(row.state) is State.PLANNED:
        raise IntegrityError(f"release {release_id[:12]} has an answer but no charge; want the ledger that charged it")
    raise _other_answers(row)


def adopt_journal(connection: Connection, release_id: str, answers: int, head: str, now: datetime) -> None:
    """Records the answers of a release of layout 1. Its journal must have been checked against the ledger's hash."""
    row = existing_release(connection, release_id, lock=True)
    if row.answers is None:
        set_release(connection, release_id, now, answers=answers, journal_head=head)
    elif (row.answers, row.journal_head) != (answers, head):
        raise _other_answers(row)


@dataclass(frozen=True)
class Publication:
    """Where a release was published.

    output: Its folder; None leaves the recorded folder unchanged.
    manifest: SHA-256 of its manifest.json; None leaves the recorded hash unchanged.
    """

    output: str | None
    manifest: str | None


def advance(
    connection: Connection,
    release_id: str,
    state: State,
    journal_head: str | None,
    publication: Publication,
    now: datetime,
) -> None:
    """Advances a release to a state, and records its publication. A recorded manifest never changes."""
    row = existing_release(connection, release_id, lock=True)
    if journal_head not in (None, row.journal_head):
        raise _other_answers(row)
    if None not in (publication.manifest, row.manifest_sha256) and publication.manifest != row.manifest_sha256:
        raise IntegrityError(
            f"manifest.json of release {release_id[:12]} in {publication.output or row.output} is not the one that was "
            "published; restore the published folder"
        )
    columns = {"output": publication.output, "manifest_sha256": publication.manifest}
    changes = {name: value for name, value in columns.items() if value is not None}
    if state.step > State(row.state).step:
        changes["state"] = state.value
    if changes:
        set_release(connection, release_id, now, **changes)


@dataclass(frozen=True)
class _Priced:
    """A charge that fits the remaining budget.

    amount: Exact amount in the dataset's currency.
    currency: Currency of the dataset.
    dataset: The dataset before the charge.
    consumer: The consumer before the charge, if there is one.
    """

    amount: Fraction
    currency: Currency
    dataset: DatasetBudget
    consumer: ConsumerBudget | None


def _priced(
    connection: Connection,
    dataset: DatasetBudget,
    budget: Budget,
    consumer_name: str | None,
    now: datetime,
    promise: tuple[float, float] | None = None,
) -> _Priced:
    """The charge of a release. Raises NoBudgetError or BudgetExceededError if dataset or consumer cannot pay it."""
    consumer = _consumer(connection, dataset, consumer_name, promise)
    check_sums(connection, dataset, consumer)
    if dataset.currency is None:
        currency = settled_currency(budget.currency)
        dataset = dataset.settled(currency)
        consumer = consumer and consumer.settled(currency)
    assert dataset.currency is not None
    amount = charged_amount(budget, dataset.currency, dataset.name)
    consumer = consumer and consumer.at(now)
    hint = advice(budget, dataset.currency, promise) if amount > (dataset.remaining or 0) else ""
    cost = _Cost(amount, budget, dataset.currency, promise)
    _check_fits(f"a release of dataset {dataset.name!r}{hint}", cost, dataset.remaining)
    if consumer is not None and consumer.total is not None:
        _check_fits(_label(consumer), cost, consumer.total - consumer.spent, consumer.window)
    return _Priced(amount, dataset.currency, dataset, consumer)


def _label(consumer: ConsumerBudget) -> str:
    window = "" if consumer.window is Window.NONE else f" in the {consumer.window.value} from {consumer.window_start}"
    return f"a release of consumer {consumer.name!r} of dataset {consumer.dataset!r}{window}"


@dataclass(frozen=True)
class _Cost:
    """The cost of a release.

    amount: Exact amount in the dataset's currency.
    budget: The release's own budget.
    currency: Currency of the dataset.
    promise: (epsilon, delta) of the release, if it is known.
    """

    amount: Fraction
    budget: Budget
    currency: Currency
    promise: tuple[float, float] | None


def _check_fits(label: str, cost: _Cost, remaining: Fraction | None, window: Window = Window.NONE) -> None:
    available = max(remaining or Fraction(0), Fraction(0))
    if cost.amount > available:
        raise BudgetExceededError(
            label, cost.amount, available, cost.currency.value, _next_step(cost, available, window)
        )


def _next_step(cost: _Cost, available: Fraction, window: Window) -> str:
    steps = []
    if available and cost.promise is not None and cost.budget.currency is cost.currency:
        max_epsilon = epsilon_of(Budget(cost.currency, available), cost.promise[1])
        steps.append(f"privacy.epsilon at most {math.floor(max_epsilon * 1e4) / 1e4:g}")
    if window is not Window.NONE:
        steps.append(f"another {window.value}")
    return ", ".join([*steps, "or more by marquee budget grant" if steps else "more by marquee budget grant"])


def _consumer(
    connection: Connection, dataset: DatasetBudget, name: str | None, promise: tuple[float, float] | None
) -> ConsumerBudget | None:
    if name is None:
        if dataset.consumers_only:
            raise NoBudgetError(
                f"dataset {dataset.name!r} accepts only releases of a consumer; want privacy.consumer in the config"
            )
        return None
    consumer = find_consumer(connection, dataset.name, name)
    if consumer is None:
        epsilon, delta = promise or (dataset.epsilon, dataset.delta)
        if bool(delta) is not bool(dataset.delta):
            delta = dataset.delta
        url = shown(connection.engine.url)
        raise NoBudgetError(
            f"dataset {dataset.name!r} has no consumer {name!r}; add it with: marquee budget grant --ledger "
            f"{shlex.quote(url)} --dataset {shlex.quote(dataset.name)} --consumer {shlex.quote(name)} "
            f"--epsilon {format_exact(epsilon)} --delta {format_exact(delta)}"
        )
    return consumer


def _charge(connection: Connection, row: Row[Any], priced: _Priced, now: datetime) -> None:
    """Appends the charge and updates both sums in the caller's transaction."""
    dataset, consumer = priced.dataset, priced.consumer
    charge = {
        "dataset": dataset.name,
        "consumer": row.consumer,
        "window_start": consumer.window_start if consumer is not None else "",
        "release_id": row.release_id,
        "amount": str(priced.amount),
        "spent": str(dataset.spent + priced.amount),
        "consumer_spent": str(consumer.spent + priced.amount if consumer is not None else 0),
        "charged": stamp(now),
    }
    connection.execute(insert(CHARGES).values(charge))
    set_dataset(connection, dataset.name, spent=charge["spent"])
    if consumer is not None:
        spent = {"spent": charge["consumer_spent"], "window_start": consumer.window_start}
        set_consumer(connection, dataset.name, consumer.name, **spent)


def _new_release(planned: PlannedRelease, now: datetime) -> dict[str, object]:
    return {
        "release_id": planned.release_id,
        "dataset": planned.dataset,
        "consumer": planned.consumer,
        "currency": planned.budget.currency.value,
        "amount": str(planned.budget.amount),
        "state": State.PLANNED.value,
        "fingerprint": planned.fingerprint,
        "state_folder": planned.state_folder,
        "answers": 0,
        "created": stamp(now),
        "updated": stamp(now),
    }


def _other_answers(row: Row[Any]) -> IntegrityError:
    return IntegrityError(
        f"another run of release {row.release_id[:12]} has recorded other answers; want one run at a time, with the "
        f"journal in {row.state_folder}"
    )
