"""Classes and blocks against the dense Gram matrix, and the census workload against its published figures."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from dpcore.domain import Domain
from dpcore.queries import Product, Products
from dpcore.queries.ranges import prefix, range_marginals
from dpcore.strategies.symmetric.symmetry import SymmetricGram, exchangeable_classes
from tests.benchmarks.matrix import sf1
from tests.support.symmetric_cases import svd_bound
from tests.unit.dpcore.strategies.small_unions import CLASSES, DOMAIN, SIGMA, dense_gram, union

SEEDS = range(6)


@pytest.mark.parametrize("seed", SEEDS)
def test_two_values_are_of_one_class_where_a_swap_changes_nothing(seed: int) -> None:
    queries = union(seed)
    workload = SymmetricGram.of(queries)
    for place, (name, size) in enumerate(zip(DOMAIN.names, DOMAIN.sizes, strict=True)):
        matrices = [term.matrices[term.clique.index(name)] for term in queries.terms if name in term.clique]
        for one, other in combinations(range(size), 2):
            order = np.arange(size)
            order[[one, other]] = other, one
            grams = [matrix.T @ matrix for matrix in matrices]
            alike = all(np.array_equal(gram, gram[np.ix_(order, order)]) for gram in grams)
            assert alike == (workload.classes[place][one] == workload.classes[place][other])
        assert len(workload.members[place]) <= max(CLASSES[name]) + 1
        assert workload.members[place].sum() == size


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_blocks_have_the_spectrum_of_the_dense_matrix(seed: int, weighted: bool) -> None:
    queries = union(seed)
    weights = np.array([0.5, 2.0, 0.0, 3.0, 1.0]) if weighted else None
    workload, whole = SymmetricGram.of(queries, weights), dense_gram(queries, weights)
    spectrum = np.concatenate([
        np.repeat(np.linalg.eigvalsh(block.gram), block.multiplicity) for block in workload.blocks
    ])  # fmt: skip
    missing = np.zeros(len(whole) - len(spectrum))
    assert np.allclose(np.sort(np.concatenate([spectrum, missing])), np.linalg.eigvalsh(whole), atol=1e-8)
    singular = np.sqrt(np.maximum(np.linalg.eigvalsh(whole), 0))
    assert svd_bound(workload) == pytest.approx(singular.sum() ** 2 / len(whole), rel=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_cells_are_the_diagonal(seed: int) -> None:
    queries = union(seed)
    workload = SymmetricGram.of(queries)
    orbits = np.ravel_multi_index(np.ix_(*workload.classes), [len(each) for each in workload.members]).ravel()
    assert np.allclose(workload.cells[orbits], dense_gram(queries).diagonal())
    assert np.array_equal(workload.sizes, np.bincount(orbits))


def test_an_attribute_asked_for_its_codes_and_total_is_two_blocks() -> None:
    queries = range_marginals(Domain.of({"a": 6}), [(), ("a",)], {})
    blocks = SymmetricGram.of(queries).blocks
    assert [(block.choice, block.multiplicity) for block in blocks] == [((None,), 1), ((0,), 5)]
    assert np.allclose([block.gram.item() for block in blocks], [7, 1])


def test_prefixes_have_no_exchangeable_values() -> None:
    gram = prefix(6).T @ prefix(6)
    assert exchangeable_classes([gram]).tolist() == list(range(6))
    assert exchangeable_classes([np.ones_like(gram)]).tolist() == [0] * 6


@pytest.mark.parametrize("weights", [np.ones(3), -np.ones(5), np.zeros(5), np.full(5, np.nan)])
def test_weights_that_are_none_are_refused(weights: np.ndarray) -> None:
    with pytest.raises(ValueError, match="want one per term, finite and >= 0"):
        SymmetricGram.of(union(0), weights)


def test_too_many_orbits_are_refused() -> None:
    domain = Domain.of({"a": 50, "b": 50})
    with pytest.raises(ValueError, match="2,500 orbits"):
        SymmetricGram.of(Products(domain, (Product(("a", "b"), (prefix(50), prefix(50))),)))


def test_the_census_workload_is_the_published_one() -> None:
    """Thesis, Tables 3.4 and 3.5: answers, classes, Identity and Laplace mechanism; the SVD bound computed from it."""
    queries = sf1.sf1()
    workload = SymmetricGram.of(queries)
    assert queries.size == workload.answers == sf1.ANSWERS
    assert [len(each) for each in workload.members] == [1, 2, 8, 25]
    assert (len(workload.blocks), max(len(block.orbits) for block in workload.blocks)) == (96, 400)
    mean = float(workload.cells @ workload.sizes) / sf1.ANSWERS
    assert math.sqrt(2 * mean) == pytest.approx(sf1.IDENTITY_LAPLACE, abs=0.005)
    assert SIGMA * math.sqrt(mean) == pytest.approx(69.32, abs=0.005)
    each = [math.prod(int(matrix.sum(axis=0).max()) for matrix in term.matrices) for term in queries.terms]
    assert math.sqrt(2) * sum(each) == pytest.approx(70.71, abs=0.005)
    assert SIGMA * math.sqrt(svd_bound(workload) / sf1.ANSWERS) == pytest.approx(6.2481, abs=5e-5)


def test_the_census_workload_by_state_is_the_published_one() -> None:
    queries = sf1.sf1_plus()
    workload = SymmetricGram.of(queries)
    assert queries.size == sf1.ANSWERS_PLUS
    mean = float(workload.cells @ workload.sizes) / sf1.ANSWERS_PLUS
    assert math.sqrt(2 * mean) == pytest.approx(32.50, abs=0.005)
    assert SIGMA * math.sqrt(mean) == pytest.approx(97.08, abs=0.005)
