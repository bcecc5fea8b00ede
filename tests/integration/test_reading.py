"""``marquee schema`` and ``marquee table``: from names of columns to a schema, and from a release to tables."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import openpyxl
import pyarrow.parquet as pq
import pytest

from dpcore.errors import ConfigError, IntegrityError
from jobs.reading.cross_table import ALL, CrossTable
from jobs.reading.marginals import MODEL, PUBLISHED, SUM, marginal
from jobs.reading.release_folder import ReleaseFolder
from pipelines.codebook import Codebook
from tests.support.releases import World, table_world


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> World:
    monkeypatch.chdir(tmp_path)
    return table_world(tmp_path, capsys)


@pytest.fixture
def laplace(table: World) -> World:
    """A release without a model, whose error bars are known."""
    table.config["mechanism"] = {"name": "laplace"}
    table.config["privacy"] |= {"delta": 0.0}
    table.set("workload", {"marginals": {"order": 2}})
    table.budget(delta=0.0)
    code, _, err = table.run()
    assert code == 0, err
    return table


def test_a_draft_is_finished_by_hand_and_checked(table: World) -> None:
    code, out, _ = table.marquee("schema", "draft", "data", "--unit", "person", "--out", "new.yaml")
    assert (code, out.split(".")[0]) == (0, "Wrote new")
    code, _, err = table.marquee("schema", "check", "new.yaml")
    assert (code, "'sex' has no values" in err, "'age' has no edges" in err) == (2, True, True)
    code, _, err = table.marquee("schema", "draft", "data", "--out", "new.yaml")
    assert (code, "new.yaml exists" in err) == (2, True)
    text = Path("new.yaml").read_text().replace("values: []", "values: [x, y]").replace("edges: []", "edges: [0, 9]")
    Path("new.yaml").write_text(text)
    code, out, err = table.marquee("schema", "check", "new.yaml", "--data", "data", "--unit", "person")
    assert (code, err) == (0, "")
    assert "4 codes: 2 values + __other__ for values that are not listed + __null__ for nulls" in out
    assert "data has every column of the schema" in out
    code, _, err = table.marquee("schema", "check", "new.yaml", "--data", "data", "--unit", "user")
    assert (code, "column 'user' of the unit is missing" in err) == (3, True)


def test_drafts_are_printed_and_need_a_source(table: World) -> None:
    code, _, err = table.marquee("schema", "draft")
    assert (code, "want a file of data, a codebook, or both" in err) == (2, True)
    Path("book.csv").write_text("attribute,value,label\nsex,female,Women\nsex,male,Men\n")
    code, out, _ = table.marquee("schema", "draft", "data", "--codebook", "book.csv", "--unit", "person")
    assert (code, "values: [female, male]" in out, 'female: "Women"' in out) == (0, True, True)
    code, out, _ = table.marquee("schema", "json")
    assert (code, json.loads(out)["title"]) == (0, "Marquee schema")


def test_words_are_published_and_verified(table: World) -> None:
    path = Path("people.schema.yaml")
    path.write_text(path.read_text().replace("name: sex", "name: sex\n  label: Sex at birth", 1))
    table.budget()
    assert table.run()[0] == 0
    published = json.loads(Path("out/people/schema.json").read_text())
    assert published["attributes"][0]["label"] == "Sex at birth"
    assert ReleaseFolder.open("out/people").codebook.entry("sex").label == "Sex at birth"
    code, out, _ = table.marquee("verify", "out/people")
    assert (code, "schema.json has the attributes of the certificate" in out) == (0, True)
    assert table.marquee("schema", "check", "out/people/schema.json", "--data", "data")[0] == 0
    Path("out/people/schema.json").unlink()  # As in releases of versions before.
    assert ReleaseFolder.open("out/people").codebook == Codebook()
    Path("out/people/schema.json").write_text("{")
    with pytest.raises(IntegrityError, match="schema.json cannot be read"):
        _ = ReleaseFolder.open("out/people").codebook


def test_a_table_has_published_cells_and_margins(laplace: World) -> None:
    folder = ReleaseFolder.open("out/people")
    made = CrossTable.of(folder, ["home", "sex"])
    answers = {row["query"]: row for row in pq.read_table("out/people/answers.parquet").to_pylist()}
    records = {record[:2]: record[2:] for record in made.records()}
    for sex in ("female", "male"):
        row = answers[f"sex={sex} & home=true"]
        assert records["true", sex] == (row["answer"], row["stddev"], row["lower"], row["upper"])
    column = sum(float(records[home, "male"][0] or 0) for home in ("false", "true", "__null__"))
    assert records[ALL, "male"] == (pytest.approx(column), None, None, None)
    assert (made.whole.source, made.margins["sex",].source) == (PUBLISHED, SUM)
    assert "95 %" in made.to_text()
    assert made.to_html().count("<tr>") == 5


def test_a_table_is_written_as_csv_json_and_spreadsheet(laplace: World) -> None:
    code, out, err = laplace.marquee("table", "out/people", "sex", "work", "--csv", "a.csv", "--xlsx", "a.xlsx")
    assert (code, err, out.count("Wrote 18 counts")) == (0, "", 2)
    rows = list(csv.DictReader(io.StringIO(Path("a.csv").read_text())))
    sheet = openpyxl.load_workbook("a.xlsx")["counts"]
    heading, *lines = sheet.iter_rows(values_only=True, max_row=19)
    assert list(heading) == list(rows[0]) == ["sex", "work", "answer", "stddev", "lower", "upper"]
    assert [line[:2] for line in lines] == [(row["sex"], row["work"]) for row in rows]
    assert [line[2] for line in lines] == pytest.approx([float(row["answer"]) for row in rows])
    code, out, _ = laplace.marquee("table", "out/people", "sex", "work", "--json")
    assert [count["answer"] for count in json.loads(out)["counts"]] == [float(row["answer"]) for row in rows]


def test_what_a_release_does_not_answer_is_refused(laplace: World) -> None:
    assert "sex work" in laplace.marquee("table", "out/people")[1]
    code, _, err = laplace.marquee("table", "out/people", "sexe")
    assert (code, "did you mean 'sex'?" in err) == (2, True)
    code, _, err = laplace.marquee("table", "out/people", "sex", "work", "age")
    assert (code, "age" in err, "Traceback" in err) == (2, True, False)
    with pytest.raises(ConfigError, match="named twice"):
        marginal(ReleaseFolder.open("out/people"), ["sex", "sex"])
    with pytest.raises(ConfigError, match="not a complete release"):
        ReleaseFolder.open("data")


def test_a_model_answers_what_is_not_published(table: World) -> None:
    table.config["mechanism"] = {"name": "mwem_pgm", "rounds": 2}
    table.save()
    table.budget()
    assert table.run()[0] == 0
    folder = ReleaseFolder.open("out/people")
    made = marginal(folder, ["home", "sex", "age"])
    assert (made.source, made.answer.shape) == (MODEL, (3, 2, 4))
    turned = marginal(folder, ["age", "home", "sex"])
    assert turned.answer == pytest.approx(made.answer.transpose(2, 0, 1))
    assert turned.answer.sum() == pytest.approx(marginal(folder, ["sex"]).answer.sum())
