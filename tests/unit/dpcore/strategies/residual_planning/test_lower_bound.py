"""The lower bound by cores, against the singular values of the whole matrix and against dense optima."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.queries.ranges import all_ranges, prefix
from dpcore.strategies.one_attribute.gaussian_optimum import gaussian_optimum
from dpcore.strategies.residual_planning import lower_bound
from dpcore.strategies.residual_planning.lower_bound import Blocks, Frame, core_bound

Real = NDArray[np.float64]
Cliques = Sequence[tuple[int, ...]]
# Prefixes, values of a categorical attribute, ranges, prefixes.
MATRICES = [matrix.astype(np.float64) for matrix in (prefix(4), np.eye(3, dtype=np.int64), all_ranges(3), prefix(2))]
CORED = (0, 2, 3)
CLIQUES: Cliques = ((0, 1), (0, 2, 3), (1, 3), (2,), (), (2,))
WEIGHTS = (1.0, 0.5, 2.0, 0.3, 4.0, 0.2)


def multipliers() -> dict[int, Real]:
    generator = np.random.default_rng(1)
    drawn = {axis: 0.2 + generator.random(MATRICES[axis].shape[1]) for axis in CORED}
    return {axis: v / v.sum() for axis, v in drawn.items()} | {1: np.full(3, 1 / 3)}


def dense_root(v: dict[int, Real]) -> Real:
    """The square root of the Gram matrix of W D over all cells, the slow obvious way."""
    rows = []
    for clique, weight in zip(CLIQUES, WEIGHTS, strict=True):
        factors = [
            (MATRICES[axis] if axis in clique else np.ones((1, len(v[axis])))) * np.sqrt(v[axis])
            for axis in range(len(MATRICES))
        ]
        rows.append(math.sqrt(weight) * reduce(np.kron, factors))
    stacked = np.concatenate(rows)
    values, vectors = np.linalg.eigh(stacked.T @ stacked)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def evaluated(v: dict[int, Real], directions: int) -> tuple[float, dict[int, Real]]:
    blocks = Blocks.of(CLIQUES, WEIGHTS, np.ones(4, dtype=bool), {1: 1 / 3})
    frames = {
        axis: Frame.of(MATRICES[axis].T @ MATRICES[axis], v[axis], min(directions, len(v[axis]) - 1)) for axis in CORED
    }
    return blocks.evaluate(frames, {1: 2 / math.sqrt(3)})


def test_cores_of_all_directions_give_the_sum_of_singular_values_of_the_whole_matrix() -> None:
    v = multipliers()
    root = dense_root(v)
    value, following = evaluated(v, 3)
    assert value == pytest.approx(float(np.trace(root)), rel=1e-6)
    diagonal = root.diagonal().reshape([len(v[axis]) for axis in range(4)])
    for axis in CORED:
        expected = diagonal.sum(axis=tuple(each for each in range(4) if each != axis))
        assert following[axis] == pytest.approx(expected / expected.sum(), rel=1e-6)


def test_fewer_directions_give_less() -> None:
    v = multipliers()
    whole = float(np.trace(dense_root(v)))
    values = [evaluated(v, directions)[0] for directions in (0, 1, 2)]
    assert values[0] < 0.999 * values[2] < whole
    assert all(value < whole * (1 + 1e-6) for value in values)


def test_it_is_below_the_optimum_and_near_it() -> None:
    gram: Real = (prefix(3).T @ prefix(3)).astype(np.float64)
    cliques = list(combinations(range(4), 2))
    dense = np.zeros((81, 81))
    for clique in cliques:
        factors = [gram if axis in clique else np.ones((3, 3)) for axis in range(4)]
        dense += np.kron(np.kron(np.kron(factors[0], factors[1]), factors[2]), factors[3])
    best = gaussian_optimum(dense, 1e-5)
    assert 0.98 * best.bound < of_prefixes(cliques, 4, gram) < best.error


def of_prefixes(cliques: Cliques, attributes: int, gram: Real) -> float:
    start: dict[int, Real] = dict.fromkeys(range(attributes), np.full(len(gram), 1 / len(gram)))
    return core_bound(cliques, [1.0] * len(cliques), {}, dict.fromkeys(range(attributes), gram), {}, start)


def test_cores_shrink_where_the_matrices_would_be_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = Blocks.of(list(combinations(range(6), 2)), [1.0] * 15, np.ones(6, dtype=bool), {})
    assert blocks.largest_core() == 8  # 1 + 6 q + 15 q^2 columns for the empty set.
    monkeypatch.setattr(lower_bound, "_MAX_COLUMNS", 21)
    assert blocks.largest_core() == 0
    monkeypatch.setattr(lower_bound, "_MAX_COLUMNS", 22)
    assert blocks.largest_core() == 1
    monkeypatch.setattr(lower_bound, "_MAX_WORK", 1.0)
    assert blocks.largest_core() == 0
    monkeypatch.setattr(lower_bound, "_MAX_WORK", 1e9)
    assert blocks.largest_core(1e11) == 0  # The frames alone are too much.


def test_there_is_none_where_it_would_be_no_better_or_too_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    gram: Real = (prefix(3).T @ prefix(3)).astype(np.float64)
    cliques = list(combinations(range(5), 2))
    best = of_prefixes(cliques, 5, gram)
    assert best > 0
    assert core_bound([(0,)], [1.0], {0: 1 / 3}, {}, {0: 1.0}, {}) == 0  # No attribute has a core.
    assert of_prefixes(list(combinations(range(20), 3)), 20, gram) == 0  # 1,351 columns with cores of two directions.
    one_evaluation = Blocks.of(cliques, [1.0] * 10, np.ones(5, dtype=bool), {}).work(10) + 1e3
    monkeypatch.setattr(lower_bound, "_MAX_TOTAL_WORK", one_evaluation)
    assert 0.9 * best < of_prefixes(cliques, 5, gram) < best  # Fewer improvements.
    monkeypatch.setattr(lower_bound, "_MAX_TOTAL_WORK", 1e3)
    assert of_prefixes(cliques, 5, gram) == 0
    monkeypatch.undo()
    monkeypatch.setattr(lower_bound, "_MAX_SUBSETS", 89)  # Ten pairs, with nine subsets of subsets each.
    assert of_prefixes(cliques, 5, gram) == 0
    monkeypatch.setattr(lower_bound, "_MAX_SUBSETS", 90)
    assert of_prefixes(cliques, 5, gram) == best
