"""Codebooks in three formats give the same variables, and hostile ones are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dpcore.errors import ConfigError
from jobs.drafting.codebooks import joined, read_codebook
from jobs.drafting.variables import Variable
from pipelines.attributes import Kind

CSV = """\
attribute,value,label,type,low,high
region,,Where,categorical,,
region,n,North,,,
region,s,"South, and islands",,,
age,,Age,integer,0,120
"""
DDI = """<?xml version="1.0" encoding="UTF-8"?>
<codeBook xmlns="ddi:codebook:2_5" version="2.5"><dataDscr>
<var name="region"><labl>Where</labl><catgry><catValu>n</catValu><labl>North</labl></catgry>
<catgry><catValu>s</catValu><labl>South,
 and islands</labl></catgry><varFormat type="character"/></var>
<var name="age"><labl>Age</labl><valrng><range min="0" max="120"/></valrng><varFormat type="numeric"/></var>
</dataDscr></codeBook>"""
FIELDS = [
    {
        "name": "region", "type": "string", "title": "Where",
        "categories": [{"value": "n", "label": "North"}, {"value": "s", "label": "South, and islands"}],
    },
    {"name": "age", "type": "integer", "title": "Age", "constraints": {"minimum": 0, "maximum": 120}},
]  # fmt: skip
REGION = Variable("region", Kind.CATEGORICAL, "", "Where", "", ("n", "s"), ("North", "South, and islands"))
AGE = Variable("age", Kind.INTEGER, label="Age", low=0, high=120)
FILES = {
    "a.csv": CSV,
    "a.xml": DDI,
    "a.json": json.dumps({"fields": FIELDS}),
    "package.json": json.dumps({"resources": [{"name": "x", "schema": {"fields": FIELDS}}]}),
}


@pytest.mark.parametrize("name", FILES)
def test_formats_say_the_same(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(FILES[name])
    assert read_codebook(tmp_path / name) == (REGION, AGE)


ENTITY = '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/hostname">]><codeBook><var name="&e;"/></codeBook>'
BAD = {
    "entity.xml": (ENTITY, "document type"),
    "broken.xml": ("<codeBook>", "no XML"),
    "other.xml": ("<html/>", "no element <var>"),
    "nameless.xml": ("<codeBook><var/></codeBook>", "without a name"),
    "broken.json": ("{", "no JSON"),
    "deep.json": ("[" * 100_000, "no JSON"),
    "list.json": ("[]", "no list 'fields'"),
    "two.json": (json.dumps({"resources": [{"schema": {}}, {"schema": {}}]}), "2 tables"),
    "columns.csv": ("name,value\nx,1\n", "other columns"),
    "type.csv": ("attribute,type\nx,number\n", "want one of categorical"),
    "twice.json": (json.dumps({"fields": [{"name": "x"}, {"name": "x"}]}), "'x' twice"),
    "book.pdf": ("x", "want .csv"),
}


@pytest.mark.parametrize("name", BAD)
def test_other_files_are_refused(tmp_path: Path, name: str) -> None:
    content, wanted = BAD[name]
    (tmp_path / name).write_text(content)
    with pytest.raises(ConfigError, match=wanted):
        read_codebook(tmp_path / name)


def test_the_constraint_enum_lists_values(tmp_path: Path) -> None:
    fields = [{"name": "x", "type": "integer", "constraints": {"enum": [3, 1]}}, {"name": "y", "type": "geopoint"}]
    (tmp_path / "a.json").write_text(json.dumps({"fields": fields}))
    first, second = read_codebook(tmp_path / "a.json")
    assert (first.values, first.labels, second.kind) == ((3, 1), ("", ""), None)


def test_types_of_columns_decide_how_values_are_read() -> None:
    book = (Variable("code", values=("1", "2"), labels=("one", "two")), Variable("gone", values=("x",)))
    whole, text, new = joined(
        [Variable("code", Kind.INTEGER, "int64"), Variable("code", Kind.CATEGORICAL), Variable("new")], book
    )
    assert (whole.values, text.values) == ((1, 2), ("1", "2"))
    assert (whole.column_type, whole.labels, new) == ("int64", ("one", "two"), Variable("new"))
