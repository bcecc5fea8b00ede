"""Whole marginals as orthogonal components: the same squared loss, by brute force over all cells of the domain."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.fitting.components import component_measurements
from dpcore.estimation.graphical.fitting.consistency import LeastSquares
from dpcore.estimation.graphical.fitting.linear_measurements import LinearMeasurement, linear_measurements
from dpcore.measurement import Measurement, Noise
from dpcore.queries import Marginals, Product, Products
from dpcore.queries.residual_matrices import residual_matrix
from tests.support.product_cases import random_products

DOMAIN = Domain.of({"a": 2, "b": 3, "c": 4, "d": 1, "e": 2})
SETS: dict[str, tuple[str, ...]] = {
    "one": ("abc",),
    "chain": ("ab", "bc", "ce"),
    "cycle": ("ab", "bc", "ac"),
    "repeated": ("bc", "bc", "ab", "bc"),
    "nested": ("abc", "bc", "c", "ae"),
    "with the total": ("", "ab", ""),
    "one value": ("bd", "d", "cde"),
    "disjoint": ("ae", "bc"),
}
TOTAL = 300.0


def measured(words: tuple[str, ...], seed: int) -> list[Measurement]:
    """Any values, each word with its own noise."""
    generator = np.random.default_rng(seed)
    found = []
    for word in words:
        queries = Marginals(DOMAIN, (tuple(word),))
        values = generator.normal(30, 20, queries.size)
        found.append(Measurement(queries, values, Noise.GAUSSIAN, float(generator.uniform(0.5, 5))))
    return found


def linear_parts(measurements: list[Measurement]) -> list[LinearMeasurement]:
    return [component for measurement in measurements for component in linear_measurements(measurement)]


def summed(cells: NDArray[np.float64], clique: Clique) -> NDArray[np.float64]:
    """The marginal of a table of the whole domain, with the attributes as the clique lists them."""
    others = tuple(axis for axis, name in enumerate(DOMAIN.names) if name not in clique)
    kept = [name for name in DOMAIN.names if name in clique]
    return np.asarray(cells.sum(axis=others)).transpose([kept.index(name) for name in clique])


def loss(linear_parts: list[LinearMeasurement], cells: NDArray[np.float64]) -> float:
    """1/2 sum of squared residuals in units of the noise, every function by its definition."""
    found = 0.0
    for component in linear_parts:
        table = summed(cells, component.clique)
        if component.centred:
            for axis in range(table.ndim):
                table = table - table.mean(axis=axis, keepdims=True)
        residual = component.apply(table.ravel()) - component.values
        found += component.precision / 2 * float(residual @ residual)
    return found


def tables(count: int) -> list[NDArray[np.float64]]:
    """Tables of one total."""
    weights = np.random.default_rng(9).exponential(size=(count, *DOMAIN.sizes)) ** 2
    return [TOTAL * table / table.sum() for table in weights]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("case", SETS)
def test_the_squared_loss_is_that_of_whole_marginals_but_for_a_constant(case: str, seed: int) -> None:
    whole = linear_parts(measured(SETS[case], seed))
    parts = component_measurements(DOMAIN, whole)
    apart = [loss(whole, cells) - loss(parts, cells) for cells in tables(6)]
    np.testing.assert_allclose(apart, apart[0], rtol=1e-9)
    assert np.ptp([loss(whole, cells) for cells in tables(6)]) > 1


@pytest.mark.parametrize("case", SETS)
def test_every_component_but_the_total_is_a_term_once(case: str) -> None:
    parts = component_measurements(DOMAIN, linear_parts(measured(SETS[case], 1)))
    cliques = [component.clique for component in parts]
    below = {tuple(name for name in word if kept & {name}) for word in SETS[case] for kept in subsets(word)}
    assert set(cliques) == below - {()}
    assert len(cliques) == len(set(cliques))
    assert all(component.centred and component.matrices is None for component in parts)


def subsets(word: str) -> list[set[str]]:
    return [{name for place, name in enumerate(word) if mask >> place & 1} for mask in range(1 << len(word))]


@pytest.mark.parametrize("case", SETS)
def test_values_are_the_components_of_the_least_squares(case: str) -> None:
    """Centred along every attribute, and equal to what all measurements together say best."""
    measurements = measured(SETS[case], 2)
    best = LeastSquares(DOMAIN, measurements)
    for component in component_measurements(DOMAIN, linear_parts(measurements)):
        table = best.marginal(component.clique)
        for axis in range(table.ndim):
            table = table - table.mean(axis=axis, keepdims=True)
        np.testing.assert_allclose(component.values, table.ravel(), atol=1e-9)
        assert 1 / component.precision == pytest.approx(best.largest_variance(component.clique), rel=1e-12)


def residuals(cliques: tuple[Clique, ...], seed: int) -> Measurement:
    """Any values; a residual of weight k counts as if k times as many queries had its noise."""
    generator = np.random.default_rng(seed)
    found = [
        Product(one, tuple(map(residual_matrix, DOMAIN.shape(one))), place + 1) for place, one in enumerate(cliques)
    ]
    queries = Products(DOMAIN, tuple(found))
    return Measurement(queries, generator.normal(0, 200, queries.size), Noise.GAUSSIAN, 3.0)


@pytest.mark.parametrize("beside", [(), ("ab",), ("bc", "abc")], ids=["alone", "a pair", "overlaps"])
def test_measured_residuals_are_components(beside: tuple[str, ...]) -> None:
    """Of sizes 2 and 4, with Hadamard matrices, and 3, with others; the values that no table has go to the constant."""
    cliques: tuple[Clique, ...] = ((), ("a",), ("b",), ("a", "b"), ("b", "c"), ("a", "b", "c"))
    given = [*linear_measurements(residuals(cliques, 4)), *linear_parts(measured(beside, 4))]
    parts = component_measurements(DOMAIN, given)
    assert {component.clique for component in parts} == {*cliques} - {()} | (
        {("c",), ("a", "c")} if "abc" in beside else set()
    )
    assert all(component.centred and component.matrices is None for component in parts)
    apart = [loss(given, cells) - loss(parts, cells) for cells in tables(6)]
    np.testing.assert_allclose(apart, apart[0], rtol=1e-9)


def test_half_of_a_residual_is_no_component() -> None:
    half = Products(DOMAIN, (Product(("c",), (residual_matrix(4)[:2],)),))
    others = linear_measurements(Measurement(half, np.ones(2), Noise.GAUSSIAN, 1.0))
    assert component_measurements(DOMAIN, others) == others


def test_the_total_is_kept_where_nothing_else_was_measured() -> None:
    (component,) = component_measurements(DOMAIN, linear_parts(measured(("", ""), 1)))
    assert component.clique == ()
    assert component.values.size == 1


def test_products_stay_as_they_are() -> None:
    products = random_products(DOMAIN, np.random.default_rng(3))
    others = linear_measurements(Measurement(products, np.ones(products.size), Noise.GAUSSIAN, 2.0))
    found = component_measurements(DOMAIN, [*others, *linear_parts(measured(("ab",), 1))])
    assert found[-len(others) :] == others
    assert {component.clique for component in found[: -len(others)]} == {("a",), ("b",), ("a", "b")}


def test_noise_of_a_whole_marginal_is_as_large_in_each_of_its_components() -> None:
    """Empirically: |component of pure noise|^2 is its degrees of freedom over its precision."""
    generator, stddev, runs = np.random.default_rng(5), 3.0, 400
    squares: dict[Clique, float] = {}
    precisions: dict[Clique, float] = {}
    for _ in range(runs):
        values = generator.normal(0, stddev, 12)
        for component in component_measurements(DOMAIN, [LinearMeasurement(("b", "c"), values, stddev**-2)]):
            squares[component.clique] = (
                squares.get(component.clique, 0.0) + float(component.values @ component.values) / runs
            )
            precisions[component.clique] = component.precision
    freedoms: dict[Clique, int] = {("b",): 2, ("c",): 3, ("b", "c"): 6}
    for clique, freedom in freedoms.items():
        assert squares[clique] * precisions[clique] == pytest.approx(freedom, rel=6 * (2 / (freedom * runs)) ** 0.5)
