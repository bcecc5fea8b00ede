"""Marquee in Python: releases under differential privacy from files and frames, and what one does with them.

``release`` makes a release as ``marquee run`` does, with the same id, ledger, journal and bytes; ``plan`` says before
what it would cost. Both hand a config to ``jobs``, and contain no mechanism, accounting or check of their own.

* ``making``: start here. ``release``, ``plan``, ``from_config`` and ``plan_from_config``.
* ``configuration``: builds from arguments the config that a YAML file would hold.
* ``sources``: which kind of data an argument is: a path, a table, a frame of Arrow or of Spark.
* ``planned``: ``Plan``, what a release would cost and do.
* ``published``: ``Release``, a published folder, and ``open``.
* ``folder``: where the files of a release are read: its folder, or a copy of one in an object store.
* ``cross_table``: ``Table``, a marginal with its margins and intervals.
* ``intervals``: ``Interval``, the answer of one query with its interval.
* ``synthetic``: rows that are drawn from the model of a release, or chosen from its synthetic rows.
* ``charts``: charts of marginals, with matplotlib.
* ``html``: what notebooks show.
* ``examples``: example data.
* ``budgets``: ``Ledger``, ``Budget`` and ``Amount``.
* ``sentences``: errors of a missing budget, in the words of Python.
"""

from __future__ import annotations

from dpcore.errors import (
    BudgetExceededError,
    ChargedBeforeError,
    ConfigError,
    CutOffError,
    DomainTooLargeError,
    EngineError,
    InputError,
    IntegrityError,
    LedgerUnavailableError,
    MarqueeError,
    NoBudgetError,
    ScaleError,
    UnprovedError,
)
from jobs.version import VERSION as __version__
from marquee.budgets import Amount, Budget, Ledger
from marquee.cross_table import Table
from marquee.examples import example_table
from marquee.intervals import Interval
from marquee.making import from_config, plan, plan_from_config, release
from marquee.planned import Plan
from marquee.published import Release, open
from pipelines.schema import Attribute, Kind, Schema

__all__ = [
    "Amount",
    "Attribute",
    "Budget",
    "BudgetExceededError",
    "ChargedBeforeError",
    "ConfigError",
    "CutOffError",
    "DomainTooLargeError",
    "EngineError",
    "InputError",
    "IntegrityError",
    "Interval",
    "Kind",
    "Ledger",
    "LedgerUnavailableError",
    "MarqueeError",
    "NoBudgetError",
    "Plan",
    "Release",
    "ScaleError",
    "Schema",
    "Table",
    "UnprovedError",
    "__version__",
    "example_table",
    "from_config",
    "open",
    "plan",
    "plan_from_config",
    "release",
]
