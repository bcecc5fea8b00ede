"""One file of a dataset, with everything about its rows that is not in the file itself."""

from __future__ import annotations

import hashlib
import json
import zlib
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pipelines.source.file_format import PLAIN_CSV, CsvOptions, FileFormat, reading_facts


@dataclass(frozen=True)
class DataFile:
    """A file, and what its folder, its table or the config says about its rows.

    path: Local path or URL.
    constants: Columns that are not in the file and have one value in all of its rows, each with the value as text, or
        None for null. They come from names of folders such as ``region=north``, or from the log of a table.
    stored_as: Columns that have another name in the file, each with that name, because the table has renamed them.
    absent: Columns that the table got after the file was written. They are null in all rows.
    deleted: The rows that the table has deleted, as compressed bits; empty if there are none. SENSITIVE.
    format: Format of the file; files of tables are Parquet.
    csv: How a CSV file is written.
    """

    path: str
    constants: tuple[tuple[str, str | None], ...] = ()
    stored_as: tuple[tuple[str, str], ...] = ()
    absent: tuple[str, ...] = ()
    deleted: bytes = field(default=b"", repr=False)
    format: FileFormat = FileFormat.PARQUET
    csv: CsvOptions = PLAIN_CSV

    def stored_name(self, column: str) -> str:
        """The name of a column in the file."""
        return dict(self.stored_as).get(column, column)

    def stored(self, column: str) -> bool:
        """Whether the file holds the column."""
        return column not in self.absent and column not in dict(self.constants)

    def live_rows(self) -> NDArray[np.bool_] | None:
        """Which rows of the file the table has not deleted, bool [rows]; None if it has deleted none. SENSITIVE."""
        if not self.deleted:
            return None
        count = int.from_bytes(self.deleted[:8], "little")
        bits = np.frombuffer(zlib.decompress(self.deleted[8:]), dtype=np.uint8)
        return np.unpackbits(bits, count=count).view(np.bool_)

    @property
    def facts_outside(self) -> bytes:
        """What decides about the rows and is not in the file: empty for a file that says everything. SENSITIVE."""
        reading = "" if self.format is FileFormat.PARQUET else reading_facts(self.format, self.csv)
        if not (self.constants or self.stored_as or self.absent or self.deleted):
            return reading.encode()
        deleted = hashlib.sha256(self.deleted).hexdigest() if self.deleted else ""
        facts = [sorted(self.constants), sorted(self.stored_as), sorted(self.absent), deleted]
        return (json.dumps(facts) + reading).encode()


def packed_deletions(live: NDArray[np.bool_]) -> bytes:
    """``DataFile.deleted`` for the rows that are still there. SENSITIVE.

    live: bool [rows], False for deleted rows.
    """
    if live.all():
        return b""
    return live.size.to_bytes(8, "little") + zlib.compress(np.packbits(live).tobytes(), 1)
