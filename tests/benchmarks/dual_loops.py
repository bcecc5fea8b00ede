"""What cases share that time the loop of DualQuery alone: exact answers are computed before the clock starts."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from dpcore.evaluation import baselines, errors, exact_answers
from dpcore.exact_statistics import Statistics
from dpcore.kernel.budget import Currency
from dpcore.kernel.conversion import budget_of
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.kernel.sensitivity import Neighbours, PrivacyUnit
from dpcore.mechanisms.api import Release
from dpcore.mechanisms.query_game.dual_query import DualQuery
from dpcore.queries import Conjunctions
from dpcore.testing.memory import MemoryJournal, MemoryLedger
from dpcore.workload import conjunctive
from tests.benchmarks.case import Judgement

EPSILON, DELTA = 1.0, 1e-3


@dataclass(frozen=True, eq=False)
class Loop:
    """A kernel that has all exact answers, and what will be asked of it.

    evaluation_seconds: CPU seconds that the answers of the queries took.
    """

    mechanism: DualQuery
    statistics: Statistics
    queries: Conjunctions
    units: int
    seed: int
    private: PrivateStatistics
    evaluation_seconds: float

    @classmethod
    def of(cls, mechanism: DualQuery, statistics: Statistics, queries: Conjunctions, units: int, seed: int) -> Loop:
        """The kernel with (EPSILON, DELTA) in zCDP, replace-one, and a public number of units."""
        unit = PrivacyUnit(Neighbours.REPLACE_ONE_UNIT, statistics.contribution, units)
        budget = budget_of(EPSILON, DELTA, Currency.ZCDP)
        private = PrivateStatistics(
            statistics, unit=unit, budget=budget, ledger=MemoryLedger(budget), journal=MemoryJournal()
        )
        started = time.process_time()
        private.expect(queries)
        seconds = time.process_time() - started
        if mechanism.free == "marginals":
            private.expect(Conjunctions.single_columns(queries.view))
        return cls(mechanism, statistics, queries, units, seed, private, seconds)


def work(loop: Loop) -> Release:
    return loop.mechanism.run(loop.private, conjunctive(loop.queries), generator=np.random.default_rng(loop.seed))


def judge(loop: Loop, made: Release) -> Judgement:
    """Errors as fractions of the units."""
    exact = exact_answers(loop.statistics, loop.queries)
    found = {
        name: errors(loop.queries, guess, exact, loop.units)
        for name, guess in {
            "made": made.answers.values,
            **baselines(loop.queries, loop.statistics, loop.units),
        }.items()
    }
    figures = {name: {"max": one.max, "mean": one.mean} for name, one in found.items()}
    return Judgement(
        error=figures.pop("made"),
        baselines=figures,
        facts={
            "rounds": float(sum(charge.label.startswith("draw") for charge in loop.private.charges)),
            "evaluation_cpu_seconds": loop.evaluation_seconds,
        },
    )
