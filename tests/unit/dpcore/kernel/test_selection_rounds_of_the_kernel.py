"""What the kernel selects and measures keeps the bounds that the record of a round claims, in every currency."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dpcore.domain import Domain
from dpcore.estimation.graphical.confidence.selection_rounds import SelectionRound
from dpcore.kernel.budget import Budget
from dpcore.kernel.scores import GRID, L1Error
from dpcore.queries import Marginals
from dpcore.testing.doubles import private_statistics
from dpcore.testing.tiny_statistics import TinyTable
from tests.support.drawn_noise import one_table

DOMAIN = Domain.of({"a": 3, "b": 2, "c": 3})
CODES = np.random.default_rng(1).integers(0, (2, 2, 2), (60, 3))
CANDIDATES = Marginals(DOMAIN, (("a", "b"), ("b", "c"), ("a",), ("c",)))
WEIGHTS = np.array([2.5, 1.0, 4.0, 3.3])
TAIL = 0.2


@pytest.mark.parametrize("budget", [Budget.pure(4), Budget.zcdp(1), Budget.gdp(1)], ids=lambda one: one.currency.name)
@pytest.mark.parametrize("select", [Fraction(1, 50), Fraction(1, 2)])
def test_errors_are_within_their_bounds_as_often_as_asked(budget: Budget, select: Fraction) -> None:
    statistics = TinyTable(DOMAIN, CODES)
    before = one_table(DOMAIN, np.ones(DOMAIN.size()) * 60 / DOMAIN.size())
    estimate = before.answer(CANDIDATES)
    exact = np.concatenate([statistics._table(clique) for clique in CANDIDATES.cliques])
    truth = np.add.reduceat(np.abs(exact - estimate), np.cumsum([0, *CANDIDATES.sizes[:-1]]))
    score = L1Error(estimate, WEIGHTS, np.array([3.0, 2.0, 1.0, 0.0]))
    weights = score.public_parts()[1] * WEIGHTS.max() / GRID
    missed, close, draws = 0, 0, 150
    for _ in range(draws):
        private = private_statistics(statistics, budget)
        chosen = private.select(CANDIDATES, score, select)
        measurement = private.measure(CANDIDATES.only([CANDIDATES.cliques[chosen]]), Fraction(1, 2))
        scale = private.terms.select_scale(CANDIDATES, score, select) * score.step(CANDIDATES)
        one = SelectionRound(CANDIDATES, chosen, weights, score.penalties, before, scale, measurement)
        missed += bool((one.errors_before(TAIL) < truth).any())
        # A scale in units that are too large would give bounds far above what the best score allows.
        best = (weights * (truth - score.penalties)).max() + 12 * scale + 40 * weights.max()
        close += bool((one.errors_before(TAIL) <= best / weights + score.penalties + 1).all())
    assert missed <= draws * (TAIL + 4 * math.sqrt(TAIL / draws))
    assert close > draws / 2
