"""Residual plans against printed figures, the certified dense optimum and a general convex solver."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from dpcore.domain import Clique, Domain
from dpcore.strategies.allocation import exact_shares
from dpcore.strategies.one_attribute.gaussian_optimum import gaussian_optimum
from dpcore.strategies.residual_planning.planning import (
    ResidualPlan,
    least_absolute_error,
    least_largest_variance,
    least_squared_error,
)

SIGMA = 4.2246788893268326  # Analytic Gaussian mechanism at epsilon 1, delta 1e-6.
ADULT = (100, 100, 100, 99, 85, 42, 16, 15, 9, 7, 6, 5, 2, 2)
LOANS = (101, 101, 101, 101, 3, 8, 36, 6, 51, 4, 5, 15)


def domain(*sizes: int) -> Domain:
    return Domain.of({f"a{place}": size for place, size in enumerate(sizes)})


def subsets(clique: Clique, low: int = 0, high: int = 99) -> list[Clique]:
    return [part for order in range(low, min(high, len(clique)) + 1) for part in combinations(clique, order)]


def rmse(plan: ResidualPlan, sigma: float) -> float:
    cells = sum(plan.domain.size(clique) for clique in plan.marginals)
    return sigma * math.sqrt(plan.error / cells)


def dense(one: Domain, clique: Clique) -> NDArray[np.float64]:
    """The marginal as a matrix over all cells of the domain."""
    pairs = zip(one.names, one.sizes, strict=True)
    factors = [np.eye(size) if name in clique else np.ones((1, size)) for name, size in pairs]
    return reduce(np.kron, factors, np.ones((1, 1)))


def by_the_formula(one: Domain, noise: dict[Clique, float], clique: Clique) -> float:
    """sum over a <= b of s_a prod_a (n - 1) / n prod_{b - a} 1 / n^2."""
    total = 0.0
    for part in subsets(clique):
        inside = math.prod(1 - 1 / size for size in one.shape(part))
        outside = math.prod(size**-2 for size in one.shape(set(clique) - set(part)))
        total += noise.get(part, 0.0) * inside * outside
    return total


def random_case(seed: int) -> tuple[Domain, dict[Clique, float]]:
    generator = np.random.default_rng(seed)
    one = domain(*generator.integers(1, 6, size=4).tolist())
    everything = subsets(one.names)
    chosen = generator.choice(len(everything), size=generator.integers(1, 9), replace=False)
    return one, {everything[place]: float(generator.exponential() + 0.05) for place in chosen}


GOLDEN = {
    "CPS": ((50, 100, 7, 4, 2), 0, 5, 10**9, 32, 618_120, SIGMA, 7.8517),
    "Adult": (ADULT, 0, 3, 10**9, 470, 21_043_262, SIGMA, 45.0562),
    "Loans": (LOANS, 0, 12, 5000, 188, 279_751, SIGMA, 34.6698),
    "Example": ((6, 5, 4), 2, 2, 10**9, 3, 74, 1.0, 1.5324),
    "wide": ((10,) * 100, 0, 3, 10**9, 166_751, 162_196_001, 1.0, 303.2161),
}


@pytest.mark.parametrize("case", GOLDEN)
def test_known_optima(case: str) -> None:
    """Thesis, Table 3.5, has 7.85, 46.44 and 34.91 in the first three rows."""
    sizes, low, high, largest, count, cells, sigma, expected = GOLDEN[case]
    one = domain(*sizes)
    parts = subsets(one.names, low, high)
    cliques = parts if largest == 10**9 else [clique for clique in parts if one.size(clique) <= largest]
    plan = least_squared_error(one, dict.fromkeys(cliques, 1.0))
    assert len(plan.marginals) == count
    assert sum(one.size(clique) for clique in plan.marginals) == cells
    assert rmse(plan, sigma) == pytest.approx(expected, abs=5.1e-5)
    assert plan.bound == plan.error


def test_example_4() -> None:
    one = domain(2, 5, 50, 100)
    plan = least_squared_error(one, dict.fromkeys(subsets(one.names, 2, 2), 1.0))
    assert plan.error == pytest.approx(16_410.5, abs=0.05)


@pytest.mark.parametrize("seed", range(6))
def test_nothing_is_better_than_the_plan(seed: int) -> None:
    """The certified optimum over all strategies, from the dense Gram matrix of the weighted workload."""
    one, weights = random_case(seed)
    gram = np.zeros((one.size(), one.size()))
    for clique, weight in weights.items():
        gram += weight * dense(one, clique).T @ dense(one, clique)
    best = gaussian_optimum(gram, 1e-6)
    assert best.gap <= 1e-5
    assert least_squared_error(one, weights).error == pytest.approx(best.error, rel=1e-5)


@pytest.mark.parametrize("find", [least_squared_error, least_absolute_error, least_largest_variance])
@pytest.mark.parametrize("seed", range(6))
def test_variances_shares_and_noise_fit_together(seed: int, find: Callable[..., ResidualPlan]) -> None:
    one, weights = random_case(seed)
    plan = find(one, weights)
    noise = dict(zip(plan.residuals, plan.noise.tolist(), strict=True))
    assert plan.variances == pytest.approx([by_the_formula(one, noise, clique) for clique in plan.marginals])
    assert plan.shares.sum() == pytest.approx(1)
    assert (plan.shares > 0).all()
    assert plan.costs == pytest.approx([math.prod(1 - 1 / size for size in one.shape(a)) for a in plan.residuals])
    assert plan.noise * plan.shares == pytest.approx(plan.costs)
    assert sum(exact_shares(plan.shares)) <= 1
    assert [float(share) for share in exact_shares(plan.shares)] == pytest.approx(plan.shares, rel=1e-6)
    expected = {part for clique in weights for part in subsets(clique) if min(one.shape(part), default=2) > 1}
    assert set(plan.residuals) == expected
    assert list(map(len, plan.residuals)) == sorted(map(len, plan.residuals))
    together = np.array([weights[clique] for clique in plan.marginals]) * plan.variances
    cells = np.array([one.size(clique) for clique in plan.marginals])
    if find is least_squared_error:
        assert plan.error == pytest.approx(together @ cells)
    elif find is least_absolute_error:
        assert plan.error == pytest.approx((together / np.sqrt(plan.variances)) @ cells)
        assert -1e-12 <= plan.gap <= 1e-4
    else:
        assert plan.error == pytest.approx(together.max())
        assert -1e-12 <= plan.gap <= 1e-4


@pytest.mark.parametrize("seed", range(4))
def test_the_least_absolute_error_is_that_of_a_general_solver(seed: int) -> None:
    one, weights = random_case(seed)
    plan, squared = least_absolute_error(one, weights, 1e-8), least_squared_error(one, weights)
    cells = np.array([weights[clique] * one.size(clique) for clique in plan.marginals])
    table = np.zeros((len(plan.marginals), len(plan.residuals)))
    for place, part in enumerate(plan.residuals):
        for row, clique in enumerate(plan.marginals):
            table[row, place] = by_the_formula(one, {part: plan.costs[place]}, clique)

    def error(logarithms: NDArray[np.float64]) -> float:
        shares = np.exp(logarithms - logarithms.max())
        return float(cells @ np.sqrt(table @ (shares.sum() / shares))) / plan.error

    result = minimize(error, np.zeros(len(plan.residuals)), options={"gtol": 1e-9})
    assert result.fun == pytest.approx(1, abs=1e-6)
    assert plan.gap <= 1e-8
    assert error(np.log(squared.shares)) >= 1


def test_where_all_marginals_are_alike_least_squares_have_the_least_absolute_error() -> None:
    one = domain(3, 3, 3, 3)
    weights = dict.fromkeys(subsets(one.names, 2, 2), 2.0)
    plan = least_absolute_error(one, weights)
    assert plan.steps == 1
    np.testing.assert_allclose(plan.shares, least_squared_error(one, weights).shares)
    with pytest.raises(ValueError, match="want gap > 0 and steps >= 1"):
        least_absolute_error(one, weights, 0.0)


@pytest.mark.parametrize("seed", range(4))
def test_the_least_largest_variance_is_that_of_a_general_solver(seed: int) -> None:
    one, weights = random_case(seed)
    plan = least_largest_variance(one, weights, 1e-6)
    table = np.zeros((len(plan.marginals), len(plan.residuals)))
    for place, part in enumerate(plan.residuals):
        for row, clique in enumerate(plan.marginals):
            table[row, place] = weights[clique] * by_the_formula(one, {part: plan.costs[place]}, clique)
    # Variables: the logarithms of the shares, and the largest variance as a part of the plan's.
    start = np.append(np.zeros(len(plan.residuals)) - np.log(len(plan.residuals)), 10.0)
    result = minimize(
        lambda x: x[-1],
        start,
        method="SLSQP",
        constraints=[
            {"type": "ineq", "fun": lambda x: x[-1] - table @ np.exp(-x[:-1]) / plan.error},
            {"type": "ineq", "fun": lambda x: 1 - np.exp(x[:-1]).sum()},
        ],
        options={"maxiter": 1000, "ftol": 1e-12},
    )
    assert result.success
    assert result.x[-1] == pytest.approx(1, rel=1e-5)


def test_the_largest_variance_falls_below_that_of_least_squares() -> None:
    one = domain(50, 100, 7, 4, 2)
    weights = dict.fromkeys(subsets(one.names), 1.0)
    plan, squares = least_largest_variance(one, weights), least_squared_error(one, weights)
    assert plan.error < 0.5 * squares.variances.max()
    assert plan.gap <= 1e-4
    assert least_largest_variance(one, weights, steps=1).gap > 1e-4


def test_the_bound_holds_for_every_plan() -> None:
    one = domain(3, 4, 5)
    weights = {("a0", "a1"): 1.0, ("a2",): 3.0, (): 0.1}
    plan = least_largest_variance(one, weights, 1e-5)
    generator = np.random.default_rng(5)
    for _ in range(200):
        shares = np.exp(generator.normal(size=len(plan.residuals))) * plan.shares
        noise = dict(zip(plan.residuals, plan.costs / shares * shares.sum(), strict=True))
        assert max(weights[b] * by_the_formula(one, noise, b) for b in plan.marginals) > plan.bound


def test_repeated_cliques() -> None:
    """For squares weights add up, for the largest variance the largest counts."""
    one = domain(3, 4, 5)
    repeated = {("a0", "a1"): 1.0, ("a1", "a0"): 2.0, ("a2",): 1.0}
    for find, weight in ((least_squared_error, 3.0), (least_largest_variance, 2.0)):
        plan, expected = find(one, repeated), find(one, {("a0", "a1"): weight, ("a2",): 1.0})
        assert plan.marginals == expected.marginals == (("a2",), ("a0", "a1"))
        assert plan.error == pytest.approx(expected.error)
        assert plan.shares == pytest.approx(expected.shares)


def test_attributes_of_one_value_change_nothing() -> None:
    one, other = domain(3, 1, 4), domain(3, 9, 4)
    plan = least_squared_error(one, {("a0", "a1", "a2"): 2.0, ("a1",): 1.0})
    expected = least_squared_error(other, {("a0", "a2"): 2.0, (): 1.0})
    assert plan.residuals == expected.residuals
    assert plan.shares == pytest.approx(expected.shares)
    assert plan.error == pytest.approx(expected.error)


def test_large_cliques_of_a_wide_domain() -> None:
    """A clique of twelve out of 100 attributes does not fit one integer of 64 bits."""
    wide, names = domain(*[3] * 100), tuple(f"a{place}" for place in range(8, 100, 8))
    narrow = Domain(names, (3,) * 12)
    weights = {names: 1.0, names[2:7]: 4.0, names[::-2]: 2.0}
    plan, expected = least_squared_error(wide, weights), least_squared_error(narrow, weights)
    assert plan.residuals == expected.residuals
    assert np.allclose(plan.shares, expected.shares)
    assert plan.error == pytest.approx(expected.error)


def test_what_cannot_be_planned() -> None:
    one = domain(3, 4)
    with pytest.raises(ValueError, match="no marginals; want at least one"):
        least_squared_error(one, {})
    with pytest.raises(ValueError, match="unknown attribute 'b'; want one of"):
        least_squared_error(one, {("a0", "b"): 1.0})
    with pytest.raises(ValueError, match="repeats an attribute; want distinct"):
        least_squared_error(one, {("a0", "a1"): 1.0, ("a0", "a0"): 1.0})
    for weight in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="a weight of a marginal is not a positive finite number; want > 0"):
            least_largest_variance(one, {("a0",): weight})
    with pytest.raises(ValueError, match="gap 0, steps 5; want gap > 0"):
        least_largest_variance(one, {("a0",): 1.0}, 0, 5)
    large = domain(*[2] * 23)
    with pytest.raises(ValueError, match="a marginal of 23 attributes; want at most 18"):
        least_squared_error(large, {large.names: 1.0})
    with pytest.raises(ValueError, match=r"parts of 1\d attributes; want smaller cliques"):
        least_squared_error(large, dict.fromkeys(combinations(large.names, 18), 1.0))
