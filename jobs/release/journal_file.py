"""The lines of a journal in a local file, each on disk before it is used."""

from __future__ import annotations

import os
from pathlib import Path
from typing import final

from dpcore.errors import ConfigError
from jobs.permissions import private_opener


@final
class JournalFile:
    """A file of lines. An incomplete last line, which a crash may leave, is overwritten by the next line.

    path: The file, which is created with the first line.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._valid_bytes = 0

    def __str__(self) -> str:
        return str(self.path)

    def read(self) -> list[bytes]:
        """The complete lines, which are on disk (fsync) when this returns.

        Raises: ConfigError when the file may not be read.
        """
        try:
            with open(self.path, "rb") as file:
                os.fsync(file.fileno())  # A process that was killed may have written lines without syncing them.
                lines = file.readlines()
        except FileNotFoundError:
            return []
        except PermissionError as error:
            raise ConfigError(
                f"{self.path} may not be read; want the user who began this release, or a state folder that a group "
                "shares (deploy/RUNBOOK.md)"
            ) from error
        # A crash may leave a prefix of the line, or blocks of zeros where data never arrived.
        if lines and (not lines[-1].endswith(b"\n") or b"\0" in lines[-1]):
            lines.pop()
        self._valid_bytes = sum(map(len, lines))
        return lines

    def append(self, index: int, line: bytes) -> None:
        """Stores a line after the complete ones (fsync). The lock of the release keeps other runs away."""
        with open(self.path, "r+b" if self.path.exists() else "xb", opener=private_opener) as file:
            file.truncate(self._valid_bytes)
            file.seek(self._valid_bytes)
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        if not self._valid_bytes:  # The process that created the file may have died before the file's name was durable.
            sync_folder(self.path.parent)
        self._valid_bytes += len(line)


def sync_folder(folder: Path) -> None:
    """Makes the names of the files in a folder durable (fsync)."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
