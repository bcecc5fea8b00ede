"""Publishes a release whole or not at all: its files are staged, listed in a manifest, and moved with one rename."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Collection
from enum import Enum
from pathlib import Path

from dpcore.errors import ConfigError, IntegrityError
from jobs.objects.output import Output, read_file
from jobs.release.journal_file import sync_folder
from jobs.release.signing import Signer
from jobs.verification.manifest import MANIFEST, SIGNATURE, SUCCESS, file_problems, problems_of, sha256_of
from jobs.version import VERSION

STATE_FOLDER = ".marquee"
LOCK = "lock"
_LONGEST_NAME = 255  # Bytes; the limit of most file systems. A missing folder above would hide it until the run.


class PublicationState(Enum):
    """How much of a release an output folder holds.

    ABSENT: Nothing.
    RENAMED: Every file except _SUCCESS; in an object store, its manifest and perhaps other files.
    DONE: Everything.
    """

    ABSENT = "absent"
    RENAMED = "renamed"
    DONE = "done"


def state_folder(output: Path, release_id: str) -> Path:
    """The folder of a release's journal and staging folder.

    It is beside the output, on the same file system, so that the final rename is atomic.
    """
    return output.parent / STATE_FOLDER / release_id


def publication_state(output: Path, release_id: str) -> PublicationState:
    """How much of this release the folder ``output`` holds.

    Raises: ConfigError when the folder holds something else, or is a symbolic link or a mount point.
    """
    longest = max(len(os.fsencode(part)) for part in output.parts)
    if longest > _LONGEST_NAME:
        raise ConfigError(f"output {output} holds a name of {longest} bytes; want at most {_LONGEST_NAME}")
    above = next(parent for parent in output.parents if parent.exists())
    if not above.is_dir():
        raise ConfigError(
            f"output {output} cannot be created (Not a directory): {above} is a file; want a folder there"
        )
    if not output.exists() or (output.is_dir() and not any(output.iterdir())):
        if output.is_symlink() or os.path.ismount(output):
            raise ConfigError(
                f"output {output} is a link or a mount point; want an ordinary folder, which a rename can replace"
            )
        return PublicationState.ABSENT
    found = holder(output)
    if found is None:
        raise ConfigError(f"output {output} holds files that are not of a release; want a new or an empty folder")
    if found != release_id:
        raise ConfigError(f"output {output} holds release {found[:12]}; want another folder for {release_id[:12]}")
    return PublicationState.DONE if (output / SUCCESS).exists() else PublicationState.RENAMED


def trace_of_another_ledger(output: Path, release_id: str) -> Path | None:
    """A folder that only a run of this release can have made; None when there is none.

    If the ledger has no record of the release, such a folder belongs to another ledger, whose charge covers its noise.
    A state folder that holds nothing but a lock does not count, because its run ended before any noise was drawn.

    output: The output folder of the release.
    release_id: SHA-256 of the release's public facts.

    Returns: The release's state folder, or a folder that is, or lies beside, the output and whose manifest names the
        release.
    Raises: ConfigError when the state folder may not be read.
    """
    state = state_folder(output, release_id)
    try:
        if state.is_dir() and any(path.name != LOCK for path in state.iterdir()):
            return state
    except PermissionError as error:
        raise ConfigError(
            f"{state} may not be read; want the user who began this release, or a state folder that a group shares "
            "(deploy/RUNBOOK.md)"
        ) from error
    manifests = (output / MANIFEST, *sorted(output.parent.glob(f"*/{MANIFEST}")))
    return next((path.parent for path in manifests if holder(path.parent) == release_id), None)


def fresh_staging(folder: Path) -> Path:
    """Creates an empty staging folder in a release's state folder.

    In a state folder that a group shares, what another user's run has staged is left where it is.
    """
    staging = folder / "staging"
    if staging.exists() and staging.stat().st_uid != os.geteuid():
        staging = folder / f"staging-{os.geteuid()}"
    if staging.exists():
        shutil.rmtree(staging)
    staging.mkdir(parents=True)
    return staging


def publish(
    staging: Path,
    output: Path,
    release_id: str,
    *,
    signer: Signer | None = None,
    record: Callable[[str], None] = lambda _: None,
) -> None:
    """Makes everything in ``staging`` durable, moves it to ``output`` in one step, and marks it as complete.

    A crash leaves either no output, or an output without _SUCCESS, which ``finish`` completes.

    staging: Folder of the finished files.
    output: Folder of the release, absent or empty.
    release_id: SHA-256 of the release's public facts.
    signer: Signs the manifest; None leaves it unsigned.
    record: Called with the SHA-256 of the manifest before the folder appears, so that a folder which has appeared is
        always one whose manifest is on record.
    """
    files = _files(staging)
    for path in files:
        _sync(path)
    write_manifest(staging, release_id, signer)
    for folder in sorted({path.parent for path in files} | {staging}):
        sync_folder(folder)
    output.parent.mkdir(parents=True, exist_ok=True)
    record(manifest_sha256(staging))
    os.rename(staging, output)
    finish(output)


def write_manifest(staging: Path, release_id: str, signer: Signer | None) -> None:
    """Writes the manifest of the files in ``staging``, and its signature if there is a signer."""
    content = {
        "release_id": release_id,
        "marquee": VERSION,
        "files": [
            {"path": path.relative_to(staging).as_posix(), "bytes": path.stat().st_size, "sha256": sha256_of(path)}
            for path in _files(staging)
        ],
    }
    _write(staging / MANIFEST, (json.dumps(content, indent=2) + "\n").encode())
    if signer is not None:
        _write(staging / SIGNATURE, signer.signature(staging / MANIFEST))


def finish(output: Path) -> None:
    """Makes the rename durable, which a process that died may not have done, and marks the folder as complete."""
    sync_folder(output.parent)
    _write(output / SUCCESS, b"")
    sync_folder(output)


def manifest_sha256(output: Output) -> str:
    """SHA-256 of the manifest of a published folder, as 64 hexadecimal digits.

    Raises: IntegrityError when there is none.
    """
    content = read_file(output, MANIFEST)
    if content is None:
        raise IntegrityError(f"{output}/{MANIFEST} is missing; restore the published file")
    return hashlib.sha256(content).hexdigest()


def verify(output: Output, needed: Collection[str] | None = None) -> None:
    """Checks that a published folder holds exactly the files that its manifest names.

    output: The folder.
    needed: The only files to check, of those that the manifest names; by default all, and that there are no others.

    Raises: IntegrityError that names the first file that is missing, changed or unknown.
    """
    for problem in file_problems(output) if needed is None else problems_of(output, needed):
        raise IntegrityError(problem)


def holder(output: Output) -> str | None:
    """The release id in a folder's manifest; None without a manifest."""
    try:
        content = read_file(output, MANIFEST)
        return None if content is None else str(json.loads(content.decode())["release_id"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):  # Anything may lie in a neighbouring folder.
        return None


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / MANIFEST)


def _write(path: Path, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
