"""Parquet files that other writers may have made, and files whose footer or pages are damaged."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.reliability.fuzz_mutations import LARGEST, Mutation, of_bytes

_TEXTS = ["red", "", "é", "e\u0301", "x" * 40, "sex=male", "work!=none & sex=female", "0", "3 & !7", "nan"]
_WHOLE = [0, 1, -1, 3, 127, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63)]
_REAL = [0.0, -0.0, 1.5, -1.0, 1e308, 5e-324, float("nan"), float("inf"), -float("inf")]
TYPES: tuple[tuple[pa.DataType, Sequence[Any]], ...] = (
    (pa.int8(), [0, 1, -128, 127]), (pa.int16(), [0, 1, -1]), (pa.int32(), _WHOLE[:7]), (pa.int64(), _WHOLE),
    (pa.uint8(), [0, 255]), (pa.uint32(), [0, 1, 2**32 - 1]), (pa.uint64(), [0, 5, 2**63, 2**64 - 1]),
    (pa.float16(), [0.0, 1.5]), (pa.float32(), [0.0, 2.5, float("nan")]), (pa.float64(), _REAL),
    (pa.string(), _TEXTS), (pa.large_string(), _TEXTS), (pa.string_view(), _TEXTS),
    (pa.dictionary(pa.int32(), pa.string()), _TEXTS),
    (pa.dictionary(pa.int16(), pa.string_view()), _TEXTS), (pa.dictionary(pa.int8(), pa.int64()), _WHOLE),
    (pa.binary(), [b"", b"\xff\xfe", b"male"]), (pa.large_binary(), [b"\xed\xa0\x80"]), (pa.binary(3), [b"abc"]),
    (pa.bool_(), [True, False]), (pa.null(), [None]),
    (pa.date32(), [0, -800_000, 2**31 - 1]), (pa.date64(), [0, 86_400_000]),
    (pa.timestamp("s"), [0, 2**40]), (pa.timestamp("us", "UTC"), [0, -1, 2**62]), (pa.timestamp("ns"), [0, 2**62]),
    (pa.time32("ms"), [0, 1]), (pa.duration("us"), [0, 1]),
    (pa.decimal128(9, 2), [Decimal("0.01"), Decimal("-12.50")]), (pa.decimal256(50, 0), [Decimal(10**49)]),
    (pa.list_(pa.int32()), [[], [1, 2], None]), (pa.struct([("a", pa.int32())]), [{"a": 1}, None]),
    (pa.map_(pa.string(), pa.int32()), [[("a", 1)]]),
)  # fmt: skip


def parquet_mutation(columns: Sequence[str]) -> Mutation:
    """Damages the footer or any byte of a file, or writes a new one whose columns have any types and values.

    columns: Names of the columns that the reader wants.
    """

    def mutate(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
        choice = rng.random()
        if choice < 0.35:
            return of_bytes(rng, data, others)
        if choice < 0.65 and len(data) > 12:
            length = min(len(data) - 12, int.from_bytes(data[-8:-4], "little"))
            start = len(data) - 8 - length
            footer = of_bytes(rng, data[start:-8], others)
            size = len(footer) if rng.random() < 0.9 else rng.randrange(1 << 32)
            return data[:start] + footer + size.to_bytes(4, "little") + b"PAR1"
        return _written(rng, list(columns))[:LARGEST]

    return mutate


def _written(rng: random.Random, columns: list[str]) -> bytes:
    """A valid file. Now and then a column is missing, twice, or there is one more."""
    if rng.random() < 0.15:
        columns.append(rng.choice([*columns, "more"]))
    if rng.random() < 0.1:
        columns.remove(rng.choice(columns))
    rows = rng.choice((0, 1, 7, 40))
    arrays = [_column(rng, rows) for _ in columns]
    file = io.BytesIO()
    settings: dict[str, Any] = {
        "compression": rng.choice(("none", "snappy", "zstd", "gzip", "lz4")),
        "use_dictionary": rng.random() < 0.5,
        "data_page_version": rng.choice(("1.0", "2.0")),
        "version": rng.choice(("1.0", "2.4", "2.6")),
        "row_group_size": rng.choice((1, 5, 100)),
        "store_schema": rng.random() < 0.7,
        "write_page_checksum": rng.random() < 0.3,
    }
    try:
        pq.write_table(pa.table(arrays, names=columns), file, **settings)
    except (pa.ArrowException, ValueError, OverflowError):  # A type that this version of the format does not have.
        return b"PAR1" + bytes(4) + b"PAR1"
    return file.getvalue()


def _column(rng: random.Random, rows: int) -> pa.Array:
    kind, values = rng.choice(TYPES)
    nulls = rng.choice((0.0, 0.0, 0.2, 1.0))
    drawn = [None if rng.random() < nulls else rng.choice(values) for _ in range(rows)]
    if pa.types.is_dictionary(kind):
        encoded = pa.array(drawn, pa.string() if pa.types.is_string_view(kind.value_type) else kind.value_type)
        encoded = encoded.dictionary_encode()
        return pa.DictionaryArray.from_arrays(
            encoded.indices.cast(kind.index_type), encoded.dictionary.cast(kind.value_type)
        )
    return pa.array(drawn, kind)


def seeds_of(tables: Sequence[pa.Table], settle: Callable[[], random.Random]) -> list[bytes]:
    """The tables as files of several encodings."""
    rng = settle()
    files = []
    for table in tables:
        for compression in ("none", "zstd"):
            file = io.BytesIO()
            pq.write_table(table, file, compression=compression, use_dictionary=rng.random() < 0.5, row_group_size=16)
            files.append(file.getvalue())
    return files
