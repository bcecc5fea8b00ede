"""The one-shot mechanism on data whose dependence is known: what it asks, measures, and leaves alone."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from dpcore.domain import BinaryView, Domain
from dpcore.errors import ConfigError
from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.estimation.graphical.fitting.fit import FitSettings
from dpcore.estimation.public_table import PublicTable
from dpcore.exact_statistics import QueryAnswers
from dpcore.kernel.budget import Budget
from dpcore.measurement import NoisyErrors
from dpcore.mechanisms import clique_tree
from dpcore.mechanisms.api import Release
from dpcore.mechanisms.clique_tree import CliqueTree, CliqueTreeConstants
from dpcore.mechanisms.independent import Independent
from dpcore.mechanisms.shared import marginal_selection
from dpcore.queries import Conjunctions, Marginals
from dpcore.queries.ranges import prefix, range_marginals
from dpcore.testing.doubles import NoStatistics, private_statistics
from dpcore.testing.tiny_statistics import TinyTable
from dpcore.workload import Workload, all_k_way, conjunctive, linear
from tests.support.watched_fits import watched_fits

DOMAIN = Domain.of({"a": 3, "b": 3, "c": 2, "d": 3, "e": 2, "f": 2})
RANDOM = np.random.default_rng(5)
ROWS = 3000
CODES = RANDOM.integers(0, DOMAIN.sizes, (ROWS, 6))
CODES[:, 1] = np.where(RANDOM.random(ROWS) < 0.7, CODES[:, 0], CODES[:, 1])  # b follows a;
CODES[:, 5] = np.where(
    RANDOM.random(ROWS) < 0.9, CODES[:, 2] ^ CODES[:, 4], CODES[:, 5]
)  # f is c + e, pairs tell nothing.
TABLE = TinyTable(DOMAIN, CODES)
WORKLOAD = all_k_way(DOMAIN, 3)
BUDGET = Budget.gdp(1)


def run(mechanism: CliqueTree | Independent, budget: Budget = BUDGET, workload: Workload = WORKLOAD) -> Release:
    return mechanism.run(private_statistics(TABLE, budget), workload, generator=np.random.default_rng(0))


def error(release: Release) -> float:
    exact = TABLE.aggregate(QueryAnswers(release.workload.queries))
    return float(np.abs(release.answers.values - exact).sum())


def measured(release: Release) -> list[tuple[str, ...]]:
    return [m.queries.cliques[0] for m in release.measurements if isinstance(m.queries, Marginals)]


def test_it_measures_the_pair_and_the_triple_that_depend() -> None:
    release = run(CliqueTree())
    for dependent in (("a", "b"), ("c", "e", "f")):
        assert any(set(dependent) <= set(clique) for clique in measured(release))
    assert error(release) < 0.4 * error(run(Independent()))


def test_without_triples_their_dependence_stays_unseen() -> None:
    release = run(CliqueTree(order=2))
    assert max(map(len, measured(release))) == 2
    assert error(release) > 1.5 * error(run(CliqueTree()))


def test_it_asks_for_errors_once_an_order_and_spends_the_rest_at_once() -> None:
    private = private_statistics(TABLE, BUDGET)
    CliqueTree().run(private, WORKLOAD, generator=np.random.default_rng(0))
    labels = [charge.label for charge in private.charges]
    errors = [place for place, label in enumerate(labels) if label.startswith("measure errors")]
    assert len(errors) == 2
    assert errors[1] == errors[0] + 1
    assert float(sum(private.charges[place].amount for place in errors)) == pytest.approx(0.1, rel=1e-6)


def test_with_little_budget_it_measures_single_attributes_alone() -> None:
    private = private_statistics(TABLE, Budget.zcdp(Fraction(1, 10**7)))
    release = CliqueTree().run(private, WORKLOAD, generator=np.random.default_rng(0))
    assert {len(clique) for clique in measured(release)} == {1}
    assert not [charge for charge in private.charges if "errors" in charge.label]


def test_nothing_is_expected_of_a_pair_that_would_be_measured_with_next_to_no_budget() -> None:
    """The 3,600 cells of a copy drown in any noise, so that half of the budget would not bring the pair any closer."""
    domain = Domain.of({"a": 60, "copy": 60, "c": 2, "d": 2, "e": 2, "f": 2})
    codes = np.random.default_rng(2).integers(0, domain.sizes, (3_000, 6))
    codes[:, 1] = codes[:, 0]
    private = private_statistics(TinyTable(domain, codes), Budget.gdp(Fraction(1, 600)), units=3_000)
    release = CliqueTree().run(private, all_k_way(domain, 2), generator=np.random.default_rng(0))
    assert ("a", "copy") not in measured(release)


WIDE = Domain.of({f"w{place:02d}": 2 for place in range(24)})
COPIED = tuple((f"w{place:02d}", f"w{place + 1:02d}") for place in range(0, 24, 2))


def wide_table() -> TinyTable:
    """The attributes are equal in pairs."""
    codes = np.random.default_rng(3).integers(0, 2, (2_000, 24))
    codes[:, 1::2] = codes[:, ::2]
    return TinyTable(WIDE, codes)


def test_where_errors_of_all_pairs_would_be_noise_it_selects_a_forest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise of 34 % of the rows in errors of all 276 pairs, of 14 % in those of a forest."""
    budget, workload = Budget.gdp(Fraction(6, 1000)), all_k_way(WIDE, 2)
    private = private_statistics(wide_table(), budget, units=2_000)
    release = CliqueTree().run(private, workload, generator=np.random.default_rng(0))
    assert private.remaining_share < 1e-9
    asked = [charge for charge in private.charges if charge.label.startswith(("select", "measure errors"))]
    assert len(asked) == 24
    assert float(sum(charge.amount for charge in asked) / budget.amount) == pytest.approx(0.1, rel=1e-6)
    found = [clique for clique in measured(release) if len(clique) == 2]
    assert len(set(found) & set(COPIED)) >= 8
    assert len(found) <= 23
    monkeypatch.setattr(marginal_selection, "_MAX_NOISE_OF_FOREST", 0.0)
    private = private_statistics(wide_table(), budget, units=2_000)
    alone = CliqueTree().run(private, workload, generator=np.random.default_rng(0))
    assert {len(clique) for clique in measured(alone)} == {1}
    exact = wide_table().aggregate(QueryAnswers(workload.queries))
    errors = [np.abs(some.answers.values - exact).sum() for some in (release, alone)]
    assert errors[0] < 0.7 * errors[1]


def test_all_pairs_are_no_forest_to_select(monkeypatch: pytest.MonkeyPatch) -> None:
    """With three attributes in a chain there are as many pairs as edges."""
    monkeypatch.setattr(marginal_selection, "_MAX_RELATIVE_NOISE", (0.0, 0.0))
    monkeypatch.setattr(marginal_selection, "_MAX_NOISE_OF_FOREST", 1e9)
    chain = Workload(Marginals(DOMAIN, (("a", "b"), ("b", "c"))), np.ones(2))
    private = private_statistics(TABLE, BUDGET)
    release = CliqueTree().run(private, chain, generator=np.random.default_rng(0))
    assert {len(clique) for clique in measured(release)} == {1}
    private = private_statistics(TABLE, BUDGET)
    release = CliqueTree().run(private, WORKLOAD, generator=np.random.default_rng(0))
    assert ("a", "b") in measured(release)
    assert len([charge for charge in private.charges if charge.label.startswith("select")]) == 5


def test_no_forest_is_selected_with_an_accepted_public_table_or_without_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marginal_selection, "_MAX_RELATIVE_NOISE", (0.0, 0.0))
    monkeypatch.setattr(marginal_selection, "_MAX_NOISE_OF_FOREST", 1e9)
    monkeypatch.setattr(clique_tree, "is_accepted", lambda *_: True)
    for mechanism in (CliqueTree().with_public(PublicTable(DOMAIN, public_codes())), CliqueTree(max_work=0)):
        private = private_statistics(TABLE, BUDGET)
        mechanism.run(private, WORKLOAD, generator=np.random.default_rng(0))
        assert not [charge for charge in private.charges if charge.label.startswith("select")]


def test_priors_are_learnt_in_the_last_fit_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    fits = watched_fits(monkeypatch, clique_tree)
    run(CliqueTree())
    *others, last = [settings.empirical_bayes for settings in fits]
    assert others
    assert last
    assert not any(others)


def test_around_a_public_table_the_last_fit_learns_how_far_each_measured_set_lies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clique_tree, "is_accepted", lambda *_: True)
    fits = watched_fits(monkeypatch, clique_tree)
    run(CliqueTree().with_public(PublicTable(DOMAIN, public_codes())))
    *others, last = fits
    assert last.prior_scale is None
    assert last.empirical_bayes
    assert not any(settings.empirical_bayes for settings in others)


def test_the_model_stays_within_its_size() -> None:
    codes = RANDOM.integers(0, 2, (500, 1)).repeat(6, axis=1) % np.array(DOMAIN.sizes)  # Every pair depends.
    private = private_statistics(TinyTable(DOMAIN, codes), Budget.gdp(100))
    release = CliqueTree(max_model_mb=30 / 2**17).run(private, WORKLOAD, generator=np.random.default_rng(0))
    assert isinstance(release.model, GraphicalModel)
    assert 6 < release.model.tree.cells <= 30


def test_products_are_answered_from_their_marginals() -> None:
    queries = range_marginals(DOMAIN, [("a", "b"), ("b", "d")], {"b": prefix(3)})
    release = run(CliqueTree(), Budget.gdp(10**6), linear(queries))
    tables = TABLE.aggregate(QueryAnswers(queries.marginals))
    exact = queries.of_tables(np.split(tables, [9]), 1 << 20) / queries.denominator
    assert np.abs(release.answers.values - exact).max() < 0.05 * ROWS
    assert set(measured(release)) <= {("a",), ("b",), ("d",), ("a", "b"), ("b", "d")}


def test_candidates_are_the_pairs_and_triples_of_the_workload() -> None:
    private = private_statistics(TABLE, Budget.gdp(100))
    release = CliqueTree().run(private, all_k_way(DOMAIN, 2, ["a", "b", "d"]), generator=np.random.default_rng(0))
    assert set(measured(release)) <= {("a",), ("b",), ("d",), *combinations(("a", "b", "d"), 2)}
    assert sum("errors" in charge.label for charge in private.charges) == 1


@pytest.mark.parametrize(
    "mechanism",
    [
        CliqueTree(order=4),  # type: ignore[arg-type]
        CliqueTree(max_model_mb=-1.0),
    ],
)
def test_settings_without_a_meaning_are_refused(mechanism: CliqueTree) -> None:
    private = private_statistics(NoStatistics(TABLE.contribution), BUDGET)
    with pytest.raises(ConfigError, match="want"):
        mechanism.run(private, WORKLOAD, generator=np.random.default_rng(0))


def test_the_constants_leave_a_share_for_the_selected_cliques() -> None:
    constants = CliqueTreeConstants()
    assert 0 < constants.start_share <= constants.max_start_share
    assert 0 < constants.errors_share < 1 - constants.max_start_share
    assert constants.start_error > 0
    assert constants.prior_scale == FitSettings().prior_scale


def test_conjunctions_are_refused() -> None:
    queries = conjunctive(Conjunctions(BinaryView.one_hot(DOMAIN), np.array([[0]]), np.array([[False]])))
    with pytest.raises(ConfigError, match="clique_tree answers marginals"):
        CliqueTree().plan(private_statistics(TABLE, BUDGET).terms, queries)


def test_noise_that_is_exactly_zero_is_no_division_by_zero() -> None:
    """Discrete Laplace noise of a huge pure epsilon is."""
    assert error(run(CliqueTree(), Budget.pure(10**6))) < error(run(CliqueTree()))


def public_codes(relabelled: bool = False) -> np.ndarray:
    """Another sample of the same law; with other values of a, c and d, and so other dependence."""
    random = np.random.default_rng(9)
    codes = random.integers(0, DOMAIN.sizes, (ROWS, 6))
    codes[:, 1] = np.where(random.random(ROWS) < 0.7, codes[:, 0], codes[:, 1])
    codes[:, 5] = np.where(random.random(ROWS) < 0.9, codes[:, 2] ^ codes[:, 4], codes[:, 5])
    if relabelled:
        codes[:, [0, 2]] = (codes[:, [0, 2]] + 1) % np.array([3, 2])
    return codes


def mean_error(mechanism: CliqueTree, budget: Budget) -> float:
    return float(np.mean([error(run(mechanism, budget)) for _ in range(4)]))


def test_a_public_sample_lowers_the_error_of_a_poor_budget() -> None:
    poor = Budget.gdp(Fraction(1, 400))
    informed = CliqueTree().with_public(PublicTable(DOMAIN, public_codes()))
    assert mean_error(informed, poor) < 0.75 * mean_error(CliqueTree(), poor)


def test_the_errors_of_a_public_model_are_computed_with_one_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def mean_square_errors(noisy: NoisyErrors) -> np.ndarray:
        seen.append(len(noisy.values))
        return original(noisy)

    original = marginal_selection._mean_square_errors
    monkeypatch.setattr(marginal_selection, "_mean_square_errors", mean_square_errors)
    run(CliqueTree())
    assert not seen
    run(CliqueTree().with_public(PublicTable(DOMAIN, public_codes())))
    assert seen


def test_wrong_public_rows_are_not_believed() -> None:
    misled = CliqueTree().with_public(PublicTable(DOMAIN, public_codes(relabelled=True)))
    rich = Budget.gdp(4)
    assert mean_error(misled, rich) < 1.3 * mean_error(CliqueTree(), rich)


def test_the_comparison_is_charged_and_planned() -> None:
    informed = CliqueTree().with_public(PublicTable(DOMAIN, public_codes()))
    private = private_statistics(TABLE, BUDGET)
    plan = informed.plan(private.terms, WORKLOAD)
    informed.run(private, WORKLOAD, generator=np.random.default_rng(0))
    errors = [charge for charge in private.charges if charge.label.startswith("measure errors")]
    compared = sum(charge.amount for charge in errors[:2]) / BUDGET.amount
    step = next(step for step in plan.steps if "public table" in step.label)
    assert 0 < compared <= step.share
    assert sum(step.share for step in plan.steps) <= 1
    assert any("3,000 rows" in note for note in plan.notes)
    assert plan.memory_bytes > CliqueTree().plan(private.terms, WORKLOAD).memory_bytes


def test_a_public_table_is_no_setting() -> None:
    informed = CliqueTree(order=2).with_public(PublicTable(DOMAIN, public_codes()))
    assert informed.order == 2
    assert CliqueTree(order=2).public is None
