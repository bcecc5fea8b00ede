"""Losses of marginals and their gradients, against plain sums and finite differences."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.likelihood.losses import Loss, SquaredLoss
from dpcore.estimation.graphical.likelihood.sample_likelihood import DualQueryRound, SampleLogLikelihood
from dpcore.kernel.log_weights import LogWeights
from dpcore.measurement import Measurement, Noise
from dpcore.queries import Marginals, Product, Products

DOMAIN = Domain.of({"a": 2, "b": 3, "c": 4})
TOTAL = 50.0
PRIOR = np.random.default_rng(9).normal(size=13)


def of_table(table: NDArray[np.float64], clique: Clique) -> NDArray[np.float64]:
    return table.sum(axis=tuple(axis for axis, name in enumerate(DOMAIN.names) if name not in clique)).ravel()


def marginals(table: NDArray[np.float64], loss: Loss) -> NDArray[np.float64]:
    return np.concatenate([of_table(table, clique) for clique in loss.queries.cliques])


def random_table(generator: np.random.Generator) -> NDArray[np.float64]:
    table = generator.exponential(size=DOMAIN.sizes)
    return np.asarray(table * (TOTAL / table.sum()))


def measurements() -> list[Measurement]:
    """Two of one clique, one inside it, and a product."""
    generator = np.random.default_rng(1)
    prefix = Product(("b", "c"), (np.eye(3, dtype=int), np.tril(np.ones((4, 4), dtype=int))), 3)
    asked = [
        (Marginals(DOMAIN, (("a", "b"), ("b",))), 2.0),
        (Marginals(DOMAIN, (("a", "b"),)), 0.5),
        (Products(DOMAIN, (prefix,), 2), 4.0),
    ]
    return [Measurement(each, generator.normal(9, 6, each.size), Noise.GAUSSIAN, sigma) for each, sigma in asked]


def residuals(table: NDArray[np.float64]) -> list[tuple[NDArray[np.float64], float]]:
    """A_j mu - y_j, and sigma_j, of ``measurements``."""
    one, other, product = measurements()
    ab, b = of_table(table, ("a", "b")), of_table(table, ("b",))
    prefixes = 1.5 * np.cumsum(table.sum(axis=0), axis=1).ravel()
    return [
        (np.concatenate([ab, b]) - one.values, 2.0),
        (ab - other.values, 0.5),
        (prefixes - product.values, product.stddev),
    ]


def draws() -> list[DualQueryRound]:
    """Rounds of different sizes on cliques one of which lies in another: 6 + 3 + 4 queries."""
    generator = np.random.default_rng(2)
    found = []
    for done in range(4):
        hits = generator.integers(0, done + 1, 13) * (np.arange(13) % 3 > 0)
        found.append(DualQueryRound.of(0.9 * done, 0.3, done, hits, generator.integers(0, 26, 5 + done)))
    return found


def likelihood(rounds: list[DualQueryRound] | None = None) -> SampleLogLikelihood:
    asked = Marginals(DOMAIN, (("a", "b"), ("b",), ("c",)))
    return SampleLogLikelihood(asked, draws() if rounds is None else rounds, 40.0, PRIOR)


def minus_log_chances(table: NDArray[np.float64]) -> float:
    """Draw by draw."""
    counts = np.concatenate([of_table(table, clique) for clique in (("a", "b"), ("b",), ("c",))])
    found = 0.0
    for each in draws():
        both = [*(count / 40 for count in counts), *(1 - count / 40 for count in counts)]
        hits = np.zeros(13)
        hits[each.satisfied] = each.hits
        tilts = LogWeights(each.step, hits.astype(int), each.done, PRIOR).log_weights()
        weights = [math.exp(each.slope * c + tilt) for c, tilt in zip(both, tilts, strict=True)]
        for drawn in each.drawn:
            found -= math.log(weights[drawn] / sum(weights))
    return found


LOSSES: dict[str, Loss] = {
    "squared": SquaredLoss(DOMAIN, measurements()),
    "sample log-likelihood": likelihood(),
}


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    generator, loss = np.random.default_rng(3), LOSSES[name]
    point = marginals(random_table(generator), loss)
    _, gradient = loss(point)
    for _ in range(10):
        direction = generator.normal(size=point.size)
        ahead, behind = (loss(point + sign * 1e-5 * direction)[0] for sign in (1, -1))
        assert gradient @ direction == pytest.approx((ahead - behind) / 2e-5, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("name", LOSSES)
def test_losses_are_convex(name: str) -> None:
    """They lie above every tangent."""
    generator, loss = np.random.default_rng(4), LOSSES[name]
    for _ in range(20):
        here, there = (marginals(random_table(generator), loss) for _ in range(2))
        value, gradient = loss(here)
        assert loss(there)[0] >= value + gradient @ (there - here) - 1e-9


@pytest.mark.parametrize("name", LOSSES)
def test_losses_bend_no_more_than_their_curvature(name: str) -> None:
    """Between joints: L(q) <= L(p) + <g, q - p> + curvature / 2 |q - p|_1^2; nor is the bound without meaning."""
    generator, loss = np.random.default_rng(5), LOSSES[name]
    largest = 0.0
    for round_ in range(200):
        here, there = random_table(generator), np.zeros(DOMAIN.sizes)
        there[tuple(generator.integers(0, DOMAIN.sizes))] = TOTAL
        if round_ % 2:
            here, there = there, np.roll(there, 1, axis=(0, 1, 2))
        value, gradient = loss(marginals(here, loss))
        bend = loss(marginals(there, loss))[0] - value - gradient @ (marginals(there, loss) - marginals(here, loss))
        largest = max(largest, bend / (loss.curvature / 2 * np.abs(there - here).sum() ** 2))
    assert 0.01 < largest <= 1


def test_the_squared_loss_is_a_plain_sum() -> None:
    table = random_table(np.random.default_rng(6))
    loss = LOSSES["squared"]
    wanted = sum(float(residual @ residual) / (2 * sigma**2) for residual, sigma in residuals(table))
    assert loss(marginals(table, loss))[0] == pytest.approx(wanted, rel=1e-12)
    assert loss.queries.cliques == (("a", "b"), ("b", "c"))


@pytest.mark.parametrize("seed", range(5))
def test_the_likelihood_is_that_of_the_draws(seed: int) -> None:
    table = random_table(np.random.default_rng(seed))
    loss = LOSSES["sample log-likelihood"]
    assert loss(marginals(table, loss))[0] == pytest.approx(minus_log_chances(table), rel=1e-12)
    assert loss.queries.cliques == (("a", "b"), ("c",))


@pytest.mark.parametrize("prior", [None, np.random.default_rng(12).normal(size=2000)])
@pytest.mark.parametrize("slack", [0.0, 3.0])
def test_of_many_queries_the_likelihood_is_that_of_all_exponentials(
    prior: NDArray[np.float64] | None, slack: float
) -> None:
    """Counts from 0 to a third of the total, few queries with hits. slack: What slopes have beyond step done."""
    generator, total = np.random.default_rng(11), 1e4
    counts = generator.dirichlet(np.full(2000, 0.05)) * total
    rounds = []
    hits = np.zeros(2000, dtype=int)
    for done in range(30):
        slope = 0.7 * done + slack
        rounds.append(DualQueryRound.of(slope, 0.7, done, hits, generator.integers(0, 4000, 9)))
        hits[generator.choice(40)] += 1
    loss = SampleLogLikelihood(Marginals(Domain.of({"x": 40, "y": 50}), (("x", "y"),)), rounds, total, prior)
    value, gradient = loss(counts)
    wanted, slopes = 0.0, np.zeros(2000)
    for found in rounds:
        h = np.zeros(2000)
        h[found.satisfied] = found.hits
        first = np.zeros(2000) if prior is None else prior
        exponents = np.concatenate([
            first + found.slope * counts / total - found.step * h,
            first + found.slope * (1 - counts / total) - found.step * (found.done - h),
        ])  # fmt: skip
        chances = np.exp(exponents - exponents.max())
        log_sum = exponents.max() + math.log(chances.sum())
        chances *= 9 / chances.sum()
        wanted += 9 * log_sum - exponents[found.drawn].sum()
        times = np.bincount(found.drawn, minlength=4000)
        slopes += found.slope / total * ((chances - times)[:2000] - (chances - times)[2000:])
    assert value == pytest.approx(wanted, rel=1e-12)
    assert np.allclose(gradient, slopes, rtol=1e-9, atol=1e-14)


def test_steep_rounds_do_not_overflow() -> None:
    steep = DualQueryRound.of(5000.0, 100.0, 9, np.full(13, 9), np.array([0, 13]))
    loss = likelihood([steep])
    value, gradient = loss(marginals(random_table(np.random.default_rng(8)), loss))
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


def test_the_first_round_tells_nothing_of_the_counts() -> None:
    loss = likelihood(draws()[:1])
    assert loss(np.full(loss.queries.size, 3.0))[1].tolist() == [0.0] * loss.queries.size
    assert loss.curvature == 0


def test_rounds_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="no rounds"):
        likelihood([])
    with pytest.raises(ValueError, match="round 1 is none of 13"):
        likelihood([draws()[0], DualQueryRound.of(1.0, 0.3, 0, np.zeros(13, dtype=int), np.array([26]))])
