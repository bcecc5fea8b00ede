"""The option ``--time-budget``: CPU minutes as the setting ``mechanism.max_work``, a number of units of work.

Only the setting limits the release, and it is part of the release id: the same config does the same work on every
machine, however fast. The translation is a documented constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dpcore.errors import ConfigError
from dpcore.estimation.graphical.fitting.work import SECONDS_PER_UNIT

KEY: Final = "mechanism.max_work"


def with_time_budget(settings: Sequence[str], minutes: float | None) -> list[str]:
    """The keys that the command line sets, with ``mechanism.max_work`` for a time budget.

    settings: Keys as ``KEY=VALUE``.
    minutes: CPU minutes on one core of a current server; None without a time budget.

    >>> with_time_budget([], 2.0)
    ['mechanism.max_work=120.0']

    Raises: ConfigError for minutes that are not positive, and if the settings hold ``mechanism.max_work`` as well.
    """
    if minutes is None:
        return list(settings)
    if not 0 < minutes < float("inf"):
        raise ConfigError(f"--time-budget is {minutes:g}; want a number of minutes > 0")
    if any(setting.partition("=")[0].strip() == KEY for setting in settings):
        raise ConfigError(f"--time-budget sets {KEY}, which --set sets as well; want one of them")
    return [*settings, f"{KEY}={max(0.1, round(60 * minutes / SECONDS_PER_UNIT, 1))}"]
