"""Exact selection: every coin against exact arithmetic, and the laws of both mechanisms against integer enumeration."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.kernel import entropy, noisy_maximum
from dpcore.kernel.budget import Currency
from dpcore.kernel.certified_exp import EXP_TABLE, LARGEST_EXPONENT, exp_of_negative
from dpcore.kernel.noisy_maximum import MARGIN, decide_exactly, noisy_argmax

ENDS = np.iinfo(np.int64)


class ListedEntropy:
    """Gives listed integers in place of drawing, and fails where more are asked than there are."""

    def __init__(self, words: list[int], integers: list[int]) -> None:
        self._words, self._integers = words, integers

    def words(self, count: int) -> NDArray[np.uint64]:
        taken, self._words = self._words[:count], self._words[count:]
        assert len(taken) == count
        return np.array(taken, dtype=np.uint64)

    def below(self, bound: int) -> int:
        value = self._integers.pop(0)
        assert 0 <= value < bound
        return value

    def each_below(self, bounds: NDArray[np.uint64]) -> NDArray[np.uint64]:
        return np.array([self.below(int(bound)) for bound in bounds], dtype=np.uint64)


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def install(words: list[int], integers: list[int]) -> None:
        source = ListedEntropy(words, integers)
        for name in ("words", "below", "each_below"):
            monkeypatch.setattr(entropy, name, getattr(source, name))

    return install


def threshold(exponent: Fraction) -> int:
    """floor(2^64 exp(-exponent)): a coin whose first word is smaller shows heads, one whose word is larger tails."""
    with mpmath.workdps(80):
        ratio = mpmath.mpf(exponent.numerator) / exponent.denominator
        return int(mpmath.floor(mpmath.exp(-ratio) * 2**64))


@pytest.mark.parametrize("scale", [1.0, 0.75, 3.7, 1e6, 2.0**40 / 3])
def test_every_coin_is_that_of_exact_arithmetic(scale: float) -> None:
    """Words on both sides of the threshold, far from it, within MARGIN of it and next to it."""
    steps = np.array([0.0, 1e-9, 0.3, 1.0, 5.0, 31.9, 32.1, 44.0, 45.0, 700.0])
    for gap in {int(step * scale) for step in steps}:
        edge = threshold(Fraction(gap) / Fraction(scale))
        near = [edge + side * distance for side in (-1, 1) for distance in (1, 1 << 11, 1 << 33, 1 << 60)]
        words = [word for word in (*near, 0, (1 << 64) - 1) if 0 <= word < 1 << 64 and word != edge]
        gaps = np.full(len(words), gap, dtype=np.uint64)
        fast = noisy_maximum._decide(gaps, scale, np.array(words, dtype=np.uint64), EXP_TABLE, MARGIN)
        for word, coin in zip(words, fast, strict=True):
            exact = decide_exactly(Fraction(gap) / Fraction(scale), word)
            assert exact == (word < edge)
            assert coin == noisy_maximum._UNDECIDED or coin == exact


def test_doubles_leave_open_what_lies_within_the_margin_alone() -> None:
    """Far fewer than one coin in 10^9 has to be decided exactly, and those that do are."""
    edge = threshold(Fraction(1))
    inside, outside = [edge - (1 << 31), edge + (1 << 31)], [edge - (1 << 33), edge + (1 << 33)]
    words = np.array(inside + outside, dtype=np.uint64)
    coins = noisy_maximum._decide(np.ones(4, dtype=np.uint64), 1.0, words, EXP_TABLE, MARGIN)
    assert coins.tolist() == [noisy_maximum._UNDECIDED] * 2 + [noisy_maximum._HEADS, noisy_maximum._TAILS]


@pytest.mark.parametrize("exponent", [0.0, 1e-12, 1 / 64, 0.5, 1.0, 13.37, 31.999999])
def test_exp_is_within_its_proved_error(exponent: float) -> None:
    with mpmath.workdps(50):
        exact = mpmath.exp(-mpmath.mpf(exponent))
        assert abs(exp_of_negative(exponent, EXP_TABLE) - exact) <= exact * 2.0**-44
    assert exponent < LARGEST_EXPONENT


def test_bits_beyond_the_first_word_decide_where_it_cannot(listed: Callable[..., None]) -> None:
    exponent = Fraction(1)
    with mpmath.workdps(80):
        second = int(mpmath.floor(mpmath.exp(-1) * mpmath.mpf(2) ** 128)) & ((1 << 64) - 1)
    for more, heads in ((second - 1, True), (second + 1, False)):
        listed([], [more])
        assert decide_exactly(exponent, threshold(exponent)) is heads


@pytest.mark.parametrize("currency", list(Currency))
def test_scores_at_the_ends_of_int64_do_not_wrap(currency: Currency) -> None:
    scores = np.array([ENDS.min, ENDS.max, ENDS.min])
    assert noisy_argmax(scores, currency, 2.0**40) == 1


@pytest.mark.parametrize("currency", list(Currency))
def test_one_candidate_is_chosen_at_any_scale(currency: Currency) -> None:
    for scale in (5e-324, 1.0, 1e300):
        assert noisy_argmax(np.array([7]), currency, scale) == 0


GRID = 8  # Each word is one of 8 equally likely values below: with them the laws are finite sums.
WORDS = [((2 * step + 1) << 64) // (2 * GRID) for step in range(GRID)]


def heads_of(gap: int, scale: float) -> int:
    """How many of the GRID words show heads."""
    return sum(word < math.exp(-gap / scale) * 2**64 for word in WORDS)


def test_permute_and_flip_over_all_words_is_the_walk_in_random_order(listed: Callable[..., None]) -> None:
    """McKenna and Sheldon (2020), Algorithm 1, over all orders; the kernel over all words and choices."""
    scores, scale = np.array([3, 5, 4]), 1.5
    heads = [heads_of(5 - int(score), scale) for score in scores]
    counts = np.zeros(3)
    for words in product(WORDS, repeat=3):
        winners = sum(
            word < math.exp(-(5 - int(score)) / scale) * 2**64 for word, score in zip(words, scores, strict=True)
        )
        for choice in range(winners):
            listed(list(words), [choice])
            counts[noisy_argmax(scores, Currency.PURE, scale)] += 1 / winners
    orders = [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
    walked = np.zeros(3)
    for order in orders:
        refused = 1.0
        for candidate in order:
            walked[candidate] += refused * heads[candidate] / GRID / len(orders)
            refused *= 1 - heads[candidate] / GRID
    assert counts / GRID**3 == pytest.approx(walked, rel=1e-12)


@pytest.mark.parametrize("currency", [Currency.ZCDP, Currency.GDP])
def test_the_exponential_mechanism_accepts_a_uniform_proposal_by_its_coin(
    currency: Currency, listed: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One proposal per batch: over all proposals and words, candidates are accepted in proportion to their heads."""
    monkeypatch.setattr(noisy_maximum, "_FEWEST_PROPOSALS", 1)
    scores, scale = np.array([3, 5, 4]), 1.5
    heads = [heads_of(5 - int(score), scale) for score in scores]
    counts = np.zeros(3)
    for candidate, word in product(range(3), WORDS):
        # Where the first proposal shows tails, two more, of which the largest score takes any word: not counted.
        listed([word, WORDS[0], WORDS[0]], [candidate, 1, 1])
        chosen = noisy_argmax(scores, currency, scale)
        rejected = word >= math.exp(-(5 - int(scores[candidate])) / scale) * 2**64
        assert chosen == (1 if rejected else candidate)
        counts[candidate] += not rejected
    assert counts.tolist() == heads
