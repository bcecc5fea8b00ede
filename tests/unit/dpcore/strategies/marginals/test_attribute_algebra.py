"""Facts about one attribute against dense inverses."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.measurement import Noise
from dpcore.queries.decomposition import Decomposition
from dpcore.queries.ranges import all_ranges, identity, prefix
from dpcore.strategies.marginals.attribute_algebra import AttributeAlgebra
from dpcore.strategies.one_attribute.p_identity import p_identity, starts

TOTAL = np.ones((1, 6), dtype=np.int64)
STRATEGIES = {
    "codes": identity(6),
    "prefix": prefix(6),
    "prefix with a null": prefix(6, 5),
    "ranges": all_ranges(6),
    "total": TOTAL,
    "unread code": identity(6)[:5],
    "differences": identity(6)[:5] - identity(6)[1:],
    "codes and total": np.vstack([identity(6), TOTAL]),
}
every = pytest.mark.parametrize("matrix", STRATEGIES.values(), ids=STRATEGIES)


def gram_of(matrix: NDArray[np.int64]) -> NDArray[np.float64]:
    real = matrix.astype(float)
    return real.T @ real


@every
def test_both_matrices_are_taken_apart(matrix: NDArray[np.int64]) -> None:
    """In the basis of u and the range of Y both X and 11' are block diagonal, and Y inverts X there."""
    gram = gram_of(matrix)
    parts = Decomposition.of(gram)
    assert parts.u.sum() == pytest.approx(1)
    assert np.allclose(parts.inverse @ np.ones(6), 0)
    apart = np.eye(6) - np.outer(parts.u, np.ones(6))
    assert np.allclose(parts.u @ gram @ apart, 0, atol=1e-9)
    assert parts.u @ gram @ parts.u == pytest.approx(parts.alpha, abs=1e-9)
    within = apart.T @ gram @ apart
    assert np.allclose(within @ parts.inverse @ within, within)
    assert np.allclose(parts.inverse @ within @ parts.inverse, parts.inverse)


@pytest.mark.parametrize("matrix", [one for one in STRATEGIES.values() if np.linalg.matrix_rank(one) == 6])
def test_where_there_is_an_inverse_the_short_formulas_hold(matrix: NDArray[np.int64]) -> None:
    gram = gram_of(matrix)
    parts, inverse = Decomposition.of(gram), np.linalg.inv(gram)
    assert parts.alpha == pytest.approx(1 / inverse.sum())
    assert np.allclose(parts.u, inverse.sum(axis=0) * parts.alpha)
    assert np.allclose(parts.inverse, inverse - np.outer(parts.u, parts.u) / parts.alpha)


def test_a_total_out_of_reach_has_alpha_zero() -> None:
    assert AttributeAlgebra.of(identity(6)[:5] * 1.0, gram_of(identity(6)[:5]), Noise.LAPLACE).alpha == 0
    assert AttributeAlgebra.of(TOTAL * 1.0, gram_of(TOTAL), Noise.LAPLACE).alpha == pytest.approx(1)


@pytest.mark.parametrize("noise", [Noise.LAPLACE, Noise.GAUSSIAN])
@every
def test_its_parts_add_up_to_the_error_alone(matrix: NDArray[np.int64], noise: Noise) -> None:
    result = AttributeAlgebra.of(3.0 * matrix, gram_of(matrix), noise)
    assert result.matrix is not None
    norms = np.abs(result.matrix).sum(axis=0) if noise is Noise.LAPLACE else np.sqrt((result.matrix**2).sum(axis=0))
    assert norms.max() == pytest.approx(1)
    error = result.t + (result.s0 / result.alpha if result.s0 else 0)
    assert error == pytest.approx(np.sum((matrix @ np.linalg.pinv(result.matrix)) ** 2))
    assert 0 <= result.alpha <= 1 + 1e-12


@pytest.mark.parametrize("size", [1, 2, 7])
def test_codes_are_the_identity_matrix(size: int) -> None:
    short = AttributeAlgebra.codes(size)
    long = AttributeAlgebra.of(np.eye(size), np.eye(size), Noise.LAPLACE)
    assert (short.alpha, short.t, short.s0) == pytest.approx((long.alpha, long.t, long.s0))
    assert short.matrix is None


def test_another_workload_on_the_same_strategy() -> None:
    matrix, _ = p_identity(gram_of(prefix(9)), starts(2, 9)[0])
    inverse = np.linalg.inv(matrix.T @ matrix)
    result = AttributeAlgebra.of(matrix, gram_of(prefix(9)), Noise.LAPLACE)
    parts = Decomposition.of(matrix.T @ matrix)
    for asked in (identity(9), all_ranges(9), np.ones((1, 9), dtype=np.int64)):
        t, s0 = parts.against(gram_of(asked))
        assert t + s0 / result.alpha == pytest.approx(np.sum(gram_of(asked) * inverse))
    t, s0 = parts.against(np.ones((9, 9)))
    assert (t, s0) == (0, pytest.approx(1))


@pytest.mark.parametrize("first", [prefix(3), identity(3)[:2]], ids=["prefix", "no total"])
def test_joint_inverses_and_errors_come_out_of_the_parts(first: NDArray[np.int64]) -> None:
    """The formulas of the class, for two attributes and marginals (0,), (1,) and (0, 1)."""
    queries = [first, all_ranges(4)]
    parts = [AttributeAlgebra.of(one * 1.0, gram_of(one), Noise.GAUSSIAN) for one in queries]
    apart = [Decomposition.of(one.T @ one) for one in [part.matrix for part in parts if part.matrix is not None]]
    squares = {(0,): 0.3, (1,): 0.5, (0, 1): 0.2}
    subsets: list[tuple[int, ...]] = [(), (0,), (1,), (0, 1)]

    def kron(factors: list[NDArray[np.float64]]) -> NDArray[np.float64]:
        return np.kron(factors[0], factors[1])

    def product(factors: list[float]) -> float:
        return float(np.prod(factors))

    def ones(i: int) -> NDArray[np.float64]:
        return np.ones((parts[i].size, parts[i].size))

    scaled = [one.matrix.T @ one.matrix for one in parts if one.matrix is not None]
    gram = sum(
        (square * kron([scaled[i] if i in b else ones(i) for i in (0, 1)]) for b, square in squares.items()),
        start=np.zeros((parts[0].size * parts[1].size,) * 2),
    )
    lam = {
        a: sum(
            square * product([parts[i].alpha for i in b if i not in a])
            for b, square in squares.items()
            if set(a) <= set(b)
        )
        for a in subsets
    }
    inverse = sum(
        kron([apart[i].inverse if i in a else np.outer(apart[i].u, apart[i].u) for i in (0, 1)]) / lam[a]
        for a in subsets
        if lam[a]
    )
    assert np.allclose(gram @ inverse @ gram, gram)
    for b in squares:
        asked = kron([gram_of(queries[i]) if i in b else ones(i) for i in (0, 1)])
        error = sum(
            product([parts[i].t for i in a]) * product([parts[i].s0 for i in b if i not in a]) / lam[a]
            for a in subsets
            if set(a) <= set(b) and lam[a]
        )
        assert error == pytest.approx(np.sum(asked * np.linalg.pinv(gram)))


def test_wrong_matrices_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot answer the workload"):
        AttributeAlgebra.of(identity(6)[:5] * 1.0, gram_of(prefix(6)), Noise.LAPLACE)
    with pytest.raises(ValueError, match="a strategy of zeros"):
        AttributeAlgebra.of(np.zeros((2, 6)), gram_of(prefix(6)), Noise.LAPLACE)
    with pytest.raises(ValueError, match="a workload of zeros"):
        AttributeAlgebra.of(np.eye(6), np.zeros((6, 6)), Noise.LAPLACE)
