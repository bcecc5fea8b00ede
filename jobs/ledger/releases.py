"""What a run does in the ledger: plan, reserve, record answers, advance. Each public function is one transaction."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Any

from sqlalchemy import Connection, insert, update
from sqlalchemy.engine import Row

from dpcore.errors import ChargedBeforeError, IntegrityError
from dpcore.kernel.budget import Budget
from jobs.ledger import budgets
from jobs.ledger.binding import bind
from jobs.ledger.block_rows import blocks_of, record_blocks
from jobs.ledger.other_versions import charged_by_others, check_not_charged_meanwhile
from jobs.ledger.pricing import Price, Request, priced
from jobs.ledger.records import PlannedRelease, ReleaseRecord, State
from jobs.ledger.rows import (
    existing_release,
    find_release,
    fingerprint_of,
    locked_dataset,
    protection_columns,
    protection_of,
    release_of,
    set_consumer,
    set_dataset,
    set_release,
    stamp,
    state_of,
)
from jobs.ledger.series import has_read, paid_by, record_step
from jobs.ledger.tables import CHARGES, RELEASES
from jobs.ledger.thresholds import record_threshold
from jobs.planning.series import SeriesFacts

_DRAWING = (State.RESERVED.value, State.AGGREGATED.value, State.MEASURING.value)


def plan(connection: Connection, planned: PlannedRelease, now: datetime) -> ReleaseRecord:
    """Records a release that is ready to run, and binds the dataset's name to its path.

    Raises: The exceptions of ``SqlLedger.plan``.
    """
    dataset = locked_dataset(connection, planned.dataset)
    bind(connection, dataset, planned, now)
    row = find_release(connection, planned.release_id)
    uncharged = row is None or state_of(row) is State.PLANNED
    repeated = _repeated(connection, planned) if uncharged else None
    if row is None:
        paid = paid_by(connection, planned.series, planned.release_id) is not None
        priced(connection, dataset, Request.of(planned, paid=paid), now)
        connection.execute(insert(RELEASES).values(_new_release(planned, repeated, now)))
        record_blocks(connection, planned.release_id, planned.blocks)
        row = existing_release(connection, planned.release_id)
    elif uncharged and repeated != row.repeats:
        set_release(connection, planned.release_id, now, repeats=repeated)
    elif not protection_of(row).is_bound:  # Planned in layout 1 or 2, which did not record whom a release protects.
        set_release(connection, planned.release_id, now, **protection_columns(planned.protection))
    if fingerprint_of(connection, planned.release_id) != planned.fingerprint:
        if planned.series is not None and not has_read(connection, planned.series):
            # A step that was refused because earlier rows had changed has drawn nothing, and may read the right files.
            set_release(connection, planned.release_id, now, fingerprint=planned.fingerprint)
            return release_of(existing_release(connection, planned.release_id))
        what = "input files; want the same files" if planned.rows is None else "rows; want the same rows"
        raise IntegrityError(
            f"release {planned.release_id[:12]} of dataset {planned.dataset!r} was planned with other {what}, or a new "
            "label in dataset.snapshot"
        )
    return release_of(row)


def reserve(
    connection: Connection,
    release_id: str,
    budget: Budget,
    now: datetime,
    series: SeriesFacts | None = None,
    threshold_delta: Fraction = Fraction(0),
) -> None:
    """Appends the charge of a release and adds it to the sums. A second call for the same release changes nothing.

    The charge of a later step of a series is 0. A threshold delta is recorded and adds a surcharge.
    """
    dataset = locked_dataset(connection, existing_release(connection, release_id).dataset)
    row = existing_release(connection, release_id, lock=True)  # The row is read again under the dataset's lock.
    if release_of(row).budget != budget:
        raise IntegrityError(f"release {release_id[:12]} was planned with another budget; want the same config")
    if state_of(row) is not State.PLANNED:
        return
    check_not_charged_meanwhile(connection, row)
    protection = protection_of(row)
    if not protection.is_bound:
        raise IntegrityError(
            f"release {release_id[:12]} was planned by an older version, which did not record whom it protects; run it "
            "again"
        )
    blocks = blocks_of(connection, release_id, dataset.partitioning)
    paid = paid_by(connection, series, release_id) is not None
    request = Request(budget, protection, row.consumer, blocks=blocks, paid=paid, threshold_delta=threshold_delta)
    price = priced(connection, dataset, request, now)
    budgets.settle(connection, dataset, price.currency, protection, now)
    _charge(connection, row, price, now)
    record_step(connection, series, dataset.name, release_id, now)
    record_threshold(connection, dataset.name, release_id, threshold_delta, price.surcharge)
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
    if state_of(row) is State.PLANNED:
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
    """Advances a release to a state, and records its publication. Another manifest than the recorded one is refused."""
    row = existing_release(connection, release_id, lock=True)
    if journal_head not in (None, row.journal_head):
        raise _other_answers(row)
    if None not in (publication.manifest, row.manifest_sha256) and publication.manifest != row.manifest_sha256:
        raise IntegrityError(
            f"manifest.json of release {release_id[:12]} in {publication.output or row.output} is not the one that was "
            "published; restore the published folder"
        )
    columns = {"output": publication.output, "manifest_sha256": publication.manifest}
    changes = {name: value for name, value in columns.items() if value not in (None, getattr(row, name))}
    if state.step > state_of(row).step:
        changes["state"] = state.value
    if changes:
        set_release(connection, release_id, now, **changes)


def record_manifest(connection: Connection, release_id: str, manifest: str, now: datetime) -> None:
    """Records the manifest of a folder that is about to appear, before it does."""
    existing_release(connection, release_id, lock=True)
    set_release(connection, release_id, now, manifest_sha256=manifest)


def _charge(connection: Connection, row: Row[Any], price: Price, now: datetime) -> None:
    """Appends the charge and updates both sums in the caller's transaction."""
    dataset, consumer = price.dataset, price.consumer
    charge = {
        "dataset": dataset.name,
        "consumer": row.consumer,
        "window_start": consumer.window_start if consumer is not None else "",
        "release_id": row.release_id,
        "amount": str(price.amount),
        "spent": str(price.spent),
        "consumer_spent": str(consumer.spent + price.amount if consumer is not None else 0),
        "charged": stamp(now),
    }
    connection.execute(insert(CHARGES).values(charge))
    set_dataset(connection, dataset.name, spent=charge["spent"])
    if consumer is not None:
        spent = {"spent": charge["consumer_spent"], "window_start": consumer.window_start}
        set_consumer(connection, dataset.name, consumer.name, **spent)


def _repeated(connection: Connection, planned: PlannedRelease) -> str | None:
    """The release of another version that the operator wants again; None if no other version was charged for it."""
    others = charged_by_others(connection, planned.identity)
    if not others:
        return None
    if not planned.again:
        raise ChargedBeforeError(f"{others[0].described}; nothing was charged now; run the same command again")
    return others[0].record.release_id


def _new_release(planned: PlannedRelease, repeated: str | None, now: datetime) -> dict[str, object]:
    return {
        "release_id": planned.release_id,
        "dataset": planned.dataset,
        "consumer": planned.consumer,
        "currency": planned.budget.currency.value,
        "amount": str(planned.budget.amount),
        **protection_columns(planned.protection),
        "state": State.PLANNED.value,
        "fingerprint": planned.fingerprint,
        "state_folder": planned.state_folder,
        "answers": 0,
        "version": planned.identity.version,
        "identity": planned.identity.digest,
        "repeats": repeated,
        "created": stamp(now),
        "updated": stamp(now),
    }


def _other_answers(row: Row[Any]) -> IntegrityError:
    return IntegrityError(
        f"another run of release {row.release_id[:12]} has recorded other answers; want one run at a time, with the "
        f"journal in {row.state_folder}"
    )
