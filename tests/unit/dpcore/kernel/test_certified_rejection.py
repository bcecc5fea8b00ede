"""The fast path and exact arithmetic decide every proposal alike, and doubles stay within their stated error."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.kernel import certified_exp, certified_rejection, entropy, exact_rejection
from dpcore.kernel.certified_rejection import MARGIN, PROPOSALS_AT_ONCE, fill, take
from dpcore.kernel.envelope import LARGEST_SCALE, RECTANGLES, SMALLEST_SCALE, TAIL, UNUSED, Envelope, Law, envelope
from dpcore.kernel.exact_rejection import LOW_BITS, kept_bits
from dpcore.measurement import Noise
from tests.support.decimals import scaled_exp

Words = NDArray[np.uint64]
SCALES = [SMALLEST_SCALE, 0.3, 1.0, 2.7, 8.0, 1000.0, 123456.789, LARGEST_SCALE]
LAWS = [Law(noise, scale) for noise in Noise for scale in SCALES]
STATED_ERROR = Fraction(1, 2**30)
PROPOSALS = 500


def random_words(proposals: int, seed: int) -> Words:
    return np.random.default_rng(seed).integers(0, 2**64, size=2 * proposals, dtype=np.uint64)


def taken(made: Envelope, words: Words) -> list[int]:
    out = np.empty(words.size // 2, dtype=np.int64)
    return out[: take(made, words, out, 0)].tolist()


def decided(made: Envelope, words: Words) -> list[int]:
    values = [exact_rejection.decide(made, int(word), int(second)) for word, second in words.reshape(-1, 2)]
    return [value for value in values if value is not None]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """First words of the proposals that went to exact arithmetic."""
    words: list[int] = []
    decide: Callable[[Envelope, int, int], int | None] = exact_rejection.decide

    def recorded(made: Envelope, word: int, second: int) -> int | None:
        words.append(word)
        return decide(made, word, second)

    monkeypatch.setattr(exact_rejection, "decide", recorded)
    return words


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_the_fast_path_agrees_with_exact_arithmetic_word_for_word(law: Law) -> None:
    words = random_words(PROPOSALS, seed=1)
    assert taken(envelope(law), words) == decided(envelope(law), words)


def all_open(made: Envelope) -> Envelope:
    """The same envelope without rectangles that are accepted unseen."""
    return dataclasses.replace(made, inside=np.zeros(RECTANGLES, dtype=np.bool_))


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_with_a_huge_margin_every_comparison_is_exact_and_nothing_changes(
    law: Law, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, words = envelope(law), random_words(PROPOSALS, seed=2)
    fast = taken(made, words)
    assert asked == []
    monkeypatch.setattr(certified_rejection, "MARGIN", 1e9)
    assert taken(all_open(made), words) == fast
    assert len(asked) == np.count_nonzero(made.bins[words[::2] >> np.uint64(LOW_BITS + 1)] >= 0)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_without_a_margin_the_doubles_alone_would_hardly_ever_err(
    law: Law, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every rectangle compared in doubles: the same values, so the doubles carry the shape of the law themselves."""
    words = random_words(4 * PROPOSALS, seed=3)
    monkeypatch.setattr(certified_rejection, "MARGIN", 0.0)
    assert taken(all_open(envelope(law)), words) == taken(envelope(law), words)
    assert asked == []


def places(made: Envelope) -> NDArray[np.uint64]:
    """Abscissas at both ends, and somewhere inside, of every bin."""
    kept = kept_bits(made)
    inner = [0, (1 << kept) - 1, (1 << kept) // 3]
    return np.array([(chosen << kept) + place for chosen in range(made.tail) for place in inner], dtype=np.uint64)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_heights_in_doubles_are_within_the_stated_error(law: Law) -> None:
    made = envelope(law)
    constants = certified_rejection._constants(made)
    unit = Fraction(1, 1 << int(constants.shift))
    for z in places(made):
        found = Fraction(certified_rejection._height(z, constants))
        ends = [scaled_exp(law.energy((int(z) + more) * unit), 0) for more in ((0, 1) if law.is_real else (0,))]
        assert all(abs(found - made.height * end) < STATED_ERROR for end in ends)
    assert 32 * STATED_ERROR < MARGIN


def test_the_table_of_exponentials_is_correctly_rounded() -> None:
    for index, found in enumerate(certified_exp.EXP_TABLE.tolist()):
        assert found == float(scaled_exp(Fraction(index, 64), 0))


def second_word(made: Envelope, choice: int, z: int) -> int:
    """The 64 bits that put the height of a proposal exactly on c g(z), whose further bits are then open."""
    height = made.height * scaled_exp(made.law.energy(Fraction(z)), 0) - int(made.ranks[choice])
    assert 0 <= height < 1
    return int(height * 2**64)


@pytest.mark.parametrize("law", [Law(Noise.LAPLACE, 2.7), Law(Noise.GAUSSIAN, 2.7)], ids=str)
def test_a_height_on_the_graph_is_left_to_exact_arithmetic_which_draws_more_bits(
    law: Law, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A little above or below the graph the 64 bits decide; on it, the next ones."""
    made = envelope(law)
    choice = int(np.flatnonzero((made.bins == 2) & ~made.inside)[0])
    second = second_word(made, choice, 2)
    first = choice << (LOW_BITS + 1)
    more = [0, 2**64 - 1]  # Low bits keep the height below the graph, high ones lift it above.
    drawn: list[int] = []
    monkeypatch.setattr(entropy, "below", lambda bound: drawn.append(bound) or more.pop(0))
    near = [(first, second - 2**14), (first, second + 2**14), (first, second), (first, second)]
    assert taken(made, np.array(near, dtype=np.uint64).ravel()) == [2, 2]
    assert len(asked) == 4
    assert drawn == [2**64, 2**64]


@pytest.mark.parametrize("noise", list(Noise))
def test_the_last_choice_is_the_tail_only_when_twenty_more_bits_are_zero(noise: Noise, asked: list[int]) -> None:
    made = envelope(Law(noise, 10.0))
    assert made.bins[-1] == TAIL
    last = (RECTANGLES - 1) << (LOW_BITS + 1)
    tails = [last, last + (1 << (LOW_BITS - 20)) - 1]
    rejected = last + (1 << (LOW_BITS - 20))
    words = np.array([(word, 0) for word in [rejected, *tails, rejected]], dtype=np.uint64).ravel()
    values = taken(made, words)
    assert asked == tails
    assert all(abs(value) >= made.tail * 2.0**made.width_bits - 1 for value in values)


@pytest.mark.parametrize("noise", list(Noise))
def test_choices_that_stand_for_nothing_are_rejected(noise: Noise) -> None:
    made = dataclasses.replace(envelope(Law(noise, 10.0)), bins=np.full(RECTANGLES, UNUSED, dtype=np.int16))
    words = random_words(50, seed=5)
    assert taken(made, words) == decided(made, words) == []


def test_minus_zero_is_rejected_on_the_integers_and_counts_among_reals() -> None:
    for law, values in ((Law(Noise.GAUSSIAN, 0.3), [0]), (Law(Noise.ROUNDED_GAUSSIAN, 0.3), [0, 0])):
        made, sign = envelope(law), 1 << LOW_BITS
        words = np.array([0, 0, sign, 0], dtype=np.uint64)
        assert taken(made, words) == decided(made, words) == values


def test_reals_are_rounded_to_the_nearest_step() -> None:
    """Bin 0 is 256 steps wide: the 51 low bits are 8 bits of steps and 43 bits of a step."""
    made = envelope(Law(Noise.ROUNDED_GAUSSIAN, 1.0))
    assert made.width_bits == 8
    half = 1 << 42
    words = [(low, 0) for low in (half - 1, half, 3 * half - 1, 3 * half)]
    assert taken(made, np.array(words, dtype=np.uint64).ravel()) == [0, 1, 1, 2]


def test_values_do_not_depend_on_how_the_words_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """The accepted proposals of a stream come in their order, wherever one batch of words ends."""
    made, size = envelope(Law(Noise.GAUSSIAN, 10.0)), 5000
    stream = random_words(8000, seed=4)
    whole = taken(made, stream)[:size]
    for batch in (1, 7, PROPOSALS_AT_ONCE):
        used = iter(stream.reshape(-1, 2))
        monkeypatch.setattr(certified_rejection, "PROPOSALS_AT_ONCE", batch)
        monkeypatch.setattr(
            entropy, "words", lambda count, used=used: np.array([next(used) for _ in range(count // 2)]).ravel()
        )
        out = np.empty(size if batch != PROPOSALS_AT_ONCE else 200, dtype=np.int64)
        fill(made, out)
        assert out.tolist() == whole[: out.size]


@pytest.mark.parametrize("size", [0, 1, 2])
def test_any_number_of_values_is_filled(size: int) -> None:
    out = np.full(size, 10**9)
    fill(envelope(Law(Noise.LAPLACE, 5.0)), out)
    assert (np.abs(out) < 10**6).all()
