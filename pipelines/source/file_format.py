"""The formats of files: which endings name them, and how text files are to be read. Public."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Final

from dpcore.errors import ConfigError


class FileFormat(StrEnum):
    """A format of files, as it is written in configs.

    Parquet, ORC and Feather (Arrow's file format) hold typed columns. CSV and JSON lines hold text, whose types follow
    from the layout.
    """

    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"
    ORC = "orc"
    FEATHER = "feather"

    @property
    def endings(self) -> tuple[str, ...]:
        """Endings of file names."""
        return _ENDINGS[self]

    @property
    def is_text(self) -> bool:
        """Whether the types of columns follow from the layout, because the files hold text."""
        return self in (FileFormat.CSV, FileFormat.JSON)


_ENDINGS = {
    FileFormat.PARQUET: (".parquet",),
    FileFormat.CSV: (".csv", ".csv.gz", ".csv.bz2", ".tsv", ".tsv.gz"),
    FileFormat.JSON: (".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz", ".json", ".json.gz"),
    FileFormat.ORC: (".orc",),
    FileFormat.FEATHER: (".feather", ".arrow"),
}


def format_of(name: str) -> FileFormat | None:
    """The format that the ending of a file's name names; None for any other ending. Settings of a URL are ignored."""
    name = name.partition("?")[0].lower()
    return next((kind for kind in FileFormat if name.endswith(kind.endings)), None)


@dataclass(frozen=True)
class CsvOptions:
    """How CSV files are written.

    delimiter: Character between two fields.
    quote: Character around fields that contain the delimiter, a quote or a line break.
    encoding: Encoding of the text, as Python names it.
    null_values: Fields without quotes that stand for null.
    column_names: Names of the columns of files without a heading; None if the first line of each file names them.

    Raises: ConfigError when a character is not one character of ASCII, or the encoding is not known.
    """

    delimiter: str = ","
    quote: str = '"'
    encoding: str = "utf-8"
    null_values: tuple[str, ...] = ("",)
    column_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for key in ("delimiter", "quote"):
            value = getattr(self, key)
            if len(value) != 1 or not value.isascii() or value in "\r\n":
                raise ConfigError(f"dataset.csv.{key} is {value!r}; want one ASCII character, such as ',' or ';'")
        if self.delimiter == self.quote:
            raise ConfigError("dataset.csv.delimiter and dataset.csv.quote are the same; want two characters")
        try:
            "".encode(self.encoding)
        except (LookupError, UnicodeError):
            raise ConfigError(f"dataset.csv.encoding is {self.encoding!r}; want utf-8 or latin-1, say") from None


PLAIN_CSV: Final = CsvOptions()
"""CSV with commas, quotes and a heading, in UTF-8; an empty field is null."""


@dataclass(frozen=True)
class FileLocation:
    """Files of one format. A ``str`` in its place is such a location with the format that the files' names tell.

    path: A file, folder, glob or URL.
    format: Format of the files; None for the one that their names tell.
    csv: How CSV files are written.
    """

    path: str
    format: FileFormat | None = None
    csv: CsvOptions = PLAIN_CSV


def reading_facts(kind: FileFormat, csv: CsvOptions) -> str:
    """What decides, beside the bytes of a file, what its rows are."""
    return json.dumps([kind.value, asdict(csv) if kind is FileFormat.CSV else None])
