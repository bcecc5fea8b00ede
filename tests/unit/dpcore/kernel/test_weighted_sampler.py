"""The proved relative error against exact arithmetic, and the exactness of the draw for crafted words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpcore.kernel import entropy, weighted_sampler
from dpcore.kernel.weighted_sampler import LARGEST_SCORE, XI, check_scores, draw

WORDS = st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=20)


def weights_of(slope: float, counts: NDArray[np.float64], offsets: NDArray[np.float64]) -> list[tuple[int, int]]:
    """Exponent and mantissa of each slot's integer weight mantissa * 2^(exponent - 30)."""
    split = weighted_sampler.split_weights(slope, counts, offsets)
    return list(zip(*(part.tolist() for part in split), strict=True))


def relative_error(weight: tuple[int, int], slope: float, count: float, offset: float) -> Fraction:
    """|w / 2^x - 1| for the exact real x = slope * count + offset of the given doubles, to 40 digits."""
    x = Fraction(slope) * Fraction(count) + Fraction(offset)
    exponent, mantissa = weight
    with localcontext() as context:
        context.prec = 40
        rest = x - exponent
        power = (Decimal(2).ln() * Decimal(rest.numerator) / Decimal(rest.denominator)).exp()
        return abs(Fraction(mantissa, 2**30) / Fraction(power) - 1)


def check(slope: float, counts: NDArray[np.float64], offsets: NDArray[np.float64]) -> None:
    check_scores(slope, float(counts.max()), offsets)
    for weight, count, offset in zip(weights_of(slope, counts, offsets), counts, offsets, strict=True):
        assert relative_error(weight, slope, float(count), float(offset)) <= XI


@settings(max_examples=300)
@given(
    slope=st.floats(-1.0, 1.0),
    count=st.integers(0, 4096),
    offset=st.floats(-LARGEST_SCORE, LARGEST_SCORE),
)
@example(slope=0.0, count=0, offset=-5.551115123125783e-17)  # x - floor(x) rounds up to 1.
@example(slope=0.0, count=0, offset=-1e-300)
@example(slope=0.0, count=0, offset=-(2.0**-53))
@example(slope=1.0, count=4096, offset=-4096.0)
@example(slope=-1.0, count=4096, offset=-4096.0)
@example(slope=0.1, count=3, offset=-0.30000000000000004)
def test_a_weight_is_within_the_stated_relative_error(slope: float, count: int, offset: float) -> None:
    check(slope, np.array([float(count)]), np.array([offset]))


def test_weights_are_within_the_stated_error_around_every_step_of_the_table() -> None:
    steps = np.arange(-512, 513) / 256
    offsets = np.concatenate([steps, np.nextafter(steps, -9), np.nextafter(steps, 9), steps + 1 / 512])
    check(0.0, np.zeros(offsets.size), offsets)


def test_weights_are_within_the_stated_error_where_count_and_offset_nearly_cancel() -> None:
    generator = np.random.default_rng(3)
    counts = generator.integers(1, 500_000, 1000).astype(np.float64)
    slope = 4000.0 / 500_000
    check(slope, counts, -slope * counts + generator.normal(size=1000) * 2.0 ** generator.integers(-60, 2, 1000))


@pytest.mark.parametrize(
    ("slope", "largest", "offsets"),
    [
        (1.0, 4097.0, [0.0]),
        (-2.0, 2049.0, [0.0]),
        (0.0, 1.0, [0.0, -4097.0]),
        (0.0, 1.0, [np.nan]),
        (0.0, 1.0, [np.inf]),
    ],
)
def test_scores_beyond_the_proof_are_refused(slope: float, largest: float, offsets: list[float]) -> None:
    with pytest.raises(ValueError, match="want at most 2\\^4096"):
        check_scores(slope, largest, np.array(offsets))


@given(st.lists(st.integers(1, 2**63), min_size=1, max_size=50))
def test_bounded_words_stay_below_their_bounds(bounds: list[int]) -> None:
    drawn = entropy.each_below(np.array(bounds, dtype=np.uint64))
    assert all(0 <= int(value) < bound for value, bound in zip(drawn, bounds, strict=True))


def test_bounded_words_reject_and_never_wrap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Masked to 3 bits: 7 and 5 are refused by the bound 5, then 4 is taken; high bits never matter."""
    supply = iter([[2**63 + 7, 3], [8 + 5], [16 + 4]])
    monkeypatch.setattr(entropy, "words", lambda count: np.array(next(supply), dtype=np.uint64))
    assert entropy.each_below(np.array([5, 4], dtype=np.uint64)).tolist() == [4, 3]


@given(
    totals=st.lists(st.one_of(st.just(0), st.integers(1, 2**63 - 1)), min_size=1, max_size=12).filter(
        lambda totals: totals[-1] > 0
    ),
    words=WORDS,
)
def test_a_class_is_the_one_in_which_the_uniform_real_falls(totals: list[int], words: list[int]) -> None:
    """Words are followed by zero bits for ever, so the real they reveal is exactly word / 2^64."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(entropy, "words", lambda count: np.array(words, dtype=np.uint64))
        patch.setattr(entropy, "below", lambda bound: 0)
        found = weighted_sampler._draw_classes(np.array(totals, dtype=np.uint64), len(words))
    assert found.tolist() == [class_of(Fraction(word, 2**64), totals) for word in words]


def class_of(real: Fraction, totals: list[int]) -> int:
    """The class in which a real in [0, 1) falls when class c has the chance totals[c] 2^c / sum."""
    mass = [Fraction(total * 2**group) for group, total in enumerate(totals)]
    reached = Fraction(0)
    for group, chance in enumerate(mass):
        reached += chance / sum(mass)
        if real < reached:
            return group
    raise AssertionError("the chances sum to less than 1")


@pytest.mark.parametrize(
    ("later", "wanted"),
    [([0], 0), ([2**64 // 3 - 1], 0), ([2**64 // 3 + 1], 1), ([2**64 // 3, 0], 0), ([2**64 // 3, 2**64 - 1], 1)],
)
def test_a_word_on_a_threshold_draws_further_words(
    monkeypatch: pytest.MonkeyPatch, later: list[int], wanted: int
) -> None:
    """Chances 1/3 and 2/3: the bits of 1/3 are 0101..., so words equal to floor(2^64 / 3) decide nothing."""
    supply = iter(later)
    monkeypatch.setattr(entropy, "words", lambda count: np.full(count, 2**64 // 3, dtype=np.uint64))
    monkeypatch.setattr(entropy, "below", lambda bound: next(supply))
    assert weighted_sampler._draw_classes(np.array([1, 1], dtype=np.uint64), 1).tolist() == [wanted]
    assert next(supply, None) is None


def test_words_off_the_thresholds_draw_no_further_word(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(bound: int) -> int:
        raise AssertionError("another word was drawn")

    monkeypatch.setattr(entropy, "below", none)
    threshold = 2**64 // 3
    monkeypatch.setattr(entropy, "words", lambda count: np.array([threshold - 1, threshold + 1], dtype=np.uint64))
    assert weighted_sampler._draw_classes(np.array([1, 1], dtype=np.uint64), 2).tolist() == [0, 1]


@pytest.fixture
def fixed_targets(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[list[int], list[int]], None]]:
    def fix(words: list[int], targets: list[int]) -> None:
        monkeypatch.setattr(entropy, "words", lambda count: np.array(words, dtype=np.uint64))
        monkeypatch.setattr(entropy, "each_below", lambda bounds: np.array(targets, dtype=np.uint64))

    return fix


def test_a_slot_owns_exactly_its_weight_of_its_class(
    fixed_targets: Callable[[list[int], list[int]], None],
) -> None:
    """Slots 0, 2, 3 lie in class 0 with mantissas m, m', m; slot 1 in class 1. Targets at every edge."""
    offsets = np.array([0.0, 1.0, 0.5, 0.0])
    one, half = 2**30, weights_of(0.0, np.zeros(1), np.array([0.5]))[0][1]
    assert abs(half - 2**30.5) <= 1
    low, high = 0, 2**64 - 1
    targets = [0, one - 1, one, one + half - 1, one + half, 2 * one + half - 1, 0, one - 1]
    fixed_targets([low] * 6 + [high] * 2, targets)
    assert draw(0.0, np.zeros(4), offsets, 8).tolist() == [0, 0, 2, 2, 3, 3, 1, 1]


def test_draws_keep_their_own_order() -> None:
    """Each draw is independent of its place: runs sorted by slot would give the counts away in order."""
    drawn = draw(0.0, np.zeros(1000), np.zeros(1000), 200)
    assert (np.diff(drawn) < 0).any()


def test_slots_of_very_different_weight_are_drawn_by_weight() -> None:
    """A slot 2^-4096 as heavy is never drawn; the slot 2^60 times as heavy always (chance of another below 1e-14)."""
    assert set(draw(1.0, np.array([0.0, 60.0, 0.0]), np.array([0.0, 0.0, -4096.0]), 2000).tolist()) == {1}
