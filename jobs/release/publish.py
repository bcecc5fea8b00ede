"""Publication: a release appears whole or not at all, by a staging folder, a manifest, one rename, and _SUCCESS."""

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
    RENAMED: Every file except the mark of success.
    DONE: Everything.
    """

    ABSENT = "absent"
    RENAMED = "renamed"
    DONE = "done"


def state_folder(output: Path, release_id: str) -> Path:
    """The folder of a release's journal and staging folder. It lies beside the output, so that a rename is atomic."""
    return output.parent / STATE_FOLDER / release_id


def publication_state(output: Path, release_id: str) -> PublicationState:
    """How much of this release the folder ``output`` holds.

    Raises: ConfigError when the folder holds something else, or is a link or a mount point.
    """
    if not output.exists() or (output.is_dir() and not any(output.iterdir())):
        if output.is_symlink() or os.path.ismount(output):
            raise ConfigError(
                f"output {output} is a link or a mount point; want a plain folder, which a rename can replace"
            )
        return PublicationState.ABSENT
    holder = _holder(output)
    if holder is None:
        raise ConfigError(f"output {output} holds files of something else; want a new or an empty folder")
    if holder != release_id:
        raise ConfigError(f"output {output} holds release {holder[:12]}; want another folder for {release_id[:12]}")
    return PublicationState.DONE if (output / SUCCESS).exists() else PublicationState.RENAMED


def fresh_staging(folder: Path) -> Path:
    """An empty staging folder within a release's state folder."""
    staging = folder / "staging"
    if staging.exists():
        shutil.rmtree(staging)
    staging.mkdir(parents=True)
    return staging


def publish(staging: Path, output: Path, release_id: str) -> None:
    """Makes everything in ``staging`` durable, moves it to ``output`` in one step, and marks it as complete.

    A crash leaves either no output, or an output without _SUCCESS, which ``finish`` completes.
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
    """Marks a renamed folder as complete, after making the rename durable: its process may have died before that."""
    sync_folder(output.parent)
    _write(output / SUCCESS, "")
    sync_folder(output)


def verify(output: Path) -> None:
    """Checks that a published folder holds exactly the files that its manifest names.

    Raises: IntegrityError that names the first file that is missing, changed or unknown.
    """
    entries = _entries(output)
    for entry in entries:
        path = output / entry.path
        if not path.is_file() or path.stat().st_size != entry.size or _sha256(path) != entry.sha256:
            raise IntegrityError(f"{path} is not the file that was published; want the bytes its manifest names")
    named_files = {output / name for name in (MANIFEST, SUCCESS, *(entry.path for entry in entries))}
    for path in sorted(output.rglob("*")):
        if path not in named_files and (path.is_symlink() or not path.is_dir()):
            raise IntegrityError(f"{path} is no file of the release; want only what its manifest names, move it away")


@dataclass(frozen=True)
class _Entry:
    """A published file, as the manifest names it.

    path: Path relative to the folder, with slashes.
    size: Size in bytes.
    sha256: Hash of its content, as hexadecimal digits.
    """

    path: str
    size: int
    sha256: str


def _entries(output: Path) -> list[_Entry]:
    """The files that a manifest names. Raises IntegrityError when it is not a manifest as ``publish`` writes it."""
    try:
        content = json.loads((output / MANIFEST).read_text(encoding="utf-8"))
        return [_entry(file) for file in content["files"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise IntegrityError(
            f"{output / MANIFEST} does not name the files of a release ({type(error).__name__}); want the one that was "
            "published"
        ) from error


def _entry(file: dict[str, Any]) -> _Entry:
    entry = _Entry(file["path"], file["bytes"], file["sha256"])
    if (type(entry.path), type(entry.size), type(entry.sha256)) != (str, int, str):
        raise TypeError("an entry of a manifest; want path, bytes and sha256")
    return entry


def _holder(output: Path) -> str | None:
    """The release id that a folder's manifest names; None where there is no manifest."""
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
