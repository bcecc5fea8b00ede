"""Answers of products against one dense matrix, and what a product refuses."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.queries import Marginals, Product, Products, rounded_rows
from dpcore.queries.products import LARGEST_ANSWER
from tests.support.product_cases import dense, random_products

DOMAIN = Domain.of({"a": 2, "b": 3, "c": 4})
ONES = np.ones((1, 3), dtype=np.int64)
TOTAL_AND_CELLS = np.array([[1, 1], [1, 0], [0, 1]])


def tables_of(queries: Products, histogram: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    others = [tuple(axis for axis, n in enumerate(DOMAIN.names) if n not in term.clique) for term in queries.terms]
    return [np.asarray(histogram.sum(axis=axes)) for axes in others]


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("rows", [1 << 44, 1 << 61])
def test_answers_are_the_dense_matrix_times_the_cells(seed: int, rows: int) -> None:
    """In 64 bits, and with Python's integers where a sum might pass them."""
    generator = np.random.default_rng(seed)
    queries = random_products(DOMAIN, generator)
    histogram = generator.integers(0, 1000, size=DOMAIN.sizes)
    answers = queries.of_tables(tables_of(queries, histogram), rows)
    assert answers.dtype == np.int64
    assert answers.shape == (queries.size,)
    assert answers.tolist() == (dense(queries) @ histogram.ravel().astype(object)).tolist()


def test_answers_beyond_64_bits_are_clipped_and_those_within_are_exact() -> None:
    large = np.array([[1 << 29, 1, 3], [-(1 << 29), 0, 0]])
    queries = Products(Domain.of({"a": 3, "b": 3}), (Product(("a", "b"), (large, large)),))
    table = np.zeros((3, 3), dtype=np.int64)
    table[0, 0], table[2, 2] = 1 << 40, 5
    answers = queries.of_tables([table], 1 << 44)
    assert answers.tolist() == [LARGEST_ANSWER, -LARGEST_ANSWER, -LARGEST_ANSWER, LARGEST_ANSWER]
    table[0, 0] = 7
    assert queries.of_tables([table], 1 << 44).tolist() == [7 * 2**58 + 45, -7 * 2**58, -7 * 2**58, 7 * 2**58]


@pytest.mark.parametrize("rows", [1 << 43, 1 << 44, 1 << 45])
def test_answers_near_the_end_of_doubles_are_exact(rows: int) -> None:
    """Entries of 511 times 2^44 rows stay below 2^53, those of 2^45 do not; odd counts would lose their last bit."""
    generator = np.random.default_rng(rows)
    matrix = generator.integers(-511, 512, size=(6, 4))
    matrix[0, 0], matrix[0, 1:] = 511, 0
    histogram = np.zeros(DOMAIN.sizes, dtype=np.int64)
    histogram[0, 0] = [rows - 7, 1, 3, 3]
    queries = Products(DOMAIN, (Product(("c",), (matrix,)), Product(("b", "c"), (ONES, matrix)), Product((), (), 511)))
    answers = queries.of_tables(tables_of(queries, histogram), rows)
    assert answers[0] == 511 * (rows - 7)
    assert answers.tolist() == (dense(queries) @ histogram.ravel().astype(object)).tolist()


def test_terms_lie_one_after_another_in_c_order() -> None:
    queries = Products(DOMAIN, (Product(("a", "b"), (TOTAL_AND_CELLS, np.eye(3, dtype=int))), Product((), (), 5)), 10)
    histogram = np.arange(24).reshape(DOMAIN.sizes)
    pairs = histogram.sum(axis=2)
    wanted = [*pairs.sum(axis=0), *pairs[0], *pairs[1], 5 * 276]
    assert queries.of_tables([pairs, pairs.sum()], 1 << 44).tolist() == wanted
    assert queries.size == 10
    assert queries.marginals == Marginals(DOMAIN, (("a", "b"), ()))
    assert queries.description == "10 answers of an integer strategy"


@pytest.mark.parametrize("bits", [0, 3, 20])
def test_rounded_rows_are_within_half_a_step(bits: int) -> None:
    matrix = np.random.default_rng(bits).normal(size=(5, 4))
    rounded, denominator = rounded_rows(matrix, bits)
    assert rounded.dtype == np.int64
    assert denominator == 2**bits
    assert np.abs(rounded / denominator - matrix).max() <= 0.5 / denominator


@pytest.mark.parametrize(
    ("matrix", "bits"),
    [(np.array([[np.nan]]), 3), (np.array([[np.inf]]), 3), (np.ones((1, 1)), 41), (np.array([[2.0**50]]), 4)],
)
def test_rows_that_no_grid_holds_are_refused(matrix: NDArray[np.float64], bits: int) -> None:
    with pytest.raises(ValueError, match="want"):
        rounded_rows(matrix, bits)


REFUSED = {
    "no terms": lambda: Products(DOMAIN, ()),
    "no denominator": lambda: Products(DOMAIN, (Product(("b",), (ONES,)),), 0),
    "a weight of 0": lambda: Product(("b",), (ONES,), 0),
    "a matrix too few": lambda: Product(("b",), ()),
    "another size": lambda: Products(DOMAIN, (Product(("a",), (ONES,)),)),
    "another order": lambda: Products(DOMAIN, (Product(("b", "a"), (ONES, TOTAL_AND_CELLS)),)),
    "an attribute twice": lambda: Products(DOMAIN, (Product(("b", "b"), (ONES, ONES)),)),
    "floats": lambda: Product(("b",), (ONES / 2,)),
    "whole floats": lambda: Product(("b",), (ONES.astype(float),)),
    "zeros": lambda: Product(("b",), (0 * ONES,)),
    "a vector": lambda: Product(("b",), (ONES[0],)),
    "no rows": lambda: Product(("b",), (ONES[:0],)),
    "large entries": lambda: Product(("b",), (ONES << 31,)),
    "the least integer": lambda: Product(("b",), (ONES * np.iinfo(np.int64).min,)),
}


@pytest.mark.parametrize("make", REFUSED.values(), ids=REFUSED)
def test_what_has_no_exact_answer_or_sensitivity_is_refused(make: object) -> None:
    with pytest.raises(ValueError, match="want"):
        make()  # type: ignore[operator]


def test_a_product_keeps_its_own_entries() -> None:
    matrix = ONES.copy()
    term = Product(("b",), (matrix,))
    matrix[:] = 9
    assert term.matrices[0].tolist() == [[1, 1, 1]]
    with pytest.raises(ValueError, match="read-only"):
        term.matrices[0][0, 0] = 2


def test_everything_that_changes_an_answer_changes_the_digest() -> None:
    pair = (np.eye(2, dtype=int), ONES)
    made = [
        Products(DOMAIN, (Product(("a", "b"), pair),)),
        Products(DOMAIN, (Product(("a", "b"), pair),), 2),
        Products(DOMAIN, (Product(("a", "b"), pair, 2),)),
        Products(DOMAIN, (Product(("a", "b"), (pair[0][::-1], ONES)),)),
        Products(DOMAIN, (Product(("a", "b"), (pair[0][:1], np.ones((2, 3), int))),)),
        Products(DOMAIN, (Product(("a",), pair[:1]), Product(("b",), pair[1:]))),
        Products(Domain.of({"a": 2, "b": 3}), (Product(("a", "b"), pair),)),
    ]
    assert len({queries.digest() for queries in made}) == len(made)
    assert made[0].digest() == Products(DOMAIN, (Product(("a", "b"), (np.eye(2, dtype=np.int32), ONES)),)).digest()


def test_a_term_of_its_own_is_named_by_its_clique() -> None:
    assert Products(DOMAIN, (Product(("b",), (ONES,)),)).description == "1 answers of an integer strategy on b"
    assert Products(DOMAIN, (Product((), ()),)).description == "1 answers of an integer strategy on number of rows"
