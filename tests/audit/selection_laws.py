"""Selections, draws and acceptance bits against their exact chances, written here without the kernel."""

from __future__ import annotations

import math
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.polynomial import polynomial
from numpy.typing import NDArray
from scipy.stats import chi2, ncx2

from dpcore.kernel import bernoulli, weighted_sampler
from dpcore.kernel.budget import Budget, Currency
from dpcore.kernel.log_weights import LogWeights
from dpcore.kernel.noisy_maximum import noisy_argmax
from dpcore.kernel.sensitivity import Neighbours
from dpcore.kernel.weighted_sampler import SlotScores, UnitCounts
from dpcore.testing.doubles import private_statistics
from tests.audit.section import Row, Size
from tests.support import laws
from tests.support.tilts import with_prior

TITLE = "Selections, draws and acceptance bits"
CLAIM = (
    "Each row is a chi-square test of the frequencies of one sampler against its exact chances; a right kernel fails "
    "some row less than once in 10^6 runs. The last column is the smallest error of the scale (of the slope or of the "
    "log-chances for sample and retain) that the row rejects with power 0.99, by the noncentral chi-square law. At "
    "1,000,000 draws and more it is at most 3 %. 'direct' calls the sampler that ships, 'verb' PrivateStatistics."
)
FAMILY: Final = 1e-6
POWER: Final = 0.99
_LEAST = 10.0  # Expected draws of a bin.
Counts = NDArray[np.int64]
Chances = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """A sampler and its law.

    draw: Frequencies [groups, outcomes] of this many draws in all; draws of a group sum to its number.
    law: Chances of the same shape, as a function of the factor by which the scale is off; 1 is the truth.
    found_by: Largest error of the scale that may slip through at the full size; None where the law has no freedom.
    """

    verb: str
    via: str
    name: str
    draws: int
    draw: Callable[[int], Counts]
    law: Callable[[float], Chances]
    found_by: float | None = 0.03


def permute_and_flip(scores: NDArray[np.float64], scale: float) -> Chances:
    """Exponential noise: e_i times the integral over t in [0, 1] of prod over j != i of (1 - t e_j).

    Visited in random order, i comes at a uniform time t and the others were visited before it with chance t, each of
    them refused with 1 - e_j; e = exp((score - largest) / scale).

    Source: McKenna and Sheldon (2020), section 3; Ding et al. (2021) for the equality with exponential noise.
    """
    take = np.exp((scores - scores.max()) / scale)
    chances = []
    for candidate, own in enumerate(take):
        refused = np.ones(1)
        for other in np.delete(take, candidate):
            refused = polynomial.polymul(refused, [1.0, -other])
        chances.append(own * polynomial.polyval(1.0, polynomial.polyint(refused)))
    return np.array(chances)


def exponential_mechanism(scores: NDArray[np.float64], scale: float) -> Chances:
    """Gumbel noise takes candidate i with a chance proportional to exp(score / scale)."""
    weights = np.exp((scores - scores.max()) / scale)
    return np.asarray(weights / weights.sum())


_TWO_40 = 2**40
# Scores, scale, draws at the full and the fast size, largest error of the scale that may slip through.
SCORES: Final[dict[str, tuple[list[int], float, tuple[int, int], float | None]]] = {
    "8 candidates, ties, scores of +-2^40": (
        [-_TWO_40, -_TWO_40 // 2, 0, 0, _TWO_40 // 2, _TWO_40 // 8 * 7, _TWO_40, _TWO_40],
        _TWO_40 / 2,
        (1_000_000, 4_000),
        0.03,
    ),
    "8 candidates": ([0, 8, 16, 24, 30, 33, 35, 40], 10.0, (1_000_000, 4_000), 0.03),
    "ties alone": ([0, 0, 0, 5, 5, 9, 9, 9], 4.0, (1_000_000, 4_000), 0.03),
    "a gap of 2^41 scales": ([-_TWO_40, 0, _TWO_40], 1.0, (100_000, 200), None),
    "one candidate": ([7], 1.0, (100_000, 200), None),
}
LAW = {Currency.PURE: permute_and_flip, Currency.ZCDP: exponential_mechanism, Currency.GDP: exponential_mechanism}


def _selections(size: Size) -> Iterator[Case]:
    for currency in (Currency.PURE, Currency.ZCDP):
        for name, (scores, scale, draws, found_by) in SCORES.items():

            def draw(n: int, scores: list[int] = scores, currency: Currency = currency, scale: float = scale) -> Counts:
                values = np.array(scores, dtype=np.int64)
                chosen = [noisy_argmax(values, currency, scale) for _ in range(n)]
                return np.bincount(chosen, minlength=len(scores))[None, :]

            def law(factor: float, s: list[int] = scores, currency: Currency = currency, b: float = scale) -> Chances:
                return LAW[currency](np.array(s, dtype=np.float64), b * factor)[None, :]

            noise = "exponential noise" if currency is Currency.PURE else "Gumbel noise"
            made = draws[0] if size is Size.FULL else draws[1]
            yield Case("select", f"direct, {noise}", name, made, draw, law, found_by)


def _selections_by_verb(size: Size) -> Iterator[Case]:
    for currency in Currency:

        def draw(n: int, currency: Currency = currency) -> Counts:
            return laws.selections(currency, Neighbours.REPLACE_ONE_UNIT, 3, n)[None, :]

        def law(factor: float, currency: Currency = currency) -> Chances:
            return LAW[currency](laws.GAPS, laws.SCORE_SCALE * factor)[None, :]

        draws = 200_000 if size is Size.FULL else 3_000
        yield Case("select", f"verb, {currency.name}", "5 candidates, 3 rows a unit", draws, draw, law, 0.04)


def _samples(size: Size) -> Iterator[Case]:
    draws = 1_000_000 if size is Size.FULL else 40_000
    for n0 in (10, 30, 50):
        name = f"8 slots, 30 units counted as {n0}"

        def draw(n: int, n0: int = n0) -> Counts:
            return laws.sampled(n0, n)[0][None, :]

        def law(factor: float, n0: int = n0) -> Chances:
            return _normalised(float(laws.SLOPE) * factor * laws.shares(n0) + laws.OFFSETS)

        yield Case("sample", "verb", name, draws, draw, law)
    tilt = LogWeights(
        150.0, np.array([0, 1, 0, 0, 0, 2, 0, 18]), 18, np.array([0.0, 0.0, -1e-300, -1, -3.5, -19.25, 2, 0])
    )

    def extreme(n: int) -> Counts:
        scores, exact = SlotScores.up_to_a_factor(Fraction(0), tilt, 1), UnitCounts(np.zeros(8, dtype=np.int32), 1)
        return np.bincount(weighted_sampler.draw(scores, exact, n), minlength=16)[None, :]

    yield Case("sample", "direct", "log-weights of 2 to -2700", draws, extreme,
               lambda factor: _normalised(tilt.log_weights() * factor))  # fmt: skip
    many = 2000  # Blocks, the last of them short.
    steps = LogWeights(0.5, np.arange(many) % 4, 3)

    def in_blocks(n: int) -> Counts:
        counts = np.arange(many, dtype=np.int32)
        drawn = weighted_sampler.draw(SlotScores.up_to_a_factor(laws.SLOPE, steps, many), UnitCounts(counts, many), n)
        return np.bincount(drawn, minlength=2 * many).reshape(-1, 40).sum(axis=1)[None, :]

    def of_blocks(factor: float) -> Chances:
        shares = np.concatenate([np.arange(many), many - np.arange(many)]) / many
        chances = _normalised(float(laws.SLOPE) * factor * shares + steps.log_weights())
        return np.asarray(chances.reshape(-1, 40).sum(axis=1))[None, :]

    yield Case("sample", "direct", "4,000 slots in 32 blocks, counted in 100 runs of 40", draws, in_blocks, of_blocks)


def _bits(size: Size) -> Iterator[Case]:
    draws = 2_000_000 if size is Size.FULL else 40_000
    for n0 in (10, 30, 50):
        name = f"8 indices, 30 units counted as {n0}"

        def draw(n: int, n0: int = n0) -> Counts:
            private = private_statistics(laws.BASKETS, Budget.pure(10**9))
            drawn = np.tile(np.arange(8), n // 8)
            kept = private.retain(laws.QUERIES, drawn, laws.SLOPE, replace(laws.TILT, constant=-3.6), n0)
            accepted = np.bincount(drawn, weights=kept, minlength=8).astype(np.int64)
            return np.stack([accepted, n // 8 - accepted], axis=1)

        def law(factor: float, n0: int = n0) -> Chances:
            return _with_rest(np.exp(float(laws.SLOPE) * factor * laws.shares(n0) + laws.OFFSETS - 3.6))

        yield Case("retain", "verb", name, draws, draw, law)
    powers = np.array([-(2.0**-20), -0.5, -1.0, -2.25, -12.0, -33.0, -34.5, -1000.0])
    tilt = with_prior((powers * math.log(2.0)).tolist())

    def extreme(n: int) -> Counts:
        scores, exact = SlotScores.of(Fraction(0), tilt, 1), UnitCounts(np.zeros(8, dtype=np.int32), 1)
        weights = weighted_sampler.split_weights(scores, exact, np.tile(np.arange(8), n // 8))
        accepted = bernoulli.bits(*weights).reshape(-1, 8).sum(axis=0)
        return np.stack([accepted, n // 8 - accepted], axis=1)

    yield Case("retain", "direct", "chances of 1 - 2^-20.5 to 2^-1000", draws, extreme,
               lambda factor: _with_rest(2.0 ** (powers * factor)))  # fmt: skip


def cases(size: Size) -> list[Case]:
    return [*_selections(size), *_selections_by_verb(size), *_samples(size), *_bits(size)]


def run(size: Size) -> Sequence[Row]:
    every = cases(size)
    if size is Size.FAST:
        counts = [case.draw(case.draws) for case in every]
    else:
        with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
            counts = list(pool.map(_frequencies, range(len(every))))
    return [row_of(case, found, FAMILY / len(every), size, 1.0) for case, found in zip(every, counts, strict=True)]


def _frequencies(number: int) -> Counts:
    """Draws of one case at the full size, in a process of its own."""
    case = cases(Size.FULL)[number]
    return case.draw(case.draws)


def row_of(case: Case, counts: Counts, level: float, size: Size, factor: float) -> Row:
    """One line. factor: By how much the assumed scale is off, for tests that plant a wrong law."""
    found, p = smallest_error_found(case, counts, level), p_value(counts, case.law(factor))
    free = case.found_by is not None
    cells = {
        "verb": case.verb,
        "through": case.via,
        "case": case.name,
        "draws": int(counts.sum()),
        "p-value": p,
        "finds an error of": f"{100 * found:.2g} %" if free else "any other outcome",
    }
    sharp = size is Size.FAST or not free or found <= (case.found_by or 0)
    return Row(cells, bool(p >= level and sharp))


def p_value(counts: Counts, chances: Chances) -> float:
    """Chance of frequencies at least this far from their law; an outcome that cannot be gives 0."""
    expected = chances * counts.sum(axis=1, keepdims=True)
    if ((expected < 1e-9) & (counts > 0)).any():
        return 0.0
    statistic, freedom = 0.0, 0
    for seen, wanted in zip(counts, expected, strict=True):
        bins = _bins(wanted)
        found, mean = np.bincount(bins, seen), np.bincount(bins, wanted)
        statistic += float(((found - mean) ** 2 / mean).sum())
        freedom += len(mean) - 1
    return float(chi2.sf(statistic, freedom)) if freedom else 1.0


def smallest_error_found(case: Case, counts: Counts, level: float) -> float:
    """The smallest e > 0 for which a scale 1 + e times too large is rejected at ``level`` with POWER."""
    sizes, low, high = counts.sum(axis=1, keepdims=True), 0.0, 1.0
    if case.found_by is None:
        return 0.0
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (low, middle) if _power(case, sizes, middle, level) >= POWER else (middle, high)
    return high


def _power(case: Case, sizes: Counts, error: float, level: float) -> float:
    distance, freedom = 0.0, 0
    for true, wrong in zip(case.law(1.0) * sizes, case.law(1 + error) * sizes, strict=True):
        bins = _bins(wrong)
        mean, assumed = np.bincount(bins, true), np.bincount(bins, wrong)
        distance += float(((mean - assumed) ** 2 / assumed).sum())
        freedom += len(mean) - 1
    return float(ncx2.sf(chi2.isf(level, freedom), freedom, distance))


def _bins(expected: NDArray[np.float64]) -> NDArray[np.intp]:
    """Bin of each outcome: the rarest share one until it expects enough draws."""
    order = np.argsort(expected)
    reached = np.cumsum(expected[order])
    bins = np.empty(len(expected), dtype=np.intp)
    bins[order] = np.maximum(0, np.arange(len(expected)) - int(np.searchsorted(reached, _LEAST)))
    return bins


def _normalised(log_weights: NDArray[np.float64]) -> Chances:
    weights = np.exp(log_weights - log_weights.max())
    return np.asarray(weights / weights.sum())[None, :]


def _with_rest(chances: NDArray[np.float64]) -> Chances:
    return np.stack([chances, 1 - chances], axis=1)
