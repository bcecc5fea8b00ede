"""Publishes a release in an object store, whose folders cannot be renamed: a conditional put decides, another commits.

Files are staged under the names of their hashes. The manifest is written first, by a put that fails if there is one: it
decides whose bytes the release has. Then the staged files that it names are copied to their places, and _SUCCESS, the
commit object, is written last. Every step may be repeated, by any process that finds the manifest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from dpcore.errors import ConfigError, EngineError, IntegrityError
from jobs.objects.folder import StoredFolder
from jobs.release.publish import STATE_FOLDER, PublicationState, holder, write_manifest
from jobs.release.signing import Signer
from jobs.verification.manifest import MANIFEST, SIGNATURE, SUCCESS, read_manifest

_STAGING: Final = "staging"
_PROBE: Final = "probe"
_THREADS: Final = 4


def state_folder(output: StoredFolder, release_id: str) -> StoredFolder:
    """The folder of a release's journal and staged files, beside the output."""
    return output.parent / STATE_FOLDER / release_id


def publication_state(output: StoredFolder, release_id: str) -> PublicationState:
    """How much of this release a folder holds. Raises: ConfigError when it holds something else."""
    names = output.sizes().keys()
    if not names:
        return PublicationState.ABSENT
    holding = holder(output)
    if holding is None:
        raise ConfigError(f"output {output} holds files that are not of a release; want a new or an empty folder")
    _check_holder(output, holding, release_id)
    return PublicationState.DONE if SUCCESS in names else PublicationState.RENAMED


def trace_of_another_ledger(output: StoredFolder, release_id: str) -> StoredFolder | None:
    """A folder that only a run of this release can have made; None when there is none. See ``publish``."""
    state = state_folder(output, release_id)
    if state.sizes().keys() - {_PROBE}:
        return state
    return output if holder(output) == release_id else None


def check_conditional_puts(output: StoredFolder, release_id: str) -> None:
    """Checks that objects can be written, and that the store refuses to write an object where there is one.

    Raises: ConfigError when it does not, because two runs could then use two draws of one answer.
    """
    state = state_folder(output, release_id)
    if not state.create(_PROBE, b"once\n") or state.create(_PROBE, b"twice\n"):
        raise ConfigError(
            f"the store of {output} writes objects that exist although it is told not to (a conditional put), so that "
            "it cannot keep two runs apart; want a store with conditional puts, or a local output.path"
        )


def publish(
    staging: Path,
    output: StoredFolder,
    release_id: str,
    *,
    signer: Signer | None = None,
    record: Callable[[str], None] = lambda _: None,
) -> None:
    """Uploads everything in ``staging`` and publishes it. Readers trust a folder only when it has _SUCCESS.

    A crash leaves no _SUCCESS, and ``complete`` or another run of the release goes on.

    staging: Local folder of the finished files.
    output: Folder of the release, without a manifest, or with that of an earlier run.
    release_id: SHA-256 of the release's public facts.
    signer: Signs the manifest; None leaves it unsigned.
    record: Called with the SHA-256 of the manifest before any other file appears.

    Raises: ConfigError when the folder got another release in the meantime; IntegrityError when another run has begun
        to publish other bytes of this one.
    """
    write_manifest(staging, release_id, signer)
    manifest = (staging / MANIFEST).read_bytes()
    digest = hashlib.sha256(manifest).hexdigest()
    staged = state_folder(output, release_id) / _STAGING
    files = {entry.sha256: staging / entry.path for entry in read_manifest(staging).entries}
    if signer is not None:
        files[_signature_of(digest)] = staging / SIGNATURE
    sizes = staged.sizes()
    missing = {name: file for name, file in files.items() if sizes.get(name) != file.stat().st_size}
    with ThreadPoolExecutor(_THREADS) as threads:
        list(threads.map(staged.upload, missing, missing.values()))
    if not output.create(MANIFEST, manifest):
        _check_holder(output, holder(output), release_id)
        raise IntegrityError(
            f"{output} holds the manifest of another run of release {release_id[:12]}, which began to publish other "
            "bytes: other synthetic rows, or those of other library versions; run that again, or delete the folder "
            "when no run is under way"
        )
    record(digest)
    if not complete(output, release_id):
        raise EngineError(f"staged files of {output} were deleted during the run; run the same command again")
    mark(output, release_id)


def complete(output: StoredFolder, release_id: str) -> bool:
    """Copies the staged files that the folder's manifest names to their places.

    Returns: Whether the folder has all of them, with their sizes.
    """
    staged = state_folder(output, release_id) / _STAGING
    entries = read_manifest(output).entries
    signature = _signature_of(hashlib.sha256(output.read(MANIFEST) or b"").hexdigest())
    with ThreadPoolExecutor(_THREADS) as threads:
        list(threads.map(lambda entry: output.copy(staged, entry.sha256, entry.path, entry.size), entries))
    output.copy(staged, signature, SIGNATURE, 0)
    sizes = output.sizes()  # Another run may have copied the files and deleted the staged ones.
    return all(sizes.get(entry.path) == entry.size for entry in entries)


def mark(output: StoredFolder, release_id: str) -> None:
    """Marks a folder as complete, and deletes what was staged for it."""
    if not output.create(SUCCESS, b""):
        raise IntegrityError(f"{output}/{SUCCESS} is not empty; delete it, and run the release again")
    staged = state_folder(output, release_id) / _STAGING
    staged.delete(staged.sizes())


def _check_holder(output: StoredFolder, holding: str | None, release_id: str) -> None:
    if holding != release_id:
        what = "no readable manifest" if holding is None else f"release {holding[:12]}"
        raise ConfigError(f"output {output} holds {what}; want another folder for {release_id[:12]}")


def _signature_of(manifest_sha256: str) -> str:
    return f"{manifest_sha256}.sig"
