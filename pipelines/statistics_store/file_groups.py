"""Groups of the files of a source: which are counted together, and what identifies a file. SENSITIVE."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial

from pipelines.source import DataFile, Source
from pipelines.source.footers import keyed_footer_now, readers_for
from pipelines.source.versions import FileVersion, version_of
from pipelines.statistics_store.counting import Piece
from pipelines.statistics_store.digests import digest_of
from pipelines.statistics_store.unit_digests import NO_UNITS, Digests

_SECOND = 1_000_000_000


class GroupBy(StrEnum):
    """What one group of files is.

    FILE: A file. A changed file is read again, and nothing else.
    FOLDER: All files in a folder, such as a day. It takes fewer entries, and a folder with a changed file is read
        again as a whole.
    """

    FILE = "file"
    FOLDER = "folder"


@dataclass(frozen=True)
class KnownFile:
    """A file of a source as it was when the source was opened. SENSITIVE.

    file: The file.
    version: Its version; None for a store that says nothing about versions.
    key: What identifies its content: its path, version and footer, and what is known about its rows beside it.
    settled: Whether a later change would give it another version.
    """

    file: DataFile
    version: FileVersion | None
    key: bytes = field(repr=False)
    settled: bool

    @property
    def keepable(self) -> bool:
        """Whether statistics of the file may be kept."""
        return self.version is not None and self.settled


@dataclass(frozen=True)
class FileGroup:
    """Files that are counted together.

    numbers: Their numbers in the source.
    """

    numbers: tuple[int, ...]


def known_files(source: Source, now_ns: int, quiet_seconds: float) -> tuple[KnownFile, ...]:
    """What identifies the content of each file that decides what is counted. Footers are read, and no rows. SENSITIVE.

    now_ns: The time, in nanoseconds since 1970.
    quiet_seconds: A file that was changed in the last seconds may be changed again without another version.

    Raises: InputError for a file that cannot be read; EngineError when its store cannot be reached.
    """
    with ThreadPoolExecutor(readers_for(source.files)) as pool:
        return tuple(pool.map(partial(_known_file, latest=now_ns - int(quiet_seconds * _SECOND)), source.needed_files))


def groups_of(files: tuple[KnownFile, ...], by: GroupBy) -> tuple[FileGroup, ...]:
    """The groups, each file in one of them, in the order of their first files."""
    folders: dict[str, list[int]] = {}
    for number, known in enumerate(files):
        path = known.file.path
        folders.setdefault(path if by is GroupBy.FILE else path.rpartition("/")[0], []).append(number)
    return tuple(FileGroup(tuple(numbers)) for numbers in folders.values())


def piece_of(group: FileGroup, files: tuple[KnownFile, ...], dropped: dict[int, Digests]) -> Piece:
    """A group as a worker gets it.

    files: All files of the source.
    dropped: The units that are left out, by the number of the file; none for other files.
    """
    chosen = [files[number] for number in group.numbers]
    return Piece(
        tuple(known.file for known in chosen),
        tuple(known.version for known in chosen),
        tuple(dropped.get(number, NO_UNITS) for number in group.numbers),
    )


def view_digest(source: Source) -> bytes:
    """What all statistics of a source depend on besides its files: the layout with its filter, and the salt."""
    return digest_of((replace(source, files=()), "view"))


def _known_file(file: DataFile, latest: int) -> KnownFile:
    version = version_of(file.path)
    footer = keyed_footer_now(file, b"")
    facts = [file.path, list(version.facts) if version else [], footer.hex()]
    settled = version is not None and (version.changed_ns is None or version.changed_ns < latest)
    return KnownFile(file, version, json.dumps(facts).encode(), settled)
