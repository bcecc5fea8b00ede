"""The estimators where their laws say nothing: limits, steps that survive, and the likelihood of draws."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.estimation.graphical.inference.belief_propagation import Inference
from dpcore.estimation.graphical.likelihood.losses import Loss, SquaredLoss
from dpcore.estimation.graphical.likelihood.mirror_descent import AcceleratedMirrorDescent
from dpcore.estimation.graphical.likelihood.sample_likelihood import DualQueryRound, SampleLogLikelihood
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from dpcore.kernel.log_weights import LogWeights
from dpcore.measurement import Measurement, Noise
from dpcore.queries import Marginals
from tests.support.mirror_descent import MirrorDescent

DOMAIN = Domain.of({"a": 2, "b": 3, "c": 4})
CLIQUES = (("a", "b"), ("b", "c"), ("a", "c"))
TOTAL = 300.0
TABLE = np.random.default_rng(1).multinomial(300, np.random.default_rng(2).dirichlet(np.full(24, 0.5))).reshape(2, 3, 4)
EXACT = [TABLE.sum(axis=2), TABLE.sum(axis=0), TABLE.sum(axis=1)]
Estimator = MirrorDescent | AcceleratedMirrorDescent
ALL: dict[str, type[Estimator]] = {
    "mirror descent": MirrorDescent,
    "accelerated mirror descent": AcceleratedMirrorDescent,
}


def measurements(sigma: float = 5.0) -> list[Measurement]:
    generator = np.random.default_rng(3)
    pairs = zip(CLIQUES, EXACT, strict=True)
    values = [(clique, exact.ravel() + generator.laplace(0, sigma / np.sqrt(2), exact.size)) for clique, exact in pairs]
    return [Measurement(Marginals(DOMAIN, (clique,)), noisy, Noise.GAUSSIAN, sigma) for clique, noisy in values]


def oracle() -> Inference:
    return Inference(JunctionTree.of(DOMAIN, CLIQUES), CLIQUES)


SQUARED = SquaredLoss(DOMAIN, measurements())
START = np.zeros(SQUARED.queries.size)


def loss_of(loss: Loss, potentials: NDArray[np.float64]) -> float:
    return loss(TOTAL * oracle().marginals(potentials))[0]


@pytest.mark.parametrize("iterations", [1, 2, 3, 7, 25])
@pytest.mark.parametrize("name", ALL)
def test_calls_of_the_oracle_are_counted_and_limited(
    name: str, iterations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = 0
    real = Inference.marginals

    def counted(self: Inference, potentials: NDArray[np.float64]) -> NDArray[np.float64]:
        nonlocal called
        called += 1
        return real(self, potentials)

    monkeypatch.setattr(Inference, "marginals", counted)
    fit = ALL[name](iterations, 0.0).estimate(oracle(), SQUARED, TOTAL, START)
    assert called == fit.iterations <= iterations
    assert fit.iterations > 0.9 * iterations


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("step", [None, 1e-9, 1e9])
@pytest.mark.parametrize("iterations", [1, 2, 5, 30])
@pytest.mark.parametrize("name", ALL)
def test_no_fit_is_above_its_start(name: str, iterations: int, step: float | None, seed: int) -> None:
    start = np.random.default_rng(seed).normal(0, 3 * (seed > 0), START.size)
    fit = ALL[name](iterations).estimate(oracle(), SQUARED, TOTAL, start, step)
    assert fit.loss <= loss_of(SQUARED, start)
    assert fit.loss == pytest.approx(loss_of(SQUARED, fit.potentials), rel=1e-9)


@pytest.mark.parametrize("name", ALL)
def test_a_good_start_ends_soon(name: str) -> None:
    first = ALL[name](3000, 1e-6).estimate(oracle(), SQUARED, TOTAL, START)
    again = ALL[name](3000, 1e-4).estimate(oracle(), SQUARED, TOTAL, first.potentials, first.step)
    assert again.loss <= first.loss
    assert again.iterations <= 70 < first.iterations


@pytest.mark.parametrize("name", ALL)
def test_the_step_grows_to_what_the_loss_allows_and_survives(name: str) -> None:
    fits = [ALL[name](60, 0.0).estimate(oracle(), SQUARED, TOTAL, START, step) for step in (None, 1e-7, 1e3)]
    steps = [fit.step for fit in fits]
    assert max(steps) < 30 * min(steps)
    assert min(steps) > 1e-4
    known = ALL[name](60, 0.0).estimate(oracle(), SQUARED, TOTAL, START, steps[0])
    assert known.loss < fits[1].loss


@pytest.mark.parametrize("name", ALL)
def test_drawn_queries_bring_the_model_near_the_data(name: str) -> None:
    """Rounds that tilt away from a flat table draw what the flat one gets wrong; the likeliest model is closer."""
    queries = Marginals(DOMAIN, CLIQUES)
    exact = np.concatenate([table.ravel() for table in EXACT]).astype(float)
    flat = TOTAL * oracle().marginals(START)
    generator = np.random.default_rng(5)
    rounds = []
    for done in range(1, 21):
        hits = np.round(done * flat / TOTAL).astype(int)
        tilt = LogWeights(2.0, hits, done)
        both = np.concatenate([exact, TOTAL - exact]) / TOTAL
        weights = np.exp(2.0 * done * both + tilt.log_weights())
        drawn = generator.choice(weights.size, 100, p=weights / weights.sum())
        rounds.append(DualQueryRound.of(2.0 * done, tilt.step, done, hits, drawn))
    loss = SampleLogLikelihood(queries, rounds, TOTAL)
    fit = ALL[name](250, 1e-6).estimate(oracle(), loss, TOTAL, START)
    assert fit.loss <= loss(exact)[0] < loss(flat)[0]
    assert np.abs(fit.marginals - exact).mean() < 0.4 * np.abs(flat - exact).mean()


@pytest.mark.parametrize("name", ALL)
def test_what_does_not_fit_is_refused(name: str) -> None:
    estimator: Estimator = ALL[name]()
    with pytest.raises(ValueError, match="other cliques"):
        estimator.estimate(Inference(oracle().tree, [("a", "b")]), SQUARED, TOTAL, np.zeros(6))
    for total in (0.0, -3.0, np.inf, np.nan):
        with pytest.raises(ValueError, match="number of records"):
            estimator.estimate(oracle(), SQUARED, total, START)
    with pytest.raises(ValueError, match="exclude every record"):
        estimator.estimate(oracle(), SQUARED, TOTAL, np.where(np.arange(START.size) < 6, -np.inf, 0.0))
