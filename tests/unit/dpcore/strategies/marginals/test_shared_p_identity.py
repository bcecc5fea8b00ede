"""p-Identity strategies in the whole against dense errors and finite differences."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from dpcore.domain import Clique, Domain
from dpcore.measurement import Noise
from dpcore.queries.ranges import prefix
from dpcore.strategies.marginals.attribute_algebra import AttributeAlgebra, Matrix
from dpcore.strategies.marginals.shared_p_identity import (
    ErrorInAttribute,
    _log_error,
    shared_p_identity,
    shared_thetas,
)
from dpcore.strategies.marginals.strategy import marginals_error, marginals_strategy
from dpcore.strategies.one_attribute.p_identity import p_identity, p_identity_matrix, starts

DOMAIN = Domain.of({"a": 12, "b": 3, "c": 16, "d": 5})
ASKED: dict[Clique, float] = {("a", "c"): 1.0, ("a", "b"): 3.0, ("b", "c", "d"): 0.5, ("c",): 2.0, (): 1.0}
MEASURED: dict[Clique, float] = {("a", "c"): 0.4, ("a", "b"): 0.2, ("b", "c", "d"): 0.3, ("b", "d"): 0.1}
GRAMS = {"a": prefix(12).T @ prefix(12) * 1.0, "c": prefix(16).T @ prefix(16) * 1.0}


def theta(name: str) -> Matrix:
    size = DOMAIN.shape((name,))[0]
    matrix, _ = p_identity(GRAMS[name], starts(1, size)[0])
    return np.asarray(matrix[size:] / np.diag(matrix))


def algebra(name: str, result: Matrix) -> AttributeAlgebra:
    return AttributeAlgebra.of(p_identity_matrix(result), GRAMS[name], Noise.LAPLACE)


def around(name: str) -> ErrorInAttribute:
    algebras = [algebra(one, theta(one)) if one in GRAMS else AttributeAlgebra.codes(n) for one, n in sizes()]
    return ErrorInAttribute.of(DOMAIN.names, algebras, ASKED, MEASURED, name)


def sizes() -> list[tuple[str, int]]:
    return list(zip(DOMAIN.names, DOMAIN.sizes, strict=True))


def whole(name: str, result: Matrix) -> float:
    """The error with another Theta of one attribute."""
    algebras = {one: algebra(one, result if one == name else theta(one)) for one in GRAMS}
    return marginals_error(DOMAIN, ASKED, Noise.LAPLACE, MEASURED, algebras)


@pytest.mark.parametrize("name", ["a", "c"])
def test_it_tells_the_error_of_the_whole(name: str) -> None:
    for result in (theta(name), theta(name) * 0.3, theta(name) + 0.1):
        one = algebra(name, result)
        assert around(name).error(one.alpha, one.t, one.s0)[0] == pytest.approx(whole(name, result))
        assert np.exp(_log_error(result.ravel(), 1, GRAMS[name], around(name))[0]) == pytest.approx(whole(name, result))


@pytest.mark.parametrize("name", ["a", "c"])
def test_the_gradient_is_that_of_finite_differences(name: str) -> None:
    result, surroundings = theta(name) + 0.05, around(name)
    _, gradient = _log_error(result.ravel(), 1, GRAMS[name], surroundings)
    for place in range(result.size):
        step = np.zeros(result.size)
        step[place] = 1e-5
        ends = [_log_error(result.ravel() + sign * step, 1, GRAMS[name], surroundings)[0] for sign in (1, -1)]
        assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(gradient[place], rel=1e-5, abs=1e-6 * np.abs(gradient).max())


@pytest.mark.parametrize("name", ["a", "c"])
def test_a_descent_lowers_the_whole_error(name: str) -> None:
    result, error = shared_p_identity(theta(name), GRAMS[name], around(name))
    assert result.min() >= 0
    assert error == pytest.approx(whole(name, result))
    assert error < 0.995 * whole(name, theta(name))


def test_in_turn_with_the_products_the_error_falls() -> None:
    search = partial(marginals_strategy, DOMAIN, ASKED, Noise.LAPLACE, effort=1e7)
    first = {name: theta(name) for name in GRAMS}
    best = shared_thetas(DOMAIN, ASKED, first, GRAMS, {}, search)
    errors = [search({name: algebra(name, one[name]) for name in GRAMS}).error for one in (best, first)]
    assert errors[0] < 0.98 * errors[1]


def test_alone_it_is_the_best_strategy_already() -> None:
    """One product, which is measured alone: the error is that of ``p_identity``, where Theta starts."""
    codes = AttributeAlgebra.codes(3)
    one: dict[Clique, float] = {("a", "b"): 1.0}
    surroundings = ErrorInAttribute.of(["a", "b"], [algebra("a", theta("a")), codes], one, one, "a")
    _, error = shared_p_identity(theta("a"), GRAMS["a"], surroundings)
    _, alone = p_identity(GRAMS["a"], starts(1, 12)[0])
    assert error == pytest.approx(3 * alone, rel=1e-5)
