"""The constants of AIM. ``dpcore/decisions/aim.md`` has the measurements that chose them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

ExpectedRemainder = Literal["expected", "noise"]


@dataclass(frozen=True)
class AimProfile:
    """How AIM divides its budget between one-way marginals, a batch and rounds. Shares are parts of the whole budget.

    batch_share: Part, in [0, 1), of what the one-way marginals leave that the batch gets first. At 0 there is no batch.
        0.6 is the best of 0.3 to 0.95 over five datasets.
    errors_share: Share, in (0, 1), of the noisy errors that choose the batch, at most half of the batch's share.
    min_relative_change: After a batch, rounds stop with the first whose measurement changed the marginal by no more
        than this many times its expected remaining error.
    select_share: Part, in (0, 1), of a round's share that selects, 1 - alpha in the thesis; the rest measures.
    growth: Without a batch, factor above 1 by which a round's share grows when its measurement changed the model
        little.
    patience: What "little" means there: at most this many times the error that the measurement was expected to leave.
    start_share: Share of the first measurement of all one-way marginals, alpha / 16 in the thesis.
    start_error: The one-way marginals are measured once more where their mean expected error is above this part of the
        rows.
    max_start_share: Share of both measurements of the one-way marginals, at most.
    workload_error: Otherwise, where all marginals of the workload measured at once have an expected error of at most
        this part of the rows, they are measured before the rounds, in place of a batch. At 0 they never are.
    workload_share: Share of that measurement, one-way marginals included; at least ``start_share``.
    penalty: What the score of a marginal subtracts: the error that a fit is "expected" to leave, or all the "noise".
    """

    batch_share: float
    errors_share: float
    min_relative_change: float
    select_share: float
    growth: float
    patience: float
    start_share: float
    start_error: float
    max_start_share: float
    workload_error: float
    workload_share: float
    penalty: ExpectedRemainder


PROFILES: Final[dict[str, AimProfile]] = {
    "default": AimProfile(
        batch_share=0.6,
        errors_share=0.1,
        min_relative_change=1.0,
        select_share=0.2,
        growth=2.0,
        patience=0.25,
        start_share=0.06,
        start_error=0.03,
        max_start_share=0.4,
        workload_error=0.1,
        workload_share=0.5,
        penalty="expected",
    ),
    # Algorithms 6 to 8 as printed, with alpha = 0.9 and T = 16 d.
    "published": AimProfile(
        batch_share=0.0,
        errors_share=0.1,
        min_relative_change=1.0,
        select_share=0.1,
        growth=4.0,
        patience=1.0,
        start_share=0.9 / 16,
        start_error=float("inf"),
        max_start_share=0.9 / 16,
        workload_error=0.0,
        workload_share=0.9 / 16,
        penalty="noise",
    ),
}
"""By the name that a config gives."""
