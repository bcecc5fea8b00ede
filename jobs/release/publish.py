"""Publishes a release whole or not at all: its files are staged, listed in a manifest, and moved with one rename."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from dpcore.errors import ConfigError, IntegrityError
from jobs.release.journal import sync_folder
from jobs.version import VERSION

MANIFEST = "manifest.json"
SUCCESS = "_SUCCESS"
STATE_FOLDER = ".marquee"
_CHUNK = 1 << 20


class PublicationState(Enum):
    """How much of a release an output folder holds.

    ABSENT: Nothing.
    RENAMED: Every file except _SUCCESS.
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
    if not output.exists() or (output.is_dir() and not any(output.iterdir())):
        if output.is_symlink() or os.path.ismount(output):
            raise ConfigError(
                f"output {output} is a link or a mount point; want an ordinary folder, which a rename can replace"
            )
        return PublicationState.ABSENT
    holder = _holder(output)
    if holder is None:
        raise ConfigError(f"output {output} holds files that are not of a release; want a new or an empty folder")
    if holder != release_id:
        raise ConfigError(f"output {output} holds release {holder[:12]}; want another folder for {release_id[:12]}")
    return PublicationState.DONE if (output / SUCCESS).exists() else PublicationState.RENAMED


def fresh_staging(folder: Path) -> Path:
    """Creates an empty staging folder in a release's state folder."""
    staging = folder / "staging"
    if staging.exists():
        shutil.rmtree(staging)
    staging.mkdir(parents=True)
    return staging


def publish(staging: Path, output: Path, release_id: str) -> None:
    """Makes everything in ``staging`` durable, moves it to ``output`` in one step, and marks it as complete.

    A crash leaves either no output, or an output without _SUCCESS, which ``finish`` completes.

    staging: Folder of the finished files.
    output: Folder of the release, absent or empty.
    release_id: SHA-256 of the release's public facts.
    """
    files = _files(staging)
    for path in files:
        _sync(path)
    content = {
        "release_id": release_id,
        "marquee": VERSION,
        "files": [
            {"path": path.relative_to(staging).as_posix(), "bytes": path.stat().st_size, "sha256": _sha256(path)}
            for path in files
        ],
    }
    _write(staging / MANIFEST, json.dumps(content, indent=2) + "\n")
    for folder in sorted({path.parent for path in files} | {staging}):
        sync_folder(folder)
    output.parent.mkdir(parents=True, exist_ok=True)
    os.rename(staging, output)
    finish(output)


def finish(output: Path) -> None:
    """Makes the rename durable, which a process that died may not have done, and marks the folder as complete."""
    sync_folder(output.parent)
    _write(output / SUCCESS, "")
    sync_folder(output)


def manifest_sha256(output: Path) -> str:
    """SHA-256 of the manifest of a published folder, as 64 hexadecimal digits."""
    return _sha256(output / MANIFEST)


def verify(output: Path) -> None:
    """Checks that a published folder holds exactly the files that its manifest names.

    Raises: IntegrityError that names the first file that is missing, changed or unknown.
    """
    entries = _entries(output)
    for entry in entries:
        path = output / entry.path
        if not path.is_file() or path.stat().st_size != entry.size or _sha256(path) != entry.sha256:
            raise IntegrityError(f"{path} is missing or differs from the published file; restore it")
    named_files = {output / name for name in (MANIFEST, SUCCESS, *(entry.path for entry in entries))}
    for path in sorted(output.rglob("*")):
        if path not in named_files and (path.is_symlink() or not path.is_dir()):
            raise IntegrityError(f"{path} is not listed in the manifest of the release; move it elsewhere")


@dataclass(frozen=True)
class _Entry:
    """One file in the manifest.

    path: Path relative to the folder, with slashes.
    size: Size in bytes.
    sha256: SHA-256 of the content, as hexadecimal digits.
    """

    path: str
    size: int
    sha256: str


def _entries(output: Path) -> list[_Entry]:
    """The files in the manifest. Raises IntegrityError when the manifest is missing or damaged."""
    try:
        content = json.loads((output / MANIFEST).read_text(encoding="utf-8"))
        return [_entry(file) for file in content["files"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise IntegrityError(
            f"{output / MANIFEST} is not a manifest of a release ({type(error).__name__}); restore the published file"
        ) from error


def _entry(file: dict[str, Any]) -> _Entry:
    entry = _Entry(file["path"], file["bytes"], file["sha256"])
    if (type(entry.path), type(entry.size), type(entry.sha256)) != (str, int, str):
        raise TypeError("an entry of the manifest is invalid; want path, bytes and sha256")
    return entry


def _holder(output: Path) -> str | None:
    """The release id in a folder's manifest; None without a manifest."""
    try:
        return str(json.loads((output / MANIFEST).read_text(encoding="utf-8"))["release_id"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / MANIFEST)


def _sha256(path: Path) -> str:
    content = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            content.update(chunk)
    return content.hexdigest()


def _write(path: Path, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
