"""The probability law of generated baskets: how active each user is, and which films are popular with which users.

The law imitates the published Netflix data. The number of films per user is log-normal (median 96, sigma 1.25, at full
scale), the number of users per film decays like exp(-8.33 x^0.465) with its relative rank x in [0, 1], and 8 tastes
correlate users with films. User u has film j with probability 1 - exp(-8 a_u p_j <taste_u, genre_j>), independently of
everything else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpcore.errors import ConfigError
from pipelines.generate.checks import want_at_least

TASTES = 8
_SIGMA = 1.25
_DECAY, _POWER = 8.33, 0.465
_LARGEST_USER = 17_000 / 17_770  # Largest fraction of the films that one user has.
# Largest fraction of the users that have the same film. It binds only for smaller data, where
# otherwise the most popular films would be in nearly every basket.
_LARGEST_FILM = 232_944 / 480_189
_DENSEST = 0.25
_PASSES = 30
_SAMPLED_USERS = 4_000
_ROWS_AT_ONCE = 64


@dataclass(frozen=True, eq=False)
class BasketLaw:
    """A fitted law: user u has film j with probability 1 - exp(-activity[u] * <taste_u, rates[:, j]>).

    activity: Activity a_u of each user, float64 [users]; users are in random order.
    rates: 8 p_j genre_j of each film, float64 [TASTES, films]; films are in random order.
    """

    activity: NDArray[np.float64]
    rates: NDArray[np.float64]

    @property
    def users(self) -> int:
        """Number of users."""
        return len(self.activity)

    @property
    def films(self) -> int:
        """Number of films."""
        return int(self.rates.shape[1])


def fit_law(*, users: int, films: int, pairs: int, generator: np.random.Generator) -> BasketLaw:
    """Fits the law to the given sizes.

    users: Number of users, at least 1.
    films: Number of films, at least 1.
    pairs: Expected number of pairs, at most a quarter of users x films. Tastes lower it by one or two per cent.
    generator: Random generator of the genres and of the order of ids.

    Raises: ConfigError when a size is out of range.
    """
    want_at_least(1, users=users, films=films, pairs=pairs)
    if pairs > _DENSEST * users * films:
        raise ConfigError(
            f"pairs is {pairs:,}; want at most a quarter of users x films: {int(_DENSEST * users * films):,}"
        )
    # Quantiles are used instead of draws, so that the sizes are the same for every seed.
    wanted_of_user = _scaled(np.exp(_SIGMA * ndtri(_midpoints(users))), pairs, _LARGEST_USER * films)
    wanted_of_film = _scaled(np.exp(-_DECAY * _midpoints(films) ** _POWER), pairs, _LARGEST_FILM * users)
    sampled = _sample(wanted_of_user)
    sampled_activity, popularity = _fixed_point(sampled * (pairs / users / sampled.mean()), wanted_of_film / users)
    # Users above the largest sampled one get its activity, because the interpolation does not extrapolate.
    activity = np.exp(np.interp(np.log(wanted_of_user), np.log(sampled), np.log(sampled_activity)))
    genres = generator.dirichlet(np.full(TASTES, 0.5), size=films)
    rates = TASTES * popularity * genres.T
    return BasketLaw(generator.permutation(activity), generator.permutation(rates, axis=1))


def draw_tastes(users: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """Tastes of ``users`` users, float64 [users, TASTES], uniform on the simplex."""
    return generator.dirichlet(np.ones(TASTES), size=users)


def _midpoints(count: int) -> NDArray[np.float64]:
    """Midpoints of ``count`` equal parts of [0, 1], increasing."""
    return (np.arange(count) + 0.5) / count


def _scaled(shape: NDArray[np.float64], total: float, largest: float) -> NDArray[np.float64]:
    """``shape`` times a constant, capped at ``largest``, so that the sum is ``total``."""
    low, high = 0.0, 1.0
    while np.minimum(high * shape, largest).sum() < total:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if np.minimum(middle * shape, largest).sum() >= total else (middle, high)
    return np.minimum(high * shape, largest)


def _sample(ordered: NDArray[np.float64]) -> NDArray[np.float64]:
    """At most _SAMPLED_USERS of the ordered values, evenly spaced and starting with the smallest."""
    count = min(_SAMPLED_USERS, len(ordered))
    return ordered[np.arange(count) * len(ordered) // count]


def _fixed_point(
    of_user: NDArray[np.float64], of_film: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Solves sum_j 1 - exp(-a_u p_j) = of_user[u] and mean_u 1 - exp(-a_u p_j) = of_film[j] by alternate scaling.

    Returns: Activity a and popularity p.
    """
    activity = of_user / of_film.sum()
    popularity = of_film.copy()
    for _ in range(_PASSES):
        activity *= of_user / _expected(activity, popularity)[0]
        popularity *= of_film * len(of_user) / _expected(activity, popularity)[1]
    return activity, popularity


def _expected(
    activity: NDArray[np.float64], popularity: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sums over films and over users of 1 - exp(-a_u p_j), in float32, because most of the time is spent here.

    Returns: Expected films of each user, float64 [users]; and expected users of each film, float64 [films].
    """
    factors = popularity.astype(np.float32)
    of_user = np.empty(len(activity))
    of_film = np.zeros(len(popularity))
    for start in range(0, len(activity), _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        held = np.multiply.outer(-activity[rows].astype(np.float32), factors)
        np.exp(held, out=held)
        np.subtract(1, held, out=held)
        of_user[rows] = held.sum(axis=1)
        of_film += held.sum(axis=0)
    return of_user, of_film
