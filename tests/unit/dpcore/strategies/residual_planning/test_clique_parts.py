"""Sums over parts of cliques against their definition, and derivatives against differences."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from dpcore.strategies.residual_planning.clique_parts import CliqueParts

CLIQUES = [(0, 1, 3), (1,), (), (0, 1, 3), (2, 3)]
WEIGHTS = [1.0, 2.0, 0.5, 3.0, 0.7]
MEANS = np.array([0.3, 2.0, 0.8, 1.7])
RESTS = np.array([5.0, 4.0, 1.0, 2.5])


def made(residual: list[bool]) -> CliqueParts:
    return CliqueParts(CLIQUES, WEIGHTS, np.array(residual))


@pytest.mark.parametrize("residual", [[True] * 4, [True, True, False, True], [False] * 4])
def test_energies_are_sums_over_the_cliques_above(residual: list[bool]) -> None:
    parts = made(residual)
    expected = {part for clique in CLIQUES for order in range(4) for part in combinations(clique, order)}
    assert set(parts.parts) == {part for part in expected if all(residual[place] for place in part)}
    assert parts.parts == sorted(parts.parts, key=lambda part: (len(part), part))
    for part, energy in zip(parts.parts, parts.energies(MEANS), strict=True):
        above = [
            weight * math.prod(MEANS[place] for place in clique if place not in part)
            for clique, weight in zip(CLIQUES, WEIGHTS, strict=True)
            if set(part) <= set(clique)
        ]
        assert energy == pytest.approx(sum(above))
    products = [math.prod(RESTS[place] for place in part) for part in parts.parts]
    assert parts.products(RESTS) == pytest.approx(products)
    assert parts.loss(MEANS, RESTS).roots ** 2 == pytest.approx(parts.energies(MEANS) * products)


def test_derivatives_are_those_of_differences() -> None:
    parts = made([True, True, False, True])
    loss = parts.loss(MEANS, RESTS)
    for place in range(4):
        step = np.zeros(4)
        step[place] = 1e-6
        by_mean = parts.loss(MEANS + step, RESTS).value - parts.loss(MEANS - step, RESTS).value
        by_rest = parts.loss(MEANS, RESTS + step).value - parts.loss(MEANS, RESTS - step).value
        assert loss.by_mean[place] == pytest.approx(by_mean / 2e-6, rel=1e-6)
        assert loss.by_rest[place] == pytest.approx(by_rest / 2e-6, rel=1e-6, abs=1e-9)


def test_too_many_parts_are_refused() -> None:
    with pytest.raises(ValueError, match="have 2,097,152 parts; want at most 1,048,576"):
        CliqueParts([tuple(range(21))], [1.0], np.ones(21, dtype=bool))
