"""Exact sampling of queries and complements by integer weights that approximate exponential weights. TRUSTED.

A slot is a query or a complement of one: query q is slot q, and its complement is slot m + q. The score x of a slot is
the base-2 logarithm of its intended weight. It is computed in doubles, in this order:

    x = ((prior - shift) / ln 2 - step * hits) + constant + slope * count.

A complement has done - hits in place of hits, and units - count in place of count; both counts are clamped to at most
``total``. The slot gets the weight w = floor(2^30 * p(f)) * 2^(e - 30), where e = floor(x), f = x - e in [0, 1), and
p(f) approximates 2^f by a table and a polynomial that use only correctly rounded operations.

Claim. The relative error of w against 2^x, for the real x of the public numbers that a caller gave, is below XI =
2^-29.

Proof.
    * Each of the four parts of x is at most about 2^12 in size (``check_scores``), and their sums at most about 2^14.
      Two products round by at most 2^-41 each, and three sums by at most 2^-39 each, together by less than 2^-37.
    * The quotients that make up the parts (slope / ln 2 / total, step / ln 2, (prior - shift) / ln 2, constant / ln 2)
      have a relative error below 2^-50 each, together an error below 4 * 2^12 * 2^-50 = 2^-36.
    * The error of x is therefore below 2^-35, which moves w by a relative 2^-35 ln 2. Rounding x - e adds at most
      2^-54.
    * p(f): the table entries and the polynomial of degree 4 on [0, 2^-8) have a relative error below 2^-45 together.
    * The floor lowers w by a relative 2^-30 (1 + 2^-44) at most, because 2^30 p(f) >= 2^30 (1 - 2^-45).
Together the relative error is below 2^-30 + 2^-34.

The draw itself is exact, by rejection sampling. Each slot has an integer u >= 2^lift w (``_envelope``). A uniform
integer below the sum of all u falls into the part of one slot, at an offset r that is uniform in 0 .. u - 1. The slot
is accepted when r plus a uniform real in [0, 1) is below 2^lift w. r alone decides this unless it equals the integer
part of 2^lift w; then further random bits decide. Doubles choose u and nothing else: for every valid u, accepted slots
have probabilities proportional to w.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.kernel import entropy
from dpcore.kernel.log_weights import LARGEST_SCORE, LogWeights

XI = Fraction(1, 1 << 29)
LARGEST_SLOTS = 1 << 30  # Maximum number of queries and complements together.

_TABLE = np.array([2.0 ** (step / 256) for step in range(256)])
_TABLE.setflags(write=False)
_LN2: Final = math.log(2.0)
_PER_LN2: Final = 1.0 / _LN2
_NO_PRIOR = np.zeros(0)
_NO_PRIOR.setflags(write=False)  # Every prior is read-only; a writable array would need compiled code of its own.

_BLOCK: Final = 64  # Queries per block. Sums of u are stored per block; the u of a block are recomputed when needed.

Integers = NDArray[np.integer[Any]]


@final
@dataclass(frozen=True, eq=False, repr=False)
class UnitCounts:
    """Exact counts of units. SENSITIVE.

    counts: The number of units that satisfy each query, int32 or int64 [m], in 0 .. units.
    units: The number of all units.
    """

    counts: Integers
    units: int


@final
@dataclass(frozen=True, eq=False)
class SlotScores:
    """The public part of the scores of all slots, in the notation of the module docstring.

    slope: Change of the score per count, in powers of two.
    total: The largest count that is not clamped.
    step: Change of the score per hit, in powers of two.
    hits, done: As in ``LogWeights``.
    prior: float64 [m] in natural logarithms, or float64 [0] for zeros.
    shift: Subtracted from every prior, in natural logarithms.
    constant: Added to every score, in powers of two.
    """

    slope: float
    total: int
    step: float
    hits: Integers
    done: int
    prior: NDArray[np.float64]
    shift: float
    constant: float

    @classmethod
    def of(cls, slope: Fraction, log_weights: LogWeights, total: int) -> SlotScores:
        """Scores x with 2^x = exp(slope * count / total + log-weight).

        Raises ValueError when a part may exceed 2^12 in size, because the error bound would not hold.
        """
        return cls._checked(slope, log_weights, total, 0.0, log_weights.constant)

    @classmethod
    def up_to_a_factor(cls, slope: Fraction, log_weights: LogWeights, total: int) -> SlotScores:
        """Scores x with 2^x proportional to exp(slope * count / total + log-weight), for uses that read only ratios.

        The constant is omitted, and the priors are shifted so that the largest is 0. This leaves the other parts more
        room below the limit of 2^12.

        Raises ValueError for too many queries, and when a part may exceed 2^12 in size.
        """
        if 2 * log_weights.size > LARGEST_SLOTS:
            raise ValueError(f"{2 * log_weights.size:,} queries and complements; want at most {LARGEST_SLOTS:,}")
        return cls._checked(slope, log_weights, total, log_weights.prior_span[1], 0.0)

    @classmethod
    def _checked(
        cls, slope: Fraction, log_weights: LogWeights, total: int, shift: float, constant: float
    ) -> SlotScores:
        per_count, step, constant = float(slope) / _LN2 / total, log_weights.step / _LN2, constant / _LN2
        lowest, highest = ((prior - shift) / _LN2 for prior in log_weights.prior_span)
        check_scores(per_count * total, step * log_weights.done, lowest, highest, constant)
        prior = _NO_PRIOR if log_weights.prior is None else log_weights.prior
        return cls(per_count, total, step, log_weights.hits, log_weights.done, prior, shift, constant)

    def parts(self, exact: UnitCounts) -> _Parts:
        """The scores in the form that compiled code reads. SENSITIVE."""
        kind = exact.counts.dtype.type
        # A total beyond the type of the counts clamps nothing, so the largest number of the type has the same effect.
        total = kind(min(self.total, int(np.iinfo(kind).max)))
        public = (self.slope, self.step, self.hits, float(self.done), self.prior, self.shift, self.constant)
        return _Parts(exact.counts, kind(exact.units), total, *public)


class _Parts(NamedTuple):
    """``UnitCounts`` and ``SlotScores`` together, in the form that compiled code reads. SENSITIVE."""

    counts: Integers
    units: Any
    total: Any
    slope: float
    step: float
    hits: Integers
    done: float
    prior: NDArray[np.float64]
    shift: float
    constant: float

    def __repr__(self) -> str:
        """Shows no counts, because a traceback may print its locals."""
        return "_Parts(...)"


def check_scores(*parts: float) -> None:
    """Raises ValueError when a part of the scores exceeds 2^12 in size or is NaN; reads public values only."""
    # Each part is compared on its own, because the maximum of a number and NaN can be the number.
    for part in parts:
        if not abs(part) <= LARGEST_SCORE:
            raise ValueError(f"a score reaches 2^{part:.3g}; want at most 2^{LARGEST_SCORE:.0f}: lower eta or rounds")


def split_weights(
    scores: SlotScores, exact: UnitCounts, slots: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.uint32]]:
    """The weight of each slot as mantissa * 2^(e - 30), by the formula of the module docstring. SENSITIVE.

    Returns: Exponents e, int32, and mantissas in [2^30, 2^31), uint32, one per slot.
    """
    return _split(_score_of(slots, scores.parts(exact)), _TABLE, _LN2)


def draw(scores: SlotScores, exact: UnitCounts, size: int) -> NDArray[np.int64]:
    """Draws ``size`` independent slots with probabilities exactly proportional to w (module docstring).

    scores: The public part of the scores.
    exact: The exact counts. SENSITIVE.
    size: Number of draws.

    Returns: int64 [size], in random order. Two passes over the counts take about 1.2 ns per query, and each draw takes
        about 50 ns.
    """
    parts = scores.parts(exact)
    lift, sums = _envelope(parts)
    cumulative = np.cumsum(sums)
    accepted = np.empty(0, dtype=np.int64)
    while accepted.size < size:
        # The envelope exceeds the weights by about 6 %, so the proposals of one turn are nearly always enough.
        accepted = np.concatenate([accepted, _propose(size - accepted.size, lift, cumulative, parts)])
    return accepted[:size]


def _propose(missing: int, lift: int, cumulative: NDArray[np.int64], parts: _Parts) -> NDArray[np.int64]:
    """Makes slightly more proposals than are missing, and returns the accepted slots in random order. SENSITIVE."""
    proposals = missing + missing // 16 + 2 * math.isqrt(missing) + 2
    targets = entropy.each_below(np.full(proposals, cumulative[-1], dtype=np.uint64)).astype(np.int64)
    order = np.argsort(targets)
    slots, offsets = np.empty(proposals, dtype=np.int64), np.empty(proposals, dtype=np.int64)
    slots[order], offsets[order] = _locate(targets[order], cumulative, lift, parts)
    exponents, mantissas = _split(_score_of(slots, parts), _TABLE, _LN2)
    return slots[_accepts(offsets, lift, exponents, mantissas)]


def _accepts(
    offsets: NDArray[np.int64], lift: int, exponents: NDArray[np.int32], mantissas: NDArray[np.uint32]
) -> NDArray[np.bool_]:
    """Whether offset + a uniform real in [0, 1) is below mantissa * 2^(exponent - 30 + lift), decided exactly."""
    shifts = exponents.astype(np.int64) + (lift - 30)
    wide = mantissas.astype(np.int64)
    # A shift by 64 or more is undefined. A right shift beyond 31 leaves nothing of a mantissa, so 62 is enough.
    integer_parts = np.where(shifts >= 0, wide << np.maximum(shifts, 0), wide >> np.clip(-shifts, 0, 62))
    accepted = offsets < integer_parts
    for index in np.flatnonzero((offsets == integer_parts) & (shifts < 0)):
        fraction_bits = -int(shifts[index])
        accepted[index] = entropy.below(1 << fraction_bits) < int(mantissas[index]) & ((1 << fraction_bits) - 1)
    return accepted


def _envelope(parts: _Parts) -> tuple[int, NDArray[np.int64]]:
    """``lift``, and the sum of u over each block of queries and their complements. SENSITIVE.

    u = floor(2^E (1 + F)) + 1, where E + F is x + lift + 2^-36 rounded to a grid of 2^-40, or 0 if that is negative,
    with an integer E and F in [0, 1).

    Proof of u >= 2^lift w. The additions and the grid lose less than 2^-39, and 2^F <= 1 + F on [0, 1]. Therefore
    u > 2^(x + lift) 2^(2^-37), which is above 2^lift w. No overflow: the largest x + lift lies in [power - 1, power),
    so the 2 m values of u sum to less than 2 m 2^(power + 1) < 2^63.
    """
    queries = parts.counts.size
    power = min(36, 61 - (2 * queries).bit_length())
    lift = power - math.floor(_largest(parts)) - 1
    return lift, _sum_envelope(lift, parts)


@compiled
def _split(
    scores: NDArray[np.float64], table: NDArray[np.float64], ln2: float
) -> tuple[NDArray[np.int32], NDArray[np.uint32]]:
    """Exponent and mantissa of the weight of each score (``split_weights``). table: _TABLE. ln2: _LN2."""
    exponents = np.empty(scores.size, dtype=np.int32)
    mantissas = np.empty(scores.size, dtype=np.uint32)
    for slot in range(scores.size):
        x = scores[slot]
        floor = math.floor(x)
        part = x - floor
        if part >= 1.0:  # x lies in (-2^-53, 0) and x - floor was rounded up to 1, so the score is taken as 0.
            floor, part = floor + 1, 0.0
        fraction = part * 256.0
        step = int(fraction)
        y = (fraction - step) * 0.00390625 * ln2
        power = 1.0 + y * (1.0 + y * (0.5 + y * (1.0 / 6.0 + y * (1.0 / 24.0))))
        exponents[slot] = int(floor)
        mantissas[slot] = np.uint32(math.floor(table[step] * power * 1073741824.0))
    return exponents, mantissas


@compiled
def _fill(scores: NDArray[np.float64], first: int, size: int, parts: _Parts) -> None:
    """Computes the scores of ``size`` queries from ``first`` on into scores[:BLOCK], of complements into the rest."""
    # Slices start at 0, so that the compiler omits the test for negative indices.
    counts, hits = parts.counts[first : first + size], parts.hits[first : first + size]
    prior = parts.prior[first : first + size]
    for query in range(size):
        public = (prior[query] - parts.shift) * _PER_LN2 if parts.prior.size else 0.0
        hit = np.float64(hits[query])
        count, complement = min(counts[query], parts.total), min(parts.units - counts[query], parts.total)
        scores[query] = (public - parts.step * hit) + parts.constant + parts.slope * np.float64(count)
        public_complement = (public - parts.step * (parts.done - hit)) + parts.constant
        scores[_BLOCK + query] = public_complement + parts.slope * np.float64(complement)


@compiled
def _largest(parts: _Parts) -> float:
    """The largest score. SENSITIVE."""
    scores, largest = np.empty(2 * _BLOCK), np.full(2 * _BLOCK, -np.inf)
    for first in range(0, parts.counts.size, _BLOCK):
        size = min(parts.counts.size - first, _BLOCK)
        _fill(scores, first, size, parts)
        for slot in range(size):  # One maximum per position in a block, so that the processor can use vector registers.
            largest[slot] = max(largest[slot], scores[slot])
            largest[_BLOCK + slot] = max(largest[_BLOCK + slot], scores[_BLOCK + slot])
    return float(largest.max())


@compiled
def _raise_block(fixed: NDArray[np.int64], scores: NDArray[np.float64], size: int, lift: int) -> None:
    """Replaces the scores of a block by u (``_envelope``), in place. ``fixed`` views the memory of scores as int64."""
    raised_lift = lift + 2.0**-36
    for slot in range(size):
        # Doubles from 4096 to 8192 are 2^-40 apart, so the last 51 bits are the score in multiples of 2^-40.
        scores[slot] = max(scores[slot] + raised_lift, 0.0) + 6144.0
        scores[_BLOCK + slot] = max(scores[_BLOCK + slot] + raised_lift, 0.0) + 6144.0
    for slot in range(size):
        fixed[slot] = _raised(fixed[slot] & 0x7FFFFFFFFFFFF)
        fixed[_BLOCK + slot] = _raised(fixed[_BLOCK + slot] & 0x7FFFFFFFFFFFF)


@compiled
def _raised(score: int) -> int:
    """u of a score in multiples of 2^-40."""
    return (((score & 0xFFFFFFFFFF) | 0x10000000000) >> (40 - (score >> 40))) + 1


@compiled
def _sum_envelope(lift: int, parts: _Parts) -> NDArray[np.int64]:
    """The sum of u over each block, int64 [blocks]. SENSITIVE."""
    sums = np.empty(-(-parts.counts.size // _BLOCK), dtype=np.int64)
    scores = np.empty(2 * _BLOCK)
    fixed = scores.view(np.int64)
    for block in range(sums.size):
        first = block * _BLOCK
        size = min(parts.counts.size - first, _BLOCK)
        _fill(scores, first, size, parts)
        _raise_block(fixed, scores, size, lift)
        block_sum = 0
        for slot in range(size):
            block_sum += fixed[slot] + fixed[_BLOCK + slot]
        sums[block] = block_sum
    return sums


@compiled
def _locate(
    targets: NDArray[np.int64], cumulative: NDArray[np.int64], lift: int, parts: _Parts
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The slot into whose part of the envelope each target falls, and the offset within that part. SENSITIVE.

    targets: int64 [n], sorted.
    cumulative: int64 [blocks], the sum of u up to the end of each block.
    """
    slots, offsets = np.empty(targets.size, dtype=np.int64), np.empty(targets.size, dtype=np.int64)
    scores = np.empty(2 * _BLOCK)
    fixed = scores.view(np.int64)
    block, position, sum_before = -1, 0, np.int64(0)  # sum_before: the sum of u before ``position`` in the block.
    for index in range(targets.size):
        target = targets[index]
        if block < 0 or target >= cumulative[block]:
            block = np.searchsorted(cumulative, target, side="right")
            first = block * _BLOCK
            size = min(parts.counts.size - first, _BLOCK)
            # The same correctly rounded operations as in ``_sum_envelope`` give the same u.
            _fill(scores, first, size, parts)
            _raise_block(fixed, scores, size, lift)
            fixed[size:_BLOCK] = 0
            position, sum_before = 0, cumulative[block] - fixed[: _BLOCK + size].sum()
        while target >= sum_before + fixed[position]:
            sum_before += fixed[position]
            position += 1
        slots[index] = first + position if position < _BLOCK else parts.counts.size + first + position - _BLOCK
        offsets[index] = target - sum_before
    return slots, offsets


@compiled
def _score_of(slots: NDArray[np.int64], parts: _Parts) -> NDArray[np.float64]:
    """The score of each slot. SENSITIVE."""
    scores = np.empty(slots.size)
    pair = np.empty(2 * _BLOCK)
    for index in range(slots.size):
        query = slots[index] % parts.counts.size
        _fill(pair, query, 1, parts)
        scores[index] = pair[0] if slots[index] < parts.counts.size else pair[_BLOCK]
    return scores
