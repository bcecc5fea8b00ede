"""Allows only one run of a release at a time, because two runs would draw noise twice."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from dpcore.errors import ConfigError, LedgerUnavailableError
from jobs.permissions import make_private_folder, private_opener
from jobs.release.journal_file import sync_folder
from jobs.release.publish import LOCK


@contextmanager
def only_run(folder: Path) -> Iterator[None]:
    """Holds the lock of a release's state folder. The operating system releases the lock when the process ends.

    folder: The state folder, which is created if it is missing. Only its owner may open it, unless an operator shares
        the folder above (``jobs/permissions.py``).

    Raises: LedgerUnavailableError when another process holds the lock; ConfigError when the folder cannot be created,
        or its file system does not support locks.
    """
    _make_durable(folder)
    with _opened(folder / LOCK) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LedgerUnavailableError("another process runs this release; try again after it has ended") from error
        except OSError as error:
            raise ConfigError(f"{folder} cannot be locked ({error.strerror}); want a file system with locks") from error
        yield


def _opened(path: Path) -> BinaryIO:
    try:
        return open(path, "wb", opener=private_opener)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be opened ({error.strerror}); want the user who began this release, or a state folder that "
            "a group shares (deploy/RUNBOOK.md)"
        ) from error


def _make_durable(folder: Path) -> None:
    """Creates the folder and syncs all folders above it, because the journal is only as durable as their names.

    A folder above may be new: this process created it, or another process that died before it synced.
    """
    try:
        folder.parent.parent.mkdir(parents=True, exist_ok=True)
        make_private_folder(folder.parent)
        make_private_folder(folder)
        for above in (folder.parent, folder.parent.parent):
            sync_folder(above)
    except OSError as error:
        raise ConfigError(
            f"{folder} cannot be created ({error.strerror}); want a writable output folder; if other users publish "
            "there too, share it with their group (deploy/RUNBOOK.md)"
        ) from error
    for above in folder.parent.parent.parents:
        with suppress(OSError):  # A folder that this process may not read was not created by a run.
            sync_folder(above)
