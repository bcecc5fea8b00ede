"""Whether a release is already published."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from jobs.ledger import SqlLedger
from jobs.ledger.records import ReleaseRecord, State
from jobs.objects.folder import StoredFolder
from jobs.objects.output import Output, recorded_output
from jobs.planning.job import Job
from jobs.release import folders, publish, stored
from jobs.release.publish import PublicationState
from jobs.verification.release import check_published


@dataclass(frozen=True)
class Outcome:
    """Result of a run.

    release_id: SHA-256 of the release's public facts.
    output: The published folder.
    already: Whether the release had been published before this run.
    version: The other version that has published it; None if this version did.
    """

    release_id: str
    output: Output
    already: bool
    version: str | None = None

    @property
    def line(self) -> str:
        """The outcome as a line of text."""
        by = "" if self.version is None else f" by version {self.version}"
        return f"{'already published' if self.already else 'published'}{by}: {self.output}"


def finished(job: Job, ledger: SqlLedger, record: ReleaseRecord) -> Outcome | None:
    """The outcome of a release that is already published; None otherwise.

    If a process died between the rename and writing _SUCCESS, the publication is completed first. In a store, that
    needs the ledger's record of the manifest and all staged files; otherwise the run goes on and stages them again.

    job: The release.
    ledger: The ledger that was charged for it.
    record: Its record.

    Raises: IntegrityError when the folder is not the one that was published.
    """
    published = folders.publication_state(job.output, job.release_id)
    if published is PublicationState.RENAMED and isinstance(job.output, StoredFolder):
        if record.manifest_sha256 != publish.manifest_sha256(job.output):
            return None
        if not stored.complete(job.output, job.release_id):
            return None
    if published is not PublicationState.ABSENT:
        check_published(job.output, ledger)
        if published is PublicationState.RENAMED:
            folders.finish(job.output, job.release_id)
        record_publication(ledger, job.release_id, job.output)
        return Outcome(job.release_id, job.output, already=True)
    elsewhere = recorded_output(record.output, job.output) if record.output else None
    if elsewhere is None or (isinstance(elsewhere, Path) and not elsewhere.is_dir()):
        return None
    if folders.publication_state(elsewhere, job.release_id) is not PublicationState.DONE:
        return None
    check_published(elsewhere, ledger)
    record_publication(ledger, job.release_id, elsewhere)
    return Outcome(job.release_id, elsewhere, already=True)


def record_publication(ledger: SqlLedger, release_id: str, output: Output) -> None:
    """Records the folder and the manifest of a release. Raises IntegrityError when another manifest was published."""
    manifest = publish.manifest_sha256(output)
    ledger.advance(release_id, State.PUBLISHED, output=str(output), manifest=manifest)
