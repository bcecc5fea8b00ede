"""Wrong versions of what draws and bits are made by, each to be planted in the kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcore.kernel.log_weights import LogWeights
from dpcore.kernel.weighted_sampler import SlotScores, UnitCounts
from tests.support.slow_scores import powers

Powers = Callable[[SlotScores, UnitCounts], NDArray[np.float64]]
DIGEST = LogWeights.digest


def draws_by(powers: Powers) -> Callable[..., NDArray[np.int64]]:
    """Draws by wrong weights, given by their logs."""

    def wrong(scores: SlotScores, exact: UnitCounts, size: int) -> NDArray[np.int64]:
        logs = powers(scores, exact)
        weights = 2.0 ** (logs - logs.max())
        return np.random.default_rng().choice(weights.size, size, p=weights / weights.sum())

    return wrong


def bits_by(powers: Powers) -> Callable[..., tuple[NDArray[np.int32], NDArray[np.uint32]]]:
    """Wrong chances of bits, given by their logs."""

    def wrong(scores: SlotScores, exact: UnitCounts, slots: NDArray[np.int64]) -> Any:
        logs = powers(scores, exact)[slots]
        exponents = np.minimum(np.floor(logs), -1)
        mantissas = np.minimum(2.0 ** (logs - exponents + 30), 2.0**31 - 1)
        return exponents.astype(np.int32), mantissas.astype(np.uint32)

    return wrong


def complement_of_n0(scores: SlotScores, exact: UnitCounts) -> NDArray[np.float64]:
    return powers(scores, UnitCounts(exact.counts, scores.total))


def unclamped(scores: SlotScores, exact: UnitCounts) -> NDArray[np.float64]:
    return powers(replace(scores, total=exact.units), exact)


def shares_of_the_raw_number(scores: SlotScores, exact: UnitCounts) -> NDArray[np.float64]:
    return powers(replace(scores, slope=scores.slope * scores.total / exact.units), exact)


def hits_ignored(scores: SlotScores, exact: UnitCounts) -> NDArray[np.float64]:
    return powers(replace(scores, step=0.0), exact)


def prior_ignored(scores: SlotScores, exact: UnitCounts) -> NDArray[np.float64]:
    return powers(replace(scores, prior=np.zeros(0)), exact)


def complement_is_the_negative(scores: SlotScores, exact: UnitCounts) -> NDArray[np.float64]:
    """Of the whole score of its query, as for a payoff q(D) - q(x) of either sign with nothing else in the weight."""
    ones = powers(scores, exact)[: exact.counts.size]
    return np.concatenate([ones, -ones])


def complement_of_the_wrong_sign(scores: SlotScores, exact: UnitCounts) -> NDArray[np.float64]:
    """Records that satisfy no query raise the weight of its complement."""
    right, m = powers(scores, exact), exact.counts.size
    right[m:] += 2 * scores.step * (scores.done - scores.hits.astype(np.int64))
    return right


def complement_hit_as_its_query(scores: SlotScores, exact: UnitCounts) -> NDArray[np.float64]:
    right, m = powers(scores, exact), exact.counts.size
    right[m:] += scores.step * (scores.done - 2 * scores.hits.astype(np.int64))
    return right


def rows_of_all_tables(self: Any, queries: Any) -> UnitCounts:
    counts = self.of(queries)
    return UnitCounts(counts.astype(np.int32), int(counts.sum()))


def digest_without(name: str) -> Callable[[LogWeights], str]:
    """A tilt's digest that knows nothing of one of its fields."""
    anything = {"step": 1.0, "done": 1 << 20, "prior": None, "constant": 0.0}

    def wrong(self: LogWeights) -> str:
        other = np.zeros_like(self.hits) if name == "hits" else anything[name]
        return DIGEST(replace(self, **{name: other}))

    return wrong


def gaps_of(offset: Callable[[NDArray[np.float64]], float]) -> Callable[..., Counter[Fraction]]:
    """All bits charged for one gap, and no chance refused."""

    def wrong(slope: Fraction, tilt: LogWeights, drawn: NDArray[np.int64]) -> Counter[Fraction]:
        highest = slope + Fraction(float(offset(tilt.log_weights())))
        return Counter({max(-highest, Fraction(1, 2**20)): int(drawn.size)})

    return wrong


def span_that_skips_nan(prior: NDArray[np.float64]) -> tuple[float, float]:
    return float(np.nanmin(prior)), float(np.nanmax(prior))
