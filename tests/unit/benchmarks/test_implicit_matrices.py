"""Implicit matrices against the same matrices written out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse.linalg import aslinearoperator, lsqr

from dpcore.queries import ranges
from tests.support.implicit_matrices import Dense, Identity, Kronecker, Permuted, Stacked
from tests.support.implicit_ranges import AllRanges, Ranges
from tests.support.linear_operators import LARGEST_SQUARE, ImplicitMatrix

RANDOM = np.random.default_rng(5)
REAL = RANDOM.normal(size=(4, 6))
ORDER = RANDOM.permutation(6)
LOW, HIGH, WEIGHTS = np.array([0, 2, 2, 5]), np.array([6, 3, 5, 6]), np.array([0.5, -2.0, 0.25, 1.0])
ROWS = WEIGHTS[:, None] * np.array([[1, 1, 1, 1, 1, 1], [0, 0, 1, 0, 0, 0], [0, 0, 1, 1, 1, 0], [0, 0, 0, 0, 0, 1]])
WIDTH_3 = np.array([[low <= cell < low + 3 for cell in range(6)] for low in range(4)], dtype=float)

SMALL: dict[str, tuple[ImplicitMatrix, NDArray[np.float64]]] = {
    "dense": (Dense(REAL), REAL),
    "identity": (Identity(6), np.eye(6)),
    "total": (Ranges.total(6), np.ones((1, 6))),
    "prefixes": (Ranges.prefixes(6), ranges.prefix(6).astype(float)),
    "width": (Ranges.of_width(6, 3), WIDTH_3),
    "whole width": (Ranges.of_width(6, 6), np.ones((1, 6))),
    "weighted": (Ranges(6, LOW, HIGH, WEIGHTS), ROWS),
    "all": (AllRanges(6), ranges.all_ranges(6).astype(float)),
    "one value": (AllRanges(1), np.ones((1, 1))),
    "permuted": (Permuted(AllRanges(6), ORDER), ranges.all_ranges(6).astype(float)[:, ORDER]),
    "stacked": (
        Stacked([Identity(6), Ranges.total(6), Dense(REAL)], [2.0, -3.0, 0.5]),
        np.vstack([2 * np.eye(6), -3 * np.ones((1, 6)), REAL / 2]),
    ),
    "one factor": (Kronecker([Ranges.prefixes(3)]), ranges.prefix(3).astype(float)),
    "product": (
        Kronecker([Ranges.prefixes(3), Dense(REAL), Ranges.total(2)]),
        np.kron(np.kron(ranges.prefix(3), REAL), np.ones((1, 2))),
    ),
    "permuted product in a stack": (
        Stacked([Permuted(Kronecker([Ranges.total(2), Identity(3)]), ORDER), Identity(6)], [1.0, 0.5]),
        np.vstack([np.kron(np.ones((1, 2)), np.eye(3))[:, ORDER], np.eye(6) / 2]),
    ),
}
every = pytest.mark.parametrize(("matrix", "written"), SMALL.values(), ids=SMALL)


@every
def test_products_are_those_of_the_matrix_written_out(matrix: ImplicitMatrix, written: NDArray[np.float64]) -> None:
    m, n = written.shape
    assert matrix.shape == (m, n)
    x, y = RANDOM.normal(size=(n, 3)), RANDOM.normal(size=(m, 3))
    assert np.allclose(matrix.matvec(x[:, 0]), written @ x[:, 0])
    assert matrix.matvec(x[:, 0]).shape == (m,)
    assert np.allclose(matrix.matvec(x[:, :1]), written @ x[:, :1])
    assert np.allclose(matrix.rmatvec(y[:, 0]), written.T @ y[:, 0])
    assert np.allclose(matrix.matmat(x), written @ x)
    assert np.allclose(matrix.rmatmat(y), written.T @ y)
    assert np.allclose(matrix.dense(), written)


@every
def test_squares_norms_and_inverses_too(matrix: ImplicitMatrix, written: NDArray[np.float64]) -> None:
    squared = written.T @ written
    assert np.allclose(matrix.gram(), squared)
    assert np.allclose(matrix.gram_operator().dense(), squared)
    assert np.allclose(matrix.gram_operator().gram(), squared @ squared)
    for order in (1, 2):
        norms = np.linalg.norm(written, ord=order, axis=0)
        assert np.allclose(matrix.column_norms(order), norms)
        assert matrix.sensitivity(order) == pytest.approx(norms.max())
        assert np.allclose(matrix.gram_operator().column_norms(order), np.linalg.norm(squared, ord=order, axis=0))
    assert np.allclose(matrix.pseudo_inverse().dense(), np.linalg.pinv(written))


@every
def test_scipy_takes_it_as_a_linear_operator(matrix: ImplicitMatrix, written: NDArray[np.float64]) -> None:
    operator = aslinearoperator(matrix)
    x, y = RANDOM.normal(size=written.shape[1]), RANDOM.normal(size=written.shape[0])
    assert np.allclose(operator @ x, written @ x)
    assert np.allclose(operator.T @ y, written.T @ y)
    assert np.allclose(operator.T @ operator @ x, written.T @ written @ x)
    least = lsqr(operator, y, atol=1e-13, btol=1e-13)[0]
    assert np.allclose(least, np.linalg.pinv(written) @ y, atol=1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_random_products_and_unions_of_products(seed: int) -> None:
    generator = np.random.default_rng(seed)
    sizes = generator.integers(1, 5, size=3)
    terms, written = [], []
    weights = generator.normal(size=3)
    for weight in weights:
        chosen = [_drawn(generator, int(size)) for size in sizes]
        terms.append(Kronecker([matrix for matrix, _ in chosen]))
        rows = np.ones((1, 1))
        for _, each in chosen:
            rows = np.kron(rows, each)
        written.append(weight * rows)
    union, dense = Stacked(terms, weights.tolist()), np.vstack(written)
    x, y = generator.normal(size=dense.shape[1]), generator.normal(size=len(dense))
    assert np.allclose(union.matvec(x), dense @ x)
    assert np.allclose(union.rmatvec(y), dense.T @ y)
    assert np.allclose(union.gram(), dense.T @ dense)
    assert union.sensitivity(1) == pytest.approx(np.abs(dense).sum(axis=0).max())
    assert union.sensitivity(2) == pytest.approx(np.linalg.norm(dense, axis=0).max())


def _drawn(generator: np.random.Generator, size: int) -> tuple[ImplicitMatrix, NDArray[np.float64]]:
    made = generator.normal(size=(int(generator.integers(1, 4)), size))
    order = generator.permutation(size)
    choices: list[tuple[ImplicitMatrix, NDArray[np.float64]]] = [
        (Identity(size), np.eye(size)),
        (Ranges.prefixes(size), ranges.prefix(size).astype(float)),
        (Dense(made), made),
        (Permuted(AllRanges(size), order), ranges.all_ranges(size).astype(float)[:, order]),
    ]
    return choices[int(generator.integers(len(choices)))]


def test_a_product_too_large_to_be_written_out_is_applied_all_the_same() -> None:
    matrix = Kronecker([Ranges.prefixes(200), Ranges.of_width(300, 7)])
    x = RANDOM.normal(size=(200, 300))
    slow = np.apply_along_axis(lambda row: np.convolve(row, np.ones(7), "valid"), 1, np.cumsum(x, axis=0))
    assert np.allclose(matrix.matvec(x.ravel()), slow.ravel())
    assert matrix.sensitivity(1) == 200 * 7
    through = matrix.gram_operator().matvec(x.ravel())
    assert np.allclose(through, matrix.rmatvec(matrix.matvec(x.ravel())))
    with pytest.raises(ValueError, match=r"a matrix of 60,000 x 60,000; want at most"):
        matrix.gram()
    with pytest.raises(ValueError, match=r"a matrix of 58,800 x 60,000; want at most"):
        matrix.dense()


def test_a_matrix_cannot_be_changed_from_outside() -> None:
    mine = np.ones((2, 2))
    matrix = Dense(mine)
    mine[:] = 5.0
    assert matrix.sensitivity(1) == 2.0


@pytest.mark.parametrize("made", [
    lambda: Identity(3).matvec(np.ones(4)),
    lambda: Identity(3).matvec(np.ones((3, 2))),
    lambda: Ranges.total(3).rmatvec(np.ones(3)),
    lambda: Identity(3).matmat(np.ones(3)),
    lambda: Ranges.of_width(4, 5),
    lambda: Ranges(4, np.array([1]), np.array([1])),
    lambda: Ranges(4, np.array([1]), np.array([5])),
    lambda: Ranges(4, np.array([-1]), np.array([2])),
    lambda: Ranges(4, np.array([1, 2]), np.array([2])),
    lambda: Ranges(4, np.array([], dtype=np.int64), np.array([], dtype=np.int64)),
    lambda: Permuted(Identity(3), np.array([0, 1, 1])),
    lambda: Kronecker([]),
    lambda: Stacked([], []),
    lambda: Stacked([Identity(2), Identity(3)], [1.0, 1.0]),
    lambda: Stacked([Identity(2)], [1.0, 1.0]),
])  # fmt: skip
def test_what_does_not_fit_is_refused(made: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match="want"):
        made()


def test_the_limit_is_that_of_8192_values() -> None:
    assert LARGEST_SQUARE == 8192**2
