"""What identifies the content of Parquet files: it stays in copies, and differs for other data."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.layout import BasketLayout
from pipelines.source import open_with_contents, read_contents
from pipelines.source.content import FileContent, RowGroupContent, fingerprint

LAYOUT = BasketLayout("city", "user", 400)
ROWS = pa.table({"user": pa.array(range(400)), "city": pa.array(["a", "b", None, "d"] * 100)})


def content(path: Path, rows: pa.Table = ROWS, **options: Any) -> FileContent:
    path.parent.mkdir(exist_ok=True)
    pq.write_table(rows, path, **options)
    (found,) = read_contents(str(path))
    return found


def test_a_copy_has_the_same_content(tmp_path: Path) -> None:
    first = content(tmp_path / "a.parquet", row_group_size=150)
    shutil.copy(tmp_path / "a.parquet", tmp_path / "b.parquet")
    (copy,) = read_contents(str(tmp_path / "b.parquet"))
    assert (copy.rows, copy.digests) == (400, first.digests)
    assert copy.file == str(tmp_path / "b.parquet")
    assert [group.rows for group in copy.row_groups] == [150, 150, 100]
    assert len(set(copy.digests)) == 4


def test_a_row_group_is_recognised_in_another_file(tmp_path: Path) -> None:
    first = content(tmp_path / "a.parquet", row_group_size=100)
    group = pq.ParquetFile(tmp_path / "a.parquet").read_row_group(2, columns=["city", "user"])
    rows = pa.concat_tables([ROWS.slice(7, 50).select(["city", "user"]), group])
    with pq.ParquetWriter(tmp_path / "b.parquet", rows.schema) as writer:
        writer.write_table(rows, row_group_size=50)
    other = content(tmp_path / "c.parquet", rows.slice(0, 50))
    with pq.ParquetWriter(tmp_path / "d.parquet", rows.schema) as writer:
        writer.write_table(rows.slice(0, 50))
        writer.write_table(group)
    (found,) = read_contents(str(tmp_path / "d.parquet"))
    assert found.row_groups == (*other.row_groups, first.row_groups[2]), "the order of columns does not matter"
    assert found.footer != first.footer


@pytest.mark.parametrize("change", [
    lambda rows: rows.set_column(0, "user", pa.array(range(1, 401))),
    lambda rows: rows.set_column(1, "city", pa.array(["a", "b", "c", "d"] * 100)),
    lambda rows: rows.rename_columns(["user", "town"]),
    lambda rows: rows.slice(0, 399),
    lambda rows: rows.set_column(0, "user", pa.array(range(400), pa.int32())),
])  # fmt: skip
def test_other_data_have_other_content(tmp_path: Path, change: Any) -> None:
    first, other = content(tmp_path / "a.parquet"), content(tmp_path / "b.parquet", change(ROWS))
    assert not {*first.digests} & {*other.digests}


def test_nothing_identifies_files_without_rows_or_without_statistics(tmp_path: Path) -> None:
    for name, rows, options in (
        ("no rows", ROWS.slice(0, 0), {}),
        ("no statistics", ROWS, {"write_statistics": False}),
        ("nulls alone", pa.table({"user": pa.nulls(400, pa.int64())}), {}),
    ):
        found = content(tmp_path / f"{name}.parquet", rows, **options)
        assert (found.digests, found.rows) == ((), rows.num_rows), name
    assert content(tmp_path / "some.parquet", write_statistics=["user"]).digests


def test_a_footer_longer_than_the_first_read_is_read_as_a_whole(tmp_path: Path) -> None:
    wide = pa.table({f"column {number}": np.arange(20) for number in range(700)})
    first = content(tmp_path / "a.parquet", wide)
    shutil.copy(tmp_path / "a.parquet", tmp_path / "b.parquet")
    footer_bytes = int.from_bytes((tmp_path / "a.parquet").read_bytes()[-8:-4], "little")
    assert footer_bytes > 1 << 16
    assert read_contents(str(tmp_path / "b.parquet"))[0].digests == first.digests
    changed = wide.set_column(0, "column 0", pa.array(np.arange(1, 21)))
    assert content(tmp_path / "c.parquet", changed).footer != first.footer


def test_a_footer_that_would_not_fit_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1" + b"x" * 20 + (1 << 20).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(Exception, match=r"a\.parquet cannot be read as Parquet; it is damaged"):
        read_contents(str(tmp_path / "a.parquet"))


def test_the_fingerprint_follows_content_and_key_but_not_names(tmp_path: Path) -> None:
    for folder, names in (("one", "ab"), ("same", "yx")):
        (tmp_path / folder).mkdir()
        content(tmp_path / folder / f"{names[0]}.parquet")
        content(tmp_path / folder / f"{names[1]}.parquet", ROWS.slice(1))
    one, same, other = (
        open_with_contents(str(tmp_path / folder), LAYOUT, bytes(16), key)[1]
        for folder, key in (("one", b"key"), ("same", b"key"), ("one", b"another"))
    )
    first = fingerprint(one, b"key")
    assert fingerprint(same, b"key") == first
    assert fingerprint(other, b"another") != first
    assert fingerprint([one[0], one[0]], b"key") != first
    assert first == fingerprint_of_0_10(tmp_path / "one", b"key")


def fingerprint_of_0_10(folder: Path, key: bytes) -> str:
    """As versions up to 0.10 have computed and recorded it."""
    digests = []
    for path in folder.iterdir():
        data = path.read_bytes()
        footer = data[-8 - int.from_bytes(data[-8:-4], "little") :]
        sized = len(data).to_bytes(8, "little") + footer
        digests.append(hashlib.blake2b(sized, key=key, digest_size=32).digest())
    return hashlib.blake2b(b"".join(sorted(digests)), key=key, digest_size=32).hexdigest()


def test_no_digest_is_shown() -> None:
    secret = FileContent("a.parquet", 417, b"secret", (RowGroupContent(417, b"secret"),))
    assert repr(secret) == "FileContent(file='a.parquet', is_file=True)"
    assert repr(secret.row_groups[0]) == "RowGroupContent()"
