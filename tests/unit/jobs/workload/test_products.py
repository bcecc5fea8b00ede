"""Workloads of Kronecker products: the query matrix of each attribute, and the names of the answers."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

from dpcore.errors import ConfigError, DomainTooLargeError
from dpcore.evaluation import exact_answers
from dpcore.kernel.budget import Budget
from dpcore.mechanisms.additive_noise import Gaussian
from dpcore.mechanisms.aim.aim import Aim
from dpcore.mechanisms.api import Mechanism
from dpcore.mechanisms.hdmm.hdmm import Hdmm
from dpcore.mechanisms.independent import Independent
from dpcore.queries import Products
from dpcore.queries.ranges import all_ranges, identity, prefix
from dpcore.testing.doubles import private_statistics
from dpcore.testing.tiny_statistics import TinyTable
from dpcore.workload import Workload
from jobs.config import Config, parse_config
from jobs.outputs.answers_table import query_texts
from jobs.workload.building import workload_of
from jobs.workload.value_groups import codes_of
from pipelines.attributes import Attribute, Kind, days_since_epoch
from pipelines.layout import TableLayout
from pipelines.schema import Schema

SEX = Attribute("sex", Kind.CATEGORICAL, values=("female", "male"), null=False)
AGE = Attribute("age", Kind.INTEGER, edges=(0, 5, 18, 65, 100))
RACE = Attribute("race", Kind.CATEGORICAL, values=("White", "Black", "Asian", "a|b"), other=True, null=False)
GRADE = Attribute("grade", Kind.CATEGORICAL, values=(1, 2, 4, 8), null=False)
PAY = Attribute("pay", Kind.FLOAT, edges=(0.0, 1.5, 3.0), null=False)
DAY = Attribute(
    "day", Kind.DATE, edges=tuple(days_since_epoch(date(2026, month, 1)) for month in (1, 2, 3)), null=False
)
OWNS = Attribute("owns", Kind.BOOLEAN, null=False)
TABLE = TableLayout("person", Schema((SEX, AGE, RACE, GRADE, PAY, DAY, OWNS)))


def config(products: list[dict[str, Any]]) -> Config:
    return parse_config(
        {
            "dataset": {"name": "x", "snapshot": "1", "path": "p", "shape": "table", "unit": "u", "schema": "s"},
            "privacy": {"epsilon": 1, "delta": 0},
            "workload": {"products": products},
            "mechanism": {"name": "hdmm"},
            "output": {"path": "o"},
        }
    )


def made(*products: dict[str, Any]) -> Workload:
    return workload_of(config(list(products)), TABLE)


def of(attributes: dict[str, Any]) -> Products:
    queries = made({"attributes": attributes}).queries
    assert isinstance(queries, Products)
    return queries


def texts(attributes: dict[str, Any]) -> list[str]:
    return [text for part in query_texts(of(attributes), TABLE) for text in part.to_pylist()]


def test_a_term_is_the_product_of_what_is_asked_in_the_order_of_the_schema() -> None:
    (term,) = of({"race": {"groups": [["White"], ["Asian", "Black"]]}, "sex": "each", "age": "total"}).terms
    assert term.clique == ("sex", "race")
    assert term.weight == 1
    assert np.array_equal(term.matrices[0], identity(2))
    assert np.array_equal(term.matrices[1], [[1, 0, 0, 0, 0], [0, 1, 1, 0, 0]])


WIDTH_2 = [[1, 1, 0, 0, 0], [0, 1, 1, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 0, 1]]


@pytest.mark.parametrize(
    ("way", "wanted"),
    [
        ("each", identity(5)),
        ("each_and_total", np.vstack([identity(5), np.ones((1, 5), dtype=np.int64)])),
        ("prefix", prefix(5, 4)),
        ("ranges", all_ranges(5, 4)),
        ({"width": 2}, WIDTH_2),
        ({"width": 4}, [[1, 1, 1, 1, 0], [0, 0, 0, 0, 1]]),
        ({"groups": [["[0, 18)"], ["18..64", "__null__"]]}, [[1, 1, 0, 0, 0], [0, 0, 1, 0, 1]]),
    ],
)
def test_ways_to_ask_an_attribute(way: object, wanted: ArrayLike) -> None:
    (term,) = of({"age": way}).terms
    assert np.array_equal(term.matrices[0], wanted)


def test_terms_have_weights_and_share_what_they_share() -> None:
    workload = made(
        {"weight": 2, "attributes": {"sex": "each", "age": "prefix"}},
        {"attributes": {"age": "prefix"}},
        {"attributes": {"age": "total"}},
    )
    assert isinstance(workload.queries, Products)
    assert workload.weights.tolist() == [2, 1, 1]
    assert [term.clique for term in workload.queries.terms] == [("sex", "age"), ("age",), ()]
    assert np.shares_memory(workload.queries.terms[0].matrices[1], workload.queries.terms[1].matrices[0])
    assert workload.queries.size == 10 + 5 + 1


GROUPS: list[tuple[Attribute, list[Any], list[int]]] = [
    (RACE, ["Asian", "White"], [0, 2]),
    (RACE, ["Black..a|b", "__other__"], [1, 2, 3, 4]),
    (GRADE, [1, "4"], [0, 2]),
    (GRADE, ["2..8"], [1, 2, 3]),
    (AGE, ["[5, 65)"], [1, 2]),
    (AGE, ["5..64"], [1, 2]),
    (AGE, ["0..4", "65..100", "__null__"], [0, 3, 4]),
    (AGE, ["[18,100]"], [2, 3]),
    (PAY, ["[0, 1.5)"], [0]),
    (PAY, ["[0,3]"], [0, 1]),
    (DAY, ["2026-01-01..2026-01-31"], [0]),
    (DAY, ["[2026-01-01, 2026-03-01]"], [0, 1]),
    (OWNS, ["true"], [1]),
]


@pytest.mark.parametrize(("attribute", "group", "codes"), GROUPS, ids=lambda part: str(part)[:30])
def test_values_are_named_by_labels_intervals_and_ranges(
    attribute: Attribute, group: list[Any], codes: list[int]
) -> None:
    assert codes_of(attribute, group) == codes


BAD: list[tuple[dict[str, Any], str]] = [
    ({"sexx": "each"}, "workload: unknown attribute 'sexx'; did you mean 'sex'?"),
    ({"race": {"groups": [["white"]]}}, "product 1: unknown value 'white' of attribute 'race'; did you mean 'White'?"),
    ({"race": {"groups": [["White..Blak"]]}}, "attribute 'race': unknown value 'Blak'; did you mean 'Black'?"),
    ({"race": {"groups": [["Black..White"]]}}, "attribute 'race': 'Black..White' is empty"),
    ({"sex": {"groups": [["x1"]]}}, r"unknown value 'x1' of attribute 'sex'; want one of \['female', 'male'\]"),
    ({"sex": {"groups": [["female", "female..male"]]}}, "attribute 'sex': a group names 'female' twice"),
    (
        {"age": {"groups": [["18..63"]]}},
        "'age': no bin starts or ends after 63; want one of the nearest edges, 18 or 65",
    ),
    ({"age": {"groups": [["17..64"]]}}, "'age': no bin starts or ends at 17; want one of the nearest edges, 5 or 18"),
    ({"age": {"groups": [["[18, x)"]]}}, "attribute 'age': 'x' is not an edge; want an integer"),
    ({"day": {"groups": [["2026..2027"]]}}, "'day': '2027' is not an edge; want a date such as 2026-01-31"),
    (
        {"pay": {"groups": [["0..1.5"]]}},
        r"attribute 'pay': '0..1.5' is a range of decimal numbers; want an interval such as '\[0, 1.5\)'",
    ),
    ({"age": {"groups": [["18..99"]]}}, "'18..99' excludes 100, which is in the last bin; want 18..100"),
    ({"age": {"groups": [["[18, 100)"]]}}, r"'\[18, 100\)' excludes 100, which is in the last bin; want '..., 100\]'"),
    ({"age": {"groups": [["[5, 65]"]]}}, r"'\[5, 65\]' includes 65, which is in the next bin; want '..., 65\)'"),
    ({"age": {"width": 5}}, "attribute 'age': width is 5; want at most 4"),
]


@pytest.mark.parametrize(("attributes", "says"), BAD, ids=lambda part: str(part)[:40])
def test_what_does_not_fit_names_the_attribute_and_the_nearest_value(attributes: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        of(attributes)


def test_booleans_and_integers_of_a_config_are_their_labels() -> None:
    (term,) = of({"owns": {"groups": [[True]]}, "grade": {"groups": [[8]]}}).terms
    assert np.array_equal(term.matrices[0], [[0, 0, 0, 1]])
    assert np.array_equal(term.matrices[1], [[0, 1]])


def test_answers_are_named_by_what_they_count() -> None:
    age = {"groups": [["0..4"], ["18..64"], ["0..4", "65..100", "__null__"]]}
    assert texts({"age": age}) == ["age=[0, 5)", "age=[18, 65)", "age=[0, 5) | age=[65, 100] | age=__null__"]
    race = {"groups": [["White"], ["White", "Black"], ["a|b", "__other__"]]}
    assert texts({"sex": {"groups": [["male"]]}, "race": race}) == [
        "sex=male & race=White",
        "sex=male & (race=White | race=Black)",
        'sex=male & (race="a|b" | race=__other__)',
    ]
    assert texts({"grade": {"groups": [["1..2", 8], ["2..4"]]}}) == ["grade<=2 | grade=8", "2<=grade<=4"]
    assert texts({"age": {"width": 2}})[1:] == ["age=[5, 65)", "age=[18, 100]", "age=__null__"]


def test_all_values_are_not_named() -> None:
    both = texts({"sex": "each_and_total", "owns": "each_and_total"})
    assert both[2] == "sex=female"
    assert both[6:] == ["owns=false", "owns=true", "all"]
    assert texts({"sex": "total"}) == ["all"]
    assert texts({"sex": {"groups": [["female", "male"]]}, "owns": "each"}) == ["owns=false", "owns=true"]


def test_single_values_are_named_as_marginals_name_them() -> None:
    assert texts({"sex": "each", "owns": "each"})[:2] == ["sex=female & owns=false", "sex=female & owns=true"]
    assert texts({"sex": "each_and_total"})[:2] == ["sex=female", "sex=male"]


def test_an_attribute_of_one_value_is_named_as_marginals_name_it() -> None:
    layout = TableLayout("u", Schema((Attribute("only", Kind.CATEGORICAL, values=("x",), null=False), SEX)))
    queries = workload_of(config([{"attributes": {"only": "each", "sex": "each"}}]), layout).queries
    said = [text for part in query_texts(queries, layout) for text in part.to_pylist()]
    assert said == ["only=x & sex=female", "only=x & sex=male"]


CENSUS = (
    {"weight": 2, "attributes": {"sex": "each", "age": {"groups": [["0..17"], ["18..64"], ["65..100"]]}}},
    {"attributes": {"sex": "each_and_total", "race": {"groups": [["White"], ["Black", "Asian"]]}}},
    {"attributes": {"age": {"width": 2}, "grade": "prefix"}},
    {"attributes": {"race": "total"}},
)


@pytest.mark.parametrize(
    "mechanism", [Hdmm(), Hdmm(reconstruction="graphical"), Aim(), Gaussian(), Independent()], ids=repr
)
def test_mechanisms_answer_such_workloads(mechanism: Mechanism) -> None:
    """With little noise, answers are nearly exact, except those of the mechanism that measures single attributes."""
    workload = made(*CENSUS)
    domain = TABLE.schema.domain
    table = TinyTable(domain, np.random.default_rng(3).integers(0, domain.sizes, (400, len(domain.sizes))))
    private = private_statistics(table, Budget.zcdp(1000))
    mechanism.plan(private.terms, workload)
    found = mechanism.run(private, workload, generator=np.random.default_rng(1)).answers
    exact = exact_answers(table, workload.queries)
    assert found.values.shape == exact.shape
    assert np.abs(found.values - exact).max() < (40 if isinstance(mechanism, Independent) else 4)


def test_too_many_answers_are_refused_before_they_are_made() -> None:
    wide = Attribute("x", Kind.INTEGER, edges=tuple(range(2001)))
    layout = TableLayout("u", Schema((wide, GRADE)))
    with pytest.raises(ConfigError, match=r"product 1: attribute 'x': its query matrix has 2,001,001 rows"):
        workload_of(config([{"attributes": {"x": "ranges"}}]), layout)
    with pytest.raises(DomainTooLargeError, match="the workload has 80,040,040 cells"):
        workload_of(config([{"attributes": {"x": "ranges", "grade": "ranges"}} for _ in range(4)]), layout)
    longer = TableLayout("u", Schema((Attribute("x", Kind.INTEGER, edges=tuple(range(3001))),)))
    with pytest.raises(ConfigError, match=r"want fewer codes, so that it has at most 4,194,304 entries"):
        workload_of(config([{"attributes": {"x": "each_and_total"}}]), longer)
