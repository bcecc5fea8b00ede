"""The constants of AIM. ``dpcore/decisions/aim.md`` has the measurements that chose them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Penalty = Literal["expected", "noise"]


@dataclass(frozen=True)
class AimProfile:
    """How AIM divides its budget between one-way marginals, a batch and rounds.

    A *share* is a fraction of the whole budget. The reasons name the values of the default profile.

    batch_share: Fraction, in [0, 1), of the budget left after the one-way marginals that the batch gets; 0 means no
        batch. The default 0.6 is the best of 0.3 to 0.95 over five datasets. The batch may also fill at most this
        fraction of ``max_model_mb``, unless the budget is rich.
    rich_error: The budget is rich for the rows if a marginal that one of 2 d equal rounds measures is expected to have
        an error of at most this fraction of the rows, on average over the workload.
    rich_model_share: Fraction of ``max_model_mb`` that the batch may fill if the budget is rich. The size of the model
        then binds, and rounds use it better than a batch, because they see what the model explains already.
    no_batch_error: If that error is at most this, there is no batch, but 2 d equal rounds that may use all of the
        model.
    errors_share: Share, in (0, 1), of the noisy errors that choose the batch. They never get more than half of the
        batch's share.
    min_relative_change: After a batch, rounds stop after the first one whose measurement changed its marginal by no
        more than ``min_relative_change`` times the expected remaining error. At the default 1 a round has to change the
        model by more than the error that its measurement leaves.
    select_share: Fraction, in (0, 1), of a round's share that its selection spends, 1 - alpha in the thesis; its
        measurement spends the rest.
    growth: Without a batch, the factor, above 1, by which a round's share grows after a round that changed its marginal
        little.
    patience: A round changed its marginal little if the change is at most ``patience`` times the expected remaining
        error. The default 0.25 makes shares grow late, because many noisy measurements serve a fit with a prior better
        than few precise ones.
    start_share: Share of the first measurement of all one-way marginals, alpha / 16 in the thesis.
    start_error: The one-way marginals are measured a second time if their mean expected L1 error is above this fraction
        of the rows.
    max_start_share: Largest share of both measurements of the one-way marginals together.
    workload_error: If the one-way marginals are measured once only, and the expected L1 error of measuring the whole
        workload at once is at most this fraction of the rows, the whole workload is measured in place of a batch. At 0
        it never is.
    workload_share: Share of the one-way marginals and the whole workload together, in that case; at least
        ``start_share``.
    products_error: For a workload of products that the model can hold: the whole workload is measured with all that is
        left after a look at the one-way products, without rounds, if the expected L1 error of its noise is at most this
        many times the sum of the answers. At 0 it never is. The fit leaves far less error than the noise has.
    penalty: What to subtract from a marginal's score: the error that a fit is "expected" to leave in it, or the mean
        absolute "noise" of all its cells, as printed. The noise would exclude every marginal of many small cells.
    """

    batch_share: float
    rich_error: float
    rich_model_share: float
    no_batch_error: float
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
    products_error: float
    penalty: Penalty


PROFILES: Final[dict[str, AimProfile]] = {
    "default": AimProfile(
        batch_share=0.6,
        rich_error=0.05,
        rich_model_share=0.2,
        no_batch_error=0.01,
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
        products_error=6.0,
        penalty="expected",
    ),
    # Algorithms 6 to 8 as printed, with alpha = 0.9 and T = 16 d.
    "published": AimProfile(
        batch_share=0.0,
        rich_error=0.0,
        rich_model_share=0.0,
        no_batch_error=0.0,
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
        products_error=0.0,
        penalty="noise",
    ),
}
"""The profiles by the name that a config gives."""
