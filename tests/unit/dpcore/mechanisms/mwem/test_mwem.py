"""MWEM against Fig. 1 written out by hand, on data where the noise is next to nothing, and its use of the budget."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import BinaryView, Domain
from dpcore.errors import ConfigError, DomainTooLargeError
from dpcore.estimation.multiplicative_weights.dense import DenseModel
from dpcore.exact_statistics import Contribution, QueryAnswers, Shape
from dpcore.kernel import private_statistics as kernel
from dpcore.kernel.budget import Budget
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.scores import GRID
from dpcore.kernel.sensitivity import PrivacyUnit
from dpcore.mechanisms.mwem import mwem
from dpcore.mechanisms.mwem.mwem import Mwem
from dpcore.queries import Conjunctions, Marginals
from dpcore.testing.doubles import ADD_REMOVE, REPLACE, NoStatistics, private_statistics
from dpcore.testing.tiny_statistics import TinyTable
from dpcore.workload import Workload, all_k_way, conjunctive, explicit
from tests.support.constants import with_constants

DOMAIN = Domain.of({"a": 2, "b": 3, "c": 2, "unused": 50})
CELLS = np.random.default_rng(0).choice(600, size=200, p=np.random.default_rng(1).dirichlet(np.full(600, 0.05)))
CODES = np.stack(np.unravel_index(CELLS, DOMAIN.sizes), axis=1)
TABLE = TinyTable(DOMAIN, CODES)
WORKLOAD = all_k_way(DOMAIN, 2, ["a", "b", "c"])
MODELLED = DOMAIN.project(["a", "b", "c"])
NO_NOISE = Budget.pure(10**9)
GENERATOR = np.random.default_rng(0)
FIG_1 = with_constants(Mwem(rounds=4, profile="published"), size_penalty="none")


def run(mechanism: Mwem, budget: Budget = NO_NOISE, workload: Workload = WORKLOAD, **options: Any) -> DenseModel:
    private = private_statistics(TABLE, budget, **options)
    release = mechanism.run(private, workload, generator=GENERATOR)
    assert isinstance(release.model, DenseModel)
    return release.model


def by_hand(
    rounds: int, passes: int, newest_only: bool, weights: list[float], step: float = 0.5
) -> list[NDArray[np.float64]]:
    """The distributions A_0 .. A_T of Fig. 1 without noise: the worst marginal, then multiplicative weights."""
    queries = WORKLOAD.queries
    assert isinstance(queries, Marginals)
    truth = dict(zip(queries.cliques, queries.split(TABLE.aggregate(QueryAnswers(queries))), strict=True))
    axes = {clique: tuple(axis for axis in range(3) if MODELLED.names[axis] not in clique) for clique in truth}
    table = np.full(MODELLED.sizes, 200 / MODELLED.size())
    history, chosen = [table], []
    for _ in range(rounds):
        distances = [
            weight * np.abs(truth[clique] - table.sum(axis=axes[clique])).sum()
            for clique, weight in zip(queries.cliques, weights, strict=True)
        ]
        chosen.append(queries.cliques[int(np.argmax(distances))])
        for _ in range(passes):
            for clique in chosen[-1:] if newest_only else chosen:
                error = np.expand_dims(truth[clique] - table.sum(axis=axes[clique]), axes[clique])
                table = table * np.exp(step * error / 200)
                table = table * 200 / table.sum()
        history.append(table)
    return history


def test_the_form_of_the_paper_is_the_average_of_its_rounds() -> None:
    history = by_hand(4, 1, True, [1.0, 1.0, 1.0])
    expected = np.mean(history[:4], axis=0)  # Fig. 1: the average over i < T of A_i.
    assert np.allclose(run(FIG_1).table, expected.ravel(), rtol=1e-4)


@pytest.mark.parametrize(("passes", "newest_only"), [(1, False), (7, False), (3, True)])
@pytest.mark.parametrize("step", [0.5, 2.0])
def test_the_final_distribution_follows_every_measurement(passes: int, newest_only: bool, step: float) -> None:
    mechanism = with_constants(FIG_1, distribution="final", passes=passes, newest_only=newest_only, step=step)
    expected = by_hand(4, passes, newest_only, [1.0, 1.0, 1.0], step)[-1]
    assert np.allclose(run(mechanism).table, expected.ravel(), rtol=1e-4)


def test_weights_decide_what_is_measured() -> None:
    weights = {("a", "b"): 1.0, ("a", "c"): 1.0, ("b", "c"): 200.0}
    mechanism = replace(with_constants(FIG_1, distribution="final"), rounds=2)
    expected = by_hand(2, 1, True, [1 / 200, 1 / 200, 1.0])[-1]
    assert np.allclose(run(mechanism, workload=explicit(DOMAIN, weights)).table, expected.ravel(), rtol=1e-4)


def first_scores(mechanism: Mwem, budget: Budget, monkeypatch: pytest.MonkeyPatch) -> NDArray[np.float64]:
    """Scores of the first selection, in counts, as they reach the sampler."""
    seen: list[NDArray[np.int64]] = []

    def keep(scores: NDArray[np.int64], *_: object) -> int:
        seen.append(scores)
        return 0

    monkeypatch.setattr(kernel, "noisy_argmax", keep)
    private = private_statistics(TABLE, budget, neighbours=REPLACE, units=200)
    mechanism.run(private, WORKLOAD, generator=GENERATOR)
    return seen[0] / GRID**2


@pytest.mark.parametrize(
    ("penalty", "penalty_per_cell"),
    [("none", 0.0), ("cells", 1.0), ("noise", 2 * math.exp(-1 / 32) / (1 - math.exp(-2 / 32)))],
)
def test_the_score_is_the_distance_less_the_penalty(
    penalty: Any, penalty_per_cell: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of a round of epsilon 1/8 measures one marginal, which a replaced unit moves by 2: scale 32."""
    queries = WORKLOAD.queries
    assert isinstance(queries, Marginals)
    truth = queries.split(TABLE.aggregate(QueryAnswers(queries)))
    distances = [np.abs(table - 200 / table.size).sum() for table in truth]
    expected = np.array(distances) - penalty_per_cell * np.array(queries.sizes)
    mechanism = with_constants(Mwem(rounds=8), start="uniform", size_penalty=penalty)
    scores = first_scores(mechanism, Budget.pure(1), monkeypatch)
    assert np.allclose(scores, expected, atol=0.05)


@pytest.mark.parametrize("start", ["one_way", "cells"])
def test_a_noisy_start_begins_near_the_data(start: Any) -> None:
    """Noise is next to nothing: the truth of all cells, or the product of one-way marginals, but no cell at 0."""
    started = with_constants(FIG_1, start=start, start_share=0.1)
    mechanism = replace(started, rounds=1)  # The average of one round is where it started.
    truth = TABLE.aggregate(QueryAnswers(Marginals(DOMAIN, (("a", "b", "c"),)))).reshape(MODELLED.sizes) / 200
    if start == "one_way":
        truth = np.einsum("a,b,c->abc", truth.sum(axis=(1, 2)), truth.sum(axis=(0, 2)), truth.sum(axis=(0, 1)))
    table = run(mechanism).table
    assert np.abs(table - 200 * truth.ravel()).max() < 1.0
    assert table.min() > 0


STARTS = {"uniform": 0, "cells": 1, "one_way": 3}


@pytest.mark.parametrize("budget", [Budget.pure(2), Budget.zcdp(2)], ids=["pure", "zcdp"])
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("units", [None, 200])
def test_the_plan_is_what_is_charged(budget: Budget, start: Any, units: int | None) -> None:
    mechanism = with_constants(Mwem(rounds=3), start=start, start_share=0.25, select_share=0.3, total_share=0.1)
    private = private_statistics(TABLE, budget, units=units)
    plan = mechanism.plan(private.terms, WORKLOAD)
    mechanism.run(private, WORKLOAD, generator=GENERATOR)
    verbs = [charge.label.split()[0] for charge in private.charges]
    before = STARTS[start] + (0 if units else 1)
    assert verbs == ["measure"] * before + ["select", "measure"] * 3
    assert sum(step.share for step in plan.steps) == pytest.approx(1.0)
    assert sum(step.calls for step in plan.steps) == len(private.charges)
    assert 0 <= private.remaining_share < Fraction(1, 2**70)
    selected = sum(charge.amount for charge in private.charges if charge.label.startswith("select"))
    assert float(selected / budget.amount) == pytest.approx(plan.steps[-2].share)
    rounds = 1 - (0.25 if STARTS[start] else 0) - (0 if units else 0.1)
    assert plan.steps[-2].share == pytest.approx(0.3 * rounds)


def test_several_rows_a_unit_need_a_bought_total() -> None:
    """The number of units is public, the number of rows is not."""
    table = TinyTable(DOMAIN, CODES, bound=2)
    private = private_statistics(table, NO_NOISE, units=100)
    release = Mwem(rounds=1).run(private, WORKLOAD, generator=GENERATOR)
    assert release.model is not None
    assert release.model.total == pytest.approx(200.0)


@pytest.mark.parametrize("budget", [Budget.pure(Fraction(1, 10**6)), Budget.zcdp(Fraction(1, 10**12))])
@pytest.mark.parametrize("distribution", ["final", "average"])
@pytest.mark.parametrize("start", STARTS)
def test_noise_far_above_the_data_gives_finite_answers(budget: Budget, distribution: Any, start: Any) -> None:
    """One row, noise of a million: measured totals below 1 and counts far above the total."""
    private = private_statistics(TinyTable(DOMAIN, CODES[:1]), budget)
    mechanism = with_constants(Mwem(rounds=5), distribution=distribution, start=start)
    release = mechanism.run(private, WORKLOAD, generator=GENERATOR)
    assert np.isfinite(release.answers.values).all()
    assert (release.answers.values >= 0).all()


def test_rounds_follow_from_the_number_of_modelled_attributes() -> None:
    private = private_statistics(TABLE, Budget.zcdp(1))
    assert Mwem().plan(private.terms, WORKLOAD).rounds == 6
    assert Mwem(rounds=4).plan(private.terms, WORKLOAD).rounds == 4


def test_final_passes_bring_the_model_to_its_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without noise many final passes leave less error; a table too large for one pass gets none."""
    few, many = (with_constants(Mwem(rounds=3), passes=1, final_passes=passes) for passes in (0, 200))
    exact = TABLE.aggregate(QueryAnswers(WORKLOAD.queries))

    def error(mechanism: Mwem) -> float:
        return float(np.abs(run(mechanism).answer(WORKLOAD.queries) - exact).max())

    without_passes = error(few)
    assert error(many) < without_passes / 2
    monkeypatch.setattr(mwem, "MAX_FINAL_UPDATES", 10)
    assert error(many) == pytest.approx(without_passes)


def test_only_the_rounds_keep_to_the_newest_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    followed: list[int] = []
    monkeypatch.setattr(mwem.FactoredWeights, "follow", lambda _, pairs, passes: followed.append(len(pairs)))
    run(with_constants(Mwem(rounds=3), newest_only=True, start="uniform"))
    assert followed == [1, 1, 1, 3]


def test_only_ratios_of_weights_matter_however_large() -> None:
    heavy = explicit(DOMAIN, {("a", "b"): 1e20, ("b", "c"): 2e20})
    released = Mwem(rounds=2).run(private_statistics(TABLE, NO_NOISE), heavy, generator=np.random.default_rng(0))
    assert np.isfinite(released.answers.values).all()


BAD = [
    ({"rounds": 0}, "mechanism.rounds is 0; want rounds >= 1"),
    ({"profile": "printed"}, "mechanism.profile is 'printed'; want default or published"),
]


@pytest.mark.parametrize(("settings", "message"), BAD)
def test_bad_settings_are_refused_before_anything_is_measured(settings: dict[str, Any], message: str) -> None:
    private = private_statistics(NoStatistics(TABLE.contribution), Budget.pure(1))
    with pytest.raises(ConfigError, match=message):
        Mwem(**settings).run(private, WORKLOAD, generator=GENERATOR)
    assert private.charges == ()


def test_a_dense_table_that_does_not_fit_is_refused_with_its_size() -> None:
    wide = Domain.of({f"x{i}": 100 for i in range(6)})
    terms = PrivacyTerms(PrivacyUnit(ADD_REMOVE, Contribution(Shape.TABLE, 1)), Budget.pure(1))
    with pytest.raises(DomainTooLargeError, match="x0 x x1 .* has 1,000,000,000,000 cells; .*independent, gaussian"):
        with_constants(Mwem(), start="cells").plan(terms, all_k_way(wide, 2))
    assert Mwem().plan(terms, all_k_way(wide, 2, ["x0", "x1", "x2"])).memory_bytes > 8 * 10**6


@pytest.mark.parametrize("rounds", [None, 3])
def test_marginals_of_no_attribute_are_refused(rounds: int | None) -> None:
    private = private_statistics(NoStatistics(TABLE.contribution), Budget.pure(1))
    no_attribute = Workload(Marginals(DOMAIN, ((),)), np.ones(1))
    message = "mwem needs a workload that names an attribute; want a clique of one attribute or more"
    with pytest.raises(ConfigError, match=message):
        Mwem(rounds=rounds).plan(private.terms, no_attribute)
    with pytest.raises(ConfigError, match=message):
        Mwem(rounds=rounds).run(private, no_attribute, generator=GENERATOR)
    assert private.charges == ()


def test_conjunctions_are_refused() -> None:
    terms = PrivacyTerms(PrivacyUnit(ADD_REMOVE, Contribution(Shape.BASKETS, 3)), Budget.pure(1))
    with pytest.raises(ConfigError, match="mwem answers marginals of a table"):
        Mwem().plan(terms, conjunctive(Conjunctions.single_columns(BinaryView(3))))
