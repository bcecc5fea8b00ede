"""Answers from products on several marginals, and their variances, against dense generalised least squares."""

from __future__ import annotations

from functools import reduce
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.reconstruction.joint_products import JointProducts
from dpcore.estimation.reconstruction.residuals import Residuals
from dpcore.measurement import Measurement, Noise
from dpcore.queries import Marginals, Product, Products
from dpcore.queries.ranges import all_ranges, identity, prefix, range_marginals

DOMAIN = Domain.of({"a": 4, "b": 3, "c": 1, "d": 5})
TRUTH = np.random.default_rng(1).integers(0, 30, size=DOMAIN.sizes)
Integers = NDArray[np.int64]
Matrix = NDArray[np.float64]

FULL = {
    "a": np.array([[3, 0, 0, 0], [0, 4, 0, 0], [0, 0, 4, 0], [0, 0, 0, 2], [2, 1, 1, 3]]),
    "b": identity(3),
    "c": 2 * identity(1),
    "d": np.vstack([7 * identity(5), [[1, 2, 3, 0, 0]], [[0, -1, 0, 4, 5]]]),
}
# Prefixes but the last, whose total nobody can tell, and sums of neighbours.
POOR = FULL | {"a": prefix(4)[:3], "d": np.array([[1, 1, 0, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 0, 1]])}
MEASURED: dict[Clique, tuple[int, int]] = {
    ("a", "b"): (1, 3),
    ("a", "c", "d"): (2, 7),
    ("d",): (5, 1),
    ("b", "d"): (1, 9),
}


def parts(clique: Clique) -> list[Clique]:
    return [part for order in range(len(clique) + 1) for part in combinations(clique, order)]


def table(clique: Clique) -> Integers:
    return np.asarray(TRUTH.sum(axis=tuple(axis for axis, name in enumerate(DOMAIN.names) if name not in clique)))


def dense(term: Product) -> Matrix:
    """A product on a marginal, as a matrix over all cells of the domain."""
    by_name = dict(zip(term.clique, term.matrices, strict=True))
    factors = [by_name.get(name, np.ones((1, size))) for name, size in zip(DOMAIN.names, DOMAIN.sizes, strict=True)]
    return term.weight * np.asarray(reduce(np.kron, factors, np.ones((1, 1))), dtype=np.float64)


def products(matrices: dict[str, Integers], measured: dict[Clique, tuple[int, int]]) -> list[Products]:
    return [
        Products(DOMAIN, (Product(clique, tuple(matrices[name] for name in clique), weight),), denominator)
        for clique, (weight, denominator) in measured.items()
    ]


def noisy(queries: list[Products], noise: Noise = Noise.LAPLACE, size: float = 1.0) -> list[Measurement]:
    """Each with noise of a size of its own."""
    generator = np.random.default_rng(8)
    result = []
    for place, one in enumerate(queries):
        exact = one.of_tables([table(term.clique) for term in one.terms], int(TRUTH.sum())) / one.denominator
        scale = size * (0.5 + place)
        result.append(Measurement(one, exact + scale * generator.normal(size=exact.size), noise, max(scale, 1e-6)))
    return result


def dense_inverse(measurements: list[Measurement]) -> tuple[Matrix, Matrix]:
    """Least squares over all cells from all values: estimated cells and a root of their covariance."""
    rows, values = [], []
    for one in measurements:
        assert isinstance(one.queries, Products)
        stack = np.concatenate([dense(term) for term in one.queries.terms]) / one.queries.denominator
        rows.append(stack / one.stddev)
        values.append(one.values / one.stddev)
    inverse = np.linalg.pinv(np.concatenate(rows), rcond=1e-10)
    return inverse @ np.concatenate(values), inverse


def check(measurements: list[Measurement], queries: Products) -> None:
    cells, root = dense_inverse(measurements)
    rows = np.concatenate([dense(term) for term in queries.terms]) / queries.denominator
    result = JointProducts(measurements)
    answers = result.answers(queries)
    assert np.allclose(answers.values, rows @ cells, rtol=1e-7, atol=1e-7)
    assert np.allclose(answers.stddev**2, ((rows @ root) ** 2).sum(axis=1), rtol=1e-7, atol=1e-12)
    assert np.array_equal(result.stddev(queries), answers.stddev)
    assert np.array_equal(result.answers(queries).values, answers.values)
    assert ((answers.lower < answers.values) & (answers.values < answers.upper)).all()


@pytest.mark.parametrize("noise", [Noise.LAPLACE, Noise.GAUSSIAN])
def test_answers_and_variances_are_those_of_dense_least_squares(noise: Noise) -> None:
    asked = {"a": prefix(4), "d": all_ranges(5)}
    cliques = [part for clique in MEASURED for part in parts(clique)]
    queries = range_marginals(DOMAIN, cliques, asked)
    check(noisy(products(FULL, MEASURED), noise), queries)


def test_any_later_query_of_a_measured_clique_is_answered() -> None:
    generator = np.random.default_rng(3)
    some = tuple(generator.integers(-3, 4, (2, size)) for size in DOMAIN.shape(("a", "c", "d")))
    total = (np.ones((1, 4), dtype=np.int64), identity(3))
    queries = Products(DOMAIN, (Product(("a", "c", "d"), some, 3), Product(("a", "b"), total)), 5)
    check(noisy(products(FULL, MEASURED)), queries)


def test_several_terms_in_one_measurement() -> None:
    terms = tuple(Product(clique, tuple(FULL[name] for name in clique), 2) for clique in (("a", "b"), ("b", "d"), ()))
    check(noisy([Products(DOMAIN, terms, 3)]), range_marginals(DOMAIN, [("a", "b"), ("d",), ("b",), ()], {}))


def test_strategies_that_tell_a_part_answer_that_part() -> None:
    """And all values of an attribute whose total they do not tell, where other cliques tell the total."""
    measurements = noisy(products(POOR, MEASURED))
    cliques = [("a", "d"), ("a", "b"), ("d",), ("b", "d"), ("b",), ()]
    check(measurements, range_marginals(DOMAIN, cliques, {"a": prefix(4)[:2], "d": POOR["d"]}))
    check(measurements, range_marginals(DOMAIN, [("a", "b"), ("a", "d"), ("a",)], {"a": all_ranges(4), "d": POOR["d"]}))
    with pytest.raises(ValueError, match="measured queries do not determine those about 'd'"):
        JointProducts(measurements).answers(range_marginals(DOMAIN, [("d",)], {}))
    alone = JointProducts(measurements[:1])
    assert len(alone.stddev(range_marginals(DOMAIN, [("a", "b"), ("a",)], {"a": prefix(4)[:3]}))) == 12
    for clique in (("a",), ("b",), ()):
        with pytest.raises(ValueError, match="do not determine the answers about"):
            alone.stddev(range_marginals(DOMAIN, [clique], {}))


def test_what_other_cliques_hold_is_refused() -> None:
    result = JointProducts(noisy(products(FULL, {("a", "b"): (1, 1), ("d",): (1, 1)})))
    with pytest.raises(ValueError, match="do not determine the answers about"):
        result.answers(Marginals(DOMAIN, (("a", "d"),)))
    other = JointProducts(noisy(products(FULL, {("a", "b"): (1, 1)})))
    with pytest.raises(ValueError, match="measured queries do not determine those about 'd'"):
        other.answers(Marginals(DOMAIN, (("d",),)))
    spread = Products(DOMAIN, (Product(("a", "d"), (prefix(4), np.ones((2, 5), dtype=np.int64))),))
    assert np.allclose(
        other.stddev(spread), np.repeat(other.stddev(range_marginals(DOMAIN, [("a",)], {"a": prefix(4)})), 2)
    )


def test_for_codes_it_is_what_noisy_marginals_tell() -> None:
    cliques = [("a", "b"), ("b", "d"), ("c", "d")]
    codes = {name: identity(size) for name, size in zip(DOMAIN.names, DOMAIN.sizes, strict=True)}
    measurements = noisy(products(codes, dict.fromkeys(cliques, (1, 1))))
    plain = [
        Measurement(Marginals(DOMAIN, (clique,)), one.values, one.noise, one.scale)
        for clique, one in zip(cliques, measurements, strict=True)
    ]
    queries = Marginals(DOMAIN, tuple(part for clique in cliques for part in parts(clique)))
    result, expected = JointProducts(measurements).answers(queries), Residuals.of_marginals(plain).answers(queries)
    assert np.allclose(result.values, expected.values)
    assert np.allclose(result.stddev, expected.stddev)
    assert np.allclose(result.upper, expected.upper)


def test_without_noise_the_answers_are_exact() -> None:
    cliques = list(MEASURED)
    measurements = noisy(products(FULL, MEASURED), size=0.0)
    answers = JointProducts(measurements).answers(Marginals(DOMAIN, tuple(cliques)))
    assert np.allclose(answers.values, np.concatenate([table(clique).ravel() for clique in cliques]))
    assert np.allclose(answers.stddev, 0)


def test_tables_are_never_of_more_attributes_than_a_clique() -> None:
    """Forty attributes of which neighbours were measured."""
    domain = Domain.of({f"x{place}": 9 for place in range(40)})
    cliques = list(zip(domain.names, domain.names[1:], strict=False))
    matrix = np.vstack([3 * identity(9), np.ones((1, 9), dtype=np.int64)])
    each = [Products(domain, (Product(clique, (matrix, matrix)),), 2) for clique in cliques]
    measurements = [Measurement(one, np.ones(one.size), Noise.LAPLACE, 4.0) for one in each]
    answers = JointProducts(measurements).answers(
        range_marginals(domain, cliques, dict.fromkeys(domain.names, prefix(9)))
    )
    assert np.isfinite(answers.values).all()


def test_wrong_measurements_are_refused() -> None:
    (one, *_) = noisy(products(FULL, MEASURED))
    with pytest.raises(ValueError, match="0 measurements"):
        JointProducts([])
    with pytest.raises(ValueError, match="of products over one domain"):
        JointProducts([one, Measurement(Marginals(DOMAIN, (("a",),)), np.zeros(4), Noise.LAPLACE, 1.0)])
    other = Domain.of({"a": 4})
    away = Measurement(range_marginals(other, [("a",)], {}), np.zeros(4), Noise.LAPLACE, 1.0)
    with pytest.raises(ValueError, match="of products over one domain"):
        JointProducts([one, away])
    different = Measurement(range_marginals(DOMAIN, [("a",)], {}), np.zeros(4), Noise.LAPLACE, 1.0)
    with pytest.raises(ValueError, match="'a' was measured through two matrices"):
        JointProducts([one, different])
    with pytest.raises(ValueError, match="another domain"):
        JointProducts([one]).answers(Marginals(other, (("a",),)))
