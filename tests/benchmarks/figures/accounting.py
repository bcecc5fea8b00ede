"""Number of rounds that the accounting of the DualQuery paper allows."""

from __future__ import annotations

import math


def epsilon_of_theorem(eta: float, samples: int, rounds: int, units: int, delta: float) -> float:
    """Epsilon of ``rounds`` rounds at delta, units fixed and one of them replaced.

    Source: full DualQuery paper, Theorem 4.3 (advanced composition; the first round costs nothing).
    """
    one = 2 * eta * (rounds - 1) / units
    draws = samples * (rounds - 1)
    return math.sqrt(2 * draws * math.log(1 / delta)) * one + draws * one * math.expm1(one)


def rounds_of_theorem(epsilon: float, eta: float, samples: int, units: int, delta: float) -> int:
    """The most rounds whose ``epsilon_of_theorem`` is at most epsilon; at least 1."""
    rounds = 1
    while epsilon_of_theorem(eta, samples, rounds + 1, units, delta) <= epsilon:
        rounds += 1
    return rounds
