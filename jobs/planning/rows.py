"""How many synthetic rows a release writes under ``output.synthetic_rows: auto``."""

from __future__ import annotations

import math
from typing import Final

from dpcore.kernel.budget import Budget, Currency
from jobs import log
from jobs.config.release import LARGEST_ROWS
from jobs.planning.job import Job
from pipelines.layout import TableLayout

LARGEST_UNCERTAIN: Final = 10_000
"""Maximum number of rows under ``auto`` while the noise of their number may be as large as the number itself."""

# Mechanisms spend at least about a hundredth of the budget on the number of rows, so its standard deviation is at most
# about ten times that of a measurement with the whole budget.
_FACTOR: Final = 10.0


def smallest_certain_number(job: Job) -> float:
    """The noisy number of rows below which the noise alone may have made it; 0 where the number of units is public."""
    if job.unit.units is not None:
        return 0.0
    rows_per_unit = job.layout.max_rows_per_unit if isinstance(job.layout, TableLayout) else 1
    return _FACTOR * rows_per_unit * _deviation_of_a_count(job.budget)


def auto_rows(job: Job, total: float) -> int:
    """The number of rows that ``auto`` writes, for a noisy number of rows in the data.

    The noise of a very small budget can be billions of rows, which would fill a disk and mean nothing.

    job: The release.
    total: The noisy number of rows, at least 0.
    """
    rows = min(round(total), LARGEST_ROWS)
    if rows < round(total):
        log.warning(f"auto writes {rows:,} synthetic rows, the largest number that output.synthetic_rows accepts")
    if rows <= LARGEST_UNCERTAIN or rows >= smallest_certain_number(job):
        return rows
    log.warning(
        f"the noise of the number of rows may be as large as the number itself, so auto writes {LARGEST_UNCERTAIN:,} "
        "synthetic rows; want output.synthetic_rows: N, or marquee generate rows, for another number at no cost"
    )
    return LARGEST_UNCERTAIN


def _deviation_of_a_count(budget: Budget) -> float:
    """Standard deviation of a count of sensitivity 1 that is measured with the whole budget."""
    amount = max(float(budget.amount), 5e-324)  # The smallest positive number, for an amount that rounds to 0.
    return {
        Currency.PURE: math.sqrt(2.0) / amount,
        Currency.ZCDP: 1.0 / math.sqrt(2.0 * amount),
        Currency.GDP: 1.0 / math.sqrt(amount),
    }[budget.currency]
