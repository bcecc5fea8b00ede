"""Generated Netflix keeps the percentiles of its law at full size, within 10 %.

The law is fitted for all 480,189 users and 17,770 films; sizes of baskets are counted on drawn users, sizes of films
are expected values over users spread evenly over the activities: a full draw takes longer and says the same.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from pipelines.generate.basket_law import BasketLaw, draw_tastes, fit_law
from pipelines.generate.baskets import alias_tables, draw_baskets

USERS, FILMS, PAIRS = 480_189, 17_770, 100_480_507
PERCENTILES = (5, 25, 50, 75, 95, 99)
FILMS_OF_A_USER = (12, 41, 95, 220, 730, 1_715)
LARGEST_USER = 7_133
USERS_OF_A_FILM = (70, 163, 570, 2_950, 28_860, 85_545)
TOP_FILM = 0.449
WITHIN = 0.10
DRAWN_USERS = 16_384
SPREAD_USERS = 2_000


class Sizes(NamedTuple):
    of_users: np.ndarray
    of_films: np.ndarray
    largest_user: float


def sizes(law: BasketLaw) -> Sizes:
    generator = np.random.default_rng(2)
    units, _ = draw_baskets(law, alias_tables(law), 0, DRAWN_USERS, generator)
    spread = np.argsort(law.activity)[law.users // SPREAD_USERS // 2 :: law.users // SPREAD_USERS]
    chances = law.activity[spread, None] * (draw_tastes(len(spread), generator) @ law.rates)
    of_films = -np.expm1(-chances).sum(axis=0) * (law.users / len(spread))
    heaviest = -np.expm1(-law.activity.max() * (draw_tastes(100, generator) @ law.rates)).sum(axis=1).max()
    return Sizes(np.bincount(units, minlength=DRAWN_USERS), of_films, float(heaviest))


def keeps_the_percentiles(found: Sizes) -> bool:
    got = [
        *np.percentile(found.of_users, PERCENTILES),
        *np.percentile(found.of_films, PERCENTILES),
        found.largest_user,
        found.of_films.max() / USERS,
    ]
    return bool(np.allclose(got, [*FILMS_OF_A_USER, *USERS_OF_A_FILM, LARGEST_USER, TOP_FILM], rtol=WITHIN, atol=0))


@pytest.fixture(scope="module")
def law() -> BasketLaw:
    return fit_law(users=USERS, films=FILMS, pairs=PAIRS, generator=np.random.default_rng(3))


@pytest.mark.false_alarm(0)
def test_generated_netflix_keeps_the_percentiles(law: BasketLaw) -> None:
    assert keeps_the_percentiles(sizes(law))


@pytest.mark.false_alarm(0)
@pytest.mark.parametrize(("activity", "rates"), [(1.15, 1.0), (1.0, 0.85)], ids=["busier users", "rarer films"])
def test_a_law_that_is_off_is_noticed(law: BasketLaw, activity: float, rates: float) -> None:
    assert not keeps_the_percentiles(sizes(BasketLaw(law.activity * activity, law.rates * rates)))
