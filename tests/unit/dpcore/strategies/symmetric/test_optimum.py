"""The optimum through symmetry against that of the dense Gram matrix."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpcore.domain import Domain
from dpcore.queries import Product, Products
from dpcore.strategies.one_attribute.gaussian_optimum import gaussian_optimum
from dpcore.strategies.symmetric.optimum import symmetric_optimum
from dpcore.strategies.symmetric.symmetry import SymmetricGram
from tests.benchmarks.matrix import sf1
from tests.support.symmetric_cases import svd_bound
from tests.unit.dpcore.strategies.small_unions import SIGMA, dense_gram, union


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_it_is_the_optimum_of_the_dense_matrix(seed: int, weighted: bool) -> None:
    weights = np.array([0.5, 2.0, 0.0, 3.0, 1.0]) if weighted else None
    result = symmetric_optimum(SymmetricGram.of(union(seed), weights))
    whole = gaussian_optimum(dense_gram(union(seed), weights), gap=1e-6)
    assert 0 <= result.gap <= 1e-6
    assert result.error == pytest.approx(whole.error, rel=3e-6)
    assert result.bound == pytest.approx(whole.bound, rel=3e-6)
    assert result.bound >= svd_bound(result.workload) * (1 - 1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_error_and_sensitivity_are_those_of_the_blocks(seed: int) -> None:
    result = symmetric_optimum(SymmetricGram.of(union(seed)))
    workload, error = result.workload, 0.0
    for block, gram in zip(workload.blocks, result.grams, strict=True):
        error += block.multiplicity * float(np.trace(block.gram @ np.linalg.pinv(gram, rcond=1e-9)))
    assert workload.diagonal([gram.diagonal() for gram in result.grams]).max() == pytest.approx(1, abs=1e-9)
    assert error == pytest.approx(result.error, rel=1e-5)


def test_cells_that_no_query_reads_get_nothing() -> None:
    domain = Domain.of({"a": 2, "b": 3})
    read = np.array([[1, 0, 0], [1, 1, 0]])
    queries = Products(domain, (Product(("b",), (read,)),))
    result = symmetric_optimum(SymmetricGram.of(queries))
    alone = gaussian_optimum(dense_gram(queries))
    assert result.error == pytest.approx(alone.error, rel=1e-5)
    assert not result.workload.diagonal([gram.diagonal() for gram in result.grams])[2]


def test_a_workload_without_blocks_is_refused() -> None:
    workload = SymmetricGram.of(union(0))
    empty = SymmetricGram(workload.domain, workload.classes, workload.members, workload.sizes, (), workload.answers)
    with pytest.raises(ValueError, match="a workload of zeros; want"):
        symmetric_optimum(empty)


def test_the_census_optimum_beats_the_published_strategy() -> None:
    """Thesis, Table 3.5: 9.80 for SF1; no strategy is below 8.0444."""
    result = symmetric_optimum(SymmetricGram.of(sf1.sf1()), gap=1e-4)
    assert result.gap <= 1e-4
    assert (
        8.0444 < SIGMA * math.sqrt(result.bound / sf1.ANSWERS) < SIGMA * math.sqrt(result.error / sf1.ANSWERS) < 8.0452
    )
