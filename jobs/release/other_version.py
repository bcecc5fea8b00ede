"""A release for which another version of the program was charged: an upgrade must not charge it again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dpcore.errors import ChargedBeforeError, InputError, IntegrityError
from jobs.ledger import SqlLedger
from jobs.ledger.records import DatasetBudget, DatasetSecrets, OtherVersion, State
from jobs.planning.dataset import location_of
from jobs.planning.identity import bound_path
from jobs.planning.job import Job
from jobs.release import publish
from jobs.release.finished import Outcome, record_publication
from jobs.verification.manifest import SUCCESS
from jobs.verification.release import check_published
from pipelines.source import input_fingerprint, open_with_contents


def made_by_another_version(
    job: Job, ledger: SqlLedger, dataset: DatasetBudget, secrets: DatasetSecrets
) -> Outcome | None:
    """The outcome of the same release if another version has published it; None if no other version was charged.

    job: The release.
    ledger: The ledger of the release.
    dataset: Its dataset.
    secrets: The secrets of the dataset.

    Raises: ChargedBeforeError when its folder is gone; IntegrityError when the folder is not the one that was
        published, or the release was made from other input files.
    """
    others = ledger.charged_by_others(job.identity)
    for other in others:
        folder = folder_of(other, job.output)
        if folder is not None:
            _check_same_input(job, dataset, secrets, other)
            _check_folder(job, ledger, folder, other)
            return Outcome(other.record.release_id, folder, already=True, version=other.version)
    if others:
        raise refusal(others)
    return None


def folder_of(other: OtherVersion, output: Path) -> Path | None:
    """The folder of another version's release; None if it is gone, or was never complete.

    other: The release.
    output: The output folder of the config, which is looked at first.
    """
    recorded = other.record.output
    folders = (output, Path(recorded)) if recorded else (output,)
    return next((folder for folder in folders if _holds(folder, other.record.release_id)), None)


def refusal(others: Sequence[OtherVersion]) -> ChargedBeforeError:
    """Why a release is not charged again, and what the operator can do.

    others: What other versions were charged for the same release, the latest first.
    """
    other = others[0]
    if other.record.state is State.PUBLISHED:
        problem = f"its folder {other.record.output} is gone; want that folder restored"
    elif other.record.version is not None:
        problem = f"its run has not finished; want version {other.version} to finish it, which charges nothing"
    else:  # Versions of layouts 1 and 2 do not open a ledger of this layout.
        problem = "its run has not finished; want the backup of the ledger and that version to finish it"
    return ChargedBeforeError(
        f"{other.described}, but {problem}, or marquee run --again, which makes a new release with a new charge; "
        "nothing was charged now"
    )


def _check_same_input(job: Job, dataset: DatasetBudget, secrets: DatasetSecrets, other: OtherVersion) -> None:
    """Compares the input with that of another version's release. The input of a published release may be gone."""
    path = job.config.dataset.root
    try:
        source, contents = open_with_contents(
            location_of(job.config.dataset), job.layout, secrets.salt, secrets.fingerprint_key
        )
    except InputError:
        if other.record.state is State.PUBLISHED and dataset.path == bound_path(path):
            return
        raise
    if input_fingerprint(source, contents, secrets.fingerprint_key) != other.fingerprint:
        raise IntegrityError(
            f"{other.described}, but was made from other input files; want the same files, or a new label in "
            "dataset.snapshot, which makes a new release with a new charge"
        )


def _check_folder(job: Job, ledger: SqlLedger, folder: Path, other: OtherVersion) -> None:
    if other.record.release_id in job.identity.older:  # The certificates of these versions have another format.
        publish.verify(folder)
    else:
        check_published(folder, ledger)
    record_publication(ledger, other.record.release_id, folder)


def _holds(folder: Path, release_id: str) -> bool:
    return publish.holder(folder) == release_id and (folder / SUCCESS).is_file()
