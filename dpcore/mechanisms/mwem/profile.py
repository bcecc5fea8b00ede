"""The constants of the MWEM mechanisms. ``dpcore/decisions/mwem.md`` has the measurements that chose them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Distribution = Literal["final", "average"]


@dataclass(frozen=True)
class MwemProfile:
    """How ``Mwem`` starts, scores marginals and follows its measurements. Shares are parts of the whole budget.

    distribution: The released distribution: the "final" one, or the "average" of those before each round.
    passes: Number of times, at least 1, that a round goes through the measurements that it follows.
    newest_only: Whether a round follows its own measurement alone. Otherwise it follows all measurements so far.
    final_passes: Number of passes over all measurements after the last round, for the "final" distribution alone.
    step: Step size of a multiplicative update, in (0, 4]. The expected count of a cell has slope at most 1/4 in its
        log-weight, so that a step of up to 4 cannot overshoot a marginal.
    start: The first distribution: "uniform", the product of noisy "one_way" marginals, or noisy counts of all "cells".
    start_share: Share of the measurements that the start needs; a uniform start does not spend it.
    total_share: Share, in (0, 1), of the number of rows, where that number is private.
    select_share: Part, in (0, 1), of a round's share that selects; the rest measures.
    size_penalty: What the score of a marginal subtracts: its expected "noise", which is the number of its cells times
        the mean absolute noise of a cell; its number of "cells"; or "none".
    """

    distribution: Distribution
    passes: int
    newest_only: bool
    final_passes: int
    step: float
    start: Literal["uniform", "one_way", "cells"]
    start_share: float
    total_share: float
    select_share: float
    size_penalty: Literal["noise", "cells", "none"]


@dataclass(frozen=True)
class MwemQueriesProfile:
    """How ``MwemQueries`` starts and follows its measurements. Shares are parts of the whole budget.

    distribution: The released table: the "final" one, or the "average" of those before each round.
    passes: Number of times, at least 1, that a round goes through the measurements that it follows.
    newest_only: Whether a round follows its own measurement alone. Otherwise it follows all measurements so far.
    final_passes: Number of passes over all measurements after the last round, for the "final" table alone.
    tolerance: An update is skipped where the table's answer is within this many standard deviations of the noise from
        the measured one ("within error", section 2.3.2). A tolerance above 0 also replaces a measured value that no
        table has by the nearest value that some table has. At 0 every measured value is followed as it is.
    step: Step size of a multiplicative update, above 0. A step of up to 1 cannot overshoot a parity, and one of up to 4
        cannot overshoot an answer of a query with values 0 and 1.
    start: The first table: "uniform", or noisy counts of all "cells".
    start_share: Share of those noisy counts; a uniform start does not spend it.
    total_share: Share, in (0, 1), of the number of rows, where that number is private.
    select_share: Part, in (0, 1), of a round's share that selects; the rest measures.
    """

    distribution: Distribution
    passes: int
    newest_only: bool
    final_passes: int
    tolerance: float
    step: float
    start: Literal["uniform", "cells"]
    start_share: float
    total_share: float
    select_share: float


@dataclass(frozen=True)
class MwemPgmProfile:
    """How ``MwemPgm`` starts, scores marginals and fits its model. Shares are parts of the whole budget.

    start: The model before the first round: the "uniform" one, or one fitted to noisy "one_way" marginals.
    start_share: Share of those marginals; a uniform start does not spend it.
    total_share: Share, in (0, 1), of the number of rows, where that number is private.
    select_share: Part, in (0, 1), of a round's share that selects; the rest measures. At 1/2 it is as printed, where
        epsilon^2 / 8 = 1 / (2 sigma^2).
    size_penalty: What the score of a marginal subtracts: its number of "cells"; the expected "noise" of its
        measurement, which is the number of its cells times the mean absolute noise of a cell; or the error that a fit
        to that measurement is "expected" to leave.
    prior_scale: ``FitSettings.prior_scale``, above 0. The larger it is, the nearer a fit is to the least squared error,
        which Algorithm 5 minimises. Where noisy values contradict each other, a fit still trusts those more that the
        independence model expects to be large. Far above 1,000 a fit may end before it converges.
    """

    start: Literal["uniform", "one_way"]
    start_share: float
    total_share: float
    select_share: float
    size_penalty: Literal["cells", "noise", "expected"]
    prior_scale: float


MWEM: Final[dict[str, MwemProfile]] = {
    # Start, step, passes and penalty were chosen on six datasets; half of each round selects, as in Fig. 1.
    "default": MwemProfile(
        distribution="final",
        passes=10,
        newest_only=False,
        final_passes=100,
        step=2.0,
        start="one_way",
        start_share=0.1,
        total_share=0.02,
        select_share=0.5,
        size_penalty="noise",
    ),
    # Hardt, Ligett and McSherry (2012), Fig. 1, with whole marginals in place of single queries, scored as in
    # section 3.3.
    "published": MwemProfile(
        distribution="average",
        passes=1,
        newest_only=True,
        final_passes=0,
        step=0.5,
        start="uniform",
        start_share=0.0,
        total_share=0.02,
        select_share=0.5,
        size_penalty="cells",
    ),
}
"""The profiles of ``Mwem`` by the name that a config gives."""

MWEM_QUERIES: Final[dict[str, MwemQueriesProfile]] = {
    # The final table and repeated passes over all measurements are variations of section 2.3.2.
    "default": MwemQueriesProfile(
        distribution="final",
        passes=10,
        newest_only=False,
        final_passes=100,
        tolerance=1.0,
        step=1.0,
        start="uniform",
        start_share=0.0,
        total_share=0.02,
        select_share=0.5,
    ),
    # Fig. 1 as printed.
    "published": MwemQueriesProfile(
        distribution="average",
        passes=1,
        newest_only=True,
        final_passes=0,
        tolerance=0.0,
        step=0.5,
        start="uniform",
        start_share=0.0,
        total_share=0.02,
        select_share=0.5,
    ),
}
"""The profiles of ``MwemQueries`` by the name that a config gives."""

MWEM_PGM: Final[dict[str, MwemPgmProfile]] = {
    # Start and penalty were chosen on range-marginals and all 3-way marginals of five datasets.
    "default": MwemPgmProfile(
        start="one_way",
        start_share=0.2,
        total_share=0.02,
        select_share=0.5,
        size_penalty="expected",
        prior_scale=5.0,
    ),
    # McKenna (2022), Algorithm 5 as printed; the prior is so weak that fits are near the least squared error.
    "published": MwemPgmProfile(
        start="uniform",
        start_share=0.0,
        total_share=0.02,
        select_share=0.5,
        size_penalty="cells",
        prior_scale=1e3,
    ),
}
"""The profiles of ``MwemPgm`` by the name that a config gives."""
