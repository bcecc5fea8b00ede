"""Noise of ``measure`` against its exact law, for each currency, neighbour relation and number of rows a unit.

Each case draws 4,000 values and fails by chance once in 10^7. A scale 30 % off gives a noncentrality above 200 at no
more than 20 degrees of freedom, where the limit for 10^-7 is 72: it slips through once in 10^10.
"""

from __future__ import annotations

import pytest

from dpcore.kernel.budget import Currency
from dpcore.kernel.sensitivity import Neighbours
from tests.support.laws import (
    REJECT_BELOW,
    WRONG_BY,
    conjunction_noise,
    marginal_noise,
    neighbour_z,
    noise_p_value,
)

DRAWS = 4000


@pytest.mark.false_alarm(2e-7)
@pytest.mark.smoke(3)
@pytest.mark.parametrize("currency", list(Currency))
@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("cliques", [1, 2])
def test_the_noise_of_marginals(currency: Currency, neighbours: Neighbours, rows: int, cliques: int) -> None:
    draws, scale = marginal_noise(currency, neighbours, rows, cliques, DRAWS)
    assert noise_p_value(draws, currency, scale) > REJECT_BELOW
    assert noise_p_value(draws, currency, scale * (1 - WRONG_BY)) < REJECT_BELOW
    assert noise_p_value(draws, currency, scale * (1 + WRONG_BY)) < REJECT_BELOW
    assert abs(neighbour_z(draws)) < 5.5  # 4e-8 by chance.


@pytest.mark.false_alarm(1.1e-7)
@pytest.mark.smoke(1)
@pytest.mark.parametrize("currency", list(Currency))
@pytest.mark.parametrize("rows", [1, 3])
def test_the_noise_of_conjunctions(currency: Currency, rows: int) -> None:
    draws, scale = conjunction_noise(currency, rows, DRAWS)
    assert noise_p_value(draws, currency, scale) > REJECT_BELOW
    assert noise_p_value(draws, currency, scale * (1 - WRONG_BY)) < REJECT_BELOW
    assert noise_p_value(draws, currency, scale * (1 + WRONG_BY)) < REJECT_BELOW


@pytest.mark.false_alarm(1e-9)
def test_each_law_is_told_from_the_other() -> None:
    """A Laplace and a Gaussian of one standard deviation differ in shape."""
    draws, scale = marginal_noise(Currency.PURE, Neighbours.ADD_REMOVE_UNIT, 3, 1, DRAWS)
    assert noise_p_value(draws, Currency.ZCDP, scale * 2**0.5) < REJECT_BELOW
    draws, scale = marginal_noise(Currency.ZCDP, Neighbours.REPLACE_ONE_UNIT, 3, 1, DRAWS)
    assert noise_p_value(draws, Currency.PURE, scale / 2**0.5) < REJECT_BELOW
    draws, scale = marginal_noise(Currency.GDP, Neighbours.REPLACE_ONE_UNIT, 3, 1, DRAWS)
    assert noise_p_value(draws, Currency.ZCDP, scale) < REJECT_BELOW  # Not on whole counts.
    assert noise_p_value(draws.round(), Currency.PURE, scale / 2**0.5) < REJECT_BELOW
