"""The recommended mechanism: it accepts, it follows from public facts alone, and the rule is what its reason says."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from dpcore.domain import BinaryView, Domain
from dpcore.errors import ConfigError
from dpcore.exact_statistics import Contribution, Shape
from dpcore.kernel.budget import Budget, Currency
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.sensitivity import Neighbours, PrivacyUnit
from dpcore.mechanisms import additive_noise, gaussian_pgm, recommendation
from dpcore.mechanisms.recommendation import recommended
from dpcore.mechanisms.registry import MECHANISMS
from dpcore.queries import Conjunctions, Marginals
from dpcore.queries.generation import random_conjunctions, random_parities
from dpcore.queries.mixed_orders import random_mixed_conjunctions
from dpcore.queries.ranges import all_ranges, prefix, range_marginals
from dpcore.workload import Workload, all_k_way, conjunctive, linear, target

SMALL = Domain.of({"a": 3, "b": 4, "c": 2, "d": 3})
LARGE = Domain.of({f"a{place}": 12 for place in range(9)})
MANY = Domain.of({f"a{place}": 3 for place in range(32)})
ITEMS, COLUMNS = BinaryView(60), BinaryView.one_hot(LARGE)


def conjunctions(view: BinaryView, count: int, negate: bool) -> Workload:
    return conjunctive(random_conjunctions(view, count, 2, np.random.default_rng(1), negate=negate))


def parities(view: BinaryView, count: int) -> Workload:
    return conjunctive(random_parities(view, count, 2, np.random.default_rng(1)))


TABLES = {
    "small marginals": all_k_way(SMALL, 2),
    "large marginals": all_k_way(LARGE, 3),
    "marginals of a target": target(LARGE, 3, "a4"),
    "many marginals": all_k_way(MANY, 3),
    "prefixes": linear(range_marginals(SMALL, [("a", "b"), ("b", "c")], {"b": prefix(4)})),
    "ranges": linear(range_marginals(LARGE, [("a1", "a2"), ("a3",)], {"a2": all_ranges(12), "a3": prefix(12)})),
    "negated conjunctions of a table": conjunctions(COLUMNS, 600, negate=True),
    "parities of a table": parities(COLUMNS, 600),
}
BASKETS = {
    "positive conjunctions": conjunctions(ITEMS, 600, negate=False),
    "negated conjunctions": conjunctions(ITEMS, 600, negate=True),
    "few negated conjunctions": conjunctions(ITEMS, 50, negate=True),
    "conjunctions of several orders": conjunctive(
        random_mixed_conjunctions(ITEMS, 60, [1, 2, 3], np.random.default_rng(1))
    ),
    "long negated conjunctions": conjunctive(
        Conjunctions(ITEMS, np.array([[*range(7)]] * 600), np.ones((600, 7), dtype=bool))
    ),
    "parities": parities(ITEMS, 600),
}
WORKLOADS = TABLES | BASKETS
BUDGETS = (Budget.pure(1), Budget.zcdp(1), Budget.gdp(1))


every_budget = pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: budget.currency.name)


def terms(shape: Shape, budget: Budget = BUDGETS[1], bound: int = 1, units: int | None = None) -> PrivacyTerms:
    bound = 10 if shape is Shape.BASKETS else bound
    return PrivacyTerms(PrivacyUnit(Neighbours.ADD_REMOVE_UNIT, Contribution(shape, bound), units), budget)


def of(name: str) -> Shape:
    return Shape.BASKETS if name in BASKETS else Shape.TABLE


FIRST = {
    "small marginals": "adaptive_residuals",
    "large marginals": "adaptive_residuals",
    "marginals of a target": "adaptive_residuals",
    "many marginals": "adaptive_residuals",
    "prefixes": "aim",
    "ranges": "aim",
    "negated conjunctions of a table": "clipped_gaussian",
    "parities of a table": "dqrs",
    "positive conjunctions": "clipped_gaussian",
    "negated conjunctions": "clipped_gaussian",
    "conjunctions of several orders": "clipped_gaussian",
    "long negated conjunctions": "basket_mixture",
    "few negated conjunctions": "gaussian",
    "parities": "dqrs",
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_rule(name: str) -> None:
    assert recommended(terms(of(name)), WORKLOADS[name]).name == FIRST[name]


@every_budget
@pytest.mark.parametrize("name", [name for name in WORKLOADS if name != "many marginals"])
def test_what_is_recommended_accepts_the_terms(name: str, budget: Budget) -> None:
    """With one row a unit or three, with a public number of units or not, with units replaced, with rows wanted."""
    shape, workload = of(name), WORKLOADS[name]
    unit = PrivacyUnit(Neighbours.REPLACE_ONE_UNIT, Contribution(shape, 1), 5000)
    asked = [
        terms(shape, budget),
        terms(shape, budget, bound=3),
        terms(shape, budget, units=5000),
        PrivacyTerms(unit, budget),
    ]
    wanted = [(one, False) for one in asked] + [(asked[1], True)]
    for one, rows in wanted:
        found = recommended(one, workload, rows=rows)
        assert found.mechanism.plan(one, workload).steps
        assert found.why


@every_budget
def test_very_many_marginals_are_accepted_too(budget: Budget, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recommendation, "_MAX_CLOSURE", 1)
    asked, workload = terms(Shape.TABLE, budget, bound=3), WORKLOADS["large marginals"]
    found = recommended(asked, workload, rows=True)
    assert found.name == "clique_tree"
    assert found.mechanism.plan(asked, workload).steps


def test_noise_alone_is_that_of_the_currency() -> None:
    few = WORKLOADS["few negated conjunctions"]
    found = [recommended(terms(Shape.BASKETS, budget), few).name for budget in BUDGETS]
    assert found == ["laplace", "gaussian", "gaussian"]


def test_rows_need_a_model() -> None:
    for name in ("positive conjunctions", "few negated conjunctions"):
        assert recommended(terms(Shape.BASKETS), WORKLOADS[name], rows=True).name == "basket_mixture"
    assert recommended(terms(Shape.BASKETS), WORKLOADS["parities"], rows=True).name == "dqrs"
    assert recommended(terms(Shape.TABLE), WORKLOADS["small marginals"], rows=True).name == "gaussian_pgm"


def test_units_of_several_rows_get_what_has_a_proof_for_them() -> None:
    asked = terms(Shape.TABLE, bound=3)
    negated = WORKLOADS["negated conjunctions of a table"]
    assert recommended(asked, negated).name == "gaussian"
    assert recommended(asked, negated, rows=True).name == "independent"


def test_the_model_decides_whether_marginals_are_selected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The junction tree of all pairs of four attributes is one node of 3 * 4 * 2 * 3 = 72 cells."""
    small = WORKLOADS["small marginals"]
    monkeypatch.setattr(recommendation, "_MAX_MODEL_CELLS", 72)
    for one, rows in ((terms(Shape.TABLE), True), (terms(Shape.TABLE, Budget.pure(1)), False)):
        found = recommended(one, small, rows=rows)
        assert (found.name, "6 marginals" in found.why, "72 cells" in found.why) == ("gaussian_pgm", True, True)
    found = recommended(terms(Shape.TABLE), small)
    assert (found.choice, "all 6 marginals" in found.why) == ("adaptive_residuals (model: graphical)", True)
    monkeypatch.setattr(recommendation, "_MAX_MODEL_CELLS", 71)
    assert recommended(terms(Shape.TABLE), small).choice == "adaptive_residuals"
    with_rows = recommended(terms(Shape.TABLE), small, rows=True)
    assert with_rows.choice == "adaptive_residuals (model: graphical)"
    assert with_rows.mechanism.traits.gives_rows(with_rows.mechanism)
    assert recommended(terms(Shape.TABLE, Budget.pure(1)), small, rows=True).name == "aim"
    assert recommended(terms(Shape.TABLE, Budget.pure(1)), small).name == "aim"


def test_large_marginals_are_measured_at_once_where_rows_are_known_to_be_many() -> None:
    """Sparse ones drown where rows are few, and nobody may look at how many there are where that is private."""
    domain = Domain.of({"x": 30, "y": 30, "z": 30})
    workload = all_k_way(domain, 2)
    asked = {units: terms(Shape.TABLE, units=units) for units in (None, 1000, 10**6)}
    found = {units: recommended(one, workload, rows=True).name for units, one in asked.items()}
    assert found == {None: "aim", 1000: "aim", 10**6: "gaussian_pgm"}
    assert {recommended(one, workload).name for one in asked.values()} == {"adaptive_residuals"}


@every_budget
def test_noise_of_half_the_rows_is_too_much_for_small_marginals(budget: Budget) -> None:
    """All pairs of four attributes: the noise of a marginal is its cells' mean absolute noise."""
    small = WORKLOADS["small marginals"]
    plain = MECHANISMS["laplace" if budget.currency is Currency.PURE else "gaussian"]()
    error = plain.plan(terms(Shape.TABLE, budget), small).predicted_error
    assert error is not None
    noise = error * small.queries.size / 6
    near = {part: terms(Shape.TABLE, budget, units=round(noise / part)) for part in (0.4, 0.9)}
    found = {part: recommended(one, small, rows=True).name for part, one in near.items()}
    assert found == {0.4: "gaussian_pgm", 0.9: "aim" if budget.currency is Currency.PURE else "adaptive_residuals"}


@pytest.mark.parametrize("units", [None, 10**6])
def test_more_answers_than_one_model_may_have_are_left_to_others(
    units: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = WORKLOADS["small marginals"]
    for limit, name in ((small.queries.size, "gaussian_pgm"), (small.queries.size - 1, "adaptive_residuals")):
        for module in (recommendation, additive_noise, gaussian_pgm):
            monkeypatch.setattr(module, "LARGEST_ANSWERS", limit)
        assert recommended(terms(Shape.TABLE, units=units), small, rows=True).name == name


def test_the_closure_decides_whether_it_is_weighed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """All triples of nine attributes, with what lies below: 84 + 36 + 9 cliques of 84 * 12^3 + 36 * 12^2 + 9 * 12."""
    large = WORKLOADS["large marginals"]
    monkeypatch.setattr(recommendation, "_MAX_CLOSURE", 129)
    found = recommended(terms(Shape.TABLE), large, rows=True)
    assert (found.name, "129" in found.why) == ("aim", True)
    monkeypatch.setattr(recommendation, "_MAX_CLOSURE", 128)
    assert recommended(terms(Shape.TABLE), large, rows=True).name == "clique_tree"
    monkeypatch.setattr(recommendation, "_MAX_CLOSURE", 129)
    monkeypatch.setattr(recommendation, "LARGEST_CELLS", 84 * 12**3 + 36 * 12**2 + 9 * 12 - 1)
    assert recommended(terms(Shape.TABLE), large).name == "adaptive_residuals"


@pytest.mark.parametrize(("attributes", "rows", "name"), [
    (5, False, "adaptive_residuals"), (50, False, "adaptive_residuals"), (50, True, "aim"),
])  # fmt: skip
def test_tables_are_measured_whole_if_no_rows_are_wanted(attributes: int, rows: bool, name: str) -> None:
    domain = Domain.of({f"a{number:02d}": 12 for number in range(attributes)})
    neighbours = Workload(Marginals(domain, tuple(pairwise(domain.names))), np.ones(attributes - 1))
    assert recommended(terms(Shape.TABLE), neighbours, rows=rows).name == name


def test_where_nothing_accepts_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recommendation, "_accepts", lambda *arguments: False)
    with pytest.raises(ConfigError, match="no mechanism accepts"):
        recommended(terms(Shape.TABLE), WORKLOADS["small marginals"])
