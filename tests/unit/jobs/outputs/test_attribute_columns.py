"""answers.parquet has a column for each attribute, so that nobody has to parse the text of a query."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import jobs.outputs.answers_table
import jobs.outputs.attribute_columns
from dpcore.domain import BinaryView
from dpcore.queries import Conjunctions, Marginals, Parities, Queries
from dpcore.queries.ranges import all_ranges, prefix, range_marginals
from dpcore.uncertainty import of_model
from jobs.outputs.answers_table import SCHEMA, write_answers
from jobs.outputs.attribute_columns import column_of
from pipelines.attributes import Attribute, Kind
from pipelines.layout import BasketLayout, Layout, TableLayout
from pipelines.schema import Schema

TOWN = Attribute("town", Kind.CATEGORICAL, values=("A & B", "<=50K", 'say "x"', ">50K"), other=True, null=False)
AGE = Attribute("age", Kind.INTEGER, edges=(0, 30, 60, 100))
ANSWER = Attribute("answer", Kind.BOOLEAN, null=False)
TABLE = TableLayout("person", Schema((TOWN, AGE, ANSWER)))
DOMAIN = TABLE.schema.domain


def written(folder: Path, queries: Queries, layout: Layout = TABLE) -> pa.Table:
    write_answers(folder / "answers.parquet", queries, of_model(np.zeros(queries.size)), layout)
    return pq.read_table(folder / "answers.parquet")


def test_cells_of_marginals_have_the_labels_of_the_schema(tmp_path: Path) -> None:
    table = written(tmp_path, Marginals(DOMAIN, (("town", "answer"), ("age",), ())))
    pairs = list(itertools.product(TOWN.labels, ("false", "true")))
    assert table.column_names == [*SCHEMA.names, "town", "age", "answer_attribute"]
    assert table["town"].to_pylist() == [town for town, _ in pairs] + [None] * 5
    assert table["answer_attribute"].to_pylist() == [answer for _, answer in pairs] + [None] * 5
    assert table["age"].to_pylist() == [None] * 10 + [*AGE.labels, None]
    assert table.schema.field("town").type == pa.string()


def test_attributes_that_no_query_names_have_no_column(tmp_path: Path) -> None:
    assert written(tmp_path, Marginals(DOMAIN, (("age",),))).column_names == [*SCHEMA.names, "age"]
    assert column_of("age") == "age"


def test_batches_of_texts_and_attributes_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queries = Marginals(DOMAIN, (("town", "age"), ("answer",), ()))
    whole = written(tmp_path, queries)
    for module in (jobs.outputs.answers_table, jobs.outputs.attribute_columns):
        monkeypatch.setattr(module, "ROWS_AT_ONCE", 3)
    assert written(tmp_path, queries).equals(whole)


def test_prefixes_and_ranges_are_written_without_the_name(tmp_path: Path) -> None:
    prefixes = written(tmp_path, range_marginals(DOMAIN, [("age",)], {"age": prefix(4, 3)}))
    assert prefixes["age"].to_pylist() == ["<30", "<60", "<=100", "__null__"]
    ranges = written(tmp_path, range_marginals(DOMAIN, [("age",)], {"age": all_ranges(4, 3)}))
    wanted = ["<30", "<60", "<=100", "[30, 60)", "[30, 100]", "[60, 100]", "__null__"]
    assert ranges["age"].to_pylist() == wanted


def test_negated_literals_are_marked(tmp_path: Path) -> None:
    columns = np.array([[0, 5], [1, 2], [3, 9]], dtype=np.int32)
    negated = np.array([[False, True], [True, True], [False, False]])
    table = written(tmp_path, Conjunctions(TABLE.view, columns, negated))
    assert table["town"].to_pylist() == ["A & B", '!=<=50K & !=say "x"', ">50K"]
    assert table["age"].to_pylist() == ["!=[0, 30)", None, None]
    assert table["answer_attribute"].to_pylist() == [None, None, "false"]


def test_a_repeated_last_literal_is_listed_once(tmp_path: Path) -> None:
    columns, negated = np.array([[0, 5], [9, 9]], dtype=np.int32), np.array([[True, False], [True, True]])
    table = written(tmp_path, Conjunctions(TABLE.view, columns, negated))
    assert table["query"].to_pylist() == ['town!="A & B" & age=[0, 30)', "answer!=false"]
    assert table["town"].to_pylist() == ["!=A & B", None]
    assert table["answer_attribute"].to_pylist() == [None, "!=false"]
    baskets = written(tmp_path, Conjunctions(BinaryView(1000), columns, negated), BasketLayout("user", "item", 1000))
    assert baskets["query"].to_pylist() == ["!0 & 5", "!9"]
    assert baskets["items"].to_pylist() == [[0, 5], [9]]
    assert baskets["negated"].to_pylist() == [[True, False], [True]]


def test_conjunctions_and_parities_of_baskets_list_their_items(tmp_path: Path) -> None:
    baskets = BasketLayout("user", "item", 1000)
    columns, negated = np.array([[7, 12], [3, 999]], dtype=np.int32), np.array([[False, True], [False, False]])
    table = written(tmp_path, Conjunctions(BinaryView(1000), columns, negated), baskets)
    assert table["items"].to_pylist() == [[7, 12], [3, 999]]
    assert table["negated"].to_pylist() == [[False, True], [False, False]]
    parities = Parities(BinaryView(1000), np.array([[3, 8], [5, -1]], dtype=np.int32))
    asked = written(tmp_path, parities, baskets)
    assert asked.column_names == [*SCHEMA.names, "items"]
    assert asked["items"].to_pylist() == [[3, 8], [5]]


def test_parities_of_a_table_are_text_alone(tmp_path: Path) -> None:
    parities = Parities(TABLE.view, np.array([[0, 5]], dtype=np.int32))
    assert written(tmp_path, parities).column_names == SCHEMA.names
