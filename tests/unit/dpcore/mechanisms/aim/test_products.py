"""Linear queries that AIM may measure, against dense matrices, and what it makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import reduce
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.errors import ConfigError
from dpcore.estimation.graphical.fitting.fit import GraphicalFit, fit_model
from dpcore.estimation.graphical.fitting.linear_measurements import measured_cliques
from dpcore.evaluation import exact_answers, normalised_error
from dpcore.kernel.budget import Budget
from dpcore.measurement import Measurement, Noise
from dpcore.mechanisms.aim import aim as aim_module
from dpcore.mechanisms.aim import marginals as aim_marginals
from dpcore.mechanisms.aim.aim import Aim
from dpcore.mechanisms.aim.candidates import candidates_of
from dpcore.mechanisms.aim.marginals import MarginalCandidates
from dpcore.mechanisms.aim.products import ProductCandidates
from dpcore.mechanisms.aim.profile import PROFILES
from dpcore.mechanisms.shared.pgm_common import LAST_WORK
from dpcore.queries import Marginals, Product, Products
from dpcore.queries.ranges import all_ranges, prefix, range_marginals
from dpcore.testing.doubles import NoStatistics, private_statistics
from dpcore.testing.tiny_statistics import TinyTable
from dpcore.workload import Workload, explicit, linear
from tests.support.aim_runs import aim_with
from tests.support.watched_fits import watched_fits

DOMAIN = Domain.of({"a": 5, "b": 3, "unused": 7, "c": 4})
MATRICES = {"a": prefix(5), "c": all_ranges(4)}
CLIQUES: tuple[Clique, ...] = (("a", "b", "c"), ("b",), ("a", "b"))
WEIGHTS = np.array([2.0, 3.0, 0.5])
WORKLOAD = Workload(range_marginals(DOMAIN, CLIQUES, MATRICES), WEIGHTS)
BUDGETS = (Budget.pure(2), Budget.zcdp(1), Budget.gdp(1))
TABLE = TinyTable(DOMAIN, np.random.default_rng(0).integers(0, (3, 3, 7, 2), (300, 4)))
GENERATOR = np.random.default_rng(0)
SELECTIVE = aim_with(products_error=0.1)  # Makes rounds already where noise exceeds a tenth of the answers.
every_budget = pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: budget.currency.name)


def candidates(budget: Budget = BUDGETS[1], workload: Workload = WORKLOAD) -> ProductCandidates:
    found = candidates_of(workload, private_statistics(TABLE, budget).terms)
    assert isinstance(found, ProductCandidates)
    return found


def dense(matrices: tuple[NDArray[np.int64], ...]) -> NDArray[np.float64]:
    return np.asarray(reduce(np.kron, matrices, np.ones((1, 1))), dtype=np.float64)


def test_the_candidates_are_the_terms_restricted_to_some_of_their_attributes() -> None:
    found = candidates()
    assert found.domain.names == ("a", "b", "c")
    wanted = {part for clique in CLIQUES for size in (1, 2, 3) for part in combinations(clique, size)}
    assert set(found.cliques) == wanted
    assert len(found.cliques) == len(wanted)
    for part in found.parts:
        for name, matrix in zip(part.term.clique, part.term.matrices, strict=True):
            assert np.array_equal(matrix, MATRICES.get(name, np.eye(DOMAIN.size((name,)))))
    assert set(found.only(found.requested).cliques) == set(CLIQUES)
    assert found.one_way().cliques == (("a",), ("b",), ("c",))
    assert found.sizes.tolist() == [part.term.size for part in found.parts]
    assert found.queries.size == found.sizes.sum()


def test_the_whole_workload_shares_by_the_weights_of_its_terms() -> None:
    queries = range_marginals(DOMAIN, (*CLIQUES, ("b",)), MATRICES)
    whole = candidates(workload=Workload(queries, np.append(WEIGHTS, 1.0))).whole()
    weights = dict(zip(whole.cliques, whole.weights.tolist(), strict=True))
    assert weights == pytest.approx({("a", "b", "c"): 2 / 3, ("b",): 4 / 3, ("a", "b"): 0.5 / 3})


def test_one_attribute_with_two_matrices_gives_two_candidates() -> None:
    terms = (Product(("a",), (prefix(5),)), Product(("a", "b"), (np.eye(5, dtype=np.int64), np.eye(3, dtype=np.int64))))
    found = candidates(workload=linear(Products(DOMAIN, terms)))
    assert sorted(found.cliques) == [("a",), ("a",), ("a", "b"), ("b",)]
    assert found.requested.sum() == 2


def test_for_single_values_the_weights_are_those_of_marginals() -> None:
    plain = candidates(workload=Workload(range_marginals(DOMAIN, CLIQUES, {}), WEIGHTS))
    marginals = MarginalCandidates.of(explicit(DOMAIN, dict(zip(CLIQUES, WEIGHTS.tolist(), strict=True))))
    assert plain.cliques == marginals.cliques
    assert np.allclose(plain.weights / plain.weights[0], marginals.weights / marginals.weights[0])
    assert np.allclose(plain.total_noise / plain.total_noise[0], marginals.total_noise / marginals.total_noise[0])


def test_weights_count_what_an_error_of_a_row_is_worth_in_the_workload() -> None:
    found = candidates()
    mean = {name: dense((MATRICES.get(name, np.eye(3)),)).sum(axis=0).mean() for name in "abc"}
    wanted = [
        sum(
            weight * len(set(part) & set(term)) * np.prod([mean[name] for name in term])
            for term, weight in zip(CLIQUES, WEIGHTS, strict=True)
        )
        / np.prod([mean[name] for name in part])
        for part in found.cliques
    ]
    assert np.allclose(found.weights, np.array(wanted) / max(wanted))


@every_budget
@pytest.mark.parametrize("share", [Fraction(1, 5), Fraction(1, 500)])
def test_deviations_are_those_of_least_squares_from_what_is_measured(budget: Budget, share: Fraction) -> None:
    """W A^+ with A as it is measured, for answers of every candidate."""
    found, terms = candidates(budget), private_statistics(TABLE, budget).terms
    wanted = []
    for place, part in enumerate(found.parts):
        strategy = found.strategy(place)
        assert isinstance(strategy, Products)
        (term,) = strategy.terms
        assert term.clique == part.term.clique
        measured = dense(term.matrices) * term.weight / strategy.denominator
        reconstruction = dense(part.term.matrices) @ np.linalg.pinv(measured)
        assert np.allclose(reconstruction @ measured, dense(part.term.matrices), atol=1e-6)
        kernel = private_statistics(TABLE, budget)
        wanted.append(np.linalg.norm(reconstruction, axis=1) * kernel.measure(strategy, share).stddev)
    assert np.allclose(found.stddevs(terms, share), np.concatenate(wanted), rtol=1e-2)
    parts = np.array([part.sum() for part in wanted])
    assert np.allclose(found.total_noise / found.total_noise.sum(), parts / parts.sum(), rtol=0.05)


def test_ranges_are_measured_with_less_noise_than_their_cells_would_sum_up() -> None:
    wide = Domain.of({"x": 64})
    terms = private_statistics(TABLE, BUDGETS[1]).terms
    ranges = candidates_of(linear(range_marginals(wide, [("x",)], {"x": prefix(64)})), terms)
    cells = candidates_of(explicit(wide, {("x",): 1.0}), terms)
    summed = np.sqrt(np.arange(1, 65)) * cells.stddevs(terms, Fraction(1))
    assert ranges.stddevs(terms, Fraction(1)).sum() < 0.6 * summed.sum()


def test_answers_are_those_of_the_marginals_of_the_model() -> None:
    values = np.random.default_rng(1).integers(1, 50, 60).astype(np.float64)
    whole = Measurement(Marginals(DOMAIN, (("a", "b", "c"),)), values, Noise.GAUSSIAN, 1.0)
    found = candidates()
    fit = fit_model(found.domain, [whole], float(values.sum()))
    answers = np.split(found.answers(fit), np.cumsum(found.sizes)[:-1])
    for part, one in zip(found.parts, answers, strict=True):
        table = fit.model.answer(Marginals(DOMAIN, (part.term.clique,)))
        assert np.allclose(one, dense(part.term.matrices) @ table)


def test_the_score_has_the_weights_of_what_is_left() -> None:
    found = candidates()
    kept = found.only(np.arange(len(found.cliques)) % 2 == 0)
    score = kept.score(np.zeros(kept.queries.size), np.zeros(len(kept.cliques)))
    score.check(kept.queries, private_statistics(TABLE, BUDGETS[1]).terms.unit)
    assert np.array_equal(score.weights, found.weights[::2])
    assert kept.cells == kept.sizes.sum() + sum(map(DOMAIN.size, set(kept.cliques)))


def test_the_largest_are_left_out_where_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aim_marginals, "LARGEST_CELLS", 5 + 3 + 10 + 15)  # Four codes have ten ranges.
    assert candidates().cliques == (("a",), ("b",), ("c",), ("a", "b"))


def test_ranges_of_too_many_values_are_refused() -> None:
    wide = Domain.of({"x": 1200})
    neighbours = np.eye(1199, 1200, dtype=np.int64) + np.eye(1199, 1200, 1, dtype=np.int64)
    with pytest.raises(ConfigError, match="mechanism aim: queries of several values of an attribute of 1,200 values"):
        candidates(workload=linear(range_marginals(wide, [("x",)], {"x": neighbours})))


def test_a_workload_that_does_not_tell_the_number_of_rows_needs_it_public() -> None:
    """One query about two of five values."""
    two = Products(DOMAIN, (Product(("a",), (np.array([[1, 1, 0, 0, 0]]),)),))
    private = private_statistics(NoStatistics(TABLE.contribution), BUDGETS[1])
    with pytest.raises(ConfigError, match="cannot give the number of rows .* privacy.units: N"):
        Aim().run(private, linear(two), generator=GENERATOR)
    assert private.charges == ()
    release = Aim().run(private_statistics(TABLE, Budget.zcdp(10**8), units=300), linear(two), generator=GENERATOR)
    assert release.answers.values == pytest.approx(exact_answers(TABLE, two), abs=3)


@pytest.mark.parametrize(
    ("budget", "mechanism"),
    [
        (Budget.pure(60), Aim(rounds_per_attribute=1)),
        (Budget.gdp(300), aim_with(rounds_per_attribute=1, workload_error=1e-30)),
    ],
    ids=["at once", "in rounds"],
)
def test_with_little_noise_the_answers_are_nearly_exact(budget: Budget, mechanism: Aim) -> None:
    release = mechanism.run(private_statistics(TABLE, budget), WORKLOAD, generator=GENERATOR)
    assert normalised_error(range_marginals(DOMAIN, CLIQUES, MATRICES), release.answers.values, exact()) < 0.04


def exact() -> NDArray[np.int64]:
    return exact_answers(TABLE, WORKLOAD.queries)


def test_prefixes_are_answered_better_from_ranges_than_from_cells() -> None:
    """Of an attribute of many values in a group of two."""
    domain = Domain.of({"x": 96, "y": 2})
    random = np.random.default_rng(3)
    y = random.integers(0, 2, 3000)
    x = np.clip(random.normal(30 + 30 * y, 12), 0, 95).astype(np.int64)
    table = TinyTable(domain, np.stack([x, y], axis=1))
    queries = range_marginals(domain, [("x", "y")], {"x": prefix(96)})
    truth, errors = exact_answers(table, queries), np.zeros(2)
    for _ in range(3):
        for place, workload in enumerate((linear(queries), explicit(domain, {("x", "y"): 1.0}))):
            private = private_statistics(table, Budget.zcdp(Fraction(1, 200)))
            model = Aim().run(private, workload, generator=GENERATOR).model
            assert model is not None
            errors[place] += normalised_error(queries, model.answer(queries), truth) / 3
    assert errors[0] < 0.8 * errors[1]


@pytest.mark.parametrize(("rho", "has_rounds"), [(1e4, False), (1e-5, True)])
def test_the_only_fit_after_measuring_all_may_take_four_times_as_long(
    rho: float, has_rounds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits = watched_fits(monkeypatch, aim_module)
    SELECTIVE.run(private_statistics(TABLE, Budget.zcdp(rho)), WORKLOAD, generator=GENERATOR)
    assert (len(fits) > 3) == has_rounds  # Each round makes one.
    assert fits[-1].work == LAST_WORK * (0.5 if has_rounds else 2)


@pytest.mark.parametrize(("rho", "has_rounds"), [(1e4, False), (1e-5, True)])
def test_the_one_way_share_is_spent_in_full_only_where_rounds_follow(rho: float, has_rounds: bool) -> None:
    private, profile = private_statistics(TABLE, Budget.zcdp(rho)), PROFILES["default"]
    SELECTIVE.run(private, WORKLOAD, generator=GENERATOR)
    shares = [float(charge.amount) / rho for charge in private.charges]
    labels = [charge.label.split()[0] for charge in private.charges]
    assert sum(shares[:3]) == pytest.approx(profile.start_share / 8)
    assert ("select" in labels) == has_rounds
    assert sum(shares) == pytest.approx(1)
    if has_rounds:  # What both measurements spend together depends on the noise of the first.
        both = sum(shares[: labels.index("select")])
        assert profile.start_share - 1e-6 <= both <= profile.max_start_share + 1e-6


def test_the_fit_after_measuring_all_leaves_out_the_first_look(monkeypatch: pytest.MonkeyPatch) -> None:
    fitted: list[list[Clique]] = []

    def watched(domain: Domain, measurements: Sequence[Measurement], *given: Any, **named: Any) -> GraphicalFit:
        fitted.append([clique for one in measurements for clique in measured_cliques(one)])
        return fit_model(domain, measurements, *given, **named)

    monkeypatch.setattr(aim_module, "fit_model", watched)
    Aim().run(private_statistics(TABLE, Budget.zcdp(1e4)), WORKLOAD, generator=GENERATOR)
    assert fitted[0] == [("a",), ("b",), ("c",)]
    assert sorted(fitted[-1]) == sorted(CLIQUES)
