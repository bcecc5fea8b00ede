"""Who may open the files that Marquee keeps: their owner, and a group only where its folder says so.

A folder is shared with its group if it has the setgid bit and the group may write to it (``chmod g+rws``). Nobody sets
both by accident, and what is created in such a folder belongs to its group.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from dpcore.errors import ConfigError
from jobs import log

_SHARED = stat.S_ISGID | stat.S_IWGRP
_SQLITE_FILES = ("", "-journal", "-wal", "-shm")  # All of them may hold pages of the database.
_warned: set[str] = set()


def is_shared(folder: Path) -> bool:
    """Whether a folder is shared with its group."""
    return folder.stat().st_mode & _SHARED == _SHARED


def make_private_folder(folder: Path) -> None:
    """Creates a folder that only its owner may open, unless the folder above is shared, and leaves an existing one.

    folder: The new folder, in an existing folder.
    """
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        if not folder.is_dir():
            raise
        return
    if is_shared(folder.parent):
        folder.chmod(0o770 | stat.S_ISGID)


def private_opener(path: str, flags: int) -> int:
    """An opener for ``open``: only its owner may open a file that it creates, unless the folder is shared."""
    handle = os.open(path, flags, 0o600)
    if is_shared(Path(path).parent) and os.fstat(handle).st_uid == os.geteuid():
        os.fchmod(handle, 0o660)
    return handle


def protect_ledger(file: Path) -> None:
    """Takes a SQLite file, and the files that SQLite keeps beside it, away from all users but its owner.

    In a shared folder, the group keeps its permissions. A file of another user cannot be changed: a warning says so
    once if everybody may read it.

    file: The database.

    Raises: ConfigError when the files cannot be protected and everybody may write to them.
    """
    database = Path(os.path.realpath(file))
    allowed = 0o770 if is_shared(database.parent) else 0o700
    for suffix in _SQLITE_FILES:
        _protect(database.with_name(database.name + suffix), allowed)


def _protect(file: Path, allowed: int) -> None:
    try:
        found = file.stat()
    except OSError:  # There is no such file, or SQLite will say why it cannot be opened.
        return
    mode = stat.S_IMODE(found.st_mode)
    if not mode & 0o077 & ~allowed:
        return
    refusal = _tightened(file, mode & allowed) if found.st_uid == os.geteuid() else errno.EPERM
    if not refusal:
        log.warning(
            f"ledger {file} could be opened by other users (mode {mode:04o}) although it holds secrets; it now has "
            f"mode {mode & allowed:04o}; deploy/RUNBOOK.md says how a group can share it"
        )
    elif mode & stat.S_IWOTH:
        raise ConfigError(
            f"ledger {file} can be changed by every user of this machine (mode {mode:04o}), and its permissions by its "
            f"owner only; want mode 0600: chmod 600 {file}"
        )
    elif (mode & stat.S_IROTH or found.st_uid == os.geteuid()) and str(file) not in _warned:
        _warned.add(str(file))
        log.warning(
            f"ledger {file} can be read by other users (mode {mode:04o}) although it holds secrets, and its "
            f"permissions cannot be changed ({os.strerror(refusal)}); want mode 0600"
        )


def _tightened(file: Path, mode: int) -> int:
    """Sets a mode; 0 or the error number of the system. Some file systems ignore modes without an error."""
    try:
        file.chmod(mode)
    except OSError as error:
        return error.errno or errno.EPERM
    return 0 if stat.S_IMODE(file.stat().st_mode) == mode else errno.ENOTSUP
