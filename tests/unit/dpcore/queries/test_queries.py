from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import BinaryView, Domain
from dpcore.queries import Conjunctions, Marginals, UnitCount

DOMAIN = Domain.of({"a": 2, "b": 3, "c": 4})
VIEW = BinaryView(5)


def conjunctions(columns: list[list[int]], negated: list[list[bool]], view: BinaryView = VIEW) -> Conjunctions:
    return Conjunctions(view, np.array(columns, dtype=np.int32), np.array(negated))


def test_marginals_answer_as_one_vector_and_split_into_tables() -> None:
    queries = Marginals(DOMAIN, (("c", "a"), (), ("b",)))
    assert queries.cliques == (("a", "c"), (), ("b",))
    assert queries.sizes == (8, 1, 3)
    assert queries.size == 12
    first, second, third = queries.split(np.arange(12))
    assert np.array_equal(first, np.arange(8).reshape(2, 4))
    assert second.shape == ()
    assert second == 8
    assert third.tolist() == [9, 10, 11]


def test_marginals_need_a_clique() -> None:
    with pytest.raises(ValueError, match="want at least one"):
        Marginals(DOMAIN, ())


def test_a_part_of_marginals_keeps_the_domain() -> None:
    part = Marginals(DOMAIN, (("a",), ("b", "c"))).only([("c", "b")])
    assert part == Marginals(DOMAIN, (("b", "c"),))


DIFFERENT = [
    Marginals(DOMAIN, (("a",), ("b",))),
    Marginals(DOMAIN, (("b",), ("a",))),
    Marginals(DOMAIN, (("a", "b"),)),
    Marginals(DOMAIN, (("a",),)),
    Marginals(Domain.of({"a": 2, "b": 3}), (("a",),)),
    Marginals(Domain.of({"a": 3, "b": 3, "c": 4}), (("a",),)),
    conjunctions([[0, 1]], [[False, False]]),
    conjunctions([[1, 0]], [[False, False]]),
    conjunctions([[0, 1]], [[False, True]]),
    conjunctions([[0], [1]], [[False], [False]]),
    conjunctions([[0, 2]], [[False, False]]),
    conjunctions([[0, 1]], [[False, False]], BinaryView(6)),
    conjunctions([[0, 1]], [[False, False]], BinaryView(5, ((0, 1), (1, 5)))),
    conjunctions([[0, 1], [2, 3]], [[False, False], [False, False]]),
    conjunctions([[0, 1, 2, 3]], [[False, False, False, False]]),
    UnitCount(),
]


def test_different_queries_have_different_digests() -> None:
    digests = [queries.digest() for queries in DIFFERENT]
    assert len(set(digests)) == len(digests)


def test_equal_queries_have_one_digest() -> None:
    assert Marginals(DOMAIN, (("b", "a"),)).digest() == Marginals(DOMAIN, (("a", "b"),)).digest()
    again = Conjunctions(VIEW, np.array([[0, 1]], dtype=np.int64)[:, ::1], np.zeros((1, 2), dtype=np.bool_))  # type: ignore[arg-type]
    assert again.digest() == conjunctions([[0, 1]], [[False, False]]).digest()


def test_conjunctions_keep_their_arrays_from_being_written() -> None:
    queries = conjunctions([[0, 1]], [[False, True]])
    assert (queries.size, queries.order) == (1, 2)
    with pytest.raises(ValueError, match="read-only"):
        queries.columns[0, 0] = 3
    with pytest.raises(ValueError, match="read-only"):
        queries.negated[0, 0] = True


@pytest.mark.parametrize(
    ("columns", "negated", "message"),
    [
        (np.array([[0, 0]]), np.array([[0, 1]]), "names a column twice"),
        (np.array([[0, 0, 1]]), np.zeros((1, 3)), "names a column twice"),
        (np.array([[0, 1, 0, 0]]), np.zeros((1, 4)), "names a column twice"),
        (np.array([[1, 2, 2], [0, 1, 1]]), np.array([[0, 0, 0], [0, 0, 1]]), "names a column twice"),
        (np.array([[3, 1, 3]]), np.zeros((1, 3)), "names a column twice"),
        (np.array([[0, 5]]), np.zeros((1, 2)), "outside 0..4"),
        (np.array([[-1]]), np.zeros((1, 1)), "outside 0..4"),
        (np.array([[0, 1]]), np.zeros((1, 1)), "want one non-empty shape"),
        (np.array([0, 1]), np.zeros(2), "want one non-empty shape"),
        (np.empty((0, 2)), np.empty((0, 2)), "want one non-empty shape"),
    ],
)
def test_bad_conjunctions_are_refused(columns: NDArray[np.int32], negated: NDArray[np.bool_], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Conjunctions(VIEW, columns, negated)


def test_a_conjunction_of_fewer_literals_repeats_its_last_one() -> None:
    queries = conjunctions([[3, 1, 2], [0, 4, 4], [2, 2, 2]], [[False] * 3, [False, True, True], [True] * 3])
    assert (queries.order, queries.orders.tolist(), queries.is_mixed) == (3, [3, 2, 1], True)
    assert queries.counted.tolist() == [[True, True, True], [True, True, False], [True, False, False]]
    assert queries.description == "3 conjunctions of 1 to 3"
    assert queries.only(np.array([2, 0])).orders.tolist() == [1, 3]
    assert not queries.only(np.array([0])).is_mixed


def test_conjunctions_of_several_orders_are_joined_at_the_largest_width() -> None:
    single, triple = conjunctions([[4]], [[True]]), conjunctions([[0, 1, 2]], [[False, True, False]])
    joined = Conjunctions.joined([single, triple])
    assert joined.columns.tolist() == [[4, 4, 4], [0, 1, 2]]
    assert joined.negated.tolist() == [[True, True, True], [False, True, False]]
    assert joined.orders.tolist() == [1, 3]


def test_single_columns_are_the_positive_literals() -> None:
    queries = Conjunctions.single_columns(VIEW)
    assert queries.columns.tolist() == [[0], [1], [2], [3], [4]]
    assert not queries.negated.any()


def test_the_number_of_units_is_one_answer() -> None:
    assert UnitCount().size == 1
