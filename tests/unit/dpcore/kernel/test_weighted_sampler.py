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
from dpcore.kernel.log_weights import LARGEST_SCORE, LogWeights
from dpcore.kernel.weighted_sampler import XI, SlotScores, UnitCounts, check_scores, draw, split_weights
from tests.support.slow_scores import powers
from tests.support.tilts import flat, with_prior

SLOTS = 2 * weighted_sampler._BLOCK
UNITS = 1000
LARGEST = 2839.0  # In nats, a little below 2^12 powers of two.


def counted(counts: list[int], units: int = UNITS, kind: type = np.int32) -> UnitCounts:
    return UnitCounts(np.array(counts, dtype=kind), units)


def power_of(nats: Fraction) -> Decimal:
    """exp to 60 digits."""
    with localcontext() as context:
        context.prec = 60
        return (Decimal(nats.numerator) / Decimal(nats.denominator)).exp()


def weights_of(scores: SlotScores, exact: UnitCounts) -> list[Fraction]:
    exponents, mantissas = split_weights(scores, exact, np.arange(2 * exact.counts.size))
    pairs = zip(exponents.tolist(), mantissas.tolist(), strict=True)
    return [Fraction(mantissa) * Fraction(2) ** (exponent - 30) for exponent, mantissa in pairs]


def log_weights(slope: Fraction, tilt: LogWeights, total: int, exact: UnitCounts) -> list[Fraction]:
    """slope c / n0 + prior - step hits + constant, exactly: first of the queries, then of the complements."""
    prior = [0.0] * tilt.size if tilt.prior is None else tilt.prior.tolist()
    found = []
    for hits, counts in (
        (tilt.hits.tolist(), exact.counts.tolist()),
        ([tilt.done - hit for hit in tilt.hits.tolist()], [exact.units - count for count in exact.counts.tolist()]),
    ):
        for own, hit, count in zip(prior, hits, counts, strict=True):
            public = Fraction(own) - Fraction(tilt.step) * hit + Fraction(tilt.constant)
            found.append(slope * min(count, total) / total + public)
    return found


@settings(max_examples=300)
@given(
    slope=st.fractions(Fraction(-LARGEST), Fraction(LARGEST), max_denominator=10**6),
    step=st.floats(0, 1),
    hits=st.integers(0, 2839),
    count=st.integers(0, UNITS),
    prior=st.floats(-LARGEST, LARGEST),
    constant=st.floats(-LARGEST, LARGEST),
    total=st.sampled_from([1, 999, 1000, 1001, 2**40]),
)
@example(slope=Fraction(LARGEST), step=1.0, hits=2839, count=1000, prior=0.0, constant=0.0, total=1000)
@example(slope=Fraction(1, 3), step=0.1, hits=3, count=1, prior=-5e-17, constant=0.0, total=1000)
@example(slope=Fraction(-LARGEST), step=1.0, hits=2839, count=1000, prior=-LARGEST, constant=-LARGEST, total=1000)
def test_a_weight_is_within_the_stated_relative_error(
    slope: Fraction, step: float, hits: int, count: int, prior: float, constant: float, total: int
) -> None:
    """Of exp(slope c / n0 + tilt) for the numbers that the caller gave, every rounding on the way included."""
    tilt, exact = LogWeights(step, np.array([hits]), 2839, np.array([prior]), constant), counted([count])
    wanted = log_weights(slope, tilt, total, exact)
    for weight, nats in zip(weights_of(SlotScores.of(slope, tilt, total), exact), wanted, strict=True):
        assert abs(weight / Fraction(power_of(nats)) - 1) <= XI


def test_weights_are_within_the_stated_error_where_count_and_tilt_nearly_cancel() -> None:
    generator = np.random.default_rng(3)
    counts = generator.integers(1, 500_000, 500)
    noise = generator.normal(size=500) * 2.0 ** generator.integers(-60, 2, 500)
    slope, exact = Fraction(2800), counted(counts.tolist(), 500_000)
    tilt = with_prior((-2800.0 / 500_000 * counts + noise).tolist())
    wanted = log_weights(slope, tilt, 500_000, exact)
    for weight, nats in zip(weights_of(SlotScores.of(slope, tilt, 500_000), exact), wanted, strict=True):
        assert abs(weight / Fraction(power_of(nats)) - 1) <= XI


def split(logs: NDArray[np.float64]) -> list[tuple[int, int]]:
    parts = weighted_sampler._split(logs, weighted_sampler._TABLE, weighted_sampler._LN2)
    return list(zip(*(part.tolist() for part in parts), strict=True))


def test_powers_of_two_are_right_around_every_step_of_the_table() -> None:
    steps = np.arange(-512, 513) / 256
    logs = np.concatenate([steps, np.nextafter(steps, -9), np.nextafter(steps, 9), steps + 1 / 512, [-5.5e-17]])
    with localcontext() as context:
        context.prec = 40
        for x, (exponent, mantissa) in zip(logs.tolist(), split(logs), strict=True):
            rest = Fraction(x) - exponent
            power = (Decimal(2).ln() * Decimal(rest.numerator) / Decimal(rest.denominator)).exp()
            assert abs(Fraction(mantissa, 2**30) / Fraction(power) - 1) <= Fraction(1, 2**30) + Fraction(1, 2**44)
            assert 2**30 <= mantissa < 2**31


def test_only_ratios_count_for_draws_and_everything_for_bits() -> None:
    tilt, exact = with_prior([5.0, 3.0], constant=-7.0), counted([10, 20])
    relative, absolute = (
        [float(weight) for weight in weights_of(make(Fraction(1), tilt, UNITS), exact)]
        for make in (SlotScores.up_to_a_factor, SlotScores.of)
    )
    assert np.allclose(np.array(relative), np.array(absolute) * np.exp(7.0 - 5.0))
    assert np.allclose(absolute[0], np.exp(0.01 + 5.0 - 7.0))


def test_a_prior_of_zeros_is_no_prior_and_the_type_of_counts_is_all_one() -> None:
    tilt = LogWeights(0.3, np.array([0, 1, 2]), 2)
    zeros = LogWeights(0.3, np.array([0, 1, 2]), 2, np.zeros(3))
    found = {
        tuple(weights_of(SlotScores.of(Fraction(3, 2), own, 70), counted([0, 50, 99], 100, kind)))
        for own in (tilt, zeros)
        for kind in (np.int32, np.int64)
    }
    assert len(found) == 1


@pytest.mark.parametrize(
    ("slope", "tilt"),
    [
        (Fraction(2840), flat(1)),
        (Fraction(-2840), flat(1)),
        (Fraction(0), flat(1, 2840.0)),
        (Fraction(0), with_prior([0.0, -2840.0])),
        (Fraction(0), with_prior([-1e308, 1e308])),
        (Fraction(0), LogWeights(1.0, np.array([0]), 2840)),
        (Fraction(0), LogWeights(1e308, np.array([0]), 2840)),
    ],
)
def test_scores_beyond_the_proof_are_refused(slope: Fraction, tilt: LogWeights) -> None:
    with pytest.raises(ValueError, match="want at most 2\\^4096"):
        SlotScores.of(slope, tilt, 10)
    if tilt.constant == 0:
        with pytest.raises(ValueError, match="want at most 2\\^4096"):
            SlotScores.up_to_a_factor(slope, tilt, 10)


def test_no_part_of_a_score_may_be_no_number() -> None:
    for parts in [(np.nan, 0.0), (0.0, np.nan), (0.0, np.inf), (-LARGEST_SCORE * 1.001,)]:
        with pytest.raises(ValueError, match="want at most"):
            check_scores(*parts)
    check_scores(LARGEST_SCORE, -LARGEST_SCORE)


@given(st.lists(st.integers(1, 2**63), min_size=1, max_size=50))
def test_bounded_words_stay_below_their_bounds(bounds: list[int]) -> None:
    drawn = entropy.each_below(np.array(bounds, dtype=np.uint64))
    assert all(0 <= int(value) < bound for value, bound in zip(drawn, bounds, strict=True))


def test_bounded_words_reject_and_never_wrap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Masked to 3 bits: 7 and 5 are refused by the bound 5, then 4 is taken; high bits never matter."""
    supply = iter([[2**63 + 7, 3], [8 + 5], [16 + 4]])
    monkeypatch.setattr(entropy, "words", lambda count: np.array(next(supply), dtype=np.uint64))
    assert entropy.each_below(np.array([5, 4], dtype=np.uint64)).tolist() == [4, 3]


def raised(logs: NDArray[np.float64], lift: int) -> list[int]:
    """u of each score: the envelope of one whole block."""
    scores = np.full(SLOTS, -9.0)
    scores[: logs.size] = logs
    weighted_sampler._raise_block(scores.view(np.int64), scores, weighted_sampler._BLOCK, lift)
    return [int(u) for u in scores.view(np.int64)[: logs.size]]


@given(
    logs=st.lists(st.floats(-3 * LARGEST_SCORE, 3 * LARGEST_SCORE), min_size=1, max_size=SLOTS),
    power=st.integers(30, 36),
)
@example(logs=[0.0, -(2.0**-53), -0.5, 2.0**-40, -1e-300], power=36)
def test_no_weight_passes_its_envelope(logs: list[float], power: int) -> None:
    """And the envelope is at most 1.07 times the weight, plus 2 of 2^power."""
    lift = power - int(np.floor(max(logs))) - 1
    array = np.array(logs)
    for u, (exponent, mantissa) in zip(raised(array, lift), split(array), strict=True):
        lifted = Fraction(mantissa) * Fraction(2) ** (exponent - 30 + lift)
        assert lifted <= u <= lifted * Fraction(107, 100) + 2
        assert u < 2 ** (power + 1)


def made(queries: int, seed: int = 0) -> weighted_sampler._Parts:
    """Parts of random scores."""
    generator = np.random.default_rng(seed)
    hits = generator.integers(0, 8, queries)
    tilt = LogWeights(0.9, hits, 7, generator.normal(size=queries))
    return SlotScores.up_to_a_factor(Fraction(5), tilt, 900).parts(
        counted(generator.integers(0, 1001, queries).tolist())
    )


@pytest.mark.parametrize("total", [300, 900, 2000])
def test_scores_in_blocks_are_those_written_out(total: int) -> None:
    """Also of the last block, and of a slot on its own."""
    generator = np.random.default_rng(7)
    exact = counted(generator.integers(0, 901, 200).tolist(), 900)
    tilt = LogWeights(0.9, generator.integers(0, 8, 200), 7, generator.normal(size=200), 3.0)
    for make in (SlotScores.of, SlotScores.up_to_a_factor):
        scores = make(Fraction(5), tilt, total)
        wanted, parts = powers(scores, exact), scores.parts(exact)
        assert np.allclose(weighted_sampler._score_of(np.arange(400), parts), wanted, rtol=0, atol=1e-12)
        assert weighted_sampler._largest(parts) == pytest.approx(wanted.max(), abs=1e-12)


@pytest.mark.parametrize("queries", [1, 63, 64, 65, 150])
def test_a_target_falls_on_the_slot_whose_part_of_the_envelope_holds_it(queries: int) -> None:
    """Blocks of 64 queries and then their complements; the last block may be shorter. Targets at every edge."""
    parts = made(queries)
    lift, sums = weighted_sampler._envelope(parts)
    slots, us = [], []
    for first in range(0, queries, 64):
        here = np.arange(first, min(queries, first + 64))
        block = np.concatenate([here, queries + here])
        slots += block.tolist()
        us += raised(weighted_sampler._score_of(block, parts), lift)
    ends = np.cumsum(us)
    assert np.cumsum(sums).tolist() == [int(ends[min(2 * queries, 128 * (b + 1)) - 1]) for b in range(len(sums))]
    targets = np.sort(np.concatenate([ends - 1, ends - us, ends - 1])).astype(np.int64)
    found, rests = weighted_sampler._locate(targets, np.cumsum(sums), lift, parts)
    places = np.searchsorted(ends, targets, side="right")
    assert found.tolist() == [slots[place] for place in places]
    assert rests.tolist() == [int(t - ends[p] + us[p]) for t, p in zip(targets, places, strict=True)]


def test_envelopes_of_many_and_of_few_slots_fit_their_integers() -> None:
    for queries in (1, 5000):
        parts = SlotScores.up_to_a_factor(Fraction(0), flat(queries), 10).parts(counted([5] * queries))
        lift, sums = weighted_sampler._envelope(parts)
        assert lift == 35
        assert sums.sum() == 2 * queries * raised(np.zeros(1), lift)[0]


@pytest.mark.parametrize(("exponent", "lift"), [(0, 3), (-1, 3), (-3, 2), (-33, 4), (-70, 5), (2, 30)])
def test_a_rest_is_accepted_with_exactly_what_its_slot_weighs(
    exponent: int, lift: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chances of the rests 0, 1, 2 and so on sum to 2^lift w: those below its whole part surely, then its rest."""
    mantissa = 1_500_000_001
    lifted = Fraction(mantissa) * Fraction(2) ** (exponent - 30 + lift)
    whole = int(lifted)
    rests = np.array([0, whole - 1, whole, whole + 1] if whole else [0, 1], dtype=np.int64)
    asked: list[int] = []
    for below_threshold in (True, False):

        def below(bound: int, below_threshold: bool = below_threshold) -> int:
            asked.append(bound)
            threshold = (lifted - whole) * bound
            assert threshold.denominator == 1
            return int(threshold) - below_threshold

        monkeypatch.setattr(entropy, "below", below)
        size = rests.size
        accepted = weighted_sampler._accepts(
            rests, lift, np.full(size, exponent, dtype=np.int32), np.full(size, mantissa, dtype=np.uint32)
        )
        decided = below_threshold and lifted > whole
        assert accepted.tolist() == [rest < whole or (rest == whole and decided) for rest in rests.tolist()]
    assert len(asked) == (2 if exponent + lift < 30 else 0)


@pytest.fixture
def fixed_targets(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[list[list[int]]], None]]:
    def fix(targets: list[list[int]]) -> None:
        supply = iter(targets)

        def each_below(bounds: NDArray[np.uint64]) -> NDArray[np.uint64]:
            given = next(supply)
            return np.array(given + [given[-1]] * (bounds.size - len(given)), dtype=np.uint64)

        monkeypatch.setattr(entropy, "each_below", each_below)

    return fix


def test_rejected_targets_are_replaced_and_the_others_keep_their_order(
    fixed_targets: Callable[[list[list[int]]], None],
) -> None:
    """Two slots of one weight: the last rest of an envelope lies above the weight, the first below."""
    exact, scores = counted([500]), SlotScores.up_to_a_factor(Fraction(0), with_prior([0.4]), UNITS)
    u = raised(np.zeros(1), 35)[0]
    assert u > 2**35  # So that rest u - 1 is above the weight 2^35.
    fixed_targets([[u, u - 1, 0, 2 * u - 1], [u, 0, 2 * u - 1]])
    assert draw(scores, exact, 4).tolist() == [1, 0, 1, 0]


def test_draws_keep_their_own_order() -> None:
    """Each draw is independent of its place: runs sorted by slot would give the counts away in order."""
    drawn = draw(SlotScores.up_to_a_factor(Fraction(0), flat(500), UNITS), counted([3] * 500), 200)
    assert drawn.shape == (200,)
    assert (np.diff(drawn) < 0).any()


def test_slots_of_very_different_weight_are_drawn_by_weight() -> None:
    """A slot 2^-4000 as heavy is never drawn; one 2^60 times as heavy always (chance of another below 1e-14)."""
    exact = counted([0, 1000, 0], 1000)
    scores = SlotScores.up_to_a_factor(Fraction(0), LogWeights(42.0, np.array([1, 0, 1]), 66), UNITS)
    assert set(draw(scores, exact, 2000).tolist()) == {1}
    steep = SlotScores.up_to_a_factor(Fraction(-2800), flat(3), UNITS)
    assert set(draw(steep, counted([300, 1000, 500]), 2000).tolist()) == {4}


def test_too_many_queries_are_refused_before_a_draw_is_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number is public, so the refusal belongs to the scores, which are made before the charge."""
    monkeypatch.setattr(weighted_sampler, "LARGEST_SLOTS", 5)
    SlotScores.up_to_a_factor(Fraction(1), LogWeights(1.0, np.zeros(2, dtype=np.int32), 0), 10)
    with pytest.raises(ValueError, match="6 queries and complements; want at most 5"):
        SlotScores.up_to_a_factor(Fraction(1), LogWeights(1.0, np.zeros(3, dtype=np.int32), 0), 10)
