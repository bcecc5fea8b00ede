"""Every score is explained, answers are checked, and RESULTS.md is that of the stored results."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.exams.__main__ import EXAMS, main, results_page
from tests.exams.bridge import PROGRAMS, parsed, question
from tests.exams.candidates import CANDIDATES, Kind, bootstrap, copy, strangers, uniform
from tests.exams.exam import RESULTS, Exam, stored, verdicts
from tests.exams.releases import marquee
from tests.exams.report import report
from tests.exams.tables import Table, census, split
from tests.support.datasets import ROOT

STORED = stored(list(EXAMS))


def table(rows: int = 300) -> Table:
    columns = {"number": np.arange(rows), "half": np.arange(rows) % 2}
    return Table("small", columns, {"number": rows, "half": 2}, ("number",), "half")


@pytest.mark.parametrize("exam", EXAMS.values(), ids=EXAMS)
def test_every_shown_score_is_explained(exam: Exam) -> None:
    assert set(exam.shown) <= set(exam.explanations)
    for text in exam.explanations.values():
        assert text.better
        assert text.means.endswith(".")
        assert text.does_not_mean.endswith(".")


@pytest.mark.parametrize("exam", EXAMS.values(), ids=EXAMS)
def test_every_exam_has_a_program_and_a_locked_environment(exam: Exam) -> None:
    assert (PROGRAMS / f"{exam.name}_scores.py").is_file()
    locked = (ROOT / "deploy" / "requirements" / f"exams-{exam.name}.txt").read_text()
    assert re.search(rf"^{exam.name}==", locked, re.MULTILINE)


def test_the_page_lists_every_exam_with_results_or_as_missing() -> None:
    page, names = results_page(), {result["name"] for result in STORED}
    assert names
    for exam in EXAMS.values():
        assert (f"## {exam.title}\n" in page) == (exam.name in names)
    assert ("No results yet" in page) == (names != set(EXAMS))


@pytest.mark.parametrize("result", STORED, ids=lambda result: result["name"])
def test_stored_scores_are_those_that_are_explained(result: dict[str, Any]) -> None:
    names = {frozenset(line["scores"]) for line in result["lines"]}
    assert names == {frozenset(EXAMS[result["name"]].explanations)}


@pytest.mark.parametrize("result", STORED, ids=lambda result: result["name"])
def test_stored_results_have_every_candidate_and_the_verdicts_of_today(result: dict[str, Any]) -> None:
    wanted = [(candidate.name, str(candidate.kind)) for candidate in CANDIDATES]
    groups = {(line["table"], line["seed"]) for line in result["lines"]}
    assert [(line["candidate"], line["kind"]) for line in result["lines"]] == wanted * len(groups)
    assert result["checks"] == verdicts(EXAMS[result["name"]], result["lines"])


def test_the_results_page_is_current() -> None:
    assert (RESULTS.parent / "RESULTS.md").read_text() == results_page()


def test_the_page_says_which_check_fails_and_which_exam_has_no_results() -> None:
    result = json.loads(json.dumps(STORED[0]))
    result["checks"][0]["passed"] = False
    page = report(list(EXAMS.values()), [result])
    assert "| NO |" in page
    assert f"No results yet: {', '.join([*EXAMS][1:])}" in page


def test_a_check_fails_on_scores_that_contradict_it() -> None:
    lines = json.loads(json.dumps(STORED[0]["lines"]))
    for line in lines:
        line["scores"]["column pair trends"] = float(line["candidate"].startswith("independent"))
    assert not verdicts(EXAMS["sdmetrics"], lines)[0]["passed"]


@pytest.mark.parametrize("answer", [[], {}, {"a": "1"}, {"a": True}, {"a": float("nan")}, {"a": float("inf")}, None])
def test_an_answer_that_is_no_table_of_numbers_is_refused(answer: object) -> None:
    with pytest.raises(RuntimeError):
        parsed(answer)


def test_an_answer_is_read() -> None:
    assert parsed({"a": 1, "b": 0.5}) == {"a": 1.0, "b": 0.5}


def test_a_table_is_divided_into_three_samples_without_overlap() -> None:
    parts = split(table(), 1)
    samples = [part.columns["number"] for part in (parts.released, parts.held_out, parts.reference)]
    assert np.array_equal(np.sort(np.concatenate(samples)), np.arange(300))


def test_controls_are_released_people_and_baselines_are_not(tmp_path: Path) -> None:
    parts = split(table(), 1)
    people = set(parts.released.columns["number"].tolist())
    for control in (copy, bootstrap):
        assert set(control(parts, 1, tmp_path).columns["number"].tolist()) <= people
    assert sorted(copy(parts, 1, tmp_path).columns["number"].tolist()) == sorted(people)
    assert not set(strangers(parts, 1, tmp_path).columns["number"].tolist()) & people
    assert not set(uniform(parts, 1, tmp_path).columns["number"].tolist()) <= people
    assert {candidate.kind for candidate in CANDIDATES} == set(Kind)


def test_a_question_names_the_files_of_one_candidate(tmp_path: Path) -> None:
    asked = question(tmp_path, table(), tmp_path / "aim.parquet", 7)
    assert (asked.released, asked.held_out) == (tmp_path / "released.parquet", tmp_path / "held_out.parquet")
    assert (asked.synthetic, asked.secret, asked.seed) == (tmp_path / "aim.parquet", "half", 7)


def test_the_generated_table_becomes_codes_of_its_schema(tmp_path: Path) -> None:
    marquee("generate", "table", tmp_path / "census", "--rows", "2000", "--files", "1")
    coded = census(tmp_path / "census")
    assert coded.rows == 2000
    for name, codes in coded.columns.items():
        assert codes.min() >= 0
        assert codes.max() < coded.sizes[name]
        assert len(np.unique(codes)) > 1


def test_an_unknown_exam_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sdnits"]) == 2
    assert "unknown exam 'sdnits'; want some of sdmetrics" in capsys.readouterr().err
