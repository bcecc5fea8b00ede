"""``select`` against its exact law over five candidates.

Each case makes 4,000 selections and fails by chance once in 10^7. A scale 30 % off gives a noncentrality above 120 at
4 degrees of freedom, where the limit for 10^-7 is 38: each of the two slips through with chance 4e-7.
"""

from __future__ import annotations

import pytest

from dpcore.kernel.budget import Currency
from dpcore.kernel.sensitivity import Neighbours
from tests.support.laws import REJECT_BELOW, SCORE_SCALE, WRONG_BY, p_value, selection_law, selections

DRAWS = 4000


@pytest.mark.false_alarm(9e-7)
@pytest.mark.smoke(1)
@pytest.mark.parametrize("currency", list(Currency))
@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("rows", [1, 3])
def test_the_law_of_a_selection(currency: Currency, neighbours: Neighbours, rows: int) -> None:
    counts = selections(currency, neighbours, rows, DRAWS)
    assert p_value(counts, selection_law(currency, SCORE_SCALE)) > REJECT_BELOW
    assert p_value(counts, selection_law(currency, SCORE_SCALE * (1 - WRONG_BY))) < REJECT_BELOW
    assert p_value(counts, selection_law(currency, SCORE_SCALE * (1 + WRONG_BY))) < REJECT_BELOW
