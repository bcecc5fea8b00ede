"""What a release costs at least: CPU seconds for rounds and synthetic rows, and bytes of the rows on disk.

A typing error in a number of rounds or rows would otherwise show only after the charge, as a run that hardly ends. For
a mechanism whose plan predicts its own CPU seconds there is a prediction of the whole run as well; for others with a
model, the fit comes on top.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from dpcore.errors import ConfigError
from dpcore.mechanisms.api import Plan
from pipelines.layout import Layout, TableLayout

LARGEST_SECONDS: Final = 86_400.0
"""The most seconds that a release may need at least: a day."""

# The fastest of seven mechanisms, on three workloads each, needed .7 ms a round with 540 answers, and 2.4 ms with
# 25,920. Rows of a model took 20 to 30 ns a value, and 7.3 bytes for 12 columns of 17 values each, with their numbers.
_SECONDS_A_ROUND: Final = 5e-4
_SECONDS_AN_ANSWER: Final = 5e-8
_SECONDS_A_VALUE: Final = 2e-8
_BYTES_OF_A_UNIT: Final = 0.1


@dataclass(frozen=True)
class Work:
    """What a release costs. The figures are rough, from measurements on one processor.

    seconds: CPU seconds for all rounds and rows, at least: of the driver, and of the workers that make rows.
    predicted: CPU seconds of the mechanism and of the rows, where the plan of the mechanism predicts them
        (``Plan.cpu_seconds``), without reading the data; None where it does not.
    rows_bytes: Size of the synthetic rows on disk, about; None where their number is not known in advance, as always
        for baskets.
    """

    seconds: float
    predicted: float | None
    rows_bytes: int | None


def work_of(plan: Plan, answers: int, rows: int | None, layout: Layout) -> Work:
    """The work of a release, from public facts alone.

    plan: The plan of its mechanism.
    answers: Number of answers of its workload.
    rows: Number of synthetic units; None if it follows from a noisy number.
    layout: The public layout of the data.

    Raises: ConfigError for more than ``LARGEST_SECONDS``, with the smaller number to ask for.
    """
    a_round = _SECONDS_A_ROUND + _SECONDS_AN_ANSWER * answers
    rounds = plan.rounds * a_round
    if rounds > LARGEST_SECONDS:
        raise ConfigError(
            f"mechanism: {plan.rounds:,} rounds over {answers:,} answers take the driver at least "
            f"{rounds / 3600:,.0f} hours; want at most {math.floor(LARGEST_SECONDS / a_round):,} rounds"
        )
    values = len(layout.schema.attributes) if isinstance(layout, TableLayout) else 1
    row_seconds = _SECONDS_A_VALUE * values * (rows or 0)
    predicted = None if plan.cpu_seconds is None else plan.cpu_seconds + row_seconds
    return Work(rounds + row_seconds, predicted, _rows_bytes(rows, layout))


def _rows_bytes(rows: int | None, layout: Layout) -> int | None:
    """Bytes of the rows of a table: the number of each row, and a code per column."""
    if not rows:
        return rows
    if not isinstance(layout, TableLayout):
        return None
    bits = sum(math.ceil(math.log2(max(2, attribute.size))) for attribute in layout.schema.attributes)
    return round(rows * (_BYTES_OF_A_UNIT + bits / 8))
