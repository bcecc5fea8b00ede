"""OPT_M against dense strategies and published figures."""

from __future__ import annotations

import math
from functools import reduce
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.measurement import Noise
from dpcore.queries.ranges import all_ranges, prefix
from dpcore.strategies.marginals.attribute_algebra import AttributeAlgebra
from dpcore.strategies.marginals.strategy import MarginalsStrategy, marginals_error, marginals_strategy
from dpcore.strategies.marginals.subset_sums import subset_index
from dpcore.strategies.one_attribute.p_identity import p_identity, starts
from tests.support.marginal_grams import svd_bound

noises = pytest.mark.parametrize("noise", [Noise.LAPLACE, Noise.GAUSSIAN, Noise.ROUNDED_GAUSSIAN])
Matrices = dict[str, NDArray[np.float64]]

SMALL = Domain.of({"a": 3, "b": 2, "c": 4})
ASKED: dict[Clique, float] = {("a", "b"): 1.0, ("c",): 2.0, ("b", "c"): 0.5, (): 1.0}


def stacked(domain: Domain, weights: dict[Clique, float], matrices: Matrices) -> NDArray[np.float64]:
    """The rows of all marginals, by definition; a weight is of the squares of rows."""
    parts = []
    for clique, weight in weights.items():
        factors = [
            matrices.get(name, np.eye(size)) if name in clique else np.ones((1, size))
            for name, size in zip(domain.names, domain.sizes, strict=True)
        ]
        parts.append(math.sqrt(weight) * reduce(np.kron, factors))
    return np.vstack(parts)


def dense_error(
    domain: Domain, asked: dict[Clique, float], queries: Matrices, result: MarginalsStrategy, noise: Noise
) -> float:
    squares = dict(zip(result.cliques, (result.weights**2).tolist(), strict=True))
    strategy = stacked(domain, squares, dict(result.matrices))
    workload = stacked(domain, asked, queries)
    norms = np.abs(strategy).sum(axis=0) ** 2 if noise is Noise.LAPLACE else (strategy**2).sum(axis=0)
    assert norms.max() == pytest.approx(1)
    inverse = np.linalg.pinv(strategy, rcond=1e-9)
    assert np.allclose(workload @ inverse @ strategy, workload, atol=1e-6)
    return float(np.sum((workload @ inverse) ** 2))


def gram_of(matrix: NDArray[np.int64]) -> NDArray[np.float64]:
    real = matrix.astype(float)
    return real.T @ real


def prefix_algebra(size: int, p: int, noise: Noise = Noise.LAPLACE) -> AttributeAlgebra:
    gram = gram_of(prefix(size))
    matrix, _ = min((p_identity(gram, start) for start in starts(p, size)[:2]), key=lambda one: one[1])
    return AttributeAlgebra.of(matrix, gram, noise)


def schema(sizes: tuple[int, ...], max_cells: float, ways: tuple[int, ...]) -> tuple[Domain, dict[Clique, float], int]:
    """A domain, its marginals of some ways and at most so many cells, and the number of their cells."""
    domain = Domain(tuple(f"x{i}" for i in range(len(sizes))), sizes)
    cliques = [clique for k in ways for clique in combinations(domain.names, k)]
    cells = {clique: math.prod(domain.shape(clique)) for clique in cliques}
    asked = {clique: 1.0 for clique in cliques if cells[clique] <= max_cells}
    return domain, asked, sum(cells[clique] for clique in asked)


def root_mean_square(result: MarginalsStrategy, rows: int) -> float:
    """At epsilon 1, for Laplace noise."""
    return math.sqrt(2 * result.error / rows)


@noises
def test_its_error_is_the_dense_one(noise: Noise) -> None:
    result = marginals_strategy(SMALL, ASKED, noise, effort=1e7)
    assert result.error == pytest.approx(dense_error(SMALL, ASKED, {}, result, noise))
    assert result.bound <= result.certified * (1 + 1e-12) <= result.error * (1 + 1e-9)
    assert result.factors(("a", "b")) == (None, None)


def test_for_codes_the_closed_form_is_the_svd_bound() -> None:
    counts = np.zeros(8)
    for clique, weight in ASKED.items():
        counts[subset_index(SMALL.axes(clique), 3)] = weight
    result = marginals_strategy(SMALL, ASKED, Noise.GAUSSIAN, effort=1e6)
    assert result.bound == pytest.approx(svd_bound(counts, SMALL.sizes))


@noises
def test_its_error_is_the_dense_one_for_ranges(noise: Noise) -> None:
    queries = {"a": all_ranges(3), "c": prefix(4)}
    strategies = {"a": np.vstack([np.eye(3), [[1, 1, 0]]]), "c": p_identity(gram_of(prefix(4)), starts(1, 4)[0])[0]}
    attributes = {name: AttributeAlgebra.of(strategies[name], gram_of(queries[name]), noise) for name in queries}
    result = marginals_strategy(SMALL, ASKED, noise, attributes, effort=1e7)
    assert result.error == pytest.approx(dense_error(SMALL, ASKED, queries, result, noise))
    matrix, codes = result.factors(("a", "b"))
    assert matrix is not None
    assert codes is None
    assert np.allclose(matrix / matrix[0, 0], strategies["a"])


@noises
def test_queries_that_tell_no_total_are_answered_without_bias(noise: Noise) -> None:
    """No total comes out of codes 0 and 1 of 3, so that a marginal without the attribute is measured apart."""
    queries = {"a": np.eye(3, dtype=np.int64)[:2], "b": np.ones((1, 2), dtype=np.int64)}
    attributes = {
        name: AttributeAlgebra.of(matrix.astype(float), gram_of(matrix), noise) for name, matrix in queries.items()
    }
    asked: dict[Clique, float] = {("a", "b"): 1.0, ("a", "c"): 3.0, ("c",): 1.0}
    result = marginals_strategy(SMALL, asked, noise, attributes, effort=1e7)
    assert any("a" not in clique for clique in result.cliques)
    assert result.error == pytest.approx(dense_error(SMALL, asked, queries, result, noise))


@noises
def test_attributes_of_one_value_and_single_cliques(noise: Noise) -> None:
    domain = Domain.of({"one": 1, "a": 3, "b": 4})
    for asked in ({("one",): 1.0}, {(): 2.0}, {("one", "a"): 1.0, ("b",): 1.0, ("one", "b"): 1.0}):
        result = marginals_strategy(domain, asked, noise, effort=1e6)
        assert result.error == pytest.approx(dense_error(domain, asked, {}, result, noise))
    assert marginals_strategy(domain, {("a", "b"): 2.0}, noise, effort=1e6).error == pytest.approx(24)


@noises
def test_errors_of_other_weights(noise: Noise) -> None:
    result = marginals_strategy(SMALL, ASKED, noise, effort=1e7)
    weights = dict(zip(result.cliques, (3 * result.weights).tolist(), strict=True))
    assert marginals_error(SMALL, ASKED, noise, weights) == pytest.approx(result.error)
    whole = {("a", "b", "c"): 1.0}
    identity = MarginalsStrategy((("a", "b", "c"),), np.ones(1), {}, 0.0, 0.0, 0.0)
    assert marginals_error(SMALL, ASKED, noise, whole) == pytest.approx(dense_error(SMALL, ASKED, {}, identity, noise))
    assert marginals_error(SMALL, ASKED, noise, {("a", "b"): 1.0, ("c",): 1.0}) == math.inf


@noises
def test_it_depends_on_nothing_but_its_arguments(noise: Noise) -> None:
    reordered = {tuple(reversed(clique)): weight for clique, weight in reversed(ASKED.items())}
    one, other = (marginals_strategy(SMALL, asked, noise, effort=1e6) for asked in (ASKED, reordered))
    assert one.cliques == other.cliques
    assert np.array_equal(one.weights, other.weights)
    unused = Domain.of({"a": 3, "b": 2, "unused": 50, "c": 4})
    assert marginals_strategy(unused, ASKED, noise, effort=1e6).cliques == one.cliques


def test_example_4_of_the_thesis() -> None:
    """All 2-way marginals of (2, 5, 50, 100) at unit noise: 62,886 for Laplace noise, with these weights."""
    domain, asked, _ = schema((2, 5, 50, 100), math.inf, (2,))
    result = marginals_strategy(domain, asked, Noise.LAPLACE, effort=1e9)
    assert result.error == pytest.approx(62_886.05, abs=0.01)
    assert result.cliques == (("x2", "x3"), ("x0", "x1", "x2"), ("x0", "x1", "x3"))
    assert result.weights == pytest.approx([0.440, 0.252, 0.308], abs=5e-4)
    gaussian = marginals_strategy(domain, asked, Noise.GAUSSIAN)
    assert gaussian.error == pytest.approx(16_650.52, abs=0.05)
    assert gaussian.certified == pytest.approx(gaussian.error, rel=2e-6)
    assert gaussian.bound == pytest.approx(16_410.5, abs=0.05)


def test_all_marginals_of_cps_attain_the_svd_bound_under_gaussian_noise() -> None:
    """Thesis, Tables 3.4 and 3.5: 4.84 for Laplace noise, of which more starts make 4.764, and 7.85."""
    domain, asked, rows = schema((50, 100, 7, 4, 2), math.inf, tuple(range(6)))
    result = marginals_strategy(domain, asked, Noise.LAPLACE, effort=1e9)
    assert root_mean_square(result, rows) == pytest.approx(4.7640, abs=1e-4)
    gaussian = marginals_strategy(domain, asked, Noise.GAUSSIAN)
    assert 4.2246788893268326 * math.sqrt(gaussian.error / rows) == pytest.approx(7.8517, abs=1e-4)
    assert gaussian.error == pytest.approx(gaussian.bound, rel=2e-6)


LOANS = (101, 101, 101, 101, 3, 8, 36, 6, 51, 4, 5, 15)


def test_small_marginals_of_loans_beat_the_published_figure() -> None:
    """Thesis, Table 3.4: 100.92."""
    domain, asked, rows = schema(LOANS, 5000, tuple(range(13)))
    assert (len(asked), rows) == (188, 279_751)
    result = marginals_strategy(domain, asked, Noise.LAPLACE, effort=2e9)
    assert root_mean_square(result, rows) < 96.2


@pytest.mark.full
def test_small_prefix_marginals_of_loans_beat_the_published_figure() -> None:
    """Thesis, Table 3.4: 288.29."""
    domain, asked, rows = schema(LOANS, 5000, tuple(range(13)))
    numeric = prefix_algebra(101, 6)
    result = marginals_strategy(domain, asked, Noise.LAPLACE, dict.fromkeys(domain.names[:4], numeric), effort=2e9)
    assert root_mean_square(result, rows) < 234


def test_prefix_marginals_of_cps_beat_the_published_figure() -> None:
    """Thesis, Table 3.4: 40.59."""
    domain, asked, _ = schema((50, 100, 7, 4, 2), math.inf, tuple(range(6)))
    asked = {clique: 1.0 for clique in asked if {"x0", "x1"} <= set(clique)}
    attributes = {"x0": prefix_algebra(50, 3), "x1": prefix_algebra(100, 6)}
    result = marginals_strategy(domain, asked, Noise.LAPLACE, attributes, effort=1e9)
    assert root_mean_square(result, 600_000) == pytest.approx(40.54, abs=0.005)


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="no clique"):
        marginals_strategy(SMALL, {}, Noise.LAPLACE)
    for weight in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="want a positive number"):
            marginals_strategy(SMALL, {("a",): weight}, Noise.LAPLACE)
    with pytest.raises(ValueError, match="twice"):
        marginals_strategy(SMALL, {("a", "b"): 1.0, ("b", "a"): 1.0}, Noise.LAPLACE)
    with pytest.raises(ValueError, match="unknown attribute"):
        marginals_strategy(SMALL, {("z",): 1.0}, Noise.LAPLACE)
    with pytest.raises(ValueError, match="strategy for 5 codes"):
        marginals_strategy(SMALL, {("a",): 1.0}, Noise.LAPLACE, {"a": AttributeAlgebra.codes(5)})
    wide = Domain.of({f"x{i}": 2 for i in range(17)})
    with pytest.raises(ValueError, match="17 attributes; want at most 16"):
        marginals_strategy(wide, {(name,): 1.0 for name in wide.names}, Noise.LAPLACE)
