"""Every query class, from a config to a published release that is compared with the exact answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from dpcore.evaluation import exact_answers
from jobs.release.run import build_workload, open_statistics
from tests.support.releases import World, baskets_world, table_world

OF_TABLES: dict[str, tuple[dict[str, Any], str, str]] = {
    "marginals of two orders": (
        {"marginals": {"cliques": [{"attributes": ["sex", "home"]}, {"attributes": ["work"], "weight": 3}]}},
        "marginal", "sex=female & home=false",
    ),
    "random literals": (
        {"conjunctions": {"count": 12, "order": 2, "negations": "random"}}, "conjunction", "",
    ),
    "public weights": (
        {"conjunctions": {"count": 1, "order": 2, "weights": "file", "weights_file": "values.csv"}},
        "conjunction", "sex=male & age=[18, 40)",
    ),
    "listed": ({"conjunctions": {"file": "listed.csv"}}, "conjunction", "sex!=male & work=none"),
    "parities": ({"parities": {"order": 2, "attributes": ["sex", "home"]}}, "parity", "even(sex=male)"),
    "some parities": ({"parities": {"order": 3, "count": 9}}, "parity", ""),
}  # fmt: skip
OF_BASKETS: dict[str, tuple[dict[str, Any], str, str]] = {
    "public weights": (
        {"conjunctions": {"count": 1, "order": 2, "weights": "file", "weights_file": "items.csv"}},
        "conjunction", "3 & 7",
    ),
    "listed": ({"conjunctions": {"file": "listed.txt"}}, "conjunction", "0 & !2"),
    "parities": ({"parities": {"order": 1}}, "parity", "even(0)"),
    "some parities": ({"parities": {"order": 3, "count": 9}}, "parity", ""),
}  # fmt: skip
MECHANISMS: dict[str, dict[str, Any]] = {
    "gaussian": {"name": "gaussian"},
    "dual_query": {"name": "dual_query", "rounds": 8, "samples": 20},
}
FILES = {
    "values.csv": 'value,weight\nsex=male,1\n"age=[18, 40)",2\n',
    "listed.csv": 'query,weight\nsex!=male & work=none,2\n"age!=[0, 18) & home=true",1\n',
    "items.csv": "item,weight\n7,1\n3,2\n",
    "listed.txt": "0 & !2\n\n1 & 4\n",
}


def world(folder: Path, capture: pytest.CaptureFixture[str], baskets: bool) -> World:
    for name, content in FILES.items():
        (folder / name).write_text(content)
    made = (baskets_world if baskets else table_world)(folder, capture)
    made.config["privacy"] |= {"epsilon": 20.0, "accounting": "zcdp"}
    made.save()
    made.budget(epsilon=100.0)
    return made


def answers(made: World) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(made.folder / "out" / "x" / "answers.parquet").to_pylist()
    return rows


CASES = [
    *(pytest.param(False, name, id=f"table, {name}") for name in OF_TABLES),
    *(pytest.param(True, name, id=f"baskets, {name}") for name in OF_BASKETS),
]


@pytest.mark.smoke(6)
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("baskets", "name"), CASES)
def test_a_query_class_is_released_and_compared(
    mechanism: str,
    baskets: bool,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    made = world(tmp_path, capsys, baskets)
    workload, kind, first = (OF_BASKETS if baskets else OF_TABLES)[name]
    made.config |= {"workload": workload, "mechanism": MECHANISMS[mechanism], "output": {"path": "out/x"}}
    made.save()
    for command in ("plan", "validate", "run"):
        code, _, said = made.marquee(command, "release.yaml")
        assert code == 0, said
    rows = answers(made)
    assert {row["kind"] for row in rows} == {kind}
    assert not first or rows[0]["query"] == first
    queries = build_workload(made.job()).queries
    exact = exact_answers(open_statistics(made.job()), queries)
    errors = np.abs(np.array([row["answer"] for row in rows]) - exact)
    if mechanism == "gaussian":
        assert (errors < 7 * np.array([row["stddev"] for row in rows])).all()
    code, out, said = made.marquee("evaluate", "release.yaml", "--json")
    assert code == 0, said
    compared = json.loads(out)["rows"]
    assert compared["release"]["max"] * (200 if baskets else 300) == pytest.approx(errors.max())
    assert set(compared) >= {"zeros", "uniform", "product"}


LINEAR = {
    "cliques": [{"attributes": ["sex", "age"], "weight": 2}, {"attributes": ["work"]}, {"attributes": ["home", "age"]}],
    "prefix": ["age"],
    "ranges": ["work"],
}
AGES = {"age<18": (0, 18), "age<40": (0, 40), "age<65": (0, 65), "age<=100": (0, 101)}
VALUES = {"female": "female", "male": "male", "true": True, "false": False, "__null__": None}
WORKS = {
    "work<=private": ["private"], "work<=public": ["private", "public"], "work<=none": ["private", "public", "none"],
    "work=public": ["public"], "public<=work<=none": ["public", "none"], "work=none": ["none"],
    "work=__other__": ["astronaut"], "work=__null__": [None],
}  # fmt: skip


def holds(literal: str, row: dict[str, Any]) -> bool:
    """Whether a row of the table satisfies one literal of a linear query, as its text says."""
    if literal in AGES:
        low, high = AGES[literal]
        return bool(low <= row["age"] < high)
    if "work" in literal:
        return row["work"] in WORKS[literal]
    name, value = literal.split("=")
    return bool(row[name] == VALUES[value])


@pytest.mark.parametrize("mechanism", ["gaussian", "independent"])
def test_prefixes_and_ranges_are_released_and_compared(
    mechanism: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    made = world(tmp_path, capsys, baskets=False)
    made.config |= {"workload": {"marginals": LINEAR}, "mechanism": {"name": mechanism}, "output": {"path": "out/x"}}
    made.save()
    assert made.run()[0] == 0
    rows = answers(made)
    people = pq.read_table(tmp_path / "data").to_pylist()
    exact = np.array([sum(all(holds(one, who) for one in row["query"].split(" & ")) for who in people) for row in rows])
    assert {row["kind"] for row in rows} == {"linear"}
    assert [row["query"] for row in rows[8:16]] == list(WORKS)
    released = np.array([row["answer"] for row in rows])
    if mechanism == "gaussian":
        assert (np.abs(released - exact) < 9 * np.array([row["stddev"] for row in rows])).all()
    code, out, said = made.marquee("evaluate", "release.yaml", "--json")
    assert code == 0, said
    compared, parts = json.loads(out), [slice(0, 8), slice(8, 16), slice(16, 28)]
    distances = np.array([np.abs(released - exact)[part].sum() for part in parts])
    assert compared["error"]["mean"] == pytest.approx(([2, 1, 1] * distances).sum() / (3 * 300))
    norms = np.array([exact[part].sum() for part in parts])
    assert compared["normalised"]["mean"] == pytest.approx((distances / (2 * norms)).mean())
    assert compared["normalised"]["zeros"] == pytest.approx(0.5)
    assert compared["error"]["zeros"] == pytest.approx(([2, 1, 1] * norms).sum() / (3 * 300))
    names = ["mean", *(["rows"] if mechanism == "independent" else []), "zeros", "uniform", "product"]
    assert list(compared["error"]) == list(compared["normalised"]) == names
    code, out, _ = made.marquee("evaluate", "release.yaml")
    assert out.splitlines()[2].split()[-2:] == ["workload", "normalised"]
    assert float(out.splitlines()[3].split()[-2]) == pytest.approx(compared["error"]["mean"], abs=1e-5)


@pytest.mark.parametrize("mechanism", ["mwem", "dual_query", "dqrs", "fem", "sep_fem", "clipped_gaussian"])
def test_what_has_no_proof_for_prefixes_says_so(
    mechanism: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    made = world(tmp_path, capsys, baskets=False)
    made.config |= {"workload": {"marginals": LINEAR}, "mechanism": {"name": mechanism}}
    made.save()
    code, _, said = made.marquee("plan", "release.yaml")
    assert code == 2
    assert f"mechanism {mechanism}" in said
    assert "want" in said


def test_the_workload_error_of_synthetic_rows_is_that_of_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    made = world(tmp_path, capsys, baskets=False)
    asked = [{"attributes": ["sex", "home"], "weight": 3.0}, {"attributes": ["home"], "weight": 0.5}]
    made.config |= {"workload": {"marginals": {"cliques": asked}}, "mechanism": {"name": "mwem", "rounds": 3}}
    made.save()
    assert made.run()[0] == 0
    people = pq.read_table(tmp_path / "data").to_pandas()
    synthetic = pq.read_table(tmp_path / "out/people/synthetic").to_pandas()
    wanted = 0.0
    for clique, weight in ((["sex", "home"], 3.0), (["home"], 0.5)):
        cells = people.groupby(clique, dropna=False).size() / 300
        given = synthetic.groupby(clique, dropna=False).size() / len(synthetic)
        wanted += weight * cells.subtract(given, fill_value=0).abs().sum() / 2
    code, out, _ = made.marquee("evaluate", "release.yaml", "--json")
    assert code == 0
    assert json.loads(out)["error"]["rows"] == pytest.approx(wanted)
    assert json.loads(out)["normalised"] is None


def test_a_release_is_named_by_what_its_query_file_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    made = world(tmp_path, capsys, baskets=True)
    made.config |= {"workload": {"conjunctions": {"file": "listed.txt"}}, "output": {"path": "out/x"}}
    made.save()
    assert made.run()[0] == 0
    before = made.job().release_id
    (tmp_path / "elsewhere.csv").write_text("query\n0 & !2\n1 & 4\n")
    made.set("workload.conjunctions.file", "elsewhere.csv")
    code, out, _ = made.run()
    assert (code, made.job().release_id) == (0, before)
    assert out.startswith("already published")
    certificate = json.loads((tmp_path / "out" / "x" / "certificate.json").read_text())
    assert certificate["hashes"]["public_files"] == made.job().files.digests
    assert list(certificate["hashes"]["public_files"]) == ["workload.conjunctions.file"]
    assert "listed.txt" not in json.dumps(certificate)
    (tmp_path / "elsewhere.csv").write_text("query\n0 & !2\n1 & 5\n")
    assert made.job().release_id != before
    assert made.run()[0] == 2  # The folder holds another release.


def test_a_bad_query_file_is_a_config_error_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    made = world(tmp_path, capsys, baskets=True)
    (tmp_path / "listed.txt").write_text("0 & 1\n0 & 40\n")
    made.set("workload", {"conjunctions": {"file": "listed.txt"}})
    code, out, said = made.run()
    assert (code, out) == (2, "")
    assert "listed.txt, line 2: item 40 is out of range; want 0 .. 39" in said
    assert made.charges() == 0
