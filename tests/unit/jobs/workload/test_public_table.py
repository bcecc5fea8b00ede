"""Public tables from files: what they mean, and what is refused."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcore.errors import ConfigError
from jobs.workload.public_table import read_public_table
from pipelines.attributes import Attribute, Kind
from pipelines.schema import Schema

SCHEMA = Schema(
    (
        Attribute("sex", Kind.CATEGORICAL, values=("f", "m"), null=False),
        Attribute("age", Kind.INTEGER, edges=(0, 18, 65), column="years"),
        Attribute("work", Kind.CATEGORICAL, values=("office", "field"), other=True),
    )
)
COLUMNS: dict[str, Any] = {
    "work": ["office", "moon", None, "field"],
    "years": [3, 70, None, 20],
    "sex": ["f", "m", "m", "f"],
    "note": [1, 2, 3, 4],
}
CODES = [[0, 0, 0], [1, 1, 2], [1, 2, 3], [0, 1, 1]]
TEXT = "sex,years,work,note\nf,3,office,1\nm,70,moon,2\nm,,,3\nf,20,field,4\n"


def parquet(folder: Path, columns: dict[str, Any], name: str = "p.parquet") -> Path:
    pq.write_table(pa.table(columns), folder / name)
    return folder / name


def text(folder: Path, content: str, name: str = "p.csv") -> Path:
    (folder / name).write_text(content)
    return folder / name


def test_parquet_and_csv_mean_the_same(tmp_path: Path) -> None:
    packed = tmp_path / "p.csv.gz"
    packed.write_bytes(gzip.compress(TEXT.encode()))
    made = [read_public_table(path, SCHEMA) for path in (parquet(tmp_path, COLUMNS), text(tmp_path, TEXT), packed)]
    assert all(table.codes.tolist() == CODES for table, _ in made)
    assert len({digest for _, digest in made}) == 1
    assert made[0][0].domain == SCHEMA.domain


def test_the_digest_knows_rows_and_not_their_order(tmp_path: Path) -> None:
    lines = TEXT.strip().split("\n")
    contents = (
        lines,
        [lines[0], *lines[:0:-1]],
        lines[:-1],
        [*lines, lines[-1]],
        [*lines[:-1], "m,20,field,4"],
    )
    digests = [read_public_table(text(tmp_path, "\n".join(content)), SCHEMA)[1] for content in contents]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 4


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"sex": ["f", "x", "m", "f"]}, r"column 'sex' is 'x' in row 2; want a value of the schema"),
        ({"sex": ["f", "f", None, "f"]}, r"column 'sex' is null in row 3; want no null"),
        ({"years": ["3", "4", "5", "6"]}, r"column 'years' is string; want "),
        ({"sex": None}, r"want 'sex' once"),
        ({name: [] for name in COLUMNS} | {"years": pa.array([], pa.int64()), "sex": pa.array([], pa.string()),
          "work": pa.array([], pa.string())}, "has no rows"),
    ],
)  # fmt: skip
def test_an_invalid_table_is_named_with_its_column_and_row(
    tmp_path: Path, changes: dict[str, Any], problem: str
) -> None:
    columns = {name: values for name, values in (COLUMNS | changes).items() if values is not None}
    with pytest.raises(ConfigError, match=rf"mechanism\.public is .*p\.parquet, .*{problem}"):
        read_public_table(parquet(tmp_path, columns), SCHEMA)


def test_text_that_is_no_value_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"p\.csv, whose column 'sex' is 'q' in row 3"):
        read_public_table(text(tmp_path, TEXT.replace("m,,", "q,,")), SCHEMA)


TYPED = Schema(
    (
        Attribute("age", Kind.INTEGER, edges=(0, 18, 65), null=False),
        Attribute("income", Kind.FLOAT, edges=(0, 10, 20), null=True),
        Attribute("born", Kind.DATE, edges=(0, 20_000), null=True),
        Attribute("home", Kind.CATEGORICAL, values=(True, False), null=True),
        Attribute("rooms", Kind.CATEGORICAL, values=(1, 2), other=True, null=True),
    )
)
GOOD = ["age,income,born,home,rooms", "3,1.5,2000-01-31,true,1", "+4,,,,", '" 5.0 "," ",""," "," 7"']


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("xx,1,2000-01-31,true,1", "column 'age' is 'xx' in row 4; want an integer$"),
        (",1,2000-01-31,true,1", "column 'age' is null in row 4; want no null, or a code for it in the schema"),
        ("3,1;5,2000-01-31,true,1", "column 'income' is '1;5' in row 4; want a number, or an empty field for null"),
        ("3,nan,2000-01-31,true,1", "column 'income' is 'nan' in row 4; want a number, or an empty field for null"),
        (
            "3,1,2001-02-29,true,1",
            "column 'born' is '2001-02-29' in row 4; want a date such as 2026-11-25, or an empty",
        ),
        ("3,1,2000-01-31,yes,1", "column 'home' is 'yes' in row 4; want true or false, or an empty field for null"),
        ("3,1,2000-01-31,true,1.5", "column 'rooms' is '1.5' in row 4; want an integer, or an empty field for null"),
    ],
)
def test_text_that_is_no_value_of_its_type_is_no_null(tmp_path: Path, row: str, problem: str) -> None:
    assert read_public_table(text(tmp_path, "\n".join(GOOD)), TYPED)[0].codes.tolist() == [
        [0, 0, 0, 0, 0], [0, 2, 1, 2, 3], [0, 2, 1, 2, 2]
    ]  # fmt: skip
    with pytest.raises(ConfigError, match=r"^mechanism\.public is .*p\.csv, whose " + problem):
        read_public_table(text(tmp_path, "\n".join([*GOOD, row])), TYPED)


def test_rows_are_counted_over_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.source.other_files._BLOCK_BYTES", 64)
    with pytest.raises(ConfigError, match="column 'age' is 'x' in row 51; want an integer$"):
        read_public_table(text(tmp_path, "\n".join([GOOD[0], *GOOD[1:2] * 50, "x,,,,"])), TYPED)


@pytest.mark.parametrize("content", ["", "\n\n", "\ufeff"])
@pytest.mark.parametrize("name", ["c7.csv", "c7.csv.gz", "c7.tsv"])
def test_a_file_without_a_heading_has_advice_of_its_own_key(tmp_path: Path, name: str, content: str) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(content.encode()) if name.endswith("gz") else content.encode())
    with pytest.raises(ConfigError, match=r"^mechanism\.public is .*c7\.") as caught:
        read_public_table(path, SCHEMA)
    assert "dataset" not in str(caught.value)
    assert "want " in str(caught.value)


def test_an_empty_file_wants_a_heading(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"c7\.csv, which has no heading; want names of columns in its first line"):
        read_public_table(text(tmp_path, "", "c7.csv"), SCHEMA)


@pytest.mark.parametrize("name", ["p.orc", "p", "p.txt"])
def test_other_formats_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=r"whose name ends in \.parquet, \.csv or \.tsv"):
        read_public_table(text(tmp_path, TEXT, name), SCHEMA)


@pytest.mark.parametrize(("name", "problem"), [("none.parquet", "does not exist"), ("none.csv", "does not exist")])
def test_a_missing_file_is_named(tmp_path: Path, name: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        read_public_table(tmp_path / name, SCHEMA)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"d\.parquet, which cannot be read"):
        read_public_table(text(tmp_path, "no parquet", "d.parquet"), SCHEMA)


def test_a_table_of_too_many_values_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.workload.public_table._LARGEST", 11)
    with pytest.raises(ConfigError, match=r"more than 11 values; want a sample"):
        read_public_table(text(tmp_path, TEXT), SCHEMA)
