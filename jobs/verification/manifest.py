"""manifest.json: the files of a release with their sizes and hashes, and whether a folder holds exactly these."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpcore.errors import IntegrityError
from jobs.objects.folder import StoredFolder
from jobs.objects.output import Output, read_file

MANIFEST = "manifest.json"
SIGNATURE = "manifest.sig"
SUCCESS = "_SUCCESS"
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Entry:
    """One file in the manifest.

    path: Path relative to the folder, with slashes.
    size: Size in bytes.
    sha256: SHA-256 of the content, as hexadecimal digits.
    """

    path: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """The content of a manifest.

    release_id: SHA-256 of the release's public facts.
    version: Version of the code that published the release.
    entries: The files.
    """

    release_id: str
    version: str
    entries: tuple[Entry, ...]


def read_manifest(output: Output) -> Manifest:
    """Reads the manifest of a folder. Raises IntegrityError when it is missing or damaged."""
    try:
        content = json.loads((read_file(output, MANIFEST) or b"").decode())
        entries = tuple(_entry(file) for file in content["files"])
        manifest = Manifest(content["release_id"], content["marquee"], entries)
        if (type(manifest.release_id), type(manifest.version)) != (str, str):
            raise TypeError("the release id or the version of the manifest is no text")
        return manifest
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise IntegrityError(
            f"{output}/{MANIFEST} is not a manifest of a release ({type(error).__name__}); restore the published file"
        ) from error


def file_problems(output: Output) -> Iterator[str]:
    """Yields one sentence for each file of a folder that is missing, changed, or unknown to the manifest.

    Symbolic links are never followed: a published folder contains ordinary files only. The objects of a stored folder
    are read once and not kept.

    Raises: IntegrityError when the manifest is missing or damaged.
    """
    entries = read_manifest(output).entries
    if isinstance(output, StoredFolder):
        yield from _object_problems(output, entries)
        return
    regular, others = _contents(output)
    yield from _changed_files(output, entries, regular)
    named_files = {MANIFEST, SIGNATURE, SUCCESS, *(entry.path for entry in entries)}
    for name in sorted((regular | others) - named_files):
        yield f"{output / name} is not listed in the manifest of the release; move it elsewhere"
    for name in sorted(others & {MANIFEST, SIGNATURE, SUCCESS}):
        yield f"{output / name} is no ordinary file; restore the published file"
    if SUCCESS in regular and (output / SUCCESS).stat().st_size:
        yield f"{output / SUCCESS} is not empty; restore the published file"


def problems_of(output: Output, names: Collection[str]) -> Iterator[str]:
    """Yields one sentence for each of some files that is missing or changed. Other files may be missing.

    names: Files of the release. Those that the manifest does not name were never part of it, and are skipped.

    Raises: IntegrityError when the manifest is missing or damaged.
    """
    entries = tuple(entry for entry in read_manifest(output).entries if entry.path in names)
    if isinstance(output, StoredFolder):
        yield from _changed_objects(output, entries, output.sizes())
        return
    yield from _changed_files(output, entries, _contents(output)[0])


def _changed_files(output: Path, entries: tuple[Entry, ...], regular: set[str]) -> Iterator[str]:
    for entry in entries:
        path = output / entry.path
        known = entry.path in regular
        if not known or path.stat().st_size != entry.size or sha256_of(path) != entry.sha256:
            yield f"{path} is missing or differs from the published file; restore it"


def _changed_objects(folder: StoredFolder, entries: tuple[Entry, ...], sizes: Mapping[str, int]) -> Iterator[str]:
    for entry in entries:
        if sizes.get(entry.path) != entry.size or folder.sha256(entry.path) != entry.sha256:
            yield f"{folder}/{entry.path} is missing or differs from the published file; restore it"


def _object_problems(folder: StoredFolder, entries: tuple[Entry, ...]) -> Iterator[str]:
    sizes = folder.sizes()
    yield from _changed_objects(folder, entries, sizes)
    for name in sorted(sizes.keys() - {MANIFEST, SIGNATURE, SUCCESS, *(entry.path for entry in entries)}):
        yield f"{folder}/{name} is not listed in the manifest of the release; move it elsewhere"
    if sizes.get(SUCCESS):
        yield f"{folder}/{SUCCESS} is not empty; restore the published file"


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, as 64 hexadecimal digits."""
    content = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            content.update(chunk)
    return content.hexdigest()


def _contents(output: Path) -> tuple[set[str], set[str]]:
    """The ordinary files in a folder, and everything that is neither an ordinary file nor a folder, by their paths."""
    regular: set[str] = set()
    others: set[str] = set()
    for folder, folders, files in os.walk(output, followlinks=False):
        for name in folders + files:
            path = Path(folder, name)
            mode = path.lstat().st_mode
            if not stat.S_ISDIR(mode):
                (regular if stat.S_ISREG(mode) else others).add(path.relative_to(output).as_posix())
    return regular, others


def _entry(file: dict[str, Any]) -> Entry:
    entry = Entry(file["path"], file["bytes"], file["sha256"])
    if (type(entry.path), type(entry.size), type(entry.sha256)) != (str, int, str):
        raise TypeError("an entry of the manifest is invalid; want path, bytes and sha256")
    return entry
