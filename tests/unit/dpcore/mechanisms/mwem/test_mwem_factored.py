"""MWEM where all attributes share no table: what it measures, what it refuses and what it spends."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.errors import ConfigError, DomainTooLargeError
from dpcore.estimation.multiplicative_weights import factored
from dpcore.estimation.multiplicative_weights.dense import LARGEST_CELLS, DenseModel
from dpcore.estimation.multiplicative_weights.factored import FactoredModel, FactoredWeights
from dpcore.exact_statistics import Contribution, QueryAnswers, Shape
from dpcore.kernel.budget import Budget
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.sensitivity import PrivacyUnit
from dpcore.mechanisms.api import Release
from dpcore.mechanisms.mwem import mwem
from dpcore.mechanisms.mwem.candidates import RemainingCandidates, max_total_cells
from dpcore.mechanisms.mwem.mwem import Mwem
from dpcore.queries import Marginals
from dpcore.testing.doubles import ADD_REMOVE, NoStatistics, private_statistics
from dpcore.testing.memory import MemoryJournal
from dpcore.testing.tiny_statistics import TinyTable
from dpcore.workload import Workload, all_k_way, explicit
from tests.support.constants import with_constants

MB = 2.0**-17  # MiB of one cell.
DOMAIN = Domain.of({"a": 2, "b": 3, "c": 2, "d": 4, "e": 2})
RANDOM = np.random.default_rng(0)
CELLS = RANDOM.choice(96, size=300, p=RANDOM.dirichlet(np.full(96, 0.1)))
TABLE = TinyTable(DOMAIN, np.stack(np.unravel_index(CELLS, DOMAIN.sizes), axis=1))
WORKLOAD = all_k_way(DOMAIN, 2)
BITS = Domain.of({f"x{place}": 2 for place in range(77)})
CODES = (RANDOM.random((400, 77)) < RANDOM.random(77)).astype(np.int64)
CODES[:, 1] = CODES[:, 0]
WIDE = TinyTable(BITS, CODES)
LINKED: Workload = explicit(
    BITS,
    dict.fromkeys([("x0", "x1"), ("x1", "x2"), ("x5", "x70"), ("x0", "x5", "x76"), *((n,) for n in BITS.names)], 1.0),
)
NO_NOISE = Budget.pure(10**9)
TERMS = PrivacyTerms(PrivacyUnit(ADD_REMOVE, Contribution(Shape.TABLE, 1)), Budget.pure(1))


def run(mechanism: Mwem, table: TinyTable, workload: Workload, budget: Budget = NO_NOISE) -> Release:
    return mechanism.run(private_statistics(table, budget), workload, generator=np.random.default_rng(0))


def tables(domain: Domain, cliques: list[Clique]) -> list[Clique]:
    """Attributes that the cliques connect."""
    groups = [frozenset([name]) for name in domain.names]
    for clique in cliques:
        met = [group for group in groups if group & set(clique)]
        groups = [group for group in groups if group not in met] + ([frozenset().union(*met)] if met else [])
    return [domain.canonical(group) for group in groups]


def measured(release: Release) -> list[Clique]:
    cliques = []
    for measurement in release.measurements:
        assert isinstance(measurement.queries, Marginals)
        cliques.append(measurement.queries.cliques[0])
    return cliques


@settings(max_examples=25, deadline=None)
@given(st.integers(4, 96), st.sampled_from(["uniform", "one_way"]), st.integers(1, 7))
def test_no_table_passes_the_limit(limit: int, start: Any, rounds: int) -> None:
    mechanism = with_constants(Mwem(rounds=rounds, max_table_mb=limit * MB), start=start)
    release = run(mechanism, TABLE, WORKLOAD)
    assert max(DOMAIN.size(group) for group in tables(DOMAIN, measured(release))) <= limit
    assert len(measured(release)) == 1 + (5 if start == "one_way" else 0) + rounds


@pytest.mark.parametrize("limit", [12, 24, 96])
def test_candidates_are_the_marginals_that_fit_and_are_scored_by_their_own_answers(limit: int) -> None:
    """Each time a marginal was measured: those whose table stays within the limit, and the model's answers of them."""
    weights = np.linspace(1.0, 2.0, 10)
    queries = WORKLOAD.queries
    assert isinstance(queries, Marginals)
    model = FactoredWeights(DOMAIN, [], 300.0, limit=limit)
    candidates = RemainingCandidates(queries, weights)
    chosen: list[Clique] = []
    for turn in range(5):
        candidates.refresh(model)
        fitting = [
            index
            for index, clique in enumerate(queries.cliques)
            if max(DOMAIN.size(group) for group in tables(DOMAIN, [*chosen, clique])) <= limit
        ]
        assert candidates.queries.cliques == tuple(queries.cliques[index] for index in fitting)
        score = candidates.score(model, 0.5)
        expected = DenseModel(DOMAIN, model.whole()).answer(candidates.queries)
        assert np.allclose(score.estimate, expected, rtol=1e-12)
        assert np.allclose(score.weights, weights[fitting] / 2)
        assert np.allclose(score.penalties, [0.5 * size for size in candidates.queries.sizes])
        chosen.append(candidates.queries.cliques[turn % len(candidates.queries.cliques)])
        model.follow([(chosen[-1], np.arange(float(DOMAIN.size(chosen[-1]))) * 20)], 2)


def test_a_limited_release_is_a_product_whose_tables_are_near_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without noise: a measured marginal is that of the data, one across two tables the product of single ones."""
    monkeypatch.setattr(factored, "LARGEST_WHOLE", 1)
    release = run(Mwem(rounds=8, max_table_mb=12 * MB), TABLE, WORKLOAD)
    assert isinstance(release.model, FactoredModel)
    assert np.array_equal(release.answers.values, release.model.answer(WORKLOAD.queries))
    held = [set(group.domain.names) for group in release.model.groups]
    across = [pair for pair in combinations(DOMAIN.names, 2) if not any(set(pair) <= group for group in held)]
    assert across
    for left, right in across:
        assert np.abs(answer(release, (left, right)) - np.outer(exact((left,)), exact((right,))) / 300).max() < 3
    pairs = [clique for clique in measured(release) if len(clique) == 2]
    assert pairs
    for pair in pairs:
        assert np.abs(answer(release, pair) - exact(pair)).max() < 3


def answer(release: Release, clique: Clique) -> NDArray[np.float64]:
    assert release.model is not None
    return release.model.answer(Marginals(DOMAIN, (clique,))).reshape(DOMAIN.shape(clique))


def exact(clique: Clique) -> NDArray[np.int64]:
    return TABLE.aggregate(QueryAnswers(Marginals(DOMAIN, (clique,)))).reshape(DOMAIN.shape(clique))


@pytest.mark.parametrize("start", ["uniform", "one_way"])
@pytest.mark.parametrize("newest_only", [True, False])
def test_a_release_is_that_of_one_dense_table(start: Any, newest_only: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one journal: the dense run asks the kernel the same, scores included, and releases the same answers."""
    mechanism, journal = with_constants(Mwem(rounds=5), start=start, newest_only=newest_only), MemoryJournal()

    def answers() -> NDArray[np.float64]:
        private = private_statistics(TABLE, Budget.pure(5), journal=journal)
        return mechanism.run(private, WORKLOAD, generator=np.random.default_rng(0)).answers.values

    factors = answers()
    monkeypatch.setattr(Mwem, "_needs_dense_table", lambda _: True)
    assert np.abs(answers() - factors).max() <= 1e-12 * 300


def test_dependent_bits_among_seventy_seven_are_found_and_answered() -> None:
    release = run(Mwem(rounds=6), WIDE, LINKED)
    assert isinstance(release.model, FactoredModel)
    assert ("x0", "x1") in measured(release)
    answers = release.model.answer(Marginals(BITS, (("x0", "x1"),)))
    exact = WIDE.aggregate(QueryAnswers(Marginals(BITS, (("x0", "x1"),))))
    assert np.abs(answers - exact).max() < 4
    assert release.answers.values.shape == (LINKED.queries.size,)
    rows = release.model.sample(50, np.random.default_rng(1))
    assert (rows.codes[:, 0] == rows.codes[:, 1]).mean() > 0.9


@pytest.mark.parametrize("budget", [Budget.pure(2), Budget.zcdp(2)], ids=["pure", "zcdp"])
@pytest.mark.parametrize("limit", [None, 4 * MB])
def test_the_plan_is_what_is_charged(budget: Budget, limit: float | None) -> None:
    """Candidates that are dropped move no charge."""
    mechanism = Mwem(rounds=5, max_table_mb=limit)
    private = private_statistics(WIDE, budget)
    plan = mechanism.plan(private.terms, LINKED)
    mechanism.run(private, LINKED, generator=np.random.default_rng(0))
    verbs = [charge.label.split()[0] for charge in private.charges]
    assert verbs == ["measure"] * 78 + ["select", "measure"] * 5
    assert sum(step.calls for step in plan.steps) == len(private.charges)
    assert sum(step.share for step in plan.steps) == pytest.approx(1.0)
    assert 0 <= private.remaining_share < Fraction(1, 2**70)


def test_noise_far_above_the_data_gives_finite_answers() -> None:
    release = run(Mwem(rounds=4), TinyTable(BITS, CODES[:1]), LINKED, Budget.pure(Fraction(1, 10**6)))
    assert np.isfinite(release.answers.values).all()
    assert (release.answers.values >= 0).all()


def test_marginals_that_can_never_be_measured_are_named_in_the_plan() -> None:
    assert Mwem().plan(TERMS, LINKED).notes == ()
    (note,) = Mwem(max_table_mb=4 * MB).plan(TERMS, LINKED).notes
    assert note == "1 marginals of more than 4 cells are never measured, only predicted by the model"


def test_the_limit_is_the_whole_table_where_that_fits_in_memory_and_time() -> None:
    def limit(mechanism: Mwem, attributes: int) -> int:
        return mechanism._max_cells(Domain.of({f"x{place}": 2 for place in range(attributes)}))

    assert limit(Mwem(), 16) == limit(Mwem(), 24) == LARGEST_CELLS
    assert limit(Mwem(), 27) == limit(Mwem(), 77) == mwem.WIDE_CELLS
    assert limit(Mwem(rounds=5), 27) == LARGEST_CELLS
    assert limit(with_constants(Mwem(), newest_only=True), 27) == LARGEST_CELLS
    assert limit(Mwem(max_table_mb=8.0), 77) == 1 << 20
    assert limit(with_constants(Mwem(), distribution="average"), 27) == LARGEST_CELLS
    assert limit(Mwem(profile="published"), 27) == LARGEST_CELLS


REFUSED: list[tuple[Mwem, str]] = [
    (
        with_constants(Mwem(), start="cells"),
        "the dense table of mechanism mwem over x0 x x1 .* has 151,115,727,451,828,646,838,272 cells",
    ),
    (
        with_constants(Mwem(), distribution="average"),
        "the dense table of mechanism mwem .*; want at most 200,000,000: choose fewer",
    ),
    (Mwem(profile="published"), "the dense table of mechanism mwem .*; want at most 200,000,000: choose fewer"),
    (
        Mwem(max_table_mb=MB),
        "attribute 'x0' of mechanism mwem has 2 cells; want at most 1: a larger mechanism.max_table_mb",
    ),
]


@pytest.mark.parametrize(("mechanism", "message"), REFUSED)
def test_what_does_not_fit_is_refused_before_anything_is_measured(mechanism: Mwem, message: str) -> None:
    private = private_statistics(NoStatistics(WIDE.contribution), Budget.pure(1))
    with pytest.raises(DomainTooLargeError, match=message):
        mechanism.run(private, LINKED, generator=np.random.default_rng(0))
    assert private.charges == ()


def test_a_workload_of_which_no_marginal_fits_is_refused() -> None:
    message = "the smallest marginal of mechanism mwem has 8 cells; want at most 4: a larger mechanism.max_table_mb"
    with pytest.raises(DomainTooLargeError, match=message):
        Mwem(max_table_mb=4 * MB).plan(TERMS, all_k_way(BITS, 3))


@pytest.mark.parametrize("size", [0.0, -1.0, 1600.0, math.nan])
def test_a_table_size_without_meaning_is_refused(size: float) -> None:
    with pytest.raises(ConfigError, match=r"mechanism.max_table_mb is .*; want 0 < max_table_mb <= 1,525"):
        Mwem(max_table_mb=size).plan(TERMS, LINKED)


@settings(max_examples=60)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=9), st.integers(6, 200), st.randoms())
def test_no_partition_within_the_limit_has_more_cells_than_planned(sizes: list[int], limit: int, random: Any) -> None:
    domain = Domain(tuple(f"x{place}" for place in range(len(sizes))), tuple(sizes))
    groups: list[int] = []
    for size in random.sample(sizes, len(sizes)):
        fitting = [place for place, cells in enumerate(groups) if cells * size <= limit]
        if fitting:
            groups[random.choice(fitting)] *= size
        else:
            groups.append(size)
    assert sum(cells for cells in groups if cells > 1) <= max(max_total_cells(domain, limit), 1)


def test_pairs_of_a_thousand_bits_fit_where_their_table_cannot() -> None:
    domain = Domain.of({f"x{place}": 2 for place in range(1_000)})
    pairs = explicit(
        domain, dict.fromkeys(list(combinations(domain.names[:40], 2)) + [(n,) for n in domain.names], 1.0)
    )
    plan = Mwem(rounds=10).plan(TERMS, pairs)
    assert plan.memory_bytes < 1 << 28
    assert plan.notes == ()
