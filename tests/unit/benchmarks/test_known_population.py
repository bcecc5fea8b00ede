"""The least error with a known population, against a closed form and against other ways to spend the budget."""

from __future__ import annotations

import math
from itertools import combinations, product

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.queries import Marginals
from tests.benchmarks.known_population import Setting, least_errors

DOMAIN = Domain.of({"a": 2, "b": 3, "c": 5, "d": 4})
ROWS = 1_000
SHARES = {name: np.random.default_rng(1).dirichlet(np.full(DOMAIN.size((name,)), 3.0)) for name in DOMAIN.names}
UNIFORM = {name: np.full(size, 1 / size) for name, size in zip(DOMAIN.names, DOMAIN.sizes, strict=True)}


def test_one_attribute_has_a_closed_form() -> None:
    """Five values: in four directions the prior variance is n / 5, and the budget buys the precision mu^2 5 / 4."""
    errors = least_errors(Setting(Marginals(DOMAIN, (("c",),)), UNIFORM, ROWS, 0.02))
    mean_absolute = math.sqrt(2 / math.pi) / ROWS
    assert errors.population == pytest.approx(mean_absolute * math.sqrt(5 * 4 * ROWS / 5))
    assert errors.least == pytest.approx(mean_absolute * math.sqrt(5 * 4 / (5 / ROWS + 0.02 * 5 / 4)))
    assert errors.unbiased == pytest.approx(mean_absolute * math.sqrt(5 * 4 / (0.02 * 5 / 4)))


def basis(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Functions of the values that are orthonormal under the shares, the constant first; float64 [values, values]."""
    functions = np.vander(np.arange(len(shares), dtype=np.float64), increasing=True).T
    orthonormal = np.linalg.qr((functions * np.sqrt(shares)).T)[0].T
    return np.asarray(orthonormal / np.sqrt(shares))


@pytest.mark.parametrize("budget", [1e-4, 0.02, 3.0])
def test_no_other_precisions_leave_less(budget: float) -> None:
    """Every cell by all functions of a basis, with budgets moved about at random."""
    cliques = (("a", "b"), ("b", "c"), ("a", "c", "d"))
    errors = least_errors(Setting(Marginals(DOMAIN, cliques), SHARES, ROWS, budget))
    parts = sorted({part for clique in cliques for k in (1, 2, 3) for part in combinations(clique, k)})
    freedom = {part: math.prod(size - 1 for size in DOMAIN.shape(part)) for part in parts}
    generator, drawn_errors = np.random.default_rng(0), list[float]()
    for _ in range(150):
        drawn = generator.dirichlet(np.full(len(parts), 0.7)).tolist()
        precisions = {part: budget * share / freedom[part] for part, share in zip(parts, drawn, strict=True)}
        error = 0.0
        for clique in cliques:
            values = [basis(SHARES[name]) for name in clique]
            for cell in product(*map(range, DOMAIN.shape(clique))):
                variance = 0.0
                for chosen in product(*map(range, DOMAIN.shape(clique))):
                    part = tuple(name for name, number in zip(clique, chosen, strict=True) if number)
                    if part:
                        value = math.prod(of[k, x] for of, k, x in zip(values, chosen, cell, strict=True))
                        variance += value**2 / (1 / ROWS + precisions[part])
                share = math.prod(SHARES[name][x] for name, x in zip(clique, cell, strict=True))
                error += share * math.sqrt(2 / math.pi * variance) / ROWS / len(cliques)
        drawn_errors.append(error)
    assert errors.gap <= 1e-3
    assert (1 - errors.gap) * errors.least <= min(drawn_errors) <= 1.2 * errors.least
    assert errors.least < min(errors.population, errors.unbiased)
