"""The laws that ``sample`` and ``retain`` draw from, as the integers that they are, between neighbours: no log-ratio
passes what is charged, and some come near. Nothing is drawn, and no float stands for a weight.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from numpy.random import Generator

from dpcore.exact_statistics import Contribution, Shape
from dpcore.kernel import privacy_terms as terms
from dpcore.kernel import weighted_sampler
from dpcore.kernel.acceptance_gaps import acceptance_gaps
from dpcore.kernel.budget import Budget
from dpcore.kernel.log_weights import LogWeights
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.sensitivity import Neighbours, PrivacyUnit
from dpcore.kernel.weighted_sampler import SlotScores, UnitCounts, split_weights
from dpcore.testing.doubles import ADD_REMOVE, REPLACE

PAIRS = 400
# The ratios below are rounded in their last steps alone.
ROUNDING = 1e-13


@dataclass(frozen=True, eq=False)
class Pair:
    """A request, and the counts of two neighbours; totals lie below, at and above the number of units."""

    slope: Fraction
    tilt: LogWeights
    total: int
    before: UnitCounts
    after: UnitCounts


def a_pair(draw: Generator, neighbours: Neighbours) -> Pair:
    size, units = int(draw.integers(1, 4)), int(draw.choice([1, 2, 1000, 2**31 - 1, 2**31, 2**40]))
    total = max(1, int(draw.choice([1, units - 1, units, 2 * units, 2**45])))
    done = int(draw.choice([0, 1, 100, 2**16, 2**31 - 1]))
    tilt = LogWeights(
        float(draw.random()) * 2800 / max(1, done),
        draw.integers(0, done + 1, size=size),
        done,
        draw.normal(size=size) * float(draw.choice([1e-9, 1, 100])) if draw.random() < 0.6 else None,
    )
    slope = Fraction(float(draw.choice([1e-12, 1e-3, 1.0, 50.0, 2000.0]))) * int(draw.choice([-1, 1]))
    rest, new, old = (draw.integers(0, most, size=size) for most in (units, 2, 2))
    if neighbours is ADD_REMOVE:
        return Pair(slope, tilt, total, counted(rest, units - 1), counted(rest + new, units))
    return Pair(slope, tilt, total, counted(rest + old, units), counted(rest + new, units))


def counted(counts: np.ndarray, units: int) -> UnitCounts:
    """As ``ExactAnswers`` keeps them."""
    return UnitCounts(counts.astype(np.int32 if units < 1 << 31 else np.int64), units)


def weights(scores: SlotScores, exact: UnitCounts) -> list[Fraction]:
    exponents, mantissas = split_weights(scores, exact, np.arange(2 * exact.counts.size))
    pairs = zip(exponents.tolist(), mantissas.tolist(), strict=True)
    return [Fraction(mantissa) * Fraction(2) ** (exponent - 30) for exponent, mantissa in pairs]


def log_ratio(after: Fraction, before: Fraction) -> float:
    ratio = after / before
    if abs(ratio - 1) < Fraction(1, 2):
        return math.log1p(float(ratio - 1))
    return math.log(ratio.numerator) - math.log(ratio.denominator)


def terms_of(pair: Pair, neighbours: Neighbours, budget: Budget) -> PrivacyTerms:
    units = pair.total if neighbours is REPLACE else None
    return PrivacyTerms(PrivacyUnit(neighbours, Contribution(Shape.BASKETS, 9), units), budget)


def of_draws(pair: Pair, neighbours: Neighbours) -> list[tuple[float, float]]:
    """Bounded range of a draw, and what it is charged as."""
    scores = SlotScores.up_to_a_factor(pair.slope, pair.tilt, pair.total)
    both = zip(weights(scores, pair.after), weights(scores, pair.before), strict=True)
    ratios = [log_ratio(after, before) for after, before in both]
    charged = terms_of(pair, neighbours, Budget.pure(1)).draws_amount(pair.slope, pair.total, 1)
    return [(max(ratios) - min(ratios), float(charged))]


def of_bits(pair: Pair, neighbours: Neighbours) -> list[tuple[float, float]]:
    """Largest loss and range of the bit of each index, for a gap between hardly anything and much."""
    tilt, found = pair.tilt, []
    gap = [2.0**-19, 1e-4, 0.3, 5.0, 300.0][pair.tilt.size * pair.total % 5]
    largest = max(0.0, float(pair.slope)) + tilt.prior_span[1]
    closed = LogWeights(tilt.step, tilt.hits, tilt.done, tilt.prior, -gap - largest - 1e-12 * abs(largest))
    scores = SlotScores.of(pair.slope, closed, pair.total)
    pure, squares = (terms_of(pair, neighbours, budget) for budget in (Budget.pure(1), Budget.zcdp(1)))
    for index, (after, before) in enumerate(
        zip(weights(scores, pair.after), weights(scores, pair.before), strict=True)
    ):
        assert after < 1
        assert before < 1
        gaps = acceptance_gaps(pair.slope, closed, np.array([index]))
        at_one, at_zero = log_ratio(after, before), log_ratio(1 - after, 1 - before)
        loss, width = max(abs(at_one), abs(at_zero)), abs(at_one - at_zero)
        found.append((loss, float(pure.retain_amount(pair.slope, pair.total, gaps))))
        found.append((width, math.sqrt(8 * squares.retain_amount(pair.slope, pair.total, gaps))))
    return found


Moved = Callable[[Pair, Neighbours], list[tuple[float, float]]]
LAWS: dict[str, Moved] = {"draws": of_draws, "bits": of_bits}


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("law", LAWS)
def test_no_pair_of_neighbours_passes_its_charge(law: str, neighbours: Neighbours) -> None:
    draw, nearest = np.random.default_rng(17), 0.0
    for _ in range(PAIRS):
        for moved, charged in LAWS[law](a_pair(draw, neighbours), neighbours):
            assert moved <= charged * (1 + 1e-9) + ROUNDING
            nearest = max(nearest, moved / charged)
    assert nearest > 0.99


PARTS = SlotScores.parts


def complement_of_an_even_number(scores: SlotScores, exact: UnitCounts) -> object:
    """As of n0: a number that does not follow each unit."""
    parts = PARTS(scores, exact)
    return parts._replace(units=parts.units - parts.units % 2)


@pytest.mark.parametrize(
    ("place", "name", "wrong", "law", "neighbours"),
    [
        (terms, "XI", Fraction(0), "draws", ADD_REMOVE),
        (terms, "XI", Fraction(0), "bits", ADD_REMOVE),
        (PrivacyUnit, "replaced", False, "draws", REPLACE),
        (SlotScores, "parts", complement_of_an_even_number, "draws", ADD_REMOVE),
        (weighted_sampler, "_TABLE", weighted_sampler._TABLE * (1 + 2.0**-26 * np.arange(256)), "draws", REPLACE),
    ],
    ids=[
        "exact weights, drawn",
        "exact weights, bits",
        "one direction",
        "complement of another number",
        "a table that is off",
    ],
)
def test_a_planted_bug_is_caught(
    place: object, name: str, wrong: object, law: str, neighbours: Neighbours, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, name, wrong)
    with pytest.raises(AssertionError):
        test_no_pair_of_neighbours_passes_its_charge(law, neighbours)
