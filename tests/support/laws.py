"""The laws that the kernel's answers must follow, from formulas written without it, and tests of draws against them.

Every p-value is that of a chi-square test over about BINS bins that expect at least ten draws each.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import permutations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2, norm

from dpcore.domain import BinaryView, Domain
from dpcore.exact_statistics import QueryAnswers
from dpcore.kernel.budget import Budget, Currency
from dpcore.kernel.log_weights import LogWeights
from dpcore.kernel.privacy_terms import bounded_range_cost
from dpcore.kernel.scores import L1Error
from dpcore.kernel.sensitivity import Neighbours
from dpcore.measurement import GRID_BITS
from dpcore.queries import Conjunctions, Marginals
from dpcore.testing.doubles import REPLACE, private_statistics
from dpcore.testing.tiny_statistics import TinyBaskets, TinyTable

REJECT_BELOW = 1e-7  # Chance that a right kernel fails one check.
WRONG_BY = 0.3  # A scale this far off must be rejected.
BINS = 24  # More bins would spread the power of the test too thin.

Law = Callable[[float], NDArray[np.float64]]


def p_value(counts: NDArray[np.int64], chances: NDArray[np.float64]) -> float:
    """Chance of counts at least this far from their law; neighbouring values share a bin."""
    wanted = chances / chances.sum() * counts.sum()
    found, expected = np.add.reduceat(counts, _bins(wanted)), np.add.reduceat(wanted, _bins(wanted))
    return float(chi2.sf(((found - expected) ** 2 / expected).sum(), len(found) - 1))


def _bins(wanted: NDArray[np.float64]) -> list[int]:
    """Where each bin starts; the last ones merge when what is left would be too small."""
    least = max(10.0, wanted.sum() / BINS)
    starts, held = [0], 0.0
    for index, more in enumerate(wanted[:-1]):
        held += more
        if held >= least and wanted[index + 1 :].sum() >= least:
            starts.append(index + 1)
            held = 0.0
    return starts


def noise_p_value(draws: NDArray[np.float64], currency: Currency, scale: float) -> float:
    """Draws in counts against exp(-|z| / scale) (pure) or exp(-z^2 / (2 scale^2)) (zCDP) on the integers.

    Gaussian DP: against N(0, scale^2) rounded to multiples of 2^-GRID_BITS.
    """
    if currency is Currency.GDP:
        return _rounded_gaussian_p_value(draws, scale)
    if (draws != np.rint(draws)).any():
        return 0.0
    draws = draws.astype(np.int64)
    reach = math.ceil(40 * scale) + 2
    if np.abs(draws).max() > reach:
        return 0.0
    z = np.arange(-reach, reach + 1)
    energy = np.abs(z) / scale if currency is Currency.PURE else z**2 / (2 * scale**2)
    with np.errstate(under="ignore"):
        return p_value(np.bincount(draws + reach, minlength=z.size), np.exp(-energy))


def _rounded_gaussian_p_value(draws: NDArray[np.float64], scale: float) -> float:
    steps = draws * 2**GRID_BITS
    if (steps != np.rint(steps)).any() or np.abs(draws).max() > 12 * scale + 1:
        return 0.0
    # Quantile bins of the continuous law, whose ends move by less than a step: the law is summed between them exactly.
    ends = np.unique(np.ceil(norm.ppf(np.arange(1, BINS) / BINS) * scale * 2**GRID_BITS))
    chances = np.diff(norm.cdf((np.concatenate([[-np.inf], ends, [np.inf]]) - 0.5) / (scale * 2**GRID_BITS)))
    found = np.bincount(np.searchsorted(ends, steps, side="right"), minlength=len(chances))
    wanted = chances * len(draws)
    return float(chi2.sf(((found - wanted) ** 2 / wanted).sum(), len(chances) - 1))


def neighbour_z(draws: NDArray[np.float64]) -> float:
    """Correlation of a draw with the next, in standard deviations of independent draws."""
    centred = draws - draws.mean()
    return float((centred[1:] * centred[:-1]).sum() / (centred**2).sum() * math.sqrt(len(draws)))


def marginal_noise(
    currency: Currency, neighbours: Neighbours, rows: int, cliques: int, cells: int
) -> tuple[NDArray[np.float64], float]:
    """Noise of measuring ``cliques`` marginals at once, and the scale it must have.

    The budget is 1/2. Adding a unit moves each marginal by ``rows`` counts in one cell, replacing it in two, so
    L1 is f c r and the square of L2 is f c r^2 with f = 1 or 2:
    b = L1 / epsilon, sigma^2 = L2^2 / (2 rho) or L2^2 / mu^2.
    """
    domain = Domain.of({f"x{i}": cells // cliques for i in range(cliques)})
    queries = Marginals(domain, tuple((name,) for name in domain.names))
    table = TinyTable(domain, np.tile(np.arange(6)[:, None] % (cells // cliques), (1, cliques)), rows)
    private = private_statistics(
        table,
        Budget(currency, Fraction(1, 2)),
        neighbours=neighbours,
        units=6 // rows if neighbours is REPLACE else None,
    )
    draws = private.measure(queries, Fraction(1)).values - table.aggregate(QueryAnswers(queries))
    factor = cliques * (2 if neighbours is REPLACE else 1)
    if currency is Currency.PURE:
        return draws, 2.0 * factor * rows
    return draws, math.sqrt(factor * (2 if currency is Currency.GDP else 1)) * rows


ERROR_SCALE = 50  # Steps of 1/256 counts.


def error_noise(currency: Currency, neighbours: Neighbours, rows: int, errors: int) -> NDArray[np.float64]:
    """Noise of as many L1 errors in one call, in steps of 1/256, for a budget that buys the scale ``ERROR_SCALE``.

    A unit moves each of the c errors by d = f r counts, 256 f r steps, f = 1 or 2: L1 is c d, the square of L2 c d^2.
    """
    domain = Domain.of({"x": 2})
    table = TinyTable(domain, np.zeros((6, 1), dtype=np.int64), rows)
    moved = 256 * rows * (2 if neighbours is REPLACE else 1)
    squares = Fraction(errors * moved**2, ERROR_SCALE**2)
    cost = {Currency.PURE: Fraction(errors * moved, ERROR_SCALE), Currency.ZCDP: squares / 2, Currency.GDP: squares}
    private = private_statistics(
        table,
        Budget(currency, cost[currency]),
        neighbours=neighbours,
        units=6 // rows if neighbours is REPLACE else None,
    )
    asked = Marginals(domain, (("x",),) * errors)
    return (private.measure_errors(asked, np.zeros(asked.size), Fraction(1)).values - 6) * 256


def conjunction_noise(currency: Currency, rows: int, count: int) -> tuple[NDArray[np.float64], float]:
    """Noise of ``count`` copies of one conjunction of a table: a unit moves each by ``rows``; the budget is count."""
    view = BinaryView.one_hot(Domain.of({"a": 2, "b": 2}))
    queries = Conjunctions(
        view, np.tile(np.array([0, 2], dtype=np.int32), (count, 1)), np.zeros((count, 2), dtype=bool)
    )
    table = TinyTable(Domain.of({"a": 2, "b": 2}), np.zeros((6, 2), dtype=np.int64), rows)
    private = private_statistics(table, Budget(currency, Fraction(count)))
    draws = private.measure(queries, Fraction(1)).values - 6
    return draws, rows / math.sqrt(2) if currency is Currency.ZCDP else float(rows)


GAPS = np.array([0.0, 8.0, 16.0, 24.0, 30.0])  # Scores of five candidates, in counts.
SCORE_SCALE = 10.0  # Counts by which a lead multiplies a chance by e.


def selections(currency: Currency, neighbours: Neighbours, rows: int, draws: int) -> NDArray[np.int64]:
    """How often each of five marginals is selected.

    Each selection costs epsilon = 2 s / SCORE_SCALE for the sensitivity s = f r of an L1 distance, or epsilon^2 / 8 as
    rho, so that its law is that of ``selection_law(currency, SCORE_SCALE)`` for every privacy unit.
    """
    domain = Domain.of({f"x{i}": 2 for i in range(5)})
    queries = Marginals(domain, tuple((name,) for name in domain.names))
    table = TinyTable(domain, np.zeros((60, 5), dtype=np.int64), rows)
    epsilon = Fraction(2 * rows * (2 if neighbours is REPLACE else 1), 10)
    cost = bounded_range_cost(currency, epsilon)
    private = private_statistics(
        table,
        Budget(currency, draws * cost),
        neighbours=neighbours,
        units=60 // rows if neighbours is REPLACE else None,
    )
    # Every distance from the empty estimate is 60, so the penalties alone make the scores.
    score = L1Error(np.zeros(10), np.ones(5), 60 - GAPS)
    chosen = [private.select(queries, score, Fraction(1, draws)) for _ in range(draws)]
    return np.bincount(chosen, minlength=5)


def selection_law(currency: Currency, scale: float) -> NDArray[np.float64]:
    """zCDP and Gaussian DP: the exponential mechanism, Gumbel noise. Pure: permute-and-flip, exponential noise.

    Source of permute-and-flip: McKenna and Sheldon (2020).

    Permute-and-flip visits candidates in random order and takes one with chance exp((score - largest) / scale).
    """
    if currency is not Currency.PURE:
        return np.asarray(np.exp(GAPS / scale))
    take = np.exp((GAPS - GAPS.max()) / scale)
    chances = np.zeros(len(GAPS))
    for order in permutations(range(len(GAPS))):
        left = 1.0
        for candidate in order:
            chances[candidate] += left * take[candidate]
            left *= 1 - take[candidate]
    return chances


SLOPE = Fraction(5, 2)
TILT = LogWeights(0.4, np.array([0, 3, 1, 2]), 3, np.array([0.1, 0.5, -0.7, 0.3]))
OFFSETS = np.array([0.1, -0.7, -1.1, -0.5, -1.1, 0.5, -1.5, -0.1])  # prior - 0.4 * hits, of queries and complements.
_HELD = np.concatenate(
    [np.arange(30)[:, None] % np.array([2, 3, 5, 29]) == 0, np.ones((30, 1), dtype=np.bool_)], axis=1
)
BASKETS = TinyBaskets(BinaryView(5), _HELD, 5)
QUERIES = Conjunctions(
    BASKETS.view,
    np.array([[0, 1], [1, 2], [2, 3], [3, 4]], dtype=np.int32),
    np.array([[False] * 2, [True, False], [True] * 2, [False] * 2]),
)


def sampled(
    n0: int, draws: int, slope: Fraction = SLOPE
) -> tuple[NDArray[np.int64], Callable[[float], NDArray[np.float64]]]:
    """How often each of four queries and their complements is drawn, and the law as a function of the slope.

    30 baskets; the chance of a query is proportional to exp(slope min(c, n0) / n0 + offset), and a complement counts
    the other baskets of the data, not of n0.
    """
    private = private_statistics(BASKETS, Budget.pure(10**9))
    counts = np.bincount(private.sample(QUERIES, slope, TILT, n0, draws), minlength=8)
    return counts, lambda assumed: np.asarray(np.exp(assumed * shares(n0) + OFFSETS))


def shares(n0: int) -> NDArray[np.float64]:
    """Share of each query and complement in n0 units, at most 1."""
    held = [
        sum(bool((row[c] != n).all()) for row in _HELD) for c, n in zip(QUERIES.columns, QUERIES.negated, strict=True)
    ]
    return np.array([min(c, n0) / n0 for c in [*held, *(30 - c for c in held)]])
