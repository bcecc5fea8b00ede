"""The output of ``marquee plan --compare`` and ``--errors``."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Final

from jobs.outputs.plan_report import duration_text, memory_text
from jobs.planning.comparison import ErrorAt, Option

COLUMNS: Final = ("mechanism", "error", "time", "memory", "rounds", "accounting", "rows", "")
RIGHT: Final = ("error", "rounds")
REASONS: Final = ("not applicable", "why")
_WIDTH: Final = 40  # Characters of the longest bar.
_ACCOUNTING: Final = {"epsilon": "pure", "rho": "zcdp", "mu^2": "gdp"}

LEGEND: Final = (
    "error: mean absolute error of an answer in counts that the noise alone is expected to cause; '-' where the "
    "mechanism has no formula for it, because its error depends on the data",
    "time: about, the CPU time that the plan predicts for the mechanism and synthetic rows, usually within a factor of "
    "2; at least, that of rounds and synthetic rows, not counting the fit of a model; neither counts reading the data",
    "memory: on the driver",
    "mechanisms but the config's own have their default settings, except for what is recommended",
)


def option_rows(options: Sequence[Option], own: str, recommended: str) -> list[list[str]]:
    """The applicable mechanisms as rows of a table with ``COLUMNS``: those with the smallest known errors first.

    own: Name of the config's mechanism.
    recommended: Name of the recommended one.
    """
    known = sorted(
        (option for option in options if not option.reason),
        key=lambda option: math.inf if option.error is None else option.error,
    )
    return [_row(option, own, recommended) for option in known]


def _row(option: Option, own: str, recommended: str) -> list[str]:
    marks = [text for name, text in ((own, "in the config"), (recommended, "recommended")) if name == option.name]
    return [
        option.name,
        "-" if option.error is None else f"{option.error:.4g}",
        duration_text(option.seconds or 0.0, option.predicted),
        memory_text(option.memory_bytes or 0),
        "-" if not option.rounds else f"{option.rounds:,}",
        "-" if option.currency is None else _ACCOUNTING[option.currency.value],
        "yes" if option.rows else "no",
        ", ".join(marks),
    ]


def reason_rows(options: Sequence[Option]) -> list[list[str]]:
    """The mechanisms without a plan, and why there is none."""
    return [
        [option.name, f"skipped: {option.reason}" if option.skipped else option.reason]
        for option in options
        if option.reason
    ]


def option_facts(options: Sequence[Option]) -> list[dict[str, Any]]:
    """All mechanisms as a JSON value."""
    return [
        {**dataclasses.asdict(option), "applicable": None if option.skipped else not option.reason}
        for option in options
    ]


def error_lines(points: Sequence[ErrorAt], mechanism: str, last: str) -> list[str]:
    """Errors against epsilon as a small plot of text. The bars have a logarithmic scale.

    points: Errors by increasing epsilon.
    mechanism: Name of the mechanism.
    last: The last line below the plot.
    """
    known = [point.error for point in points if point.error]
    if not known:
        reasons = {point.reason for point in points} - {""}
        why = f" ({next(iter(reasons))})" if len(reasons) == 1 else ""
        return [
            f"mechanism {mechanism} has no formula for its error, because it depends on the data{why}; marquee plan "
            "--compare shows mechanisms that have one"
        ]
    lines = [f"{'epsilon':>9}  {'error':>10}  expected per answer of {mechanism}, in counts (bars: logarithmic)"]
    for point in points:
        if point.error is None:
            lines.append(f"{point.epsilon:>9.4g}  {'-':>10}  {point.reason or 'no formula'}")
        else:
            bar = _bar(point.error, min(known), max(known))
            lines.append(f"{point.epsilon:>9.4g}  {point.error:>10.4g}  {bar}")
    return [*lines, last]


def error_facts(points: Sequence[ErrorAt]) -> list[dict[str, Any]]:
    """Errors against epsilon as a JSON value."""
    return [dataclasses.asdict(point) for point in points]


def _bar(error: float, smallest: float, largest: float) -> str:
    """A bar whose length grows with the logarithm of the error, from 1 to ``_WIDTH`` characters."""
    if largest <= smallest or error <= 0:
        return "#"
    return "#" * (1 + round((_WIDTH - 1) * math.log(error / smallest) / math.log(largest / smallest)))
