"""A continual strategy reads no later step, and estimates each query by least squares from the steps so far."""

from __future__ import annotations

import numpy as np
import pytest

from dpcore.measurement import Noise
from dpcore.strategies.continual import candidates
from dpcore.strategies.continual.strategy import ContinualStrategy, last_steps

STEPS = 11
QUERIES = np.concatenate([np.tril(np.ones((STEPS, STEPS))), np.eye(STEPS), np.eye(STEPS) - np.eye(STEPS, k=-3)])


def strategies() -> list[ContinualStrategy]:
    gram = QUERIES.T @ QUERIES
    fixed = [candidates.daily(STEPS), candidates.tree(STEPS), candidates.square_root(STEPS)]
    return [*fixed, candidates.best(gram)[0]]


@pytest.mark.parametrize("strategy", strategies(), ids=["daily", "tree", "square_root", "best"])
def test_estimates_are_least_squares_from_the_steps_so_far(strategy: ContinualStrategy) -> None:
    reconstruction = strategy.reconstruction(QUERIES)
    real = strategy.matrix / strategy.denominator
    np.testing.assert_allclose(reconstruction @ real, QUERIES, atol=1e-9)
    for query, estimate, end in zip(QUERIES, reconstruction, last_steps(QUERIES), strict=True):
        so_far = strategy.step_of_row <= end
        assert not estimate[~so_far].any()
        expected = query[: end + 1] @ np.linalg.pinv(real[so_far, : end + 1])
        np.testing.assert_allclose(estimate[so_far], expected, atol=1e-8)


@pytest.mark.parametrize("strategy", strategies(), ids=["daily", "tree", "square_root", "best"])
def test_the_estimates_of_a_shorter_series_are_the_same(strategy: ContinualStrategy) -> None:
    rows = strategy.rows_of(6).stop
    shorter = ContinualStrategy(strategy.matrix[:rows, :7], strategy.denominator, strategy.step_of_row[:rows])
    asked = QUERIES[last_steps(QUERIES) < 7]
    np.testing.assert_allclose(
        strategy.reconstruction(asked)[:, :rows], shorter.reconstruction(asked[:, :7]), rtol=1e-12
    )


def test_sensitivity_is_the_largest_column_norm() -> None:
    strategy = ContinualStrategy(np.array([[2, 0], [-4, 6]]), 2, np.arange(2))
    assert strategy.squared_sensitivity(Noise.GAUSSIAN) == 9
    assert strategy.squared_sensitivity(Noise.ROUNDED_GAUSSIAN) == 9
    assert strategy.squared_sensitivity(Noise.LAPLACE) == 9
    assert ContinualStrategy(np.array([[2, 0], [-4, 4]]), 2, np.arange(2)).squared_sensitivity(Noise.LAPLACE) == 9


def test_rows_belong_to_steps() -> None:
    tree = candidates.tree(4)
    assert [list(tree.rows_of(step)) for step in range(4)] == [[0], [1, 2], [3], [4, 5, 6]]
    assert tree.matrix[4:].tolist() == [[0, 0, 0, 1], [0, 0, 1, 1], [1, 1, 1, 1]]


@pytest.mark.parametrize(
    ("matrix", "steps", "message"),
    [
        ([[1, 1], [0, 1]], [0, 1], "reads a later step"),
        ([[1, 0], [0, 1]], [1, 0], "not ordered by step"),
        ([[1, 0], [1, 0]], [0, 0], "a step without a row"),
        ([[1, 0], [1, 1], [0, 1]], [0, 1], "3 rows"),
    ],
)
def test_what_cannot_be_run_step_by_step_is_refused(matrix: list[list[int]], steps: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ContinualStrategy(np.array(matrix), 1, np.array(steps))


def test_a_singular_strategy_is_refused() -> None:
    with pytest.raises((ValueError, np.linalg.LinAlgError)):
        ContinualStrategy(np.array([[1, 0], [1, 0]]), 1, np.arange(2)).reconstruction(np.eye(2))


@pytest.mark.parametrize("strategy", strategies(), ids=["daily", "tree", "square_root", "best"])
def test_a_strategy_is_the_same_after_it_was_stored(strategy: ContinualStrategy) -> None:
    again = ContinualStrategy.from_text(strategy.to_text())
    assert again.to_text() == strategy.to_text()
    np.testing.assert_array_equal(again.matrix, strategy.matrix)
    assert again.denominator == strategy.denominator


@pytest.mark.parametrize("text", ["", "[1]", '[1, 2, 2, "AAAA"]', "null", "[1, 2, 2, 3]"])
def test_a_damaged_strategy_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="."):
        ContinualStrategy.from_text(text)
