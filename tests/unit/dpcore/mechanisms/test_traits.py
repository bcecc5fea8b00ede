"""What a mechanism is, its class says, and nothing else does: contracts, documents and code are held against it."""

from __future__ import annotations

import ast
import re

import pytest

from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.kernel.budget import Currency
from dpcore.mechanisms.api import Mechanism
from dpcore.mechanisms.hdmm.hdmm import Hdmm
from dpcore.mechanisms.registry import MECHANISMS
from dpcore.testing.cases import MechanismContract
from tests.support.checks import PACKAGES, ROOT
from tests.support.mechanism_rows import ROWS

KINDS = {
    "marginals": "marginals", "weighted marginals": "marginals", "marginals of several rows a unit": "marginals",
    "marginals of bits": "marginals", "products": "products", "products of several rows a unit": "products",
    "products of bits": "products", "conjunctions of a table": "conjunctions",
    "conjunctions of baskets": "conjunctions", "positive conjunctions of a table": "conjunctions",
    "positive conjunctions of baskets": "conjunctions", "parities of a table": "parities",
    "itemsets of baskets": "itemsets",
}  # fmt: skip


@pytest.mark.parametrize("name", MECHANISMS)
def test_contracts_prove_what_the_traits_say(name: str) -> None:
    kind = MECHANISMS[name]
    traits, contracts = kind.traits, [row for row in ROWS if type(row.mechanism) is kind]
    data = {key for row in contracts for key in row.data}
    answers = {KINDS[key] for key in data}
    assert answers == set(traits.answers)
    assert {budget.currency for row in contracts for budget in row.budgets} == set(traits.currencies)
    assert any(row.own_answers for row in contracts) == traits.own_answers
    assert {"baskets" if "baskets" in key else "table" for key in data} == set(traits.shapes)
    assert any("several rows" in key or "of bits" in key for key in data) == traits.several_rows or name in CONJUNCTIVE


# Conjunctions and itemsets have no kind of data with several rows for each unit.
CONJUNCTIVE = ("clipped_gaussian", "basket_mixture", "frequent_itemsets")


@pytest.mark.parametrize("contract", ROWS, ids=lambda row: repr(row.mechanism)[:60])
def test_a_release_has_rows_where_the_traits_say_so(contract: MechanismContract) -> None:
    case = contract.cases()[0]
    mechanism: Mechanism = contract.mechanism
    model = case.run(case.private()).model
    assert (model is not None) == mechanism.traits.gives_rows(mechanism)
    assert isinstance(model, GraphicalModel) or not mechanism.traits.graphical


def test_a_setting_may_leave_a_release_without_rows() -> None:
    assert not Hdmm.traits.gives_rows(Hdmm())
    assert Hdmm.traits.gives_rows(Hdmm(reconstruction="graphical"))


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_documents_list_each_mechanism_with_its_currencies(name: str) -> None:
    rows = [line for line in (ROOT / "docs" / "mechanisms.md").read_text().splitlines() if line.startswith("| `")]
    (row,) = [row for row in rows if f"`{name}`" in row.split("|")[1]]
    guarantee, traits = row.split("|")[3], MECHANISMS[name].traits
    if set(traits.currencies) == set(Currency):
        assert guarantee.strip() == "all three"
    else:
        assert f"`{name}` pure" in guarantee if Currency.PURE in traits.currencies else f"`{name}` zCDP" in guarantee


def test_no_second_list_names_mechanisms() -> None:
    """No tuple, list, set or dictionary of the packages holds three or more names or classes of mechanisms."""
    names = set(MECHANISMS) | {kind.__name__ for kind in MECHANISMS.values()}
    lists = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if path.name != "registry.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Tuple | ast.List | ast.Set | ast.Dict)
        and len({name for part in ast.iter_child_nodes(node) if (name := _name(part)) in names}) >= 3
    ]
    assert lists == []


def _name(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return node.id if isinstance(node, ast.Name) else None


def test_names_are_what_a_config_may_hold() -> None:
    assert all(re.fullmatch(r"[a-z][a-z_]*", name) for name in MECHANISMS)
    assert all(kind.traits.recommended_for for kind in MECHANISMS.values())
