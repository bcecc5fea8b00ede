"""Opens the journal of a release where its state is kept, and checks it against the ledger."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from dpcore.errors import IntegrityError
from jobs.ledger import SqlLedger
from jobs.ledger.records import ReleaseRecord, State
from jobs.objects.output import Output
from jobs.release.journal import Journal
from jobs.release.journal_file import JournalFile
from jobs.release.journal_objects import JournalObjects


def open_journal(release_id: str, ledger: SqlLedger, record: ReleaseRecord, state: Output) -> Journal:
    """Opens the journal of a release and checks it against the ledger, which records each answer before it is used.

    record: What the ledger had recorded before the journal is read.
    state: The state folder of the release.

    Raises: IntegrityError when the journal lacks answers that were used, or holds other answers instead.
    """
    report = partial(ledger.record_answer, release_id)
    if isinstance(state, Path):
        journal = Journal(JournalFile(state / "journal.jsonl"), release_id, report)
    else:
        journal = Journal(JournalObjects(state, ledger.ledger_id()), release_id, report)
        if record.answers is not None:
            _reconcile_unlocked(journal, ledger, record)
            return journal
    if record.answers is None:
        _adopt(journal, ledger, record)
    else:
        journal.reconcile(record.answers, record.journal_head)
    return journal


def _reconcile_unlocked(journal: Journal, ledger: SqlLedger, before: ReleaseRecord) -> None:
    """Checks a journal to which another run may add answers at any time, because no lock keeps it away.

    Its answers are at least those that the ledger had recorded before it was read. It has at most one answer more than
    the ledger records afterwards, because every run reports an answer before it draws the next one.
    """
    journal.check_holds(before.answers or 0, before.journal_head)
    after = ledger.release(before.release_id)
    if after is None or after.answers is None:
        raise IntegrityError(
            f"release {before.release_id[:12]} is no longer in the ledger; want the ledger in which it was planned"
        )
    if after.answers <= len(journal):
        journal.reconcile(after.answers, after.journal_head)


def _adopt(journal: Journal, ledger: SqlLedger, record: ReleaseRecord) -> None:
    """Checks a journal against the record of a release of layout 1, and adds its answers to the record.

    Layout 1 stored a single hash: that of the first answer in state MEASURING, and that of all answers from ESTIMATED
    on.
    """
    answers = min(1, len(journal)) if record.state is State.MEASURING else len(journal)
    journal.check_holds(answers, record.journal_head)
    if journal.head is not None:
        ledger.adopt_journal(record.release_id, len(journal), journal.head)
