"""Looks for strings and exact counts of a dataset in everything that a run writes, in every plausible spelling."""

from __future__ import annotations

import base64
import binascii
import io
import json
import os
import re
import sqlite3
import struct
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dpcore.measurement import GRID_BITS
from tests.support.postgres import Server

# Secrets of the ledger by design: a keyed fingerprint, its key, and the salt of the row bound.
SECRET_COLUMNS = frozenset({"salt", "fingerprint_key", "fingerprint"})
_BASE64 = re.compile(rb"[A-Za-z0-9+/]{10,}={0,2}")


@dataclass(frozen=True)
class Canaries:
    """What must not be found. texts: Strings of the data. counts: Exact counts, each of five digits or more."""

    texts: tuple[str, ...]
    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        if min(self.counts) < 10_000:
            raise ValueError("a count below 10,000 is found by chance; want larger ones")

    def found(self, content: bytes) -> set[str]:
        """The canaries in these bytes, as text or as machine numbers, also inside of base64."""
        inner = b"".join(_decoded_base64(content))
        spelled = {match.group().decode() for match in self._spelled.finditer(content)}
        hits = {self._meaning[_normal(text)] for text in spelled}
        hits |= {name for name, pattern in self._packed if pattern in content or pattern in inner}
        return hits | {text for text in self.texts if text.encode() in content or text.encode("utf-16-le") in content}

    @cached_property
    def _meaning(self) -> dict[str, str]:
        return {_normal(text): f"{count:,}" for count in self.counts for text in spellings(count)}

    @cached_property
    def _spelled(self) -> re.Pattern[bytes]:
        every = sorted({text for count in self.counts for text in spellings(count)}, key=len, reverse=True)
        words = "|".join(re.escape(text) for text in every)
        # Not inside of a longer number, a digest, or the fraction of a noisy answer.
        return re.compile(rf"(?<![0-9A-Fa-f.])(?:{words})(?![0-9A-Fa-f]|[.,]\d*[1-9])".encode(), re.IGNORECASE)

    @cached_property
    def _packed(self) -> list[tuple[str, bytes]]:
        return [(f"{count:,}", struct.pack(kind, count)) for count in self.counts for kind in ("<q", ">q", "<d", ">d")]


def spellings(count: int) -> list[str]:
    """How programs print an exact count."""
    grouped = [f"{count:,}".replace(",", mark) for mark in (",", "_", " ", "'", "\u202f")]
    mantissa = f"{count:e}".split("e")[0].rstrip("0")
    powers = [f"{mantissa}e{sign}{zero}{len(str(count)) - 1}" for sign, zero in (("", ""), ("+", "0"), ("+", ""))]
    return [str(count), *grouped, *powers, f"{count:e}", hex(count), float(count).hex()]


def _normal(text: str) -> str:
    return text.lower()


def _decoded_base64(content: bytes) -> Iterator[bytes]:
    for match in _BASE64.finditer(content):
        word = match.group().rstrip(b"=")
        try:
            yield base64.b64decode(word + b"=" * (-len(word) % 4))
        except binascii.Error:
            continue


def written(folder: Path, leave_out: frozenset[str] = frozenset()) -> dict[str, bytes]:
    """Every file under a folder as it is, and once more with its values in plain text where its format packs them.

    leave_out: Names of top-level entries that are input.
    """
    places: dict[str, bytes] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if not path.is_file() or path.is_symlink() or name.parts[0] in leave_out:
            continue
        content = path.read_bytes()
        places[str(name)] = content
        if plain := _plain(path, content):
            places[f"{name}, decoded"] = plain
    return places


def _plain(path: Path, content: bytes) -> bytes:
    if path.suffix == ".parquet":
        return _parquet(content)
    if path.name == "journal.jsonl":
        return _journal(content)
    return _database(path) if path.suffix == ".db" else b""


def _parquet(content: bytes) -> bytes:
    try:
        file = pq.ParquetFile(io.BytesIO(content))
        table = file.read()
    except (pa.ArrowException, OSError):
        return b""  # Half of a file, which a killed run left.
    lines = [str(file.metadata.metadata), str(file.schema_arrow.metadata)]
    for column in table.columns:
        while pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
            column = pc.list_flatten(column)
        lines += [str(value) for value in column.unique().to_pylist()]
    return "\n".join(lines).encode()


def _journal(content: bytes) -> bytes:
    lines: list[str] = []
    for line in content.splitlines():
        try:
            entry: Mapping[str, Any] = json.loads(line)
        except ValueError:
            continue  # Half of a line.
        for value in entry.values():
            lines += _numbers(value) if isinstance(value, str) else [str(value)]
    return "\n".join(lines).encode()


def _numbers(text: str) -> list[str]:
    """Packed answers, in counts: as they are, and where they may be steps of the grid of rounded noise."""
    try:
        packed = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return []
    if len(packed) % 8:
        return []
    values = np.frombuffer(packed, dtype="<i8")
    steps = values[values % (1 << GRID_BITS) == 0] >> GRID_BITS
    return [str(value) for value in (*values.tolist(), *steps.tolist())]


def _database(path: Path) -> bytes:
    with closing(sqlite3.connect(path)) as connection:
        return _rows(connection, "SELECT name FROM sqlite_master WHERE type = 'table'")


def on_server(server: Server) -> dict[str, bytes]:
    """What a server keeps of the ledger in its own database: the rows in plain text, and its log."""
    with psycopg.connect(host=str(server.folder), dbname="postgres", user="postgres") as connection:
        rows = _rows(connection, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    return {"tables of the server": rows, "log of the server": (server.folder / "log").read_bytes()}


def _rows(connection: Any, tables: str) -> bytes:
    """All rows of a database but its secrets. tables: The query of their names."""
    lines: list[str] = []
    for (table,) in list(connection.execute(tables)):
        cursor = connection.execute(f"SELECT * FROM {table}")
        names = [entry[0] for entry in cursor.description]
        for row in cursor:
            lines += [f"{table}.{name}: {cell}" for name, cell in zip(names, row, strict=True)
                      if name not in SECRET_COLUMNS]  # fmt: skip
    return "\n".join(lines).encode()


class _Terminal(io.TextIOWrapper):
    """A stream that says it is a terminal, so that progress bars are drawn."""

    def isatty(self) -> bool:
        return True


@contextmanager
def said(into: Path, *, terminal: bool = False) -> Iterator[None]:
    """Sends what this process says to files ``stdout`` and ``stderr`` in a folder, native libraries included."""
    kept = {number: os.dup(number) for number in (1, 2)}
    streams = sys.stdout, sys.stderr
    names = {1: into / "stdout", 2: into / "stderr"}
    try:
        for number, path in names.items():
            handle = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
            os.dup2(handle, number)
            os.close(handle)
        sys.stdout, sys.stderr = (_stream(number, terminal) for number in (1, 2))
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        sys.stdout, sys.stderr = streams
        for number, handle in kept.items():
            os.dup2(handle, number)
            os.close(handle)


def _stream(number: int, terminal: bool) -> TextIO:
    raw = open(number, "wb", buffering=0, closefd=False)  # noqa: SIM115 - closed with the process
    return (_Terminal if terminal else io.TextIOWrapper)(raw, encoding="utf-8", write_through=True)
