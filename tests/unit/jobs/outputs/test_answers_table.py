"""answers.parquet: the text of each query identifies it exactly."""

from __future__ import annotations

import itertools
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

import jobs.outputs.answers_table
from dpcore.domain import BinaryView, Domain
from dpcore.queries import Conjunctions, Marginals, Queries
from dpcore.queries.ranges import all_ranges, prefix, range_marginals
from dpcore.uncertainty import Answers, Estimation, of_model
from jobs.outputs.answers_table import ESTIMATES, attribute_names, fixed_schema, query_texts, write_answers
from pipelines.attributes import Attribute, Kind, days_since_epoch
from pipelines.layout import BasketLayout, TableLayout
from pipelines.schema import Schema
from tests.support.estimates import ESTIMATE_COLUMNS

SCHEMA = Schema(
    (
        Attribute("sex", Kind.CATEGORICAL, values=("female", "male"), null=False),
        Attribute("age", Kind.INTEGER, edges=(0, 30, 100)),
        Attribute("job & rank", Kind.CATEGORICAL, values=("a=b", "plain", 'say "x"'), other=True, null=False),
    )
)
TABLE = TableLayout("person", SCHEMA)
BASKETS = BasketLayout("user", "item", 1000)
JOB = '"job & rank"'
JOBS = ['"a=b"', "plain", '"say \\"x\\""', "__other__"]


def texts(queries: Queries, layout: TableLayout | BasketLayout) -> list[str]:
    return [text for part in query_texts(queries, layout) for text in part.to_pylist()]


def test_cells_of_marginals_are_named_in_the_order_of_their_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    ages = ["[0, 30)", "[30, 100]", "__null__"]
    wanted = [f"sex={sex} & {JOB}={job}" for sex, job in itertools.product(("female", "male"), JOBS)]
    wanted += [f"age={age}" for age in ages] + ["all"]
    queries = Marginals(SCHEMA.domain, (("job & rank", "sex"), ("age",), ()))
    assert texts(queries, TABLE) == wanted
    monkeypatch.setattr(jobs.outputs.answers_table, "ROWS_AT_ONCE", 3)
    assert texts(queries, TABLE) == wanted


def test_literals_of_a_table_are_named_by_column_and_sign() -> None:
    columns = np.array([[0, 4], [1, 5], [3, 8]])
    negated = np.array([[False, True], [False, False], [True, False]])
    queries = Conjunctions(TABLE.view, columns, negated)
    assert texts(queries, TABLE) == [
        "sex=female & age!=__null__",
        f'sex=male & {JOB}="a=b"',
        f"age!=[30, 100] & {JOB}=__other__",
    ]


def ranged(domain: Domain, clique: tuple[str, ...], **matrices: NDArray[np.int64]) -> list[str]:
    return texts(range_marginals(domain, [clique], matrices), TABLE)


def test_prefixes_name_their_upper_end(monkeypatch: pytest.MonkeyPatch) -> None:
    ages = ["age<30", "age<=100", "age=__null__"]
    wanted = [f"sex={sex} & {age}" for sex, age in itertools.product(("female", "male"), ages)]
    assert ranged(SCHEMA.domain, ("sex", "age"), age=prefix(3, 2)) == wanted
    monkeypatch.setattr(jobs.outputs.answers_table, "ROWS_AT_ONCE", 4)
    assert ranged(SCHEMA.domain, ("sex", "age"), age=prefix(3, 2)) == wanted
    assert texts(range_marginals(SCHEMA.domain, [(), ("age",)], {"age": prefix(3, 2)}), TABLE) == ["all", *ages]


def test_ranges_name_both_ends() -> None:
    edges = (10, 20, 30, 45)
    ages = TableLayout("person", Schema((Attribute("age", Kind.INTEGER, edges=edges),)))
    asked = range_marginals(ages.schema.domain, [("age",)], {"age": all_ranges(4, 3)})
    starts = ["age<20", "age<30", "age<=45"]
    assert texts(asked, ages) == [*starts, "age=[20, 30)", "age=[20, 45]", "age=[30, 45]", "age=__null__"]


def test_ranges_of_values_name_the_values() -> None:
    lines = [f"{JOB}={JOBS[0]}", f"{JOB}=plain", f"{JOB}={JOBS[2]}", f"{JOB}=__other__"]
    from_first = [f"{JOB}<={label}" for label in JOBS[:3]]
    assert ranged(SCHEMA.domain, ("job & rank",), **{"job & rank": prefix(4, 3)}) == [*from_first, lines[3]]
    inner = [lines[1], f"plain<={JOB}<={JOBS[2]}", lines[2], lines[3]]
    assert ranged(SCHEMA.domain, ("job & rank",), **{"job & rank": all_ranges(4, 3)}) == [*from_first, *inner]


def test_the_identity_is_named_as_cells_are_and_other_rows_as_what_they_hold() -> None:
    assert ranged(SCHEMA.domain, ("age",)) == texts(Marginals(SCHEMA.domain, (("age",),)), TABLE)
    apart = np.array([[1, 0, 1], [0, 1, 1], [0, 0, 1]])
    said = ["age=[0, 30) | age=__null__", "age=[30, 100] | age=__null__", "age=__null__"]
    assert ranged(SCHEMA.domain, ("age",), age=apart) == said


def test_signs_in_names_and_values_are_quoted_beside_signs() -> None:
    pay = Attribute("pay<tax>", Kind.CATEGORICAL, values=("<50", "50", ">50"), other=False, null=False)
    layout = TableLayout("person", Schema((pay,)))
    asked = range_marginals(layout.schema.domain, [("pay<tax>",)], {"pay<tax>": all_ranges(3)})
    name = '"pay<tax>"'
    assert texts(asked, layout) == [
        f'{name}<="<50"', f"{name}<=50", f'{name}<=">50"', f"{name}=50", f'50<={name}<=">50"', f'{name}=">50"',
    ]  # fmt: skip


def test_days_are_named_as_days() -> None:
    edges = tuple(days_since_epoch(date(2026, month, 1)) for month in (1, 2, 3))
    layout = TableLayout("person", Schema((Attribute("day", Kind.DATE, edges=edges, null=False),)))
    asked = range_marginals(layout.schema.domain, [("day",)], {"day": prefix(2)})
    assert texts(asked, layout) == ["day<2026-02-01", "day<=2026-03-01"]


def test_answers_of_products_are_of_kind_linear(tmp_path: Path) -> None:
    queries = range_marginals(SCHEMA.domain, [("age",)], {"age": prefix(3, 2)})
    write_answers(tmp_path / "linear.parquet", queries, of_model(np.arange(3.0)), TABLE)
    rows = pq.read_table(tmp_path / "linear.parquet").to_pylist()
    assert [(row["query"], row["kind"], row["answer"]) for row in rows] == [
        ("age<30", "linear", 0.0), ("age<=100", "linear", 1.0), ("age=__null__", "linear", 2.0),
    ]  # fmt: skip


def test_items_of_baskets_are_numbers() -> None:
    queries = Conjunctions(BinaryView(1000), np.array([[12, 845], [7, 3]]), np.array([[False, True], [False, False]]))
    assert texts(queries, BASKETS) == ["12 & !845", "7 & 3"]


def test_different_queries_have_different_texts() -> None:
    view = TABLE.view
    pairs = np.array(list(itertools.combinations(range(view.columns), 2)))
    both = Conjunctions(view, np.tile(pairs, (2, 1)), np.repeat([[False, False], [True, False]], len(pairs), axis=0))
    assert len(set(texts(both, TABLE))) == both.size


def test_error_bars_that_are_not_known_are_null(tmp_path: Path) -> None:
    queries = Marginals(SCHEMA.domain, (("sex",),))
    values = np.array([1.5, -2.0])
    write_answers(tmp_path / "model.parquet", queries, of_model(values), TABLE)
    rows = pq.read_table(tmp_path / "model.parquet").to_pylist()
    unknown = {"stddev": None, "lower": None, "upper": None}
    assert rows == [
        {"query": "sex=female", "kind": "marginal", "answer": 1.5, "measured": False, "sex": "female", **unknown},
        {"query": "sex=male", "kind": "marginal", "answer": -2.0, "measured": False, "sex": "male", **unknown},
    ]
    measured = Answers(values, np.array([1.0, 2.0]), values - 1, values + 1, measured=True)
    write_answers(tmp_path / "measured.parquet", queries, measured, TABLE)
    table = pq.read_table(tmp_path / "measured.parquet")
    assert table.column("stddev").to_pylist() == [1.0, 2.0]
    assert table.column("lower").to_pylist() == [0.5, -3.0]
    assert table.column("measured").to_pylist() == [True, True]


def test_an_answer_without_a_deviation_was_not_measured(tmp_path: Path) -> None:
    values = np.array([1.5, 2.0])
    partly = Answers(values, np.array([1.0, np.nan]), values - 1, values + 1, measured=True)
    write_answers(tmp_path / "partly.parquet", Marginals(SCHEMA.domain, (("sex",),)), partly, TABLE)
    table = pq.read_table(tmp_path / "partly.parquet")
    assert table.column("measured").to_pylist() == [True, False]
    assert table.column("upper").to_pylist() == [2.5, 3.0]


def test_estimates_have_measured_values_q_values_and_guaranteed_intervals(tmp_path: Path) -> None:
    queries = Conjunctions(BASKETS.view, np.array([[3, 7], [4, 9]]), np.zeros((2, 2), dtype=bool))
    nan, values = np.nan, np.array([0.0, 12.0])
    estimation = Estimation(np.array([-3.5, nan]), np.array([0.75, nan]), np.zeros(2), np.array([30.0, 40.0]))
    answers = Answers(values, np.array([4.0, nan]), values, values + 5, measured=True, estimation=estimation)
    write_answers(tmp_path / "estimates.parquet", queries, answers, BASKETS)
    table = pq.read_table(tmp_path / "estimates.parquet")
    assert table.column_names == [*ESTIMATES.names, "items", "negated"]
    assert fixed_schema(table.column_names) is ESTIMATES
    assert attribute_names(table.column_names) == ["items", "negated"]
    assert table.select(ESTIMATES.names).to_pydict() == ESTIMATE_COLUMNS


def test_equal_answers_give_equal_bytes(tmp_path: Path) -> None:
    queries = Conjunctions.single_columns(TABLE.view)
    for name in ("one", "two"):
        write_answers(tmp_path / name, queries, of_model(np.arange(queries.size, dtype=float)), TABLE)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
