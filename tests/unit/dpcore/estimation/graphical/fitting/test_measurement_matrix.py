"""The stacked rows of all measurements, against one dense matrix over all cells of the domain."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.fitting.linear_measurements import LinearMeasurement, linear_measurements
from dpcore.estimation.graphical.fitting.measurement_matrix import MeasurementMatrix
from dpcore.measurement import Measurement, Noise
from dpcore.queries import Marginals
from tests.support.product_cases import random_products

DOMAIN = Domain.of({"a": 2, "b": 3, "c": 4, "d": 2})


def summing(clique: Clique) -> NDArray[np.float64]:
    """[cells of the clique, cells of the domain]."""
    sizes = zip(DOMAIN.names, DOMAIN.sizes, strict=True)
    return reduce(np.kron, [np.eye(size) if name in clique else np.ones((1, size)) for name, size in sizes])


def dense(part: LinearMeasurement) -> NDArray[np.float64]:
    inner = np.eye(part.values.size) if part.matrices is None else reduce(np.kron, part.matrices, np.ones((1, 1)))
    return np.asarray(inner @ summing(part.clique))


def parts(seed: int) -> list[LinearMeasurement]:
    """Whole marginals, some twice, some inside others, and in odd seeds products."""
    generator = np.random.default_rng(seed)
    words = ["ab", "bc", "b", "bc", "", "acd"][: 2 + seed % 5]
    asked = [Marginals(DOMAIN, (tuple(word),)) for word in words]
    products = [random_products(DOMAIN, generator)] if seed % 2 else []
    found = []
    for queries in [*asked, *products]:
        values = generator.normal(9, 5, queries.size)
        found += linear_measurements(Measurement(queries, values, Noise.GAUSSIAN, float(generator.uniform(1, 3))))
    return found


@pytest.mark.parametrize("merge", [True, False])
@pytest.mark.parametrize("seed", range(12))
def test_rows_are_the_dense_matrix(seed: int, merge: bool) -> None:
    generator = np.random.default_rng(seed)
    rows = MeasurementMatrix(DOMAIN, parts(seed), merge)
    matrix = np.concatenate([dense(part) for part in rows.measurements])
    cells = generator.uniform(size=DOMAIN.size())
    marginals = np.concatenate([summing(clique) @ cells for clique in rows.queries.cliques])
    np.testing.assert_allclose(rows.apply(marginals), matrix @ cells, rtol=1e-12, atol=1e-12)
    values = generator.normal(size=rows.values.size)
    up = np.concatenate([summing(clique) for clique in rows.queries.cliques]).T @ rows.apply_transpose(values)
    np.testing.assert_allclose(up, matrix.T @ values, rtol=1e-12, atol=1e-12)


def centring(clique: Clique) -> NDArray[np.float64]:
    """[cells of the clique, cells of the clique]: takes the mean along every attribute off."""
    return reduce(np.kron, [np.eye(size) - 1 / size for size in DOMAIN.shape(clique)], np.ones((1, 1)))


def with_centred(seed: int) -> list[LinearMeasurement]:
    """Centred parts among whole marginals and products, attributes in any order."""
    generator = np.random.default_rng(seed)
    found = parts(seed)
    for word in ("bca", "ab", "d", "", "cb", "badc")[: 1 + seed % 6]:
        values = generator.normal(size=DOMAIN.size(tuple(word)))
        found.insert(int(generator.integers(len(found) + 1)), LinearMeasurement(tuple(word), values, 0.3, centred=True))
    return found


def ordered(part: LinearMeasurement) -> NDArray[np.float64]:
    """From all cells of the domain to the marginal, cells in the order that the part lists its attributes."""
    cells = summing(part.clique).reshape(*DOMAIN.shape(DOMAIN.canonical(part.clique)), -1)
    places = [DOMAIN.canonical(part.clique).index(name) for name in part.clique]
    return cells.transpose([*places, len(places)]).reshape(-1, DOMAIN.size())


@pytest.mark.parametrize("seed", range(24))
def test_rows_of_centred_terms_are_the_dense_matrix(seed: int) -> None:
    generator = np.random.default_rng(seed)
    rows = MeasurementMatrix(DOMAIN, with_centred(seed), merge=False)
    plain = [ordered(part) if part.matrices is None else dense(part) for part in rows.measurements]
    blocks = [
        centring(part.clique) @ block if part.centred else block
        for part, block in zip(rows.measurements, plain, strict=True)
    ]
    matrix, cells = np.concatenate(blocks), generator.uniform(size=DOMAIN.size())
    marginals = np.concatenate([summing(clique) @ cells for clique in rows.queries.cliques])
    np.testing.assert_allclose(rows.apply(marginals), matrix @ cells, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(rows.expected_counts(marginals), np.concatenate(plain) @ cells, rtol=1e-12, atol=1e-12)
    values = generator.normal(size=rows.values.size)
    up = np.concatenate([summing(clique) for clique in rows.queries.cliques]).T @ rows.apply_transpose(values)
    np.testing.assert_allclose(up, matrix.T @ values, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("centred", [True, False])
def test_centred_terms_are_merged_among_themselves_alone(centred: bool) -> None:
    first = LinearMeasurement(("a",), np.array([1.0, -1.0]), 1.0, centred=centred)
    rows = MeasurementMatrix(DOMAIN, [first, LinearMeasurement(("a",), np.array([3.0, -3.0]), 3.0, centred=True)])
    if centred:
        assert rows.values.tolist() == [2.5, -2.5]
        assert rows.precisions.tolist() == [4, 4]
        assert rows.measurements[0].centred
    else:
        assert rows.values.tolist() == [1, -1, 3, -3]
        assert [part.centred for part in rows.measurements] == [False, True]


@pytest.mark.parametrize("seed", range(12))
def test_the_squared_loss_is_that_of_all_measurements(seed: int) -> None:
    cells = np.random.default_rng(seed).uniform(0, 3, size=DOMAIN.size())
    alone = sum(part.precision / 2 * float(((dense(part) @ cells - part.values) ** 2).sum()) for part in parts(seed))
    rows = MeasurementMatrix(DOMAIN, parts(seed))
    marginals = np.concatenate([summing(clique) @ cells for clique in rows.queries.cliques])
    residual = rows.apply(marginals) - rows.values
    assert rows.constant + float(rows.precisions @ residual**2) / 2 == pytest.approx(alone, rel=1e-12)


def test_rows_of_terms_follow_each_other() -> None:
    rows = MeasurementMatrix(DOMAIN, parts(5), merge=False)
    for part, begin, end in zip(rows.measurements, rows.starts[:-1], rows.starts[1:], strict=True):
        assert rows.values[begin:end].tolist() == part.values.tolist()
        assert set(rows.precisions[begin:end]) == {part.precision}


def test_queries_are_the_maximal_cliques() -> None:
    assert MeasurementMatrix(DOMAIN, parts(4)).queries.cliques == (("a", "b"), ("b", "c"), ("a", "c", "d"))


def test_no_terms_are_refused() -> None:
    with pytest.raises(ValueError, match="no measurements"):
        MeasurementMatrix(DOMAIN, [])


def test_the_vectors_that_are_given_stay_as_they_are() -> None:
    rows = MeasurementMatrix(DOMAIN, parts(4))
    marginals, values = np.ones(rows.queries.size), np.ones(rows.values.size)
    rows.apply(marginals)
    rows.apply_transpose(values)[:] = 5
    assert marginals.tolist() == [1] * marginals.size
    assert values.tolist() == [1] * values.size
