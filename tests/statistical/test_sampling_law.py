"""``sample`` against exp(slope c / n0 + tilt) over queries and complements.

Each case makes 40,000 draws and fails by chance once in 10^7; a slope 30 % off gives a noncentrality
above 900 at 7 degrees of freedom, where the limit for 10^-7 is 45.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpcore.domain import BinaryView, Domain
from dpcore.kernel.budget import Budget
from dpcore.kernel.log_weights import LogWeights
from dpcore.queries import CountingQueries, Marginals, Parities
from dpcore.testing.doubles import private_statistics
from dpcore.testing.tiny_statistics import TinyTable
from tests.support.laws import OFFSETS, REJECT_BELOW, SLOPE, WRONG_BY, p_value, sampled

DRAWS = 40_000


@pytest.mark.false_alarm(1.1e-7)
@pytest.mark.smoke(1)
@pytest.mark.parametrize("n0", [10, 30, 50])
def test_the_law_of_a_draw(n0: int) -> None:
    """30 baskets: a noisy number of units may be smaller (counts are clamped) or larger."""
    counts, law = sampled(n0, DRAWS)
    assert p_value(counts, law(float(SLOPE))) > REJECT_BELOW
    assert p_value(counts, law(float(SLOPE) * (1 - WRONG_BY))) < REJECT_BELOW
    assert p_value(counts, law(float(SLOPE) * (1 + WRONG_BY))) < REJECT_BELOW


@pytest.mark.false_alarm(1.1e-7)
def test_a_negative_slope_prefers_what_is_rare() -> None:
    counts, law = sampled(30, DRAWS, -SLOPE)
    assert p_value(counts, law(-float(SLOPE))) > REJECT_BELOW
    assert p_value(counts, law(float(SLOPE))) < REJECT_BELOW


@pytest.mark.false_alarm(1.1e-7)
def test_without_slope_the_offsets_alone_decide() -> None:
    counts, _ = sampled(30, DRAWS, Fraction(0))
    assert p_value(counts, np.exp(OFFSETS)) > REJECT_BELOW
    assert p_value(counts, np.exp(OFFSETS * (1 - WRONG_BY))) < REJECT_BELOW
    assert p_value(counts, np.exp(OFFSETS * (1 + WRONG_BY))) < REJECT_BELOW


DOMAIN = Domain.of({"a": 2, "b": 3})
ROWS = np.array([[0, 0], [0, 1], [1, 2], [1, 2], [0, 2], [0, 2], [0, 2], [1, 0]])
CELLS = Marginals(DOMAIN, (("a",), ("b",), ("a", "b")))
COLUMNS = np.stack([ROWS[:, 0] == 0, ROWS[:, 0] == 1, *(ROWS[:, 1] == b for b in range(3))], axis=1)
SETS = ([0], [2], [0, 2], [0, 4], [0, 2, 3], [2, 3, 4])


@pytest.mark.false_alarm(1.1e-7)
@pytest.mark.parametrize("n0", [4, 8, 11])
@pytest.mark.parametrize("kind", ["cells", "parities"])
def test_cells_and_parities_are_drawn_with_their_complements(kind: str, n0: int) -> None:
    """8 rows: a complement counts the other rows, whatever n0 is."""
    queries: CountingQueries
    if kind == "cells":
        queries = CELLS
        counts = [*COLUMNS.sum(axis=0), *(sum(COLUMNS[:, a] & COLUMNS[:, b]) for a in range(2) for b in range(2, 5))]
    else:
        queries = Parities.of_sets(BinaryView.one_hot(DOMAIN), SETS)
        counts = [(COLUMNS[:, columns].sum(axis=1) % 2 == 0).sum() for columns in SETS]
    held = np.array(counts)
    hits = np.arange(queries.size) % 4
    tilt = LogWeights(0.3, hits, 3, np.linspace(-0.5, 0.5, queries.size))
    assert tilt.prior is not None
    offsets = np.concatenate([tilt.prior - 0.3 * hits, tilt.prior - 0.3 * (3 - hits)])
    shares = np.minimum(np.concatenate([held, 8 - held]), n0) / n0
    private = private_statistics(TinyTable(DOMAIN, ROWS), Budget.pure(10**9))
    drawn = np.bincount(private.sample(queries, SLOPE, tilt, n0, DRAWS), minlength=2 * queries.size)
    assert p_value(drawn, np.exp(float(SLOPE) * shares + offsets)) > REJECT_BELOW
    for factor in (1 - WRONG_BY, 1 + WRONG_BY):
        assert p_value(drawn, np.exp(float(SLOPE) * factor * shares + offsets)) < REJECT_BELOW
