"""What identifies the content of files, whatever their names and places: of Parquet, digests of footers and row groups.

A footer contains the schema, and the sizes, offsets and statistics of all row groups, so that a copy of a file has the
same footer, and hardly another file has it. A row group that was copied into another file has other offsets there, so
its own digest leaves them out. All of this is read with the footer; no rows are read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from pipelines.source.footer import ColumnChunk, RowGroup, read_row_groups

_DIGEST_BYTES = 32
_FORMAT = 1


@dataclass(frozen=True)
class RowGroupContent:
    """What identifies the content of a row group. SENSITIVE.

    rows: Number of its rows.
    digest: Hash of its columns' names, types, sizes and statistics, 32 bytes.
    """

    rows: int = field(repr=False)
    digest: bytes = field(repr=False)


@dataclass(frozen=True)
class FileContent:
    """What identifies the content of a Parquet file, or of a frame. SENSITIVE: without a key, digests can be guessed.

    file: Path or URL of the file; the frame in words.
    rows: Number of its rows.
    footer: Hash of the size and the footer of the file, 32 bytes; of all rows of a frame.
    row_groups: The row groups with rows and statistics. Without statistics, all row groups with equally many rows may
        have the same sizes, so that nothing identifies their content.
    keyed_footer: The hash of size and footer under a dataset's key, 32 bytes, and of what decides about the rows beside
        the file, such as rows that a table has deleted.
    is_file: Whether it is a file. A frame has one row group, of all its rows.
    """

    file: str
    rows: int = field(repr=False)
    footer: bytes = field(repr=False)
    row_groups: tuple[RowGroupContent, ...] = field(repr=False)
    keyed_footer: bytes = field(default=b"", repr=False)
    is_file: bool = True

    @property
    def digests(self) -> tuple[bytes, ...]:
        """Every digest that identifies content of the file; none if the file has no rows or no statistics."""
        groups = tuple(group.digest for group in self.row_groups)
        return (self.footer, *groups) if groups else ()


def content_of(
    file: str, size: int, footer: bytes, rows: int, key: bytes = b"", facts_outside: bytes = b""
) -> FileContent:
    """What identifies the content of a file.

    file: Path or URL of the file.
    size: Size of the file in bytes.
    footer: The footer as it is in the file.
    rows: Number of its rows.
    key: Key of ``keyed_footer``, at most 64 bytes.
    facts_outside: What decides about the rows and is not in the file: ``DataFile.facts_outside``.

    Raises: FooterError for a footer that contradicts itself.
    """
    keyed = keyed_footer(size, footer, key, facts_outside)  # SENSITIVE
    groups = read_row_groups(footer)  # SENSITIVE
    known = tuple(content for group in groups if (content := _row_group_content(group)) is not None)
    return FileContent(file, rows, _digest(b"file", _sized(size, footer)), known, keyed)


def whole_file_content(
    file: str, size: int, digest: bytes, rows: int, key: bytes = b"", facts_outside: bytes = b""
) -> FileContent:
    """What identifies the content of a file that is hashed as a whole, because its format has no footer.

    file: Path or URL of the file.
    size: Size of the file in bytes.
    digest: Hash of all bytes, 32 bytes.
    rows: About the number of its rows; only files of many rows are recognised.
    key: Key of ``keyed_footer``, at most 64 bytes.
    facts_outside: As for ``content_of``.
    """
    known = _digest(b"bytes", _sized(size, digest))  # SENSITIVE
    groups = (RowGroupContent(rows, known),) if size else ()
    return FileContent(file, rows, known, groups, keyed_footer(size, digest, key, facts_outside))


def fingerprint(contents: Sequence[FileContent], key: bytes) -> str:
    """Keyed BLAKE2b hash of the sizes and footers of all files. SENSITIVE: for the ledger only.

    The names of the files do not matter. Footers contain row counts, offsets and column statistics, so changed data
    change the hash unless they leave all of these unchanged.

    contents: The contents of all files, read with the same key.
    key: 1 to 64 secret bytes.
    """
    return fingerprint_of([content.keyed_footer for content in contents], key)


def fingerprint_of(keyed_footers: Sequence[bytes], key: bytes) -> str:
    """``fingerprint``, from the keyed footers of all files alone. SENSITIVE."""
    digests = sorted(keyed_footers)  # SENSITIVE
    return hashlib.blake2b(b"".join(digests), key=key, digest_size=_DIGEST_BYTES).hexdigest()


def keyed_footer(size: int, footer: bytes, key: bytes, facts_outside: bytes = b"") -> bytes:
    """``FileContent.keyed_footer``, from the arguments of ``content_of``. SENSITIVE."""
    return hashlib.blake2b(_sized(size, footer) + facts_outside, key=key, digest_size=_DIGEST_BYTES).digest()


def _sized(size: int, footer: bytes) -> bytes:
    return size.to_bytes(8, "little") + footer


def _row_group_content(group: RowGroup) -> RowGroupContent | None:
    """The content of a row group; None for a row group without rows, or in which no column has statistics."""
    if group.rows == 0 or all(column.statistics is None for column in group.columns):
        return None
    # The order of the columns is left out, because it says nothing about the data. Two columns may have one name.
    facts = [_FORMAT, group.rows, *sorted(map(_facts, group.columns))]
    return RowGroupContent(group.rows, _digest(b"row group", json.dumps(facts).encode()))


def _facts(column: ColumnChunk) -> list[object]:
    """A column as JSON. The ledger holds digests of this text, so it must not change without another ``_FORMAT``."""
    low, high, nulls = column.statistics or (None, None, None)
    path = [part.hex() for part in column.path]
    # An empty list comes first where there are no statistics, so that two columns can always be compared.
    known = [] if low is None or high is None else [low.hex(), high.hex(), -1 if nulls is None else nulls]
    return [path, column.kind, *column.sizes, known]


def _digest(purpose: bytes, content: bytes) -> bytes:
    return hashlib.blake2b(content, person=purpose, digest_size=_DIGEST_BYTES).digest()
