"""The bound of a known population, against a closed form and against other ways to spend the budget."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from dpcore.domain import Domain
from dpcore.queries import Marginals
from tests.benchmarks.sample_bound import GAP, Setting, bound_of

DOMAIN = Domain.of({"a": 2, "b": 3, "c": 5, "d": 4})
ROWS = 1_000


def test_one_attribute_has_a_closed_form() -> None:
    """Five values: in four directions the prior variance is n / 5, and the budget buys the precision mu^2 5 / 4."""
    bound = bound_of(Setting(Marginals(DOMAIN, (("c",),)), ROWS, 0.02))
    mean_absolute = math.sqrt(2 / math.pi) / ROWS
    assert bound.population == pytest.approx(mean_absolute * math.sqrt(5 * 4 * ROWS / 5))
    assert bound.least == pytest.approx(mean_absolute * math.sqrt(5 * 4 / (5 / ROWS + 0.02 * 5 / 4)))
    assert bound.unbiased == pytest.approx(mean_absolute * math.sqrt(5 * 4 / (0.02 * 5 / 4)))


@pytest.mark.parametrize("budget", [1e-4, 0.02, 3.0])
def test_no_other_precisions_leave_less(budget: float) -> None:
    """Residuals of pairs and triples, computed one cell at a time, with budgets moved about at random."""
    cliques = (("a", "b"), ("b", "c"), ("a", "c", "d"))
    bound = bound_of(Setting(Marginals(DOMAIN, cliques), ROWS, budget))
    parts = sorted({part for clique in cliques for k in (1, 2, 3) for part in combinations(clique, k)})
    generator, errors = np.random.default_rng(0), []
    for _ in range(2_000):
        shares = dict(zip(parts, generator.dirichlet(np.full(len(parts), 0.7)).tolist(), strict=True))
        error = 0.0
        for clique in cliques:
            squares = 0.0
            for part in (part for part in parts if set(part) <= set(clique)):
                cells, freedom = DOMAIN.size(part), math.prod(size - 1 for size in DOMAIN.shape(part))
                precision = budget * shares[part] * cells / freedom
                squares += freedom * cells / DOMAIN.size(clique) / (cells / ROWS + precision)
            error += math.sqrt(2 / math.pi) * math.sqrt(DOMAIN.size(clique) * squares) / ROWS / len(cliques)
        errors.append(error)
    assert bound.gap <= GAP
    assert (1 - bound.gap) * bound.least <= min(errors) <= 1.2 * bound.least
    assert bound.least < min(bound.population, bound.unbiased)
