"""Examples 2 and 4, and Theorems 8, 10 and 11, of chapter 3 of McKenna's thesis (2022)."""

from __future__ import annotations

import math
from functools import reduce
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from dpcore.domain import Clique, Domain
from dpcore.kernel.product_sensitivity import largest_l1
from dpcore.measurement import Noise
from dpcore.queries import Products
from dpcore.queries.ranges import all_ranges, identity, prefix, range_marginals
from dpcore.strategies.allocation import weighted_shares
from dpcore.strategies.kronecker.union_of_products import union_of_products
from dpcore.strategies.marginals.attribute_algebra import AttributeAlgebra
from dpcore.strategies.marginals.product_strategy import product_strategy
from dpcore.strategies.marginals.strategy import marginals_error, marginals_strategy
from dpcore.strategies.marginals.subset_sums import Vector, subset_attributes, subset_index, subset_products
from dpcore.strategies.one_attribute.p_identity import p_identity, starts
from dpcore.strategies.residual_planning.planning import least_squared_error
from tests.support import range_strategies
from tests.support.implicit_matrices import Dense
from tests.support.marginal_grams import eigenvalues, gram_weights, multiplicities, product, svd_bound

Matrix = NDArray[np.float64]

PLANE = Domain.of({"x": 100, "y": 100})
AXES: dict[Clique, float] = {("x",): 1.0, ("y",): 1.0}

FOUR = Domain.of({"a": 2, "b": 5, "c": 50, "d": 100})
PAIRS = dict.fromkeys(combinations(FOUR.names, 2), 1.0)
SIZES = (2, 3, 2, 4)


def gram(matrix: NDArray[np.generic]) -> Matrix:
    real = matrix.astype(np.float64)
    return np.asarray(real.T @ real)


def kron(factors: list[Matrix]) -> Matrix:
    return reduce(np.kron, factors, np.ones((1, 1)))


def marginal_gram(weights: Vector, sizes: tuple[int, ...]) -> Matrix:
    """G(weights), by its definition (Proposition 14)."""
    d = len(sizes)
    return np.sum(
        [
            weight * kron([np.eye(n) if i in subset_attributes(b, d) else np.ones((n, n)) for i, n in enumerate(sizes)])
            for b, weight in enumerate(weights)
        ],
        axis=0,
    )


def marginal_queries(weights: Vector, sizes: tuple[int, ...]) -> Matrix:
    """M(weights), by its definition (Definition 22)."""
    d = len(sizes)
    return np.vstack(
        [
            weight * kron([np.eye(n) if i in subset_attributes(b, d) else np.ones((1, n)) for i, n in enumerate(sizes)])
            for b, weight in enumerate(weights)
            if weight
        ]
    )


@pytest.mark.full
def test_example_2_one_product_does_badly() -> None:
    """P x T and T x P on 100 x 100: the best single product has an error of 33,385 (Definition 20)."""
    workload, total = gram(prefix(100)), np.ones((100, 100))
    theta, of_prefixes, of_total = starts(6, 100)[0], 1.0, 1e-6
    for _turn in range(12):
        # Both attributes have the same strategy, each the best beside the other's.
        matrix, _ = p_identity(of_total * workload + of_prefixes * total, theta)
        of_prefixes, of_total = range_strategies.inverse_traces([workload, total], gram(matrix))
        theta = matrix[100:] / np.diag(matrix)
    assert 2 * of_prefixes * of_total == pytest.approx(33_385, rel=3e-3)


def test_example_2_a_product_for_each_part() -> None:
    """212 queries with an error of 14,252 (Definition 21); a better strategy for prefixes makes it 14,148."""
    parts = union_of_products(range_marginals(PLANE, AXES, {"x": prefix(100), "y": prefix(100)}), Noise.LAPLACE)
    assert sum(part.queries.size for part in parts) == 212
    alone = []
    for part in parts:
        assert isinstance(part.queries, Products)
        alone.append(part.error * (largest_l1(part.queries) / part.queries.denominator) ** 2)
    assert 0.99 * 14_252 < sum(np.cbrt(alone)) ** 3 < 14_252


@pytest.mark.full
def test_example_2_products_measured_together_are_better() -> None:
    result = product_strategy(PLANE, AXES, {"x": prefix(100), "y": prefix(100)}, effort=1e8)
    assert result.error < 12_110


def test_example_4_workload_and_identity_as_strategies() -> None:
    """All 2-way marginals of (2, 5, 50, 100) at unit Laplace noise."""
    assert marginals_error(FOUR, PAIRS, Noise.LAPLACE, PAIRS) == pytest.approx(206_964)
    assert marginals_error(FOUR, PAIRS, Noise.LAPLACE, {FOUR.names: 1.0}) == pytest.approx(300_000)


def test_example_4_one_product() -> None:
    """I x I x [.80 I; .20 T] x [.82 I; .18 T] has an error of 213,270."""

    def error(totals: NDArray[np.float64]) -> float:
        inside, outside = [2.0, 5.0], [2.0, 5.0]  # tr((A'A)^-1) and 1'(A'A)^-1 1, of I.
        for size, share in ((50, totals[0]), (100, totals[1])):
            matrix = np.vstack([(1 - share) * np.eye(size), np.full((1, size), share)])
            one = AttributeAlgebra.of(matrix, np.eye(size), Noise.LAPLACE)
            inside.append(one.t + one.s0 / one.alpha)
            outside.append(1 / one.alpha)
        return float(subset_products(inside, outside)[[b for b in range(16) if b.bit_count() == 2]].sum())

    result = minimize(error, [0.1, 0.1], bounds=[(0, 0.9)] * 2)
    assert result.fun == pytest.approx(213_270, abs=1)
    assert result.x == pytest.approx([0.20, 0.18], abs=1e-2)


def test_example_4_each_marginal_alone() -> None:
    """OPT_+: 85,070 with these weights."""
    cells = np.array([FOUR.size(clique) for clique in PAIRS])
    shares = np.array(weighted_shares(cells, np.ones(6), Noise.LAPLACE), dtype=np.float64)
    assert (cells / shares**2).sum() == pytest.approx(85_070, abs=0.5)
    assert sorted(shares) == pytest.approx([0.05, 0.11, 0.13, 0.14, 0.18, 0.39], abs=6e-3)


def test_example_4_marginals_that_tell_the_others() -> None:
    """OPT_M: 62,886 with these weights; under Gaussian noise residuals attain the SVD bound, and marginals do not."""
    result = marginals_strategy(FOUR, PAIRS, Noise.LAPLACE, effort=1e9)
    assert result.error == pytest.approx(62_886, abs=0.5)
    weights = dict(zip(result.cliques, result.weights.tolist(), strict=True))
    assert weights == pytest.approx({("c", "d"): 0.440, ("a", "b", "d"): 0.308, ("a", "b", "c"): 0.252}, abs=5e-4)
    counts = np.zeros(16)
    counts[[subset_index(FOUR.axes(clique), 4) for clique in PAIRS]] = 1.0
    assert least_squared_error(FOUR, PAIRS).error == pytest.approx(16_410.5, abs=0.05)
    assert svd_bound(counts, FOUR.sizes) == pytest.approx(16_410.5, abs=0.05)
    assert marginals_strategy(FOUR, PAIRS, Noise.GAUSSIAN).error == pytest.approx(16_650.5, abs=0.05)


def test_theorem_8_a_workload_is_as_good_as_marginals() -> None:
    """tr(G(u) W'W) = tr(G(u) G(w)) for every u, w being made of the traces and the sums of W_i'W_i."""
    generator, total, w = np.random.default_rng(2), np.zeros((48, 48)), np.zeros(16)
    for weight in (1.0, 0.3, 2.0):
        grams = [gram(generator.integers(0, 2, (3, n))) for n in SIZES]
        total += weight**2 * kron(grams)
        # b I + c 11' has the same trace and sum: n b + n c and n b + n^2 c.
        pairs = [
            np.linalg.solve([[n, n], [n, n * n]], [np.trace(one), one.sum()])
            for n, one in zip(SIZES, grams, strict=True)
        ]
        w += weight**2 * subset_products([b for b, _ in pairs], [c for _, c in pairs])
    for _case in range(5):
        u = generator.normal(size=16)
        traces = float(np.sum(multiplicities(SIZES) * eigenvalues(u, SIZES) * eigenvalues(w, SIZES)))
        assert np.sum(marginal_gram(u, SIZES) * total) == pytest.approx(traces)
        assert np.sum(marginal_gram(u, SIZES) * marginal_gram(w, SIZES)) == pytest.approx(traces)


def test_theorem_8_in_the_search_for_marginals() -> None:
    """Marginals, measured for ranges, are as good as their dense matrix says (with Theorem 9)."""
    domain = Domain(("a", "b", "c", "d"), SIZES)
    queries = {"b": prefix(3), "d": all_ranges(4)}
    attributes = {
        name: AttributeAlgebra.of(np.eye(one.shape[1]), gram(one), Noise.LAPLACE) for name, one in queries.items()
    }
    asked: dict[Clique, float] = {("a", "b"): 1.0, ("b", "d"): 2.0, ("c", "d"): 1.0}
    result = marginals_strategy(domain, asked, Noise.LAPLACE, attributes, effort=1e7)
    theta = np.zeros(16)
    theta[[subset_index(domain.axes(clique), 4) for clique in result.cliques]] = result.weights
    grams = [weight * _gram_of(domain, clique, queries) for clique, weight in asked.items()]
    strategy = Dense(marginal_queries(theta, SIZES))
    assert strategy.sensitivity(1) == pytest.approx(1)
    assert range_strategies.squared_error(np.sum(grams, axis=0), strategy, Noise.LAPLACE) == pytest.approx(result.error)


def _gram_of(domain: Domain, clique: Clique, queries: dict[str, NDArray[np.int64]]) -> Matrix:
    named = zip(domain.names, domain.sizes, strict=True)
    return kron([gram(queries.get(name, identity(n))) if name in clique else np.ones((n, n)) for name, n in named])


@pytest.mark.parametrize("zeros", [0.0, 0.6])
@pytest.mark.parametrize("seed", range(3))
def test_theorem_10_svd_bound_of_marginals(seed: int, zeros: float) -> None:
    generator = np.random.default_rng(seed)
    w = generator.random(16) * (generator.random(16) >= zeros)
    singular = np.linalg.svd(marginal_queries(np.sqrt(w), SIZES), compute_uv=False)
    assert svd_bound(w, SIZES) == pytest.approx(singular.sum() ** 2 / math.prod(SIZES))
    assert svd_bound(w, SIZES) == pytest.approx(range_strategies.svd_bound(marginal_gram(w, SIZES)))


def of_weights(w: Vector) -> tuple[Domain, dict[Clique, float]]:
    domain = Domain(("a", "b", "c", "d"), SIZES)
    return domain, {tuple(domain.names[i] for i in subset_attributes(b, 4)): w[b] for b in np.flatnonzero(w).tolist()}


@pytest.mark.parametrize("seed", range(4))
def test_theorem_11_marginals_that_attain_the_svd_bound(seed: int) -> None:
    """theta = (Y^-1 (Y w)^(1/2))^(1/2), where Y takes w to eigenvalues; w is chosen such that theta is real."""
    generator = np.random.default_rng(seed)
    chosen = generator.random(16) * (generator.random(16) < 0.7)
    w = product(chosen, chosen, SIZES)
    squares = gram_weights(np.sqrt(eigenvalues(w, SIZES)), SIZES)
    assert squares == pytest.approx(chosen, abs=1e-9)
    strategy, bound = Dense(marginal_queries(np.sqrt(np.maximum(squares, 0)), SIZES)), svd_bound(w, SIZES)
    assert range_strategies.squared_error(marginal_gram(w, SIZES), strategy, Noise.GAUSSIAN) == pytest.approx(bound)
    assert marginals_strategy(*of_weights(w), Noise.GAUSSIAN).error == pytest.approx(bound, rel=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_theorem_11_elsewhere_no_marginals_attain_it_but_residuals_do(seed: int) -> None:
    w = np.random.default_rng(seed).random(16)
    w[15] = 0.0
    assert gram_weights(np.sqrt(eigenvalues(w, SIZES)), SIZES).min() < -1e-6
    domain, asked = of_weights(w)
    bound = svd_bound(w, SIZES)
    assert marginals_strategy(domain, asked, Noise.GAUSSIAN).certified > bound * (1 + 1e-6)
    assert least_squared_error(domain, asked).error == pytest.approx(bound)
