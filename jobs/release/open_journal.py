"""Opens the journal of a release, checked against the ledger."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from jobs.ledger import SqlLedger
from jobs.ledger.records import ReleaseRecord, State
from jobs.release.journal import FileJournal


def open_journal(ledger: SqlLedger, record: ReleaseRecord) -> FileJournal:
    """Opens the journal of a release and checks it against the ledger, which records each answer before it is used.

    Raises: IntegrityError when the journal lacks answers that were used, or holds other answers instead.
    """
    path = Path(record.state_folder) / "journal.jsonl"
    journal = FileJournal(path, record.release_id, partial(ledger.record_answer, record.release_id))
    if record.answers is None:
        _adopt_journal(journal, ledger, record)
    else:
        journal.reconcile(record.answers, record.journal_head)
    return journal


def _adopt_journal(journal: FileJournal, ledger: SqlLedger, record: ReleaseRecord) -> None:
    """Checks a journal against the record of a release of layout 1, and adds its answers to the record.

    Layout 1 stored a single hash: that of the first answer in state MEASURING, and that of all answers from ESTIMATED
    on.
    """
    answers = min(1, len(journal)) if record.state is State.MEASURING else len(journal)
    journal.check_holds(answers, record.journal_head)
    if journal.head is not None:
        ledger.adopt_journal(record.release_id, len(journal), journal.head)
