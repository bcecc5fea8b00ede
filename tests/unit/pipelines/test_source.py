from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcore.errors import ConfigError, EngineError, InputError
from pipelines.layout import BasketLayout, Layout, TableLayout
from pipelines.schema import Attribute, Kind, Schema
from pipelines.source import Source, batches, open_source
from pipelines.source.batches import read_batches
from pipelines.source.stores import raise_unreadable, reading
from tests.support.engine_cases import SALT

BASKETS = BasketLayout("user", "film", 10)
PAIRS = pa.table({"user": pa.array([1, 2], pa.int64()), "film": pa.array([3, 4], pa.int32())})


def table_of(attribute: Attribute) -> TableLayout:
    return TableLayout("user", Schema((attribute,)))


def put(folder: Path, *names: str, rows: pa.Table = PAIRS) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, folder / name)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("a.parquet", ["a.parquet"]),
        ("odd[1].pq", ["odd[1].pq"]),
        ("", ["a.parquet", "b.parquet", "deep/er/c.parquet"]),
        ("*.parquet", ["a.parquet", "b.parquet"]),
        ("?.parquet", ["a.parquet", "b.parquet"]),
        ("[!a].parquet", ["b.parquet"]),
        ("[ab].p*", ["a.parquet", "b.parquet"]),
        ("*/er/*.parquet", ["deep/er/c.parquet"]),
        ("**/*.parquet", ["a.parquet", "b.parquet", "deep/er/c.parquet"]),
        ("deep/**", ["deep/er/c.parquet"]),
    ],
)
@pytest.mark.parametrize("prefix", ["", "file://"])
def test_a_path_is_a_file_a_folder_a_glob_or_a_url(tmp_path: Path, path: str, found: list[str], prefix: str) -> None:
    put(tmp_path, "a.parquet", "b.parquet", "deep/er/c.parquet", "odd[1].pq", "_tmp/x.parquet", ".hidden.parquet")
    source = open_source(f"{prefix}{tmp_path}/{path}", BASKETS, SALT)
    assert source.paths == tuple(f"{prefix}{tmp_path}/{name}" for name in found)


def test_a_relative_path_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "a.parquet")
    monkeypatch.chdir(tmp_path)
    assert open_source("*.parquet", BASKETS, SALT).paths == (str(tmp_path / "a.parquet"),)
    assert open_source(".", BASKETS, SALT).paths == (str(tmp_path / "a.parquet"),)


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("missing.parquet", "missing.parquet does not exist"),
        ("nowhere/*.parquet", r"matches no Parquet file; want a Parquet file, or a folder or glob"),
        ("*.csv", r"matches no Parquet file"),
        ("empty", r"matches no Parquet file"),
        ("[z-a].parquet", r"is not a valid glob; want ranges such as \[a-z\]"),
    ],
)
def test_names_a_path_without_files(tmp_path: Path, path: str, wanted: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=wanted):
        open_source(str(tmp_path / path), BASKETS, SALT)


@pytest.mark.parametrize("path", ["gopher://host/x.parquet", "memoryless://x"])
def test_names_an_unknown_store(path: str) -> None:
    with pytest.raises(InputError, match="is not a known store"):
        open_source(path, BASKETS, SALT)


@pytest.mark.parametrize(
    ("damage", "wanted"),
    [
        (lambda content: b"", "is not a Parquet file"),
        (lambda content: b"a,b\n1,2\n", "is not a Parquet file"),
        (lambda content: b"PAR1", "is truncated"),
        (lambda content: content[: len(content) // 2], "is truncated"),
        (lambda content: content[:-200] + bytes(190) + content[-10:], "is damaged or truncated"),
    ],
)
def test_names_a_file_that_is_not_whole_parquet(tmp_path: Path, damage: object, wanted: str) -> None:
    assert callable(damage)
    put(tmp_path, "a.parquet", "b.parquet")
    (tmp_path / "b.parquet").write_bytes(damage((tmp_path / "b.parquet").read_bytes()))
    with pytest.raises(InputError, match=rf"b\.parquet .*{wanted}"):
        open_source(str(tmp_path), BASKETS, SALT)


@pytest.mark.parametrize(
    ("columns", "wanted"),
    [
        ({"film": pa.array([1])}, "has no column 'user'; want exactly one"),
        ({"user": pa.array([1])}, "has no column 'film'; want exactly one"),
        ({"user": pa.array([1.5]), "film": pa.array([1])}, "column 'user' of .* has type double; want an integer or"),
        ({"user": pa.array([b"x"]), "film": pa.array([1])}, "column 'user' of .* has type binary; want an integer or"),
        ({"user": pa.array([1]), "film": pa.array(["x"])}, "column 'film' of .* has type string; want an integer"),
    ],
)
def test_names_a_missing_or_mistyped_column(tmp_path: Path, columns: dict[str, pa.Array], wanted: str) -> None:
    put(tmp_path, "x.parquet", rows=pa.table(columns))
    with pytest.raises(InputError, match=wanted) as refused:
        open_source(str(tmp_path), BASKETS, SALT)
    assert "x.parquet" in str(refused.value)


def test_names_a_column_that_a_file_has_twice(tmp_path: Path) -> None:
    twice = pa.Table.from_arrays([pa.array([1])] * 3, names=["user", "film", "user"])
    put(tmp_path, "x.parquet", rows=twice)
    with pytest.raises(InputError, match=r"x\.parquet has more than one column 'user'"):
        open_source(str(tmp_path), BASKETS, SALT)


ATTRIBUTES = {
    "text": Attribute("a", Kind.CATEGORICAL, values=("x",)),
    "whole": Attribute("a", Kind.CATEGORICAL, values=(1,)),
    "truth": Attribute("a", Kind.CATEGORICAL, values=(True,)),
    "boolean": Attribute("a", Kind.BOOLEAN),
    "integer": Attribute("a", Kind.INTEGER, edges=(0, 1)),
    "float": Attribute("a", Kind.FLOAT, edges=(0, 1)),
    "day": Attribute("a", Kind.DATE, edges=(0, 1)),
}


@pytest.mark.parametrize(
    ("kind", "fitting"),
    [
        (pa.string(), {"text"}),
        (pa.large_string(), {"text"}),
        (pa.dictionary(pa.int8(), pa.string()), {"text"}),
        (pa.bool_(), {"truth", "boolean"}),
        (pa.int8(), {"whole", "integer", "float"}),
        (pa.uint64(), {"whole", "integer", "float"}),
        (pa.float32(), {"integer", "float"}),
        (pa.decimal128(5, 2), {"integer", "float"}),
        (pa.date32(), {"day"}),
        (pa.date64(), {"day"}),
        (pa.timestamp("ns", "UTC"), {"day"}),
        (pa.time32("s"), set()),
        (pa.duration("s"), set()),
        (pa.binary(), set()),
        (pa.list_(pa.int8()), set()),
    ],
    ids=lambda value: " ".join(sorted(value)) if isinstance(value, set) else str(value),
)
def test_an_attribute_takes_the_types_that_can_hold_its_values(
    tmp_path: Path, kind: pa.DataType, fitting: set[str]
) -> None:
    put(tmp_path, "x.parquet", rows=pa.table({"user": ["u"], "a": pa.array([None], kind)}))
    for name, attribute in ATTRIBUTES.items():
        if name in fitting:
            assert len(open_source(str(tmp_path), table_of(attribute), SALT).files) == 1
        else:
            with pytest.raises(InputError, match=r"column 'a' of .*x\.parquet has type .*; want an? "):
                open_source(str(tmp_path), table_of(attribute), SALT)


def test_files_must_agree_on_types_but_not_on_packing(tmp_path: Path) -> None:
    layout = table_of(ATTRIBUTES["text"])
    put(tmp_path, "a.parquet", rows=pa.table({"user": ["u"], "a": ["x"]}))
    put(tmp_path, "b.parquet", rows=pa.table({"a": pa.array(["x"]).dictionary_encode(), "user": ["u"], "more": [1]}))
    assert len(open_source(str(tmp_path), layout, SALT).files) == 2
    put(tmp_path, "c.parquet", rows=pa.table({"user": [1], "a": ["x"]}))
    with pytest.raises(
        InputError, match=r"column 'user' of .*c\.parquet has type int64; in .*a\.parquet it is large_s"
    ):
        open_source(str(tmp_path), layout, SALT)


def test_a_store_that_fails_can_be_tried_again_and_a_local_file_cannot() -> None:
    missing = (
        "When listing objects: AWS Error NO_SUCH_BUCKET during ListObjectsV2 operation: the bucket 'secret' does not"
    )
    with pytest.raises(InputError, match="^s3://b/x is in a bucket that does not exist; want the name of"):
        raise_unreadable("s3://b/x", OSError(missing))
    with pytest.raises(EngineError, match="s3://b/x could not be read from its store"):
        raise_unreadable("s3://b/x", OSError("timeout while reading 'secret'"))
    with pytest.raises(InputError, match=r"^/x may not be read; want read permission$"):
        raise_unreadable("/x", PermissionError())
    with pytest.raises(InputError, match=r"^/x .*; it is damaged or truncated: want a whole file$"):
        raise_unreadable("/x", OSError("bad value 'secret'"))
    with pytest.raises(InputError, match=r"^/x uses a feature of Parquet .* cannot read; want another encoding$"):
        raise_unreadable("/x", pa.ArrowNotImplementedError("codec 'secret'"))
    with pytest.raises(EngineError, match=r"^memory ran out while /x was read; want more memory, or smaller files$"):
        raise_unreadable("/x", pa.ArrowMemoryError("malloc"))


def opened(folder: Path, layout: Layout = BASKETS, salt: bytes = SALT) -> Source:
    return open_source(str(folder), layout, salt)


def test_a_source_is_picklable_and_hides_its_salt(tmp_path: Path) -> None:
    put(tmp_path, "a.parquet")
    salt = b"0123456789abcdef"
    source = opened(tmp_path, salt=salt)
    assert pickle.loads(pickle.dumps(source)) == source
    assert salt.decode() not in repr(source)
    with pytest.raises(ConfigError, match="want 16"):
        opened(tmp_path, salt=b"short")


BROKEN_OFF = "AWS Error INTERNAL_FAILURE during GetObject operation: Failed to flush response stream"


@pytest.mark.parametrize(
    ("failures", "message", "kind"), [(3, BROKEN_OFF, None), (4, BROKEN_OFF, EngineError), (1, "timeout", EngineError)]
)
def test_an_answer_that_breaks_off_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, failures: int, message: str, kind: type[Exception] | None
) -> None:
    monkeypatch.setattr("pipelines.source.stores.time.sleep", lambda _: None)
    left = [OSError(message)] * failures

    def read() -> str:
        if left:
            raise left.pop()
        return "content"

    if kind is None:
        assert reading("s3://bucket/file", read) == "content"
        return
    with pytest.raises(kind):
        reading("s3://bucket/file", read)
    left = [OSError(message)]
    with pytest.raises(InputError):
        reading("/local/file", read)


@pytest.mark.parametrize("broken", range(4))
def test_a_file_whose_answer_breaks_off_is_read_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: int
) -> None:
    """Each batch is handed on once, whichever of them breaks off."""
    rows = pa.table({"user": pa.array(range(30), pa.int64()), "film": pa.array([1] * 30, pa.int32())})
    pq.write_table(rows, tmp_path / "a.parquet", row_group_size=10)
    source = open_source(f"file://{tmp_path}", BASKETS, SALT)
    monkeypatch.setattr("pipelines.source.stores.time.sleep", lambda _: None)
    numbered, breaks = batches._numbered_batches, [broken]

    def breaking(parquet: pq.ParquetFile, names: list[str], groups: Sequence[int] | None) -> Iterator[Any]:
        for group in range(3):
            for batch in numbered(parquet, names, [group]):
                if breaks == [group]:
                    breaks.clear()
                    raise OSError(BROKEN_OFF)
                yield batch

    monkeypatch.setattr(batches, "_numbered_batches", breaking)
    users = [user for batch in read_batches(source, source.files[0]) for user in batch.column("user").to_pylist()]
    assert users == list(range(30))
    assert bool(breaks) == (broken == 3)
