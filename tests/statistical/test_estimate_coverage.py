"""Intervals of estimates cover the exact answers on average over the queries of a release, and discoveries are real.

Over 12 releases of each made dataset, the mean coverage is 0.994 to 0.999, and its standard deviation between releases
at most 0.005: a mean below the promised 0.95 would be 30 standard errors away. Power: intervals of a third of the width
cover less than 0.95. False discoveries: 0.1 is the largest expected part in each release; of 12 releases together, a
part above 0.25 would be more than 5 standard deviations away with 100 discoveries, which all datasets have, and
uncorrected p-values below 0.1 would pass it where most answers are 0.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpcore.domain import BinaryView
from dpcore.exact_statistics import QueryAnswers
from dpcore.kernel.budget import Budget, Currency
from dpcore.mechanisms.clipping.clipped_gaussian import ClippedGaussian
from dpcore.queries.generation import random_conjunctions
from dpcore.testing.doubles import ADD_REMOVE, private_statistics
from dpcore.testing.tiny_statistics import TinyBaskets
from dpcore.workload import conjunctive

RUNS, UNITS, ITEMS = 12, 3000, 60
BUDGETS = {Currency.PURE: Fraction(4), Currency.GDP: Fraction(2)}


def baskets(spread: float, popular: float, rate: float) -> TinyBaskets:
    """spread: Of the logarithm of unit activity. popular: How fast popularity falls. rate: Of the most popular item."""
    draw = np.random.default_rng(5)
    activity = np.exp(draw.normal(0.0, spread, UNITS))
    rates = rate * np.exp(-np.arange(ITEMS) * popular)
    return TinyBaskets(BinaryView(ITEMS), draw.random((UNITS, ITEMS)) < -np.expm1(-np.outer(activity, rates)))


DATA = {"sparse": baskets(0.8, 0.12, 0.3), "even": baskets(0.3, 0.01, 0.1), "heavy": baskets(1.3, 0.06, 0.3)}


@pytest.mark.false_alarm(1e-6)
@pytest.mark.smoke(2)
@pytest.mark.parametrize("currency", list(BUDGETS))
@pytest.mark.parametrize("name", list(DATA))
def test_intervals_cover_and_discoveries_are_real(name: str, currency: Currency) -> None:
    data = DATA[name]
    queries = random_conjunctions(data.view, 1500, 2, np.random.default_rng(1))
    exact = data.aggregate(QueryAnswers(queries))
    coverage, narrow, discoveries, false_discoveries = [], [], 0, 0
    for run in range(RUNS):
        private = private_statistics(data, Budget(currency, BUDGETS[currency]), neighbours=ADD_REMOVE)
        release = ClippedGaussian().run(private, conjunctive(queries), generator=np.random.default_rng(run))
        answers = release.answers
        assert answers.estimation is not None
        coverage.append(np.mean((answers.lower <= exact) & (exact <= answers.upper)))
        low = answers.values - (answers.values - answers.lower) / 3
        high = answers.values + (answers.upper - answers.values) / 3
        narrow.append(np.mean((low <= exact) & (exact <= high)))
        discovered = answers.estimation.q_values <= 0.1
        discoveries += int(discovered.sum())
        false_discoveries += int((discovered & (exact == 0)).sum())
    assert np.mean(coverage) >= 0.95
    assert np.mean(narrow) < 0.95
    assert discoveries >= 100
    assert false_discoveries <= 0.25 * discoveries
