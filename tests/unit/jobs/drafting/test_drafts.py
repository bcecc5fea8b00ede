"""Drafts hold names and types of columns and what a codebook says: never a value of the data."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

from dpcore.errors import ConfigError, InputError
from jobs.drafting.checking import unfinished
from jobs.drafting.columns import Column, read_columns
from jobs.drafting.draft import draft, quoted, scalar, variables_of
from jobs.drafting.variables import Variable
from pipelines.attributes import Kind
from pipelines.yaml_file import parse_yaml

ROWS = pa.table(
    {
        "person": pa.array([71234], pa.int64()),
        "town": pa.array(["Secretville"]).dictionary_encode(),
        "born": pa.array([date(1971, 3, 9)]),
        "income": pa.array([81234.5]),
        "insured": pa.array([True]),
    }
)
TYPED: dict[str, Callable[[Path], None]] = {
    ".parquet": lambda path: pq.write_table(ROWS, path, use_dictionary=True),
    ".feather": lambda path: pa.feather.write_feather(ROWS, path),
    ".orc": lambda path: pa.orc.write_table(ROWS.set_column(1, "town", ROWS["town"].cast(pa.string())), path),
}
SECRETS = ("71234", "Secretville", "1971", "81234")


@pytest.mark.parametrize("ending", TYPED)
def test_files_with_types_give_names_and_types_alone(tmp_path: Path, ending: str) -> None:
    TYPED[ending](tmp_path / f"people{ending}")
    for place in (tmp_path, tmp_path / f"people{ending}"):
        text = draft(variables_of(read_columns(place)), "person")
        assert not any(secret in text for secret in SECRETS)
        entries = parse_yaml(text, "draft", dates=True)
        assert isinstance(entries, dict)
        kinds = {entry["name"]: entry["type"] for entry in entries["attributes"]}
        assert kinds == {"town": "categorical", "born": "date", "income": "float", "insured": "boolean"}


TEXTS = {
    "people.csv": 'person,town,"born & bred",income,insured\n71234,Secretville,1971-03-09,81234.5,true\n',
    "people.tsv": "person\ttown\tborn & bred\tincome\tinsured\n71234\tSecretville\t1971\t81234.5\ttrue\n",
    "people.jsonl": '{"person": 71234, "town": "Secretville", "born & bred": "1971", "income": 81234.5, "insured": 1}',
}


@pytest.mark.parametrize("name", TEXTS)
def test_text_files_give_names_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(TEXTS[name], encoding="utf-8-sig")
    columns = read_columns(tmp_path / name)
    assert columns == tuple(Column(name, None) for name in ("person", "town", "born & bred", "income", "insured"))
    text = draft(variables_of(columns), None)
    assert not any(secret in text for secret in SECRETS)
    assert "one column identifies the unit" in text
    assert len(list(unfinished(parse_yaml(text, "draft", dates=True)))) == 5


BAD = {
    "numbers.csv": ("71234,Secretville\n", "looks like data"),
    "twice.csv": ("a,a\n", "distinct names"),
    "empty.csv": ("", "distinct names"),
    "quotes.csv": ('a,"Secretville\n71234', "cannot be read"),
    "list.jsonl": ("[71234]\n", "no JSON object"),
    "broken.jsonl": ('{"a": "Secretville\n', "cannot be read"),
    "damaged.parquet": ("Secretville 71234", "cannot be read"),
    "people.xls": ("Secretville", "no known format"),
}


@pytest.mark.parametrize("name", BAD)
def test_files_without_names_are_refused_without_their_values(tmp_path: Path, name: str) -> None:
    content, wanted = BAD[name]
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=wanted) as refused:
        read_columns(tmp_path / name)
    assert not any(secret in str(refused.value) for secret in SECRETS)
    assert refused.value.__suppress_context__ or "cannot be read" not in wanted


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        read_columns(tmp_path / "people.csv")
    with pytest.raises(InputError, match="no file whose columns"):
        read_columns(tmp_path)
    with pytest.raises(ConfigError, match="no column 'user'"):
        draft([Variable("person")], "user")
    with pytest.raises(ConfigError, match="nothing to draft"):
        draft([Variable("person")], "person")


@pytest.mark.parametrize(
    "text", ["no", "a: b", "#x", "tab\there", "\x7f\u2028", 'say "x" \\', "1", "café", "\ue000😀", ""]
)
def test_texts_read_as_themselves(text: str) -> None:
    for written in (scalar(text), quoted(text)):
        assert parse_yaml(f"[{written}]", "draft", dates=True) == [text]


def test_what_a_codebook_says_needs_no_question() -> None:
    variables = [
        Variable("sex", Kind.CATEGORICAL, values=(1, 2), labels=("Man", "")),
        Variable("age", Kind.INTEGER, low=0, high=4, label="Age: in years"),
        Variable("day", Kind.DATE, low="2026-01-01", high="2026-12-31", description="# the day"),
    ]
    document = parse_yaml(draft(variables), "draft", dates=True)
    assert list(unfinished(document)) == []
    shown = json.loads(json.dumps(document, default=str))["attributes"]
    assert shown[0] == {"name": "sex", "type": "categorical", "values": [1, 2], "labels": {"1": "Man"}}
    assert shown[1]["bins"] == {"low": 0, "high": 4, "count": 4}
    assert (shown[1]["label"], shown[2]["description"]) == ("Age: in years", "# the day")


def test_a_packed_file_of_text_is_unpacked_for_its_first_line(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"person,town\n1,secret\n"))
    assert [column.name for column in read_columns(tmp_path / "a.csv.gz")] == ["person", "town"]
    (tmp_path / "a.tsv").write_text("person\ttown\n1\tsecret\n")
    assert [column.name for column in read_columns(tmp_path / "a.tsv")] == ["person", "town"]
