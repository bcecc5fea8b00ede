"""Query files and weight files: their meaning, and the place that an error names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcore.errors import ConfigError
from dpcore.queries import Conjunctions
from dpcore.uncertainty import of_model
from jobs.config.workload import ConjunctionQueries, MarginalQueries, ParityQueries, Queries
from jobs.outputs.answers_table import write_answers
from jobs.workload.public_files import read_public_files, read_queries, read_weights
from pipelines.attributes import Attribute, Kind
from pipelines.layout import BasketLayout, Layout, TableLayout
from pipelines.schema import Schema

TABLE = TableLayout(
    "person",
    Schema(
        (
            Attribute("sex", Kind.CATEGORICAL, values=("f", "m"), null=False),
            Attribute("age", Kind.INTEGER, edges=(0, 30, 100), null=False),
        )
    ),
)
BASKETS = BasketLayout("user", "item", 9)


def listed(path: Path, layout: Layout) -> tuple[list[list[int]], list[list[bool]], list[float]]:
    made = read_queries(path, layout)
    assert isinstance(made.queries, Conjunctions)
    return made.queries.columns.tolist(), made.queries.negated.tolist(), made.weights.tolist()


def written(folder: Path, name: str, content: str | dict[str, Any]) -> Path:
    path = folder / name
    if isinstance(content, str):
        path.write_text(content, encoding="utf-8")
    else:
        pq.write_table(pa.table(content), path)
    return path


def test_three_spellings_of_one_file(tmp_path: Path) -> None:
    wanted = ([[1, 2], [0, 3]], [[False, False], [False, True]], [1.0, 1.0])
    lines = written(tmp_path, "q.txt", "sex=m & age=[0, 30)\n\nsex=f & age!=[30, 100]\n")
    table = written(tmp_path, "q.csv", 'query\n"sex=m & age=[0, 30)"\n\n"sex=f & age!=[30, 100]"\n')
    columns = written(tmp_path, "q.parquet", {"query": ["sex=m & age=[0, 30)", "sex=f & age!=[30, 100]"]})
    assert listed(lines, TABLE) == listed(table, TABLE) == listed(columns, TABLE) == wanted
    asked = [Queries(conjunctions=ConjunctionQueries(file=str(path))) for path in (lines, table, columns)]
    digests = [read_public_files(one, TABLE).digests for one in asked]
    assert digests[0] == digests[1] == digests[2]
    assert list(digests[0]) == ["workload.conjunctions.file"]


def test_queries_may_have_weights(tmp_path: Path) -> None:
    table = written(tmp_path, "q.csv", "weight, query\n2.5, 1 & 7\n1e-3, !4 & 0\n")
    columns = written(tmp_path, "q.parquet", {"query": ["1 & 7", "!4 & 0"], "weight": [2.5, 1e-3], "note": ["a", "b"]})
    wanted = ([[1, 7], [4, 0]], [[False, False], [True, False]], [2.5, 1e-3])
    assert listed(table, BASKETS) == listed(columns, BASKETS) == wanted


def test_the_answers_of_a_release_are_a_query_file(tmp_path: Path) -> None:
    queries = Conjunctions(BASKETS.view, np.array([[1, 2, 3], [4, 0, 8]]), np.array([[0, 1, 0], [0, 0, 1]]))
    write_answers(tmp_path / "answers.parquet", queries, of_model(np.zeros(2)), BASKETS)
    again = read_queries(tmp_path / "answers.parquet", BASKETS).queries
    assert again.digest() == queries.digest()


def test_another_weight_or_query_is_another_digest(tmp_path: Path) -> None:
    contents = ["query,weight\n1,1\n", "query,weight\n1,2\n", "query,weight\n2,1\n", "query,weight\n!1,1\n"]
    found = set()
    for content in contents:
        path = written(tmp_path, "q.csv", content)
        asked = Queries(conjunctions=ConjunctionQueries(file=str(path)))
        found |= set(read_public_files(asked, BASKETS).digests.values())
    assert len(found) == len(contents)


def test_weights_are_0_where_the_file_is_silent(tmp_path: Path) -> None:
    items = written(tmp_path, "w.csv", "item,weight\n3,2\n8,0.5\n0,0\n")
    assert read_weights(items, BASKETS).tolist() == [0, 0, 0, 2, 0, 0, 0, 0, 0.5]
    values = written(tmp_path, "w.parquet", {"value": ["sex=m", "age=[0, 30)"], "weight": [3, 1]})
    assert read_weights(values, TABLE).tolist() == [0, 3, 1, 0]
    numbers = written(tmp_path, "i.parquet", {"item": pa.array([5, 1], pa.int32()), "weight": [1.0, 2.0]})
    assert read_weights(numbers, BASKETS).tolist() == [0, 2, 0, 0, 0, 1, 0, 0, 0]


def test_weights_come_by_their_key(tmp_path: Path) -> None:
    path = written(tmp_path, "w.csv", "item,weight\n3,2\n")
    asked = ConjunctionQueries(count=1, order=1, weights="file", weights_file=str(path))
    files = read_public_files(Queries(conjunctions=asked), BASKETS)
    assert files.weights is not None
    assert list(files.digests) == ["workload.conjunctions.weights_file"]


def test_a_line_ends_at_a_line_feed_alone(tmp_path: Path) -> None:
    """Labels may hold what Unicode also counts as ends of lines; a carriage return before the line feed is dropped."""
    layout = TableLayout("person", Schema((Attribute("name", Kind.CATEGORICAL, values=("a\u2028b", "c\x85d")),)))
    path = tmp_path / "q.txt"
    path.write_bytes("name=a\u2028b\r\n\nname=c\x85d\nname=e\n".encode())
    with pytest.raises(ConfigError, match=r"q\.txt, line 4: unknown value 'e'"):
        read_queries(path, layout)
    path.write_bytes("name=a\u2028b\r\n\nname=c\x85d".encode())
    assert listed(path, layout)[0] == [[0], [1]]


@pytest.mark.parametrize("header", ["query,query,weight", "query,weight,weight"])
def test_a_column_that_comes_twice_is_refused(header: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="want 'query' and 'weight' once each"):
        read_queries(written(tmp_path, "q.csv", f"{header}\n1,2,3\n"), BASKETS)


def test_a_workload_without_files_reads_none() -> None:
    for asked in (
        Queries(marginals=MarginalQueries(order=1)),
        Queries(conjunctions=ConjunctionQueries(count=1, order=1)),
        Queries(parities=ParityQueries(order=2)),
    ):
        files = read_public_files(asked, TABLE)
        assert (files.queries, files.weights, files.digests) == (None, None, {})


Reader = Callable[[Path, Layout], object]
BAD: list[tuple[Reader, str, str | dict[str, Any], str]] = [
    (read_queries, "q.csv", "query\n1 & 2\n\n3 & 99\n", r"q\.csv, line 4, column 'query': item 99 is out of range"),
    (read_queries, "q.txt", "1 & 2\n\n3 & x\n", r"q\.txt, line 3: 'x' is not a literal"),
    (read_queries, "q.parquet", {"query": ["1", "1 & 2 & 1"]}, "names an item or a value twice"),
    (read_queries, "q.csv", "query,weight\n1,1\n2,zero\n", r"line 3, column 'weight': 'zero' is not a number"),
    (
        read_queries,
        "q.csv",
        "query,weight\n1,1\n2,-1\n",
        r"line 3, column 'weight': .* is not a positive finite number",
    ),
    (
        read_queries,
        "q.csv",
        "query,weight\n1,1\n2,inf\n",
        r"line 3, column 'weight': .* is not a positive finite number",
    ),
    (read_queries, "q.csv", "query,weight\n1\n", r"line 2: has 1 fields; want 2, with quotes"),
    (read_queries, "q.csv", 'query\n"1" & 2\n', r"line 2: is not valid CSV"),
    (read_queries, "q.csv", "queries\n1\n", r"has the columns \['queries'\]; want a column 'query'"),
    (read_queries, "q.parquet", {"queries": ["1"]}, r"has the columns \['queries'\]; want a column 'query'"),
    (read_queries, "q.parquet", {"query": ["1", None]}, r"row 2, column 'query': is null"),
    (read_queries, "q.parquet", {"query": [["1"]]}, "has the wrong type"),
    (read_queries, "q.parquet", "no parquet", "cannot be read"),
    (read_queries, "q.csv", "", "want a column 'query'"),
    (read_queries, "q.csv", "query\n", "has no rows"),
    (read_queries, "q.txt", "\n \n", "has no rows"),
    (read_weights, "w.csv", "item,weight\n1,1\n1,2\n", r"line 3, column 'item': names '1' a second time"),
    (read_weights, "w.csv", "item,weight\n1,1\n!2,2\n", r"line 3, column 'item': '!2' is a negation"),
    (read_weights, "w.csv", "item,weight\n1,-1\n", r"line 2, column 'weight': .* is not a finite number >= 0"),
    (read_weights, "w.csv", "item,weight\n1,0\n", "every weight is 0"),
    (read_weights, "w.csv", "item\n1\n", "has no column 'weight'"),
    (read_weights, "w.parquet", {"value": ["1"], "weight": [1.0]}, "want a column 'item'"),
]


@pytest.mark.parametrize(("read", "name", "content", "says"), BAD)
def test_an_error_names_the_file_and_the_place(
    read: Reader, name: str, content: str | dict[str, Any], says: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        read(written(tmp_path, name, content), BASKETS)
    assert name in str(caught.value)


@pytest.mark.parametrize("read", [read_queries, read_weights])
def test_a_file_that_is_not_there(read: Reader, tmp_path: Path) -> None:
    for name in ("none.csv", "none.parquet"):
        with pytest.raises(ConfigError, match="does not exist"):
            read(tmp_path / name, BASKETS)
    (tmp_path / "latin.csv").write_bytes(b"query\n\xe9\n")
    with pytest.raises(ConfigError, match=r"latin\.csv, line 2 is not UTF-8 text"):
        read(tmp_path / "latin.csv", BASKETS)
