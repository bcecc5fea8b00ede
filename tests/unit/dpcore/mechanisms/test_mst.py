"""MST against a maximum spanning tree made by networkx, and the distribution of a tree written out by hand."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from typing import Any

import networkx as nx
import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import BinaryView, Clique, Domain
from dpcore.errors import ConfigError
from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.kernel.budget import Budget
from dpcore.mechanisms import mst
from dpcore.mechanisms.api import Release
from dpcore.mechanisms.mst import Mst
from dpcore.queries import Conjunctions, Marginals
from dpcore.queries.ranges import prefix, range_marginals
from dpcore.testing.doubles import REPLACE, NoStatistics, private_statistics
from dpcore.testing.tiny_statistics import TinyTable
from dpcore.workload import Workload, all_k_way, conjunctive, explicit, linear
from tests.support.constants import with_constants
from tests.support.watched_fits import watched_fits

DOMAIN = Domain.of({"a": 3, "b": 2, "unused": 4, "c": 3, "d": 2, "e": 4})
NAMES = ("a", "b", "c", "d", "e")
UNITS = 400
WORKLOAD = all_k_way(DOMAIN, 2, NAMES)
NO_NOISE = (Budget.pure(400), Budget.zcdp(10**12), Budget.gdp(10**12))
GENERATOR = np.random.default_rng(0)


def dependent(seed: int) -> NDArray[np.int64]:
    """Rows of which each attribute often follows another one."""
    random = np.random.default_rng(seed)
    codes = random.integers(0, DOMAIN.sizes, (UNITS, len(DOMAIN.sizes)))
    for axis in range(1, len(DOMAIN.sizes)):
        other, follows = random.integers(axis), random.random(UNITS) < random.uniform(0.2, 0.9)
        codes[:, axis] = np.where(follows, codes[:, other] % DOMAIN.sizes[axis], codes[:, axis])
    return codes


def table_of(codes: NDArray[np.int64], clique: Clique) -> NDArray[np.float64]:
    counts = np.zeros(DOMAIN.shape(clique))
    np.add.at(counts, tuple(codes[:, DOMAIN.index(name)] for name in clique), 1)
    return counts


def distances(codes: NDArray[np.int64]) -> dict[Clique, float]:
    """How far each pair is from independence, in L1."""
    found: dict[Clique, float] = {}
    for one, other in combinations(NAMES, 2):
        product = np.outer(table_of(codes, (one,)), table_of(codes, (other,))) / UNITS
        found[one, other] = float(np.abs(table_of(codes, (one, other)) - product).sum())
    return found


def run(codes: NDArray[np.int64], budget: Budget, mechanism: Mst | None = None, **options: Any) -> Release:
    private = private_statistics(TinyTable(DOMAIN, codes), budget, **options)
    return (mechanism or Mst()).run(private, WORKLOAD, generator=GENERATOR)


def measured_cliques(release: Release) -> list[Clique]:
    found: list[Clique] = []
    for measurement in release.measurements:
        assert isinstance(measurement.queries, Marginals)
        found += measurement.queries.cliques
    return found


@pytest.mark.parametrize("budget", NO_NOISE, ids=lambda budget: budget.currency.name)
@pytest.mark.parametrize("seed", range(5))
def test_without_noise_it_measures_the_maximum_spanning_tree(budget: Budget, seed: int) -> None:
    codes = dependent(seed)
    graph = nx.Graph()
    for (one, other), weight in distances(codes).items():
        graph.add_edge(one, other, weight=weight)
    cliques = measured_cliques(run(codes, budget))
    assert cliques[: len(NAMES)] == [(name,) for name in NAMES]
    found = {frozenset(pair) for pair in cliques[len(NAMES) :]}
    assert found == {frozenset(edge) for edge in nx.maximum_spanning_tree(graph).edges}
    assert found != {frozenset(edge) for edge in nx.minimum_spanning_tree(graph).edges}


@pytest.mark.parametrize("options", [{}, {"units": UNITS}, {"neighbours": REPLACE, "units": UNITS}])
def test_without_noise_the_model_is_the_distribution_of_the_tree(options: dict[str, Any]) -> None:
    """p = product of the pairs over the product of each attribute to the power of its pairs but one; others uniform."""
    codes = dependent(3)
    release = run(codes, NO_NOISE[1], **options)
    pairs = measured_cliques(release)[len(NAMES) :]
    joint = np.full(DOMAIN.sizes, UNITS / 4)
    for clique in [*pairs, *((name,) for name in NAMES)]:
        wide = table_of(codes, clique).reshape([size if name in clique else 1 for name, size in _sizes()]) / UNITS
        joint *= wide if len(clique) == 2 else wide ** (1 - sum(clique[0] in pair for pair in pairs))
    assert isinstance(release.model, GraphicalModel)
    found = release.model.answer(Marginals(DOMAIN, (DOMAIN.names,)))
    assert np.allclose(found, joint.ravel(), atol=0.05)
    assert not np.allclose(found, joint[::-1].ravel(), atol=0.05)
    assert release.model.total == pytest.approx(UNITS, abs=1e-3)


def _sizes() -> list[tuple[str, int]]:
    return list(zip(DOMAIN.names, DOMAIN.sizes, strict=True))


def test_the_budget_goes_in_thirds_each_in_equal_parts() -> None:
    private = private_statistics(TinyTable(DOMAIN, dependent(0)), Budget.zcdp(1))
    release = Mst().run(private, WORKLOAD, generator=GENERATOR)
    labels = [charge.label.split()[0] for charge in private.charges]
    assert labels == ["measure"] * 5 + ["select"] * 4 + ["measure"] * 4
    amounts = [float(charge.amount) for charge in private.charges]
    assert amounts == pytest.approx([1 / 15] * 5 + [1 / 12] * 8)
    plan = Mst().plan(private.terms, WORKLOAD)
    assert [step.calls for step in plan.steps] == [5, 4, 4]
    stddevs = [measurement.stddev for measurement in release.measurements]
    one_way, _, pairs = (step.stddev for step in plan.steps)
    assert one_way is not None
    assert pairs is not None
    assert stddevs == pytest.approx([one_way] * 5 + [pairs] * 4)
    assert plan.rounds == 4


def test_the_shares_are_those_of_the_constants() -> None:
    private = private_statistics(TinyTable(DOMAIN, dependent(0)), Budget.gdp(1))
    mechanism = with_constants(Mst(), one_way_share=0.25, select_share=0.125)
    mechanism.run(private, WORKLOAD, generator=GENERATOR)
    amounts = [charge.amount for charge in private.charges]
    found = [float(sum(amounts[i:j], Fraction(0))) for i, j in ((0, 5), (5, 9), (9, 13))]
    assert found == pytest.approx([0.25, 0.125, 0.625])


def test_the_workloads_weights_and_cliques_do_not_matter() -> None:
    codes = dependent(4)
    other = explicit(DOMAIN, {("a",): 50.0, ("e",): 1e-3, ("b", "c", "d"): 1.0})
    private = private_statistics(TinyTable(DOMAIN, codes), NO_NOISE[2])
    one, another = run(codes, NO_NOISE[2]), Mst().run(private, other, generator=GENERATOR)
    assert set(measured_cliques(one)) == set(measured_cliques(another))


def test_priors_are_learnt_in_the_last_fit_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    fits = watched_fits(monkeypatch, mst)
    run(dependent(0), Budget.gdp(1))
    *others, last = [settings.empirical_bayes for settings in fits]
    assert others
    assert last
    assert not any(others)


def test_pairs_with_too_many_cells_are_no_candidates() -> None:
    """Each of four edges may take 6 of 24 cells: e has 4 values and no pair of fewer than 8, so it stands alone."""
    codes = dependent(1)
    mechanism = Mst(max_model_mb=4 * 6 / 2**17)
    private = private_statistics(TinyTable(DOMAIN, codes), NO_NOISE[1])
    plan = mechanism.plan(private.terms, WORKLOAD)
    release = mechanism.run(private, WORKLOAD, generator=GENERATOR)
    pairs = [clique for clique in measured_cliques(release) if len(clique) == 2]
    assert len(pairs) == 3
    assert all(DOMAIN.size(pair) <= 6 for pair in pairs)
    assert "5 of 10 pairs have too many cells to be candidates" in plan.notes
    assert sum(step.calls for step in plan.steps) == len(private.charges)


def test_nothing_is_selected_where_the_pairs_form_one_tree() -> None:
    workload = all_k_way(DOMAIN, 2, ["a", "e"])
    private = private_statistics(TinyTable(DOMAIN, dependent(0)), Budget.pure(1))
    release = Mst().run(private, workload, generator=GENERATOR)
    assert measured_cliques(release) == [("a",), ("e",), ("a", "e")]
    assert [float(charge.amount) for charge in private.charges] == pytest.approx([1 / 6, 1 / 6, 2 / 3])


@pytest.mark.parametrize("cliques", [[("c",)], [()]])
def test_one_attribute_takes_the_whole_budget(cliques: list[Clique]) -> None:
    private = private_statistics(TinyTable(DOMAIN, dependent(0)), Budget.pure(40))
    release = Mst().run(private, explicit(DOMAIN, dict.fromkeys(cliques, 1.0)), generator=GENERATOR)
    assert len(release.measurements) == 1
    assert private.remaining_share < Fraction(1, 2**30)
    assert release.answers.values.sum() == pytest.approx(UNITS, abs=1e-3)


def test_ranges_are_answered_by_the_model_of_their_attributes() -> None:
    workload = linear(range_marginals(DOMAIN, [("a", "e")], {"e": prefix(4)}))
    private = private_statistics(TinyTable(DOMAIN, codes := dependent(2)), NO_NOISE[0])
    release = Mst().run(private, workload, generator=GENERATOR)
    assert np.allclose(release.answers.values, table_of(codes, ("a", "e")).cumsum(axis=1).ravel(), atol=0.05)


def test_the_plan_says_what_the_workload_leaves_out() -> None:
    terms = private_statistics(TinyTable(DOMAIN, dependent(0)), Budget.pure(1)).terms
    assert "1 attributes that the workload does not name are uniform in the rows" in Mst().plan(terms, WORKLOAD).notes
    assert not any("uniform" in note for note in Mst().plan(terms, all_k_way(DOMAIN, 1)).notes)


SOME_CONJUNCTIONS = conjunctive(Conjunctions.single_columns(BinaryView.one_hot(DOMAIN)))
REFUSED = {
    "no model": (Mst(max_model_mb=0.0), WORKLOAD, "mechanism.max_model_mb is 0; want a number > 0"),
    "conjunctions": (Mst(), SOME_CONJUNCTIONS, "mechanism mst answers marginals, .* want workload.marginals"),
}


@pytest.mark.parametrize(("mechanism", "workload", "message"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused_before_anything_is_measured(
    mechanism: Mst, workload: Workload, message: str
) -> None:
    private = private_statistics(NoStatistics(TinyTable(DOMAIN, dependent(0)).contribution), Budget.zcdp(1))
    with pytest.raises(ConfigError, match=message):
        mechanism.run(private, workload, generator=GENERATOR)
    assert private.charges == ()
