"""The folder of a store: who may open it, and files that are written whole or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple
from uuid import uuid4

from dpcore.errors import ConfigError

_SUFFIX: Final = ".entry"
_UNFINISHED: Final = ".part"
_DAY: Final = 86_400.0


class EntryFile(NamedTuple):
    """A file of the store. SENSITIVE.

    path: The file.
    size: Its size in bytes.
    used: When it was written or used last, in seconds since 1970.
    """

    path: Path
    size: int
    used: float


def open_folder(folder: Path) -> None:
    """Makes the folder, which only its owner may open, unless it exists.

    Raises: ConfigError when it cannot be made, is no folder of this user, or others may open it.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"the statistics store {folder} cannot be made ({error.strerror}); want a folder on this machine"
        ) from error
    check_private(folder)


def check_private(folder: Path) -> None:
    """Checks that a folder belongs to this user, and that no other user may open it.

    Raises: ConfigError with the command that mends it.
    """
    try:
        status = os.lstat(folder)
    except OSError as error:
        raise ConfigError(
            f"the statistics store {folder} cannot be opened ({error.strerror}); want an existing folder"
        ) from error
    if not stat.S_ISDIR(status.st_mode):
        raise ConfigError(f"the statistics store {folder} is no folder; want a folder, and no link to one")
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o077 or status.st_uid != os.geteuid():
        raise ConfigError(
            f"the statistics store {folder} may be opened by other users (mode {mode:04o}), and holds exact "
            "statistics; want a folder of your own with mode 0700: chmod 700"
        )


def path_of(folder: Path, name: str) -> Path:
    """The file of an entry: one of 256 folders holds it, so that none has too many files."""
    return folder / name[:2] / f"{name}{_SUFFIX}"


def read(path: Path) -> bytes | None:
    """The content of an entry, which counts as used now; None if there is no entry. SENSITIVE."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        with open(handle, "rb") as file:
            content = file.read()
    except OSError:
        return None
    with suppress(OSError):  # Another run may have removed it, and its content is known by now.
        os.utime(path)
    return content


def write(path: Path, content: bytes) -> None:
    """Writes an entry under another name first, so that no run ever reads a part of it.

    Raises: OSError when it cannot be written. Nothing is left behind then.
    """
    path.parent.mkdir(mode=0o700, exist_ok=True)
    unfinished = path.with_name(f"{uuid4().hex}{_UNFINISHED}")
    try:
        handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(handle, "wb") as file:
            file.write(content)
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def entries(folder: Path) -> Iterator[EntryFile]:
    """All entries, in any order. SENSITIVE: their number and sizes follow from the data."""
    yield from _files(folder, _SUFFIX)


def remove(files: Iterator[EntryFile] | list[EntryFile]) -> tuple[int, int]:
    """Removes files that may be gone already; returns how many it has removed, and their bytes. SENSITIVE."""
    count = size = 0
    for file in files:
        with suppress(FileNotFoundError):
            file.path.unlink()
            count, size = count + 1, size + file.size
    return count, size


def unfinished(folder: Path, now: float) -> Iterator[EntryFile]:
    """What killed runs have left behind: unfinished files of the day before, or older."""
    return (file for file in _files(folder, _UNFINISHED) if file.used < now - _DAY)


def _files(folder: Path, suffix: str) -> Iterator[EntryFile]:
    for path in folder.glob(f"[0-9a-f][0-9a-f]/*{suffix}"):
        with suppress(FileNotFoundError):
            status = os.lstat(path)
            yield EntryFile(path, status.st_size, status.st_mtime)
