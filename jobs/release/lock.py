"""One run of a release at a time, because two runs would draw noise twice."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dpcore.errors import ConfigError, LedgerUnavailableError
from jobs.release.journal import sync_folder


@contextmanager
def only_run(folder: Path) -> Iterator[None]:
    """Holds the lock file of a release's state folder; the operating system frees it when the process ends.

    Raises: LedgerUnavailableError while another process holds the lock; ConfigError when the folder cannot be made or
        its file system has no locks.
    """
    _make_durable(folder)
    with open(folder / "lock", "wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LedgerUnavailableError("another process runs this release; try again when it has ended") from error
        except OSError as error:
            raise ConfigError(f"{folder} cannot be locked ({error.strerror}); want a file system with locks") from error
        yield


def _make_durable(folder: Path) -> None:
    """Makes the folder and syncs all folders above it, because the journal is only as durable as their names.

    A folder above may be new, made by this process or by one that died before it synced.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for above in (folder.parent, folder.parent.parent):
            sync_folder(above)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be made ({error.strerror}); want an output that may be written") from error
    for above in folder.parent.parent.parents:
        with suppress(OSError):  # A folder that may not be read was not made by a run.
            sync_folder(above)
