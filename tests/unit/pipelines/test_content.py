"""What identifies the content of Parquet files: it stays in copies, and differs for other data."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.content import FileContent, RowGroupContent, fingerprint
from pipelines.source import read_contents

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
    one = [content(tmp_path / "a.parquet"), content(tmp_path / "b.parquet", ROWS.slice(1))]
    same = [content(tmp_path / "y.parquet", ROWS.slice(1)), content(tmp_path / "x.parquet")]
    first = fingerprint(one, b"key")
    assert len(first) == 64
    assert fingerprint(same, b"key") == first
    assert fingerprint(one, b"another") != first
    assert fingerprint([one[0], one[0]], b"key") != first


def test_no_digest_is_shown() -> None:
    secret = FileContent("a.parquet", 417, b"secret", (RowGroupContent(417, b"secret"),))
    assert repr(secret) == "FileContent(file='a.parquet')"
    assert repr(secret.row_groups[0]) == "RowGroupContent()"
