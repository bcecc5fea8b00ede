"""DualQuery beyond the laws that all mechanisms share: weights, budget, free columns, refusals."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import numpy as np
import pytest

from dpcore.domain import BinaryView, Domain
from dpcore.errors import ConfigError, UnprovedError
from dpcore.estimation.record_model import RecordModel
from dpcore.exact_statistics import Contribution, QueryAnswers, Shape
from dpcore.kernel.budget import Budget
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.sensitivity import Neighbours, PrivacyUnit
from dpcore.mechanisms.api import Release
from dpcore.mechanisms.query_game.dual_query import DualQuery
from dpcore.mechanisms.query_game.dual_query_schedule import theoretical_parameters
from dpcore.oracles.protocol import BestResponse
from dpcore.queries import Conjunctions, UnitCount
from dpcore.queries.generation import all_parities, random_conjunctions
from dpcore.testing.doubles import REPLACE, private_statistics
from dpcore.testing.memory import MemoryJournal
from dpcore.testing.tiny_statistics import TinyBaskets, TinyTable
from dpcore.workload import Workload, all_k_way, conjunctive
from tests.support.watched_kernel import WatchedKernel

UNITS = 500
ITEMS = BinaryView(8)
MATRIX = np.random.default_rng(0).random((UNITS, 8)) < np.linspace(0.05, 0.9, 8)
MATRIX[:, 7] |= ~MATRIX.any(axis=1)
BASKETS = TinyBaskets(ITEMS, MATRIX, 8)
DOMAIN = Domain.of({"a": 2, "b": 3, "c": 4})
TABLE = TinyTable(DOMAIN, np.random.default_rng(1).integers(0, DOMAIN.sizes, (UNITS, 3)))
ONE_HOT = BinaryView.one_hot(DOMAIN)
BUDGET = Budget.zcdp(Fraction(1, 4))


def queries(view: BinaryView) -> Conjunctions:
    return random_conjunctions(view, 20, 2, np.random.default_rng(2), negate=True)


def run(
    mechanism: DualQuery, statistics: TinyBaskets | TinyTable, *, units: int | None = UNITS, budget: Budget = BUDGET
) -> tuple[Release, WatchedKernel]:
    view = statistics.view if isinstance(statistics, TinyBaskets) else ONE_HOT
    kernel = WatchedKernel(private_statistics(statistics, budget, units=units))
    return mechanism.run(kernel, conjunctive(queries(view)), generator=np.random.default_rng(3)), kernel


def records_of(release: Release) -> np.ndarray:
    assert isinstance(release.model, RecordModel)
    columns = release.model.view.columns
    return np.unpackbits(release.model.records, axis=1, count=columns).astype(np.bool_)


@pytest.mark.parametrize("statistics", [BASKETS, TABLE], ids=["baskets", "table"])
def test_weights_are_those_of_algorithm_2(statistics: TinyBaskets | TinyTable) -> None:
    """log w_q = eta * sum over earlier records of q(D) - q(x), for a query and for its complement."""
    eta = 0.7
    release, kernel = run(DualQuery(eta=eta, samples=5, rounds=12, profile="published"), statistics)
    asked = release.workload.queries
    assert isinstance(asked, Conjunctions)
    exact = statistics.aggregate(QueryAnswers(asked))
    counts = np.concatenate([exact, UNITS - exact])
    satisfied = (records_of(release)[:, asked.columns] != asked.negated).all(axis=2)  # [rounds, queries]
    answers = np.concatenate([satisfied, ~satisfied], axis=1)
    assert len(kernel.sampled) == 12
    for done, sampled in enumerate(kernel.sampled):
        found = float(sampled.slope) * counts / sampled.total + sampled.tilt.log_weights()
        wanted = eta * (counts / UNITS - answers[:done]).sum(axis=0)
        assert np.allclose(found - found[0], wanted - wanted[0])


def test_the_weight_of_an_under_represented_query_rises() -> None:
    """The sign trap: with the payoff the wrong way round the loop would run away from the data."""
    release, kernel = run(DualQuery(eta=0.7, samples=5, rounds=12, profile="published"), BASKETS)
    asked = release.workload.queries
    assert isinstance(asked, Conjunctions)
    exact = BASKETS.aggregate(QueryAnswers(asked))
    satisfied = (records_of(release)[:-1, asked.columns] != asked.negated).all(axis=2)
    short = exact / UNITS - satisfied.mean(axis=0)  # > 0: the records fall short of the data.
    last = kernel.sampled[-1]
    scores = float(last.slope) * np.concatenate([exact, UNITS - exact]) / last.total + last.tilt.log_weights()
    advantage = scores[: asked.size] - scores[asked.size :]  # Of the query over its complement; 0 at first.
    assert (short > 0.05).any()
    assert (short < -0.05).any()
    assert np.array_equal(np.sign(advantage), np.sign(short))
    assert np.allclose(advantage, 2 * 0.7 * 11 * short)


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("budget", [BUDGET, Budget.pure(3)], ids=["zcdp", "pure"])
def test_it_runs_the_most_rounds_that_its_budget_pays_for(neighbours: Neighbours, budget: Budget) -> None:
    private = private_statistics(BASKETS, budget, neighbours=neighbours, units=UNITS)
    workload = conjunctive(queries(ITEMS))
    mechanism = DualQuery(eta=1.5, samples=7, free="zeros")
    plan = mechanism.plan(private.terms, workload)
    mechanism.run(private, workload, generator=np.random.default_rng(0))
    assert len(private.charges) == plan.rounds
    spent = sum(charge.amount for charge in private.charges)
    one_more = private.terms.draws_amount(Fraction(3, 2) * plan.rounds, UNITS, 7)
    assert spent <= budget.amount < spent + one_more


def test_the_first_round_is_free_and_uniform() -> None:
    release, kernel = run(DualQuery(rounds=1, free="zeros"), BASKETS, budget=Budget.zcdp(Fraction(1, 10**9)))
    assert kernel.sampled[0].slope == 0
    assert np.ptp(kernel.sampled[0].tilt.log_weights()) == 0
    assert [charge.amount for charge in kernel.charges] == [0]
    assert len(records_of(release)) == 1


def test_weights_of_the_workload_are_those_of_the_first_round() -> None:
    asked = queries(ITEMS)
    weights = np.linspace(1, 4, asked.size)
    kernel = WatchedKernel(private_statistics(BASKETS, BUDGET, units=UNITS))
    DualQuery(rounds=2).run(kernel, Workload(asked, weights), generator=np.random.default_rng(0))
    assert np.allclose(np.exp(kernel.sampled[0].tilt.log_weights()), np.tile(weights, 2))


@pytest.mark.parametrize(
    ("statistics", "units", "free", "measured"),
    [
        (BASKETS, UNITS, "zeros", []),
        (BASKETS, None, "zeros", ["unit_count"]),
        (BASKETS, None, "uniform", ["unit_count"]),
        (BASKETS, UNITS, "marginals", [Conjunctions.single_columns(ITEMS).digest()]),
        (BASKETS, None, "marginals", ["unit_count", Conjunctions.single_columns(ITEMS).digest()]),
        (TABLE, UNITS, "uniform", []),
        (TABLE, None, "marginals", ["unit_count", Conjunctions.single_columns(ONE_HOT).digest()]),
    ],
)
def test_only_what_is_needed_is_measured(
    statistics: TinyBaskets | TinyTable, units: int | None, free: str, measured: list[str]
) -> None:
    release, kernel = run(DualQuery(free=free, rounds=3), statistics, units=units)
    assert [one.queries.digest() for one in release.measurements] == measured
    assert len(kernel.charges) == 3 + len(measured)
    total = units or max(1, int(release.measurements[0].values[0]))
    assert {sampled.total for sampled in kernel.sampled} == {total}
    assert release.model is not None
    assert release.model.total == total


def test_a_noisy_number_of_units_below_one_counts_as_one() -> None:
    kernel = WatchedKernel(
        private_statistics(BASKETS, BUDGET),
        change_measured=lambda measured: dataclasses.replace(measured, values=np.array([-40])),
    )
    release = DualQuery(free="zeros").run(kernel, conjunctive(queries(ITEMS)), generator=np.random.default_rng(0))
    assert {sampled.total for sampled in kernel.sampled} == {1}
    assert release.answers.values.max() <= 1


def test_free_columns_of_baskets_are_zero_or_likely() -> None:
    """One query over two items: the other six are free in every record."""
    workload = conjunctive(Conjunctions(ITEMS, np.array([[0, 1]]), np.zeros((1, 2), dtype=bool)))
    free = {}
    for policy in ("zeros", "uniform", "marginals"):
        private = private_statistics(BASKETS, Budget.zcdp(1000), units=UNITS)
        mechanism = DualQuery(free=policy, eta=0.01, samples=5, rounds=400)
        release = mechanism.run(private, workload, generator=np.random.default_rng(0))
        free[policy] = records_of(release)[:, 2:].mean(axis=0)
    assert free["zeros"].tolist() == [0.0] * 6
    assert np.abs(free["uniform"] - 0.5).max() < 0.15
    assert np.abs(free["marginals"] - MATRIX[:, 2:].mean(axis=0)).max() < 0.15  # Six standard deviations.


def test_every_oracle_serves() -> None:
    for oracle in ("reductions", "branch_and_bound", "anneal", "enumerate"):
        release, _ = run(DualQuery(oracle=oracle, rounds=5), TABLE)
        records = records_of(release)
        assert all((records[:, start:stop].sum(axis=1) == 1).all() for start, stop in ONE_HOT.groups)


def test_the_plan_of_a_private_number_of_units_shows_several() -> None:
    terms = PrivacyTerms(PrivacyUnit(Neighbours.ADD_REMOVE_UNIT, Contribution(Shape.BASKETS, 8)), BUDGET)
    plan = DualQuery().plan(terms, conjunctive(queries(ITEMS)))
    (note,) = [note for note in plan.notes if "private" in note]
    assert f"100,000 units: {plan.rounds:,} rounds" in note
    assert all(f"{units} units" in note for units in ("1,000", "10,000", "1,000,000"))
    public = PrivacyTerms(PrivacyUnit(REPLACE, Contribution(Shape.BASKETS, 8), 100_000), BUDGET)
    assert not any("private" in note for note in DualQuery().plan(public, conjunctive(queries(ITEMS))).notes)


def test_the_plan_tells_the_noise_and_the_resolution() -> None:
    terms = PrivacyTerms(PrivacyUnit(Neighbours.ADD_REMOVE_UNIT, Contribution(Shape.TABLE, 1)), BUDGET)
    plan = DualQuery(rounds=40).plan(terms, conjunctive(queries(ONE_HOT)))
    assert [(step.label, step.calls) for step in plan.steps] == [
        ("measure units", 1),
        ("measure one-way marginals", 1),
        ("sample queries", 40),
    ]
    # rho = 1 / (2 sigma^2), and 3 / (2 sigma^2) where a row satisfies one literal of each of three attributes.
    assert plan.steps[0].stddev == pytest.approx((2 * 0.05 * 0.25) ** -0.5)
    assert plan.steps[1].stddev == pytest.approx((3 / (2 * 0.05 * 0.25)) ** 0.5)
    assert sum(step.share for step in plan.steps) == pytest.approx(1)
    assert any("multiples of 1/34 " in note for note in plan.notes)
    assert plan.predicted_error is None


BASKET_WORKLOAD = conjunctive(queries(ITEMS))
WIDE = conjunctive(queries(BinaryView(21)))


@pytest.mark.parametrize(
    ("mechanism", "workload", "bound", "message"),
    [
        (DualQuery(), conjunctive(queries(ONE_HOT)), 2, "want dataset.max_rows_per_unit: 1"),
        (DualQuery(eta=0.0), BASKET_WORKLOAD, 1, "mechanism.eta is 0.0; want > 0"),
        (DualQuery(eta=float("inf")), BASKET_WORKLOAD, 1, "mechanism.eta is inf"),
        (DualQuery(samples=0), BASKET_WORKLOAD, 1, "mechanism.samples is 0; want > 0"),
        (DualQuery(rounds=-1), BASKET_WORKLOAD, 1, "mechanism.rounds is -1; want > 0"),
        (DualQuery(alpha=0.1), BASKET_WORKLOAD, 1, "want both or neither"),
        (DualQuery(alpha=1.5, beta=0.1), BASKET_WORKLOAD, 1, "want both < 1"),
        (DualQuery(alpha=0.1, beta=0.1, eta=1.0), BASKET_WORKLOAD, 1, "want none of them beside it"),
        (DualQuery(alpha=0.1, beta=0.1), BASKET_WORKLOAD, 1, "want privacy.units"),
        (DualQuery(alpha=0.1, beta=0.1, oracle="anneal"), BASKET_WORKLOAD, 1, "want oracle: branch_and_bound or red"),
        (DualQuery(free="zeros"), conjunctive(queries(ONE_HOT)), 1, "want marginals"),
        (DualQuery(oracle="enumerate"), WIDE, 1, "want oracle"),
    ],
)
def test_what_has_no_proof_or_no_meaning_is_refused(
    mechanism: DualQuery, workload: Workload, bound: int, message: str
) -> None:
    terms = PrivacyTerms(PrivacyUnit(Neighbours.ADD_REMOVE_UNIT, Contribution(Shape.TABLE, bound)), BUDGET)
    with pytest.raises(ConfigError, match=message):
        mechanism.plan(terms, workload)
    statistics = TinyTable(DOMAIN, TABLE.codes, bound)
    private = private_statistics(statistics, BUDGET)
    with pytest.raises(ConfigError, match=message):
        mechanism.run(private, workload, generator=np.random.default_rng(0))
    assert private.charges == ()


def test_the_total_scales_the_answers() -> None:
    release, _ = run(DualQuery(rounds=4), BASKETS)
    assert set((release.answers.values * 4 / UNITS).round(9)) <= {0.0, 1.0, 2.0, 3.0, 4.0}
    assert BASKETS.aggregate(UnitCount()).tolist() == [UNITS]


def test_the_first_records_play_but_are_not_released() -> None:
    """The same journal and generator: without the first three of twenty, all others are there."""
    journal = MemoryJournal()
    released = []
    for profile in ("published", "default"):
        private = private_statistics(BASKETS, BUDGET, units=UNITS, journal=journal)
        mechanism = DualQuery(rounds=20, samples=9, profile=profile)
        run_of = mechanism.run(private, conjunctive(queries(ITEMS)), generator=np.random.default_rng(3))
        released.append(records_of(run_of))
    assert np.array_equal(released[0][3:], released[1])


def test_what_whole_samples_leave_is_drawn_in_the_last_rounds() -> None:
    _, kernel = run(DualQuery(free="zeros"), BASKETS)
    sizes = [sampled.size for sampled in kernel.sampled]
    assert sizes == sorted(sizes)
    assert sizes[-1] - sizes[0] <= 1
    left = BUDGET.amount - sum(charge.amount for charge in kernel.charges)
    eta = kernel.sampled[1].slope
    assert left < kernel.terms.draws_amount(eta * (len(sizes) - 1), UNITS, 1)


@pytest.mark.parametrize("kind", ["marginals", "parities"])
def test_it_learns_marginals_and_parities(kind: str) -> None:
    """a decides c, which one-way marginals do not tell."""
    codes = np.random.default_rng(1).integers(0, DOMAIN.sizes, (UNITS, 3))
    codes[:, 2] = 2 * codes[:, 0]
    workload = all_k_way(DOMAIN, 2) if kind == "marginals" else conjunctive(all_parities(ONE_HOT, 2))
    private = private_statistics(TinyTable(DOMAIN, codes), Budget.zcdp(10), units=UNITS)
    release = DualQuery(rounds=60).run(private, workload, generator=np.random.default_rng(0))
    exact = TinyTable(DOMAIN, codes).aggregate(QueryAnswers(workload.queries))
    assert np.abs(release.answers.values - exact).max() < 0.12 * UNITS


SMALL = conjunctive(random_conjunctions(BinaryView(3), 3, 2, np.random.default_rng(0)))
SMALL_BASKETS = TinyBaskets(BinaryView(3), MATRIX[:, [3, 5, 7]], 3)
GUARANTEED = DualQuery(alpha=0.9, beta=0.5, free="uniform")


def test_a_guarantee_runs_the_parameters_of_algorithm_2_and_holds() -> None:
    wanted = theoretical_parameters(0.9, 0.5, 3, 3 * np.log(2))
    kernel = WatchedKernel(private_statistics(SMALL_BASKETS, Budget.zcdp(1000), units=UNITS))
    release = GUARANTEED.run(kernel, SMALL, generator=np.random.default_rng(0))
    assert {(float(call.tilt.step), call.size) for call in kernel.sampled} == {(wanted.eta, wanted.samples)}
    assert len(kernel.sampled) == len(records_of(release)) == wanted.rounds
    exact = SMALL_BASKETS.aggregate(QueryAnswers(SMALL.queries))
    assert np.abs(release.answers.values - exact).max() <= 0.9 * UNITS
    notes = GUARANTEED.plan(kernel.terms, SMALL).notes
    assert any("at least 0.5 over the draws every answer is within 0.9 of the units" in note for note in notes)


def test_a_guarantee_that_the_budget_does_not_pay_for_is_refused_with_what_it_takes() -> None:
    private = private_statistics(SMALL_BASKETS, Budget.zcdp(Fraction(1, 1000)), units=UNITS)
    with pytest.raises(
        ConfigError, match=r"cost rho = .* but the draws have rho = .*; want .* or about ([\d,]+) units"
    ) as refused:
        GUARANTEED.run(private, SMALL, generator=np.random.default_rng(0))
    assert private.charges == ()
    enough = int(str(refused.value).split("about ")[1].split(" units")[0].replace(",", ""))
    unit = PrivacyUnit(Neighbours.ADD_REMOVE_UNIT, Contribution(Shape.BASKETS, 8), enough)
    assert GUARANTEED.plan(PrivacyTerms(unit, Budget.zcdp(Fraction(1, 1000))), SMALL).rounds > 1


def test_a_response_that_is_not_proved_ends_a_guaranteed_run() -> None:
    kernel = WatchedKernel(private_statistics(SMALL_BASKETS, Budget.zcdp(1000), units=UNITS))
    schedule = theoretical_parameters(0.9, 0.5, 3, 3 * np.log(2))
    record = np.zeros(3, dtype=np.bool_)
    near = BestResponse(record, 0, int(0.225 * schedule.samples))
    GUARANTEED._check_gap(near, schedule, 1)
    with pytest.raises(UnprovedError, match="round 7 is not proved to be within alpha / 4"):
        GUARANTEED._check_gap(dataclasses.replace(near, bound=near.bound + 1), schedule, 7)
    assert kernel.charges == ()
