"""Answers of symmetric queries against one dense matrix, and what they refuse."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.queries import BlockQueries, Marginals, SymmetricQueries, symmetric
from dpcore.queries.products import LARGEST_ANSWER
from tests.support.symmetric_cases import dense, random_symmetric

DOMAIN = Domain.of({"a": 3, "b": 4, "c": 5})
CLASSES = (np.array([0, 1, 1]), np.array([0, 1, 0, 1]))
SUMS = BlockQueries((None, None), np.arange(8).reshape(2, 4))
WITHIN = BlockQueries((1, None), np.array([[2, -3]]))
QUERIES = SymmetricQueries(DOMAIN, ("a", "b"), CLASSES, (SUMS, WITHIN))


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("rows", [10**5, 1 << 60])
def test_answers_are_the_dense_matrix_times_the_cells(seed: int, rows: int) -> None:
    """In 64 bits, and with Python's integers where a sum might pass them."""
    generator = np.random.default_rng(seed)
    queries = random_symmetric(DOMAIN, generator, largest=[3, 1 << 20][seed % 2])
    table = generator.integers(0, 1000, DOMAIN.sizes)
    answers = queries.of_table(table, rows)
    assert answers.dtype == np.int64
    assert answers.shape == (queries.size,)
    matrix = dense(queries)
    assert answers.tolist() == (matrix @ table.ravel().astype(object)).tolist()
    assert queries.largest >= np.abs(matrix).max()
    assert sum(queries.sizes) == queries.size


def test_answers_beyond_62_bits_are_clipped_and_those_within_are_exact() -> None:
    domain = Domain.of({"a": 2, "b": 3})
    block = BlockQueries((None, None), np.array([[1 << 30, 3], [-(1 << 30), 1]]))
    queries = SymmetricQueries(domain, ("a", "b"), (np.zeros(2, int), np.array([0, 1, 1])), (block,))
    table = np.zeros((2, 3), dtype=np.int64)
    table[0, 0], table[1, 1], table[1, 2] = 1 << 40, 5, 1
    assert queries.of_table(table, 1 << 44).tolist() == [LARGEST_ANSWER, -LARGEST_ANSWER]
    table[0, 0] = (1 << 32) - 1
    assert queries.of_table(table, 1 << 44).tolist() == [(2**32 - 1) * 2**30 + 18, -(2**32 - 1) * 2**30 + 6]


def test_large_answers_keep_their_last_bit() -> None:
    """Doubles would lose it."""
    table = np.zeros((3, 4), dtype=np.int64)
    table[0, 0] = (1 << 31) + 1
    odd = BlockQueries((None, None), np.array([[(1 << 30) - 1, 1, 1, 1]]))
    queries = SymmetricQueries(DOMAIN, ("a", "b"), CLASSES, (odd,))
    assert queries.of_table(table, 1 << 32).tolist() == [(2**31 + 1) * (2**30 - 1)]


def test_blocks_lie_one_after_another() -> None:
    table = np.arange(12).reshape(3, 4)
    sums = np.array([[0 + 2, 1 + 3], [4 + 6 + 8 + 10, 5 + 7 + 9 + 11]])  # Values 1 and 2 of a are one class.
    apart = table[1] - table[2]
    wanted = [*(SUMS.matrix @ sums.ravel()), 2 * (apart[0] + apart[2]) - 3 * (apart[1] + apart[3])]
    assert QUERIES.of_table(table, 66).tolist() == wanted
    assert QUERIES.sizes == (2, 1)
    assert QUERIES.marginal == Marginals(DOMAIN, (("a", "b"),))
    assert QUERIES.description == "3 answers of an integer strategy on a x b"


HUGE = np.full((1, 4), (1 << 30) + 1)
REFUSED = {
    "no blocks": lambda: replace(QUERIES, blocks=()),
    "what is no block": lambda: replace(QUERIES, blocks=(SUMS.matrix,)),
    "no attribute": lambda: SymmetricQueries(DOMAIN, (), (), (BlockQueries((), np.ones((1, 1), int)),)),
    "an unknown attribute": lambda: replace(QUERIES, clique=("a", "x")),
    "another order": lambda: replace(QUERIES, clique=("b", "a"), classes=CLASSES[::-1]),
    "an attribute twice": lambda: replace(QUERIES, clique=("a", "a"), classes=(CLASSES[0], CLASSES[0])),
    "another attribute": lambda: replace(QUERIES, clique=("a", "c")),
    "classes too few": lambda: replace(QUERIES, classes=CLASSES[:1]),
    "a class of nobody": lambda: replace(QUERIES, classes=(np.array([0, 2, 2]), CLASSES[1])),
    "a far class": lambda: replace(QUERIES, classes=(np.array([0, 1 << 62, 1]), CLASSES[1])),
    "a negative class": lambda: replace(QUERIES, classes=(np.array([0, -1, 1]), CLASSES[1])),
    "classes of floats": lambda: replace(QUERIES, classes=(np.array([0.0, 1, 1]), CLASSES[1])),
    "classes of bits": lambda: replace(QUERIES, classes=(np.array([False, True, True]), CLASSES[1])),
    "a choice too few": lambda: replace(QUERIES, blocks=(BlockQueries((None,), np.ones((1, 2), int)),)),
    "another number of combinations": lambda: replace(QUERIES, blocks=(BlockQueries((None, 0), SUMS.matrix),)),
    "a class of one value": lambda: replace(QUERIES, blocks=(BlockQueries((0, None), WITHIN.matrix),)),
    "a class beyond the last": lambda: replace(QUERIES, blocks=(BlockQueries((2, None), WITHIN.matrix),)),
    "a negative choice": lambda: replace(QUERIES, blocks=(BlockQueries((-1, None), WITHIN.matrix),)),
    "a choice of numpy": lambda: BlockQueries((np.int64(1), None), WITHIN.matrix),
    "a choice of a float": lambda: BlockQueries((1.0, None), WITHIN.matrix),  # type: ignore[arg-type]
    "a choice of a bit": lambda: BlockQueries((True, None), WITHIN.matrix),
    "a matrix of floats": lambda: BlockQueries((None, None), SUMS.matrix * 1.0),  # type: ignore[arg-type]
    "a matrix with no number": lambda: BlockQueries((None, None), np.array([[np.nan, 1, 1, 1]])),  # type: ignore[arg-type]
    "a matrix of Python's integers": lambda: BlockQueries((None, None), SUMS.matrix.astype(object)),
    "a matrix without signs": lambda: BlockQueries((None, None), SUMS.matrix.astype(np.uint64)),
    "a vector": lambda: BlockQueries((None, None), SUMS.matrix[0]),
    "no rows": lambda: BlockQueries((None, None), SUMS.matrix[:0]),
    "zeros": lambda: BlockQueries((None, None), 0 * SUMS.matrix),
    "a large entry": lambda: BlockQueries((None, None), HUGE),
    "the least integer": lambda: BlockQueries((None, None), np.array([[np.iinfo(np.int64).min, 1, 1, 1]])),
    "a large product of entries": lambda: SymmetricQueries(
        Domain.of({"a": 7}), ("a",), (np.zeros(7, int),), (BlockQueries((0,), np.full((1, 1), 1 << 28)),)
    ),
    "an attribute of too many values": lambda: SymmetricQueries(
        Domain.of({"a": 4000}), ("a",), (np.arange(4000),), (BlockQueries((None,), np.ones((1, 4000), int)),)
    ),
}


@pytest.mark.parametrize("make", REFUSED.values(), ids=REFUSED)
def test_what_has_no_exact_answer_or_sensitivity_is_refused(make: object) -> None:
    with pytest.raises(ValueError, match="want"):
        make()  # type: ignore[operator]


def test_a_table_that_no_memory_holds_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symmetric, "LARGEST_READ", 5)
    with pytest.raises(ValueError, match="cells to read; want at most 5"):
        replace(QUERIES)


def test_they_keep_their_own_entries() -> None:
    classes, matrix = [each.copy() for each in CLASSES], SUMS.matrix.copy()
    made = SymmetricQueries(DOMAIN, ("a", "b"), tuple(classes), (BlockQueries((None, None), matrix),))
    before = made.digest()
    matrix[:], classes[0][:] = 9, 0
    assert made.digest() == before
    held: list[NDArray[np.int64]] = [made.blocks[0].matrix, *made.classes]
    held += [array for axis in made.axes for array in (axis.matrix, axis.members)]
    for array in held:
        with pytest.raises(ValueError, match="WRITEABLE|writeable|read-only"):
            array.flags.writeable = True
    with pytest.raises(TypeError):
        made.axes[0].row_slices[None] = slice(0, 1)  # type: ignore[index]


class Liar(np.ndarray):  # type: ignore[type-arg]
    """An array that says it is one of other numbers."""

    @property
    def dtype(self) -> np.dtype[np.int64]:  # type: ignore[override]
        return np.dtype(np.int64)


def test_what_an_array_says_of_itself_changes_nothing() -> None:
    """The integers that are applied are those that sensitivity is derived from."""
    said = np.array([[0.5, 1.5, 2.5, -3.5]]).view(Liar)
    block = BlockQueries((None, None), said)
    assert type(block.matrix) is np.ndarray
    assert block.matrix.dtype == np.int64
    assert block.matrix.tolist() == [[0, 1, 2, -3]]


def test_everything_that_changes_an_answer_changes_the_digest() -> None:
    blocks = QUERIES.blocks
    made = [
        QUERIES,
        replace(QUERIES, blocks=blocks[::-1]),
        replace(QUERIES, blocks=blocks[:1]),
        replace(QUERIES, blocks=(replace(SUMS, matrix=SUMS.matrix[::-1]), WITHIN)),
        replace(QUERIES, blocks=(SUMS, BlockQueries((None, 1), WITHIN.matrix))),
        replace(QUERIES, blocks=(BlockQueries((None, None), SUMS.matrix.reshape(-1, 4)[:1]), WITHIN)),
        replace(QUERIES, classes=(np.array([1, 0, 0]), CLASSES[1]), blocks=blocks[:1]),
        replace(QUERIES, domain=Domain.of({"a": 3, "b": 4})),
    ]
    assert len({queries.digest() for queries in made}) == len(made)
    again = SymmetricQueries(DOMAIN, ["a", "b"], [each.astype(np.int32) for each in CLASSES], list(blocks))  # type: ignore[arg-type]
    assert again.digest() == QUERIES.digest()
