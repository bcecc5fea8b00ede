"""DualQuery+PGM: its draws are those of DualQuery, its losses against finite differences, its model near the data."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from dpcore.domain import BinaryView, Domain
from dpcore.errors import ConfigError, DomainTooLargeError
from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.estimation.graphical.likelihood.losses import SquaredLoss
from dpcore.estimation.graphical.likelihood.sample_likelihood import DualQueryRound
from dpcore.exact_statistics import QueryAnswers
from dpcore.kernel.budget import Budget
from dpcore.measurement import Measurement, Noise
from dpcore.mechanisms.api import Release
from dpcore.mechanisms.query_game import dual_query_pgm
from dpcore.mechanisms.query_game.dual_query import DualQuery
from dpcore.mechanisms.query_game.dual_query_pgm import DualQueryPgm, IndependencePrior, SumOfLosses
from dpcore.queries import Conjunctions, Marginals
from dpcore.testing.doubles import NoStatistics, private_statistics
from dpcore.testing.tiny_statistics import TinyTable
from dpcore.workload import Workload, conjunctive, explicit
from tests.support.constants import with_constants

DOMAIN = Domain.of({"a": 3, "b": 3, "unused": 4, "c": 2})
RANDOM = np.random.default_rng(2)
ROWS = 600
CODES = RANDOM.integers(0, DOMAIN.sizes, (ROWS, 4))
CODES[:, 1] = np.where(RANDOM.random(ROWS) < 0.8, CODES[:, 0], CODES[:, 1])
CODES[:, 3] = np.where(RANDOM.random(ROWS) < 0.8, CODES[:, 1] % 2, CODES[:, 3])
TABLE = TinyTable(DOMAIN, CODES)
WORKLOAD = explicit(DOMAIN, {("a", "b"): 1.0, ("b", "c"): 1.0})
BUDGET = Budget.zcdp(1)


def run(mechanism: DualQueryPgm | DualQuery, workload: Workload = WORKLOAD) -> Release:
    private = private_statistics(TABLE, BUDGET, units=ROWS)
    return mechanism.run(private, workload, generator=np.random.default_rng(0))


def error(release: Release) -> float:
    exact = TABLE.aggregate(QueryAnswers(release.workload.queries))
    return float(np.abs(release.answers.values - exact).sum()) / ROWS


@pytest.mark.parametrize("free", ["marginals", "uniform"])
def test_the_model_is_nearer_to_the_data_than_the_records_are(free: str) -> None:
    fitted = [error(run(DualQueryPgm(oracle="enumerate", free=free))) for _ in range(3)]  # type: ignore[arg-type]
    played = [error(run(DualQuery(oracle="enumerate", free=free))) for _ in range(3)]  # type: ignore[arg-type]
    assert np.mean(fitted) < np.mean(played)
    assert np.mean(fitted) < 0.25  # Independent attributes are off by 1.5.


def test_charges_are_those_of_dual_query() -> None:
    """With the share of the one-way marginals that the model's fit asks for."""
    settings = {"eta": 0.5, "samples": 4, "rounds": 6, "oracle": "enumerate"}
    both = []
    played = with_constants(DualQuery(**settings), marginals_share=0.2)  # type: ignore[arg-type]
    for mechanism in (DualQueryPgm(**settings), played):  # type: ignore[arg-type]
        private = private_statistics(TABLE, BUDGET, units=ROWS)
        mechanism.run(private, WORKLOAD, generator=np.random.default_rng(0))
        both.append((private.charges, mechanism.plan(private.terms, WORKLOAD).events))
    assert both[0] == both[1]


def test_where_many_queries_are_satisfied_the_last_rounds_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = rounds_of_the_fit(monkeypatch, 10, WORKLOAD)
    assert [found.slope / 0.5 for found in kept] == list(range(6))[-len(kept) :]  # Slopes are eta (t - 1).
    satisfied = kept[-1].satisfied.size
    assert len(kept) * satisfied <= 10 < (len(kept) + 1) * satisfied


def test_all_rounds_are_kept_where_queries_are_many_but_few_are_satisfied(monkeypatch: pytest.MonkeyPatch) -> None:
    all_four = explicit(DOMAIN, {("a", "b", "unused", "c"): 1.0})
    kept = rounds_of_the_fit(monkeypatch, 72, all_four)  # As many as there are queries; a record satisfies one.
    assert len(kept) == 6


def rounds_of_the_fit(monkeypatch: pytest.MonkeyPatch, largest: int, workload: Workload) -> list[DualQueryRound]:
    kept = list[DualQueryRound]()

    class Kept(dual_query_pgm.SampleLogLikelihood):  # type: ignore[misc]
        def __init__(self, queries, rounds, total, prior) -> None:  # type: ignore[no-untyped-def]
            kept.extend(rounds)
            super().__init__(queries, rounds, total, prior)

    monkeypatch.setattr(dual_query_pgm, "SampleLogLikelihood", Kept)
    monkeypatch.setattr(dual_query_pgm, "MAX_LIKELIHOOD_TERMS", largest)
    run(DualQueryPgm(eta=0.5, samples=4, rounds=6, oracle="enumerate"), workload)
    return kept


def test_a_weighted_workload_weighs_the_draws_of_the_likelihood(monkeypatch: pytest.MonkeyPatch) -> None:
    """Left out of it, the fit takes cells that were drawn for their weight for cells that records lack."""
    weighted = explicit(DOMAIN, {("a", "b"): 50.0, ("b", "c"): 1.0})
    fitted = np.mean([error(run(DualQueryPgm(oracle="enumerate"), weighted)) for _ in range(3)])
    monkeypatch.setattr(dual_query_pgm, "prior_log_weights", lambda workload: None)
    without = np.mean([error(run(DualQueryPgm(oracle="enumerate"), weighted)) for _ in range(3)])
    assert fitted < without


def test_a_sum_of_losses_is_their_sum_with_its_gradient() -> None:
    pairs = Marginals(DOMAIN, (("a", "b"), ("b", "c")))
    noisy = [
        Measurement(Marginals(DOMAIN, (clique,)), RANDOM.normal(50, 9, DOMAIN.size(clique)), Noise.GAUSSIAN, 3.0)
        for clique in (("b",), ("c",))
    ]
    prior = IndependencePrior(pairs, RANDOM.uniform(0.1, 90, pairs.size), 0.3)
    losses = [prior, SquaredLoss(DOMAIN, noisy[:1]), SquaredLoss(DOMAIN, noisy[1:])]
    both = SumOfLosses(DOMAIN, losses)
    assert both.queries == pairs
    at = RANDOM.uniform(10, 60, pairs.size)
    value, gradient = both(at)
    tables = pairs.split(at)  # A part of two marginals is read off the smaller one.
    wanted = prior(at)[0] + losses[1](tables[1].sum(axis=1))[0] + losses[2](tables[1].sum(axis=0))[0]
    assert value == pytest.approx(wanted)
    for cell in range(pairs.size):
        step = np.zeros(pairs.size)
        step[cell] = 1e-4
        assert gradient[cell] == pytest.approx((both(at + step)[0] - both(at - step)[0]) / 2e-4, rel=1e-4, abs=1e-6)


def test_attributes_outside_the_workload_are_uniform() -> None:
    model = run(DualQueryPgm(oracle="enumerate", rounds=5)).model
    assert isinstance(model, GraphicalModel)
    assert np.allclose(model.answer(Marginals(DOMAIN, (("unused",),))), ROWS / 4)


def test_what_has_no_meaning_or_no_memory_is_refused() -> None:
    terms = private_statistics(TABLE, BUDGET, units=ROWS).terms
    with pytest.raises(ConfigError, match="mechanism.free is zeros; want marginals or uniform"):
        DualQueryPgm(free="zeros").plan(terms, WORKLOAD)  # type: ignore[arg-type]
    with pytest.raises(DomainTooLargeError, match="overlap less"):
        DualQueryPgm(max_model_mb=1e-4).plan(terms, WORKLOAD)
    queries = conjunctive(Conjunctions(BinaryView.one_hot(DOMAIN), np.array([[0]]), np.array([[False]])))
    with pytest.raises(ConfigError, match="dual_query_pgm answers marginals"):
        DualQueryPgm().plan(terms, queries)


@pytest.mark.parametrize("free", ["marginals", "uniform"])
def test_marginals_of_no_attribute_are_refused(free: Literal["marginals", "uniform"]) -> None:
    private = private_statistics(NoStatistics(TABLE.contribution), BUDGET, units=ROWS)
    mechanism, no_attribute = DualQueryPgm(free=free), Workload(Marginals(DOMAIN, ((),)), np.ones(1))
    message = "dual_query_pgm needs a workload that names an attribute; want a clique of one attribute or more"
    with pytest.raises(ConfigError, match=message):
        mechanism.plan(private.terms, no_attribute)
    with pytest.raises(ConfigError, match=message):
        mechanism.run(private, no_attribute, generator=np.random.default_rng(0))
    assert private.charges == ()
